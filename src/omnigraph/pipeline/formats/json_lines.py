"""JSON lines to typed batches: ``{"type": T, "data": {…}}`` and ``{"edge": E, "from": …, …}``.

The lines of a block are grouped by how they begin, and the records of a type are read together, by
columns. Lines that begin in no known way, and those that raise a doubt, are read one by one. Both
ways give the same batches (a test compares them), so they differ only in speed.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from omnigraph.lang.schema.catalog import Catalog, Entity
from omnigraph.pipeline.formats.json_columns import (
    Doubt,
    obscure,
    read_columns,
    read_patch_columns,
    read_plain_columns,
)
from omnigraph.pipeline.formats.json_line import JsonLine, read_lines
from omnigraph.pipeline.formats.plain_rows import PlainRows
from omnigraph.pipeline.formats.typed_batch import (
    OFFSET,
    Cuts,
    Parsed,
    ReadBlock,
    TypedBatch,
    UnreadableRecord,
    bad_batch,
    batch_schema,
)
from omnigraph.pipeline.sources.sources import InputSource
from omnigraph.pipeline.sources.splits import BLOCK_BYTES, LineBlock, LongLine, Split, read_blocks
from omnigraph.types import PropType

_HEAD = re.compile(rb'[ \t\r]*\{[ \t\r]*"(type|edge)"[ \t\r]*:[ \t\r]*"([^"\\\x00-\x1f]*)"')
_HEAD_BYTES = 128
_MAX_HEADS = 256
_SMALL_GROUP = 64
_PARTS = 8
_NEWLINE, _RETURN, _BRACE = b"\n\r}"


def read_split(
    catalog: Catalog,
    source: InputSource,
    split: Split,
    block_bytes: int = BLOCK_BYTES,
    *,
    patch: bool = False,
    plain: PlainRows | None = None,
) -> Iterator[Parsed]:
    """The records of a split, block by block."""
    blocks = split_blocks(catalog, source, split, block_bytes, patch=patch, plain=plain)
    return (read() for read in blocks)


def split_blocks(
    catalog: Catalog,
    source: InputSource,
    split: Split,
    block_bytes: int = BLOCK_BYTES,
    *,
    patch: bool = False,
    plain: PlainRows | None = None,
) -> Iterator[ReadBlock]:
    """The blocks of a split, each as a function that reads it; ``plain`` lines only give values."""
    for block in read_blocks(source, split, block_bytes):
        if isinstance(block, LongLine):
            yield partial(_refused, block)
        else:
            yield partial(read_block, catalog, block, patch=patch, plain=plain)


def _refused(line: LongLine) -> Parsed:
    """A line that is too long to be read: a bad record, whatever it says."""
    reason = (
        f"the line is longer than {line.limit >> 20} MiB, the most that a record may have; "
        "make several records of it, or give large values as blobs"
    )
    return Parsed([], bad_batch([UnreadableRecord(line.source, line.offset, reason)]))


def read_block(
    catalog: Catalog,
    block: LineBlock,
    *,
    by_columns: bool = True,
    patch: bool = False,
    plain: PlainRows | None = None,
) -> Parsed:
    """The records of a block; without ``by_columns``, every line is read by itself.

    The records of a ``patch`` may leave anything out.
    """
    lines = _Lines.of(block)
    found: dict[str, list[pa.RecordBatch]] = {}
    cut = Cuts()
    rest = lines.starts >= 0
    if by_columns:
        groups = _groups(catalog, lines) if plain is None else _plain_group(plain, lines, patch)
        for entity, rows in groups:
            ends = catalog.integer_ends(entity)
            batches, left = _read_group(
                entity, ends, block.source, lines, rows, cut, patch=patch, plain=plain
            )
            if batches:
                found[entity.table_key] = batches
            rest[rows] = False
            rest[left] = True
    singles, bad = _read_singly(catalog, block.source, lines, rest, cut, patch=patch, plain=plain)
    for key, batch in singles.items():
        found.setdefault(key, []).append(batch)
    batches = [TypedBatch(key, _in_order(found[key])) for key in sorted(found)]
    return Parsed(batches, bad_batch(bad), cut)


@dataclass(frozen=True, slots=True)
class _Lines:
    """The lines of a block, each with its newline: an Arrow array over the block's own bytes."""

    block: LineBlock
    array: pa.Array
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]

    @classmethod
    def of(cls, block: LineBlock) -> _Lines:
        data = block.data if block.data.endswith(b"\n") else block.data + b"\n"
        ends = np.flatnonzero(np.frombuffer(data, np.uint8) == _NEWLINE) + 1
        bounds = np.concatenate([[0], ends])
        buffers = [None, pa.py_buffer(bounds), pa.py_buffer(data)]
        array = pa.Array.from_buffers(pa.large_binary(), len(ends), buffers)
        return cls(LineBlock(block.source, block.offset, data), array, bounds[:-1], ends)


