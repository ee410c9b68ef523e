"""Stage 2 of a load: typed rows get ids, and are checked against the row rules.

Judging is a pure function of one block: any engine may call it in any process, and the same block has
the same outcome each time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow as pa

from omnigraph.lang.schema.catalog import Catalog, EdgeType
from omnigraph.pipeline.formats.typed_batch import ID, Parsed, TypedBatch, place_of, record_order
from omnigraph.pipeline.rows.bad_records import Bad, first_of_each
from omnigraph.pipeline.rows.blob_rules import check_blobs
from omnigraph.pipeline.rows.ids import count_named_rows, derive_ids, id_aliases
from omnigraph.pipeline.rows.vectors import count_wanted, judgeable
from omnigraph.storage.blob_policy import NO_POLICY, BlobPolicy
from omnigraph.validate.change_set import MADE, ORDER
from omnigraph.validate.rows import row_violations

Aliases = dict[str, dict[str, str]]
"""By node type: ids as the input spells them, and the ids that their nodes get."""


class JudgedRows(NamedTuple):
    """Rows of one table that passed the row rules, on their way into it.

    Where a ``TypedBatch`` has ``0id``, ``0source`` and ``0offset``, these rows have the ``id`` that they
    will be stored under and ``0rec``, their place in the input as one number.
    """

    table_key: str
    batch: pa.RecordBatch


@dataclass(slots=True)
class Judged:
    """The outcome of judging one block: rows of tables, or what is wrong with its records."""

    rows: list[JudgedRows] = field(default_factory=list)
    bad: list[Bad] = field(default_factory=list)
    aliases: Aliases = field(default_factory=dict)
    named: dict[str, int] = field(default_factory=dict)
    """By table: how many rows have an id that another row may have too."""
    unfilled: dict[str, int] = field(default_factory=dict)
    """By table: how many vectors are left to be made from their texts."""


@dataclass(frozen=True, slots=True)
class RowRules:
    """Everything that judging a block needs besides the block; it is pickled to other processes."""

    catalog: Catalog
    operation_id: str
    started_at_ms: int
    blobs: BlobPolicy = NO_POLICY

    def judge(self, parsed: Parsed) -> Judged:
        """Judge one block: its rows as they go on to their tables, and its bad records."""
        judged = Judged()
        found = [Bad(**bad) for bad in parsed.bad.to_pylist()]
        for typed in parsed.batches:
            found += self._take(typed, judged)
        judged.bad = first_of_each(found)
        return judged

    def _take(self, typed: TypedBatch, judged: Judged) -> Iterator[Bad]:
        """Add the rows of a batch to ``judged``, and yield what is wrong with them."""
        entity = self.catalog.entity(typed.table_key)
        ids, errors = derive_ids(entity, typed.batch, self.operation_id, self.started_at_ms)
        for bad in errors.to_pylist():
            yield Bad(**bad)
        judged.named[typed.table_key] = count_named_rows(entity, typed.batch)
        aliases = id_aliases(entity, typed.batch, ids)
        if aliases:
            judged.aliases.setdefault(entity.name, {}).update(aliases)
        names = [*entity.implicit_columns[1:], *entity.properties]
        columns = [ids, *(typed.batch.column(name) for name in names), record_order(typed.batch)]
        batch = pa.RecordBatch.from_arrays(columns, names=["id", *names, ORDER])
        if isinstance(entity, EdgeType) and entity.identity is not None:
            batch = batch.append_column(MADE, typed.batch.column(ID).is_null())
        batch, blobs = check_blobs(entity, batch, self.blobs)
        yield from blobs
        judged.unfilled[typed.table_key] = count_wanted(entity, batch)
        for violation in row_violations(entity, judgeable(entity, batch), None):
            source, offset = place_of(violation.record or 0)
            yield Bad(source, offset, violation.message, violation.kind)
        judged.rows.append(JudgedRows(typed.table_key, batch))
