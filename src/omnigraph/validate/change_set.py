"""What a writer wants to change, table by table, in the form the validator works on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from omnigraph.errors import shortened
from omnigraph.lang.schema.catalog import Catalog, EdgeType, Entity
from omnigraph.runner.runner import Frame

ORDER = "0rec"
"""The column that orders incoming rows: the greatest value is the last record.

No property can have that name, because it begins with a digit.
"""
MADE = "0made"
"""The column of edge types with an ``identity`` that says whether the id was generated, not given."""
SHOWN = 20
"""How many broken rows, or bad records of a load, an error lists."""


@dataclass(frozen=True, slots=True)
class TableDelta:
    """The change of one table.

    ``pending`` holds the final values of every added or changed row, one per id: ``id``, ``src``
    and ``dst`` of edges, the members of unique groups, the period where a rule counts what holds at one
    moment, and the order column. ``removed`` holds the
    ids of committed rows that are deleted. ``replaced``: all committed rows are deleted, except
    those in ``pending``. ``strict``: an id that exists already is refused. ``deserted``, of edges that are all
    replaced: sources (`src`) that had edges in an earlier state and have none left, to be counted as well.
    """

    entity: Entity
    pending: Frame | None = None
    removed: Frame | None = None
    replaced: bool = False
    strict: bool = False
    deserted: Frame | None = None


@dataclass(frozen=True, slots=True)
class ChangeSet:
    """The changes of one operation, by table key."""

    catalog: Catalog
    tables: Mapping[str, TableDelta] = field(default_factory=dict)

    def delta(self, entity: Entity) -> TableDelta:
        """Return the change of a table; it is empty if the operation does not touch the table."""
        return self.tables.get(entity.table_key, TableDelta(entity))


ViolationKind = Literal[
    "enum", "range", "check", "null", "valid", "unique", "key", "endpoint", "cardinality"
]


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken rule. ``record`` is the order value of the row that broke it, or None."""

    kind: ViolationKind
    table_key: str
    row_id: str | None
    message: str
    record: int | None = None
    detail: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # The values that break a rule may be of any length.
        object.__setattr__(self, "message", shortened(self.message))


def needed_columns(entity: Entity) -> list[str]:
    """Return the columns of a row that the set rules read, besides its id."""
    columns = ["src", "dst"] if isinstance(entity, EdgeType) else []
    for group in entity.unique:
        columns += [name for name in group if name not in columns]
    if entity.period is not None and has_rules_per_moment(entity):
        columns += [name for name in entity.period.names if name not in columns]
    return columns


def has_rules_per_moment(entity: Entity) -> bool:
    """Return whether a rule of the type counts what holds at one moment, if it has a period."""
    crowded = isinstance(entity, EdgeType) and entity.cardinality.max is not None
    return bool(entity.unique) or crowded
