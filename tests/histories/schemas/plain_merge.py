"""The merge of two states with their schemas, written down from the tables of the specification.

It looks at every element and every row there is, and calls none of the code that merges schemas or rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.histories.schemas.plain_rows import Rows
from tests.histories.schemas.plain_schema import State, violations
from tests.histories.schemas.plain_schemas import Conflict, Schemas


@dataclass(frozen=True)
class Merged:
    """The merged state, or the conflicts of the first stage that has any."""

    state: State | None
    conflicts: frozenset[Conflict] = frozenset()
    resolved: int = 0
    resolved_schema: frozenset[str] = frozenset()


def merge_states(
    base: State,
    source: State,
    target: State,
    *,
    by_property: bool = False,
    resolve: Any = None,
    resolve_schema: Any = None,
) -> Merged:
    """Merge what the source changed since the base into the target."""
    merging = Schemas(base, source, target, resolve_schema)
    schema = merging.run()
    if schema is None:
        return Merged(None, frozenset(merging.conflicts), 0, frozenset(merging.decided))
    rows = Rows(merging, schema, by_property, resolve)
    merged = rows.run()
    if rows.conflicts:
        return Merged(None, frozenset(rows.conflicts), rows.resolved, frozenset(merging.decided))
    broken = violations(merged.schema, merged.rows)
    return Merged(
        None if broken else merged,
        frozenset(broken),
        rows.resolved,
        frozenset(merging.decided),
    )