def _groups(catalog: Catalog, lines: _Lines) -> Iterator[tuple[Entity, NDArray[np.int64]]]:
    """Types of the catalog, each with the lines that begin like its records and end in `}`."""
    heads = pc.binary_slice(lines.array, 0, _HEAD_BYTES)
    undecided = _ends_in_brace(lines)
    entities: dict[str, Entity] = {}
    groups: dict[str, NDArray[np.bool_]] = {}
    position = 0
    for _ in range(_MAX_HEADS):
        head, position = _next_head(lines, undecided, position)
        if head is None:
            break
        alike = undecided & pc.starts_with(heads, head[0]).to_numpy(zero_copy_only=False)
        undecided &= ~alike
        entity = _find_entity(catalog, head)
        if entity is not None:
            entities[entity.table_key] = entity
            groups[entity.table_key] = groups.get(entity.table_key, False) | alike
    for key, entity in entities.items():
        yield entity, np.flatnonzero(groups[key])


def _plain_group(
    plain: PlainRows, lines: _Lines, patch: bool
) -> Iterator[tuple[Entity, NDArray[np.int64]]]:
    """The lines of plain rows that begin and end as objects, if they can be read by columns."""
    # Arrow's reader does not tell what a patch leaves out, and is not strict about what it ignores.
    if patch or plain.options.ignore_extra or plain.keys is None:
        return
    whole = _ends_in_brace(lines) & pc.starts_with(
        pc.binary_slice(lines.array, 0, 1), b"{"
    ).to_numpy(zero_copy_only=False)
    if whole.any():
        yield plain.entity, np.flatnonzero(whole)


def _next_head(
    lines: _Lines, undecided: NDArray[np.bool_], position: int
) -> tuple[re.Match[bytes] | None, int]:
    """The first undecided line that begins as a record; lines passed over are marked as decided."""
    for row in np.flatnonzero(undecided[position:]) + position:
        head = _HEAD.match(lines.block.data, lines.starts[row], lines.ends[row])
        if head is not None and len(head[0]) <= _HEAD_BYTES:
            return head, int(row)
        undecided[row] = False
    return None, position


def _find_entity(catalog: Catalog, head: re.Match[bytes]) -> Entity | None:
    try:
        name = head[2].decode()
    except UnicodeDecodeError:
        return None
    return catalog.nodes.get(name) if head[1] == b"type" else catalog.edge(name)


def _ends_in_brace(lines: _Lines) -> NDArray[np.bool_]:
    data = np.frombuffer(lines.block.data, np.uint8)
    last = np.maximum(lines.ends - 2, 0)
    returned = data[last] == _RETURN
    braces: NDArray[np.bool_] = data[np.maximum(last - returned, 0)] == _BRACE
    return braces


def _read_group(
    entity: Entity,
    ends: Mapping[str, PropType],
    source: int,
    lines: _Lines,
    rows: NDArray[np.int64],
    cut: Cuts,
    *,
    patch: bool,
    plain: PlainRows | None = None,
) -> tuple[list[pa.RecordBatch], NDArray[np.int64]]:
    """The batches of the lines that can be read by columns, and the rows of those that cannot.

    A group in doubt is cut into parts, so that one odd record slows down only its neighbours.
    """
    array = lines.array if len(rows) == len(lines.array) else lines.array.take(pa.array(rows))
    left = [rows[:0]]
    if (patch or entity.defaults) and (dark := obscure(entity, array)).any():
        left, rows = [rows[dark]], rows[~dark]
        array = lines.array.take(pa.array(rows))
    bounds = np.frombuffer(array.buffers()[1], np.int64)
    data = array.buffers()[2]
    batches = []
    parts = [(0, len(rows))]
    while parts:
        start, end = parts.pop()
        part = data.slice(int(bounds[start]), int(bounds[end] - bounds[start]))
        texts = array.slice(start, end - start)
        given: list[pa.Array] = []
        try:
            if patch:
                columns, mask = read_patch_columns(entity, part, texts, ends, cut)
                given = [mask]
            elif plain is not None:
                columns = read_plain_columns(plain, part, texts, ends, cut)
            else:
                columns = read_columns(entity, part, texts, ends, cut)
        except Doubt:
            if end - start <= _SMALL_GROUP:
                left.append(rows[start:end])
            else:
                cuts = np.linspace(start, end, _PARTS + 1, dtype=int).tolist()
                parts += itertools.pairwise(cuts)
            continue
        places = lines.block.offset + lines.starts[rows[start:end]]
        columns.append(pa.array(np.full(end - start, source, np.int32)))
        columns.append(pa.array(places, pa.int64()))
        schema = batch_schema(entity, patch=patch)
        batches.append(pa.RecordBatch.from_arrays([*columns, *given], schema=schema))
    return batches, np.concatenate(left)


def _read_singly(
    catalog: Catalog,
    source: int,
    lines: _Lines,
    rest: NDArray[np.bool_],
    cut: Cuts,
    *,
    patch: bool,
    plain: PlainRows | None,
) -> tuple[dict[str, pa.RecordBatch], list[UnreadableRecord]]:
    data, offset = lines.block.data, lines.block.offset
    rows = np.flatnonzero(rest)
    starts, ends = lines.starts[rows].tolist(), lines.ends[rows].tolist()
    spans = zip(starts, ends, strict=True)
    singles = (JsonLine(offset + a, data[a : b - 1]) for a, b in spans)
    return read_lines(catalog, source, singles, cut, patch=patch, plain=plain)


def _in_order(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """One batch, with its rows in the order of the input."""
    if len(batches) == 1:
        return batches[0]
    batch = pa.concat_batches(batches)
    order = np.argsort(batch.column(OFFSET).to_numpy())
    return batch.take(pa.array(order))
