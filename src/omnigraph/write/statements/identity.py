"""Which entity an inserted or upserted row is: the ids of nodes and edges, and the edges that are there.

A node with a key has the id that its key makes, any other a new one. An edge that a tuple identifies
(``EdgeType.identity``) gets the id made from it, as in loads, unless another edge has that id: then the tuples
differ, or the rule about tuples has something to say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.clock import new_ulid
from omnigraph.errors import ConstraintError
from omnigraph.lang.schema.catalog import EdgeType, NodeType
from omnigraph.types import Unfit, derive_id_column
from omnigraph.types.columns import key_text_column
from omnigraph.write.pending import PendingTable
from omnigraph.write.statements.periods import Spans
from omnigraph.write.statements.rows import Places
from omnigraph.write.statements.spaces import ENDPOINT_COLUMNS, property_type

Columns = Mapping[str, pa.Array]
"""Assigned values by column, one for each row."""


class Identified(NamedTuple):
    """The entities of some rows: their ids, and for each row the place of its id."""

    ids: pa.Array
    codes: Places


def keyed(entity: NodeType, columns: Columns) -> Identified:
    """The nodes whose keys the rows give."""
    assert entity.key is not None
    members = [(entity.properties[name].type, columns[name]) for name in entity.key]
    try:
        ids = derive_id_column(members)
    except Unfit as unfit:
        raise ConstraintError(
            f"the key of {entity.name} cannot be made: {unfit}", violation="key"
        ) from None
    distinct = ids.unique()
    return Identified(distinct, pc.index_in(ids, distinct).to_numpy().astype(np.int64))


def new_ids(
    table: PendingTable, columns: Columns, length: int, *, at_once: bool = False
) -> pa.Array:
    """The ids of rows to be inserted. Whether committed edges have them is looked at now, or by ``settle_ids``."""
    edge = table.entity
    if not isinstance(edge, EdgeType) or edge.identity is None:
        return pa.array([new_ulid() for _ in range(length)], pa.string())
    schema = edge.arrow_schema()
    made = edge.tuple_ids(
        lambda name: columns[name] if name in columns else pa.nulls(length, schema.field(name).type)
    )
    taken: set[str] = set()
    if at_once:
        taken = set(table.committed_ids(made.drop_null())).difference(table.removed)
    ids = []
    for one in made.to_pylist():
        if one is None or one in taken or one in table.made_ids:
            ids.append(new_ulid())
            continue
        table.made_ids[one] = None
        if not at_once:
            table.unsettled.append(one)
        ids.append(one)
    return pa.array(ids, pa.string())


def settle_ids(table: PendingTable) -> None:
    """Give new ids to inserted edges whose id a committed edge has."""
    if not table.unsettled:
        return
    made, table.unsettled = pa.array(table.unsettled, pa.string()), []
    taken = {one: new_ulid() for one in table.committed_ids(made) if one not in table.put_again}
    if taken:
        ids = [taken.get(one, one) for one in table.rows.column("id").to_pylist()]
        table.set_column("id", pa.array(ids, pa.string()))


# ------------------------------------------------------------------ edges that an upsert finds


def edges_between(
    table: PendingTable, unique: Sequence[str], columns: Columns, length: int, now: int
) -> Identified:
    """The edges that the rows of an upsert mean: those with their ends, or with their unique tuple.

    Of a type with a period only edges that hold now are meant.
    """
    members = tuple(unique) or ("src", "dst")
    keys = tuple_texts(table, members, columns)
    distinct = keys.unique()
    codes = pc.index_in(keys, distinct).to_numpy().astype(np.int64)
    known = _holding(table, table.rows_among("src", columns["src"].unique()), now)
    stored = {name: known.column(name).combine_chunks() for name in members}
    places = pc.index_in(tuple_texts(table, members, stored), distinct)
    found = known.column("id").filter(places.is_valid()).combine_chunks()
    place = places.drop_null().to_numpy()
    _refuse_parallel(table, place, known.filter(places.is_valid()))
    first = np.zeros(len(distinct), np.int64)
    first[codes[::-1]] = np.arange(length)[::-1]
    ids = new_ids_of_missing(table, columns, first, place)
    ids[place] = found.to_numpy(zero_copy_only=False)
    return Identified(pa.array(ids, pa.string()), codes)


def _holding(table: PendingTable, rows: pa.Table, now: int) -> pa.Table:
    period = table.entity.period
    if period is None or not rows.num_rows:
        return rows
    return rows.filter(pa.array(Spans.of(period, rows).hold_at(np.int64(now))))


def new_ids_of_missing(
    table: PendingTable, columns: Columns, first: Places, found: Places
) -> np.ndarray:
    """New ids for the edges that are not there yet, by the first row that means them."""
    missing = np.ones(len(first), np.bool_)
    missing[found] = False
    ids = np.empty(len(first), object)
    at = pa.array(first[missing])
    some = {name: column.take(at) for name, column in columns.items()}
    ids[missing] = new_ids(table, some, len(at), at_once=True).to_pylist()
    return ids


def _refuse_parallel(table: PendingTable, places: Places, edges: pa.Table) -> None:
    repeated = np.flatnonzero(np.bincount(places) > 1) if len(places) else places
    if not len(repeated):
        return
    both = edges.filter(pa.array(places == repeated[0])).slice(0, 2).to_pylist()
    name, (one, other) = table.entity.name, both
    raise ConstraintError(
        f"ambiguous: there are several {name} edges from '{one['src']}' to '{one['dst']}', such as "
        f"{one['id']} and {other['id']}; match them and `update` the variable",
        violation="ambiguous",
        type_name=name,
        ids=[one["id"], other["id"]],
    )


def tuple_texts(table: PendingTable, members: Sequence[str], columns: Columns) -> pa.Array:
    """A text for each row that is the same for equal tuples; null equals null."""
    ends = {column: name for name, column in ENDPOINT_COLUMNS.items()}
    pieces: list[pa.Array | str] = []
    for name in members:
        kind = property_type(table.entity, ends.get(name, name))
        texts = key_text_column(kind, columns[name])
        lengths = pc.binary_length(texts).cast(pa.string()).fill_null("-")
        pieces += [lengths, ":", texts.fill_null("")]
    return pc.binary_join_element_wise(*pieces, "")
