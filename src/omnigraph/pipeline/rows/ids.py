"""Ids of incoming rows: derived from the key, given by the record, or made for it.

An edge whose type says which tuple identifies it (``EdgeType.identity``) gets an id made from that
tuple, all others one made from the place of the record. Nothing here is random, because a frame may be evaluated more than once. An id made from a place is a ULID: its time
is the start of the operation, its other 80 bits are a number made of the operation's id plus the place
of the record. So it is the same in every process and on every engine, and the ids of a load are in the
order of its records: indexes of them need no sorting, and they take less room.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from omnigraph.lang.schema.catalog import EdgeType, Entity, NodeType
from omnigraph.pipeline.formats.typed_batch import (
    GIVEN,
    ID,
    OFFSET,
    SOURCE,
    SOURCE_SHIFT,
    UnreadableRecord,
    bad_batch,
    given_column,
    given_masks,
)
from omnigraph.types import derive_id_column, shown, spells_key

_CROCKFORD = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_MAX_MS = 2**48 - 1
_LOW_BITS = 2**64 - 1
_CHUNK_ROWS = 16_384
"""Rows written at a time, few enough for the caches of the processor."""


def derive_ids(
    entity: Entity, batch: pa.RecordBatch, operation_id: str, started_at_ms: int
) -> tuple[pa.Array, pa.RecordBatch]:
    """The id of every row of a typed batch, and the records that can have none.

    Those have a null id, and a row in the second value, which has the columns of ``bad_schema``.
    """
    if isinstance(entity, NodeType) and entity.key is not None:
        return _derive_keyed_ids(entity, entity.key, batch)
    given = batch.column(ID)
    if len(given) and given.null_count == 0:
        return given, bad_batch([])
    if isinstance(entity, EdgeType) and entity.identity is not None:
        given = pc.coalesce(given, entity.tuple_ids(batch.column))
        if given.null_count == 0:
            return given, bad_batch([])
    made = make_ids(batch.column(SOURCE), batch.column(OFFSET), operation_id, started_at_ms)
    return made if given.null_count == len(given) else pc.coalesce(given, made), bad_batch([])


def with_tuple_defaults(entity: Entity, batch: pa.RecordBatch) -> pa.RecordBatch:
    """The records of a patch, where edges without an id have the defaults of the tuple that identifies them.

    Such a record names its edge by the tuple alone, so what it leaves out of it is the default, as in
    every other record.
    """
    if not isinstance(entity, EdgeType) or entity.identity is None:
        return batch
    members = [name for name in entity.identity_columns if name in entity.defaults]
    unnamed = batch.column(ID).is_null().to_numpy(zero_copy_only=False)
    if not members or not unnamed.any():
        return batch
    given = given_masks(entity, batch.column(GIVEN))
    for name in members:
        index = np.where(unnamed & ~given[name], len(batch), np.arange(len(batch)))
        default = entity.properties[name].default_column(1)
        place = batch.schema.get_field_index(name)
        filled = pa.concat_arrays([batch.column(place), default]).take(pa.array(index))
        batch = batch.set_column(place, batch.schema.field(place), filled)
        given[name] |= unnamed
    place = batch.schema.get_field_index(GIVEN)
    masks = given_column(entity, list(given.values()), len(batch))
    return batch.set_column(place, batch.schema.field(place), masks)


def count_named_rows(entity: Entity, batch: pa.RecordBatch) -> int:
    """The number of rows whose record decides their id; the others get one that is certainly new."""
    if isinstance(entity, NodeType) and entity.key is not None:
        return int(batch.num_rows)
    return int(batch.num_rows - batch.column(ID).null_count)


def _derive_keyed_ids(
    node: NodeType, key: tuple[str, ...], batch: pa.RecordBatch
) -> tuple[pa.Array, pa.RecordBatch]:
    by_id = _named_by_id(node, key, batch)
    whole = ~by_id
    bad: list[UnreadableRecord] = []
    for name in key:
        absent = batch.column(name).is_null()
        for row in pc.indices_nonzero(absent).to_pylist():
            if whole[row]:
                whole[row] = False
                bad.append(_bad(batch, row, f"{node.name}.{name}: a key cannot be null", name))
    complete = batch if whole.all() else batch.filter(pa.array(whole))
    ids = derive_id_column([(node.properties[name].type, complete.column(name)) for name in key])
    if not whole.all():
        named = pc.if_else(pa.array(by_id), batch.column(ID), pa.scalar(None, pa.utf8()))
        ids = pc.replace_with_mask(named, pa.array(whole), ids)
    wrong = [row for row, _, accepted in _other_spellings(node, batch, ids) if not accepted]
    bad += [_bad(batch, row, _mismatch(node, key, batch, ids, row)) for row in wrong]
    if wrong:
        mask = np.zeros(batch.num_rows, np.bool_)
        mask[wrong] = True
        ids = pc.if_else(pa.array(mask), pa.scalar(None, pa.utf8()), ids)
    return ids, bad_batch(bad)


def _named_by_id(node: NodeType, key: tuple[str, ...], batch: pa.RecordBatch) -> NDArray[np.bool_]:
    """Which records of a patch name their node by its id and leave the key out."""
    if GIVEN not in batch.schema.names:
        return np.zeros(batch.num_rows, np.bool_)
    given = given_masks(node, batch.column(GIVEN))
    has_id: NDArray[np.bool_] = batch.column(ID).is_valid().to_numpy(zero_copy_only=False)
    has_key: NDArray[np.bool_] = np.logical_or.reduce([given[name] for name in key])
    return has_id & ~has_key


def _bad(batch: pa.RecordBatch, row: int, reason: str, blamed: str = "id") -> UnreadableRecord:
    source, offset = (batch.column(name)[row].as_py() for name in (SOURCE, OFFSET))
    return UnreadableRecord(source, offset, reason, blamed)


def _mismatch(
    node: NodeType, key: tuple[str, ...], batch: pa.RecordBatch, ids: pa.Array, row: int
) -> str:
    given, derived = batch.column(ID)[row].as_py(), ids[row].as_py()
    return (
        f"the id {shown(given)} of {node.name} is not the one its key ({', '.join(key)}) makes, "
        f"{shown(derived)}; leave the id out"
    )


def id_aliases(entity: Entity, batch: pa.RecordBatch, ids: pa.Array) -> dict[str, str]:
    """For each explicit id that spells the key in another way, the id that the node gets.

    Older exports spell single keys as values (`2024-01-01`, `1.0`). Edges of the same load may use
    that spelling, and are redirected to the id.
    """
    if not isinstance(entity, NodeType) or entity.key is None:
        return {}
    return {
        spelled: ids[row].as_py()
        for row, spelled, accepted in _other_spellings(entity, batch, ids)
        if accepted
    }


def _other_spellings(
    node: NodeType, batch: pa.RecordBatch, ids: pa.Array
) -> Iterator[tuple[int, str, bool]]:
    """Rows whose explicit id differs from the derived one: row, text, and whether it means the same key."""
    given = batch.column(ID)
    if given.null_count == len(given):
        return
    assert node.key is not None
    single = node.properties[node.key[0]].type if len(node.key) == 1 else None
    for row in pc.indices_nonzero(pc.not_equal(given, ids).fill_null(False)).to_pylist():
        text = given[row].as_py()
        yield row, text, single is not None and spells_key(single, text, ids[row].as_py())


def make_ids(
    sources: pa.Array, offsets: pa.Array, operation_id: str, started_at_ms: int
) -> pa.Array:
    """A ULID for every record, made from its place. No two records get the same, and later ones sort after."""
    size = len(offsets)
    source, offset = sources.to_numpy(), offsets.to_numpy()
    first = _first_number(operation_id)
    texts = np.empty((size, 13), np.uint16)
    for place, pair in enumerate(_pairs()[_time_bits(started_at_ms)]):
        texts[:, place] = pair
    for start in range(0, size, _CHUNK_ROWS):
        rows = slice(start, start + _CHUNK_ROWS)
        orders = (source[rows].astype(np.uint64) << np.uint64(SOURCE_SHIFT)) | offset[rows].view(
            np.uint64
        )
        _write_numbers(texts[rows, 5:], first, orders)
    bounds = np.arange(0, 26 * (size + 1), 26, dtype=np.int32)
    return pa.Array.from_buffers(
        pa.utf8(), size, [None, pa.py_buffer(bounds), pa.py_buffer(texts.ravel())]
    )


def ids_of_places(orders: pa.Array, operation_id: str, started_at_ms: int) -> pa.Array:
    """The ids that ``make_ids`` gives to records, by their places as one number."""
    numbers = orders.to_numpy()
    sources = pa.array(numbers >> SOURCE_SHIFT, pa.int32())
    offsets = pa.array(numbers & ((1 << SOURCE_SHIFT) - 1), pa.int64())
    return make_ids(sources, offsets, operation_id, started_at_ms)


def _first_number(operation_id: str) -> int:
    """The 80 bits that the ids of an operation count from; the highest is left for the sums."""
    digest = hashlib.blake2b(operation_id.encode(), digest_size=10).digest()
    return int.from_bytes(digest, "big") >> 1


def _write_numbers(texts: NDArray[np.uint16], first: int, orders: NDArray[np.uint64]) -> None:
    """Write the sums of ``first`` and each order as eight pairs of characters, ten bits each."""
    pairs = _pairs()
    least, greatest = (first + int(order) for order in (orders.min(), orders.max()))
    low = orders + np.uint64(first & _LOW_BITS)
    high = np.uint64(first >> 64) + (low < orders)
    for place in range(8):
        shift = 70 - 10 * place
        if least >> shift == greatest >> shift:
            texts[:, place] = pairs[least >> shift & 1023]
            continue
        if shift >= 64:
            bits = high >> np.uint64(shift - 64)
        else:
            bits = low >> np.uint64(shift)
            if shift > 54:
                bits |= high << np.uint64(64 - shift)
        texts[:, place] = np.take(pairs, (bits & np.uint64(1023)).view(np.int64))


@cache
def _pairs() -> NDArray[np.uint16]:
    """The two characters of every number of ten bits, as they lie in memory."""
    alphabet = np.frombuffer(_CROCKFORD, np.uint8)
    texts = np.empty((1024, 2), np.uint8)
    texts[:, 0], texts[:, 1] = np.repeat(alphabet, 32), np.tile(alphabet, 32)
    return texts.view(np.uint16).ravel()


def _time_bits(ms: int) -> list[int]:
    """The 50 bits of a ULID's time, ten by ten."""
    if not 0 <= ms <= _MAX_MS:
        raise ValueError(f"{ms} ms do not fit the 48 bits of a ULID")
    return [ms >> shift & 1023 for shift in range(40, -1, -10)]
