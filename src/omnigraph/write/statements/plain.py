"""Plain inserts: `insert` statements whose values are literals and parameters, run as one.

    insert Person { name: "Ann" }   insert Person { name: "Bob", age: 30 }   insert Knows { from: "Ann", to: "Bob" }

are two rows of one table and one of another. They look at nothing that the others insert, so only the order within
a table matters: of two nodes with one key the later replaces the earlier. If one of them is refused, the statements
are run one by one instead, so that the first of them says why. The statements are neighbours in one mutation, or
belong to several that share a commit (``group_commit/inserts.py``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import pyarrow as pa

from omnigraph.errors import ConstraintError
from omnigraph.lang.query import ir
from omnigraph.lang.schema.catalog import NodeType
from omnigraph.storage.blob_policy import BlobPolicy
from omnigraph.write.pending import PendingTable, last_of_each
from omnigraph.write.statements.identity import Columns, keyed, new_ids
from omnigraph.write.statements.spaces import column_of
from omnigraph.write.statements.values import constant


class PlainInsert(NamedTuple):
    """One plain insert, with the parameters and the blob policy of its mutation."""

    statement: ir.Insert
    params: Mapping[str, Any]
    blobs: BlobPolicy


Inserts = Sequence[PlainInsert]


def neighbours(statements: Iterable[ir.Mutation]) -> Iterator[list[ir.Mutation]]:
    """The statements in their order, plain inserts that follow each other together."""
    for is_together, found in groupby(statements, is_plain):
        if is_together:
            yield list(found)
        else:
            yield from ([one] for one in found)


def is_plain(statement: ir.Mutation) -> bool:
    """Whether a statement is an insert that looks at nothing, and that no other statement looks at."""
    return (
        isinstance(statement, ir.Insert)
        and not statement.is_upsert
        and statement.var is None
        and all(
            one.value is None or isinstance(one.value, ir.Value) for one in statement.assignments
        )
    )


def inserted_together(
    tables: Sequence[tuple[PendingTable, Inserts]],
) -> list[pa.Array] | None:
    """Insert one row for each statement; return the ids by table, in the order of the statements.

    None, with nothing changed, if one of them may be refused.
    """
    if any(pending.entity.embeds for pending, _ in tables):
        return None
    try:
        columns = [_columns(pending, inserts) for pending, inserts in tables]
        keys = [
            _key_ids(pending, found) for (pending, _), found in zip(tables, columns, strict=True)
        ]
    except ConstraintError:
        return None
    ids = []
    for (pending, inserts), found, known in zip(tables, columns, keys, strict=True):
        made = new_ids(pending, found, len(inserts)) if known is None else known
        rows = pa.Table.from_arrays(
            [made if one.name == "id" else found[one.name] for one in pending.schema],
            schema=pending.schema,
        )
        rows = rows if known is None else last_of_each(rows)
        pending.put(rows, fresh=known is None, inserted=True)
        ids.append(made)
    return ids


def _columns(pending: PendingTable, inserts: Inserts) -> Columns:
    """All columns but the ids: the values in the order of the statements, or defaults where they give none."""
    entity = pending.entity
    values: dict[str, list[object]] = {
        one.name: [entity.defaults.get(one.name)] * len(inserts)
        for one in pending.schema
        if one.name != "id"
    }
    for at, (statement, params, blobs) in enumerate(inserts):
        for one in statement.assignments:
            values[column_of(entity, one.property)][at] = constant(entity, one, params, blobs)
    return {name: pa.array(one, pending.schema.field(name).type) for name, one in values.items()}


def _key_ids(pending: PendingTable, columns: Columns) -> pa.Array | None:
    """The ids that keys make; None where ids are new."""
    entity = pending.entity
    if not isinstance(entity, NodeType) or entity.key is None:
        return None
    found = keyed(entity, columns)
    return found.ids.take(pa.array(found.codes))
