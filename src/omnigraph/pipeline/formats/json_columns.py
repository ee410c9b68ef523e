"""Read many JSON lines of one type at once into columns, with Arrow's reader.

With an explicit schema Arrow's reader refuses nearly everything that `json_line` refuses. What it accepts
and `json_line` does not, or reads with another value, is looked for afterwards. In every such case, and
whenever anything is unusual, ``Doubt`` sends the lines to `json_line`, which alone says what is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from omnigraph.lang.schema.catalog import Entity
from omnigraph.pipeline.formats.plain_rows import PlainRows
from omnigraph.pipeline.formats.typed_batch import (
    Cuts,
    column_type,
    cut_texts,
    given_column,
    may_be_cut,
    required_embeds,
    required_names,
    stored_column,
)
from omnigraph.types import Family, PropType, Unfit, as_integers, blob_from_text

_MAX_BYTES = 1 << 30
_HEAD_BYTES = 4096
_RECORD_KEYS = ("type", "edge", "from", "to", "data")


class Doubt(Exception):
    """Raised when lines must be read one by one."""


def read_columns(
    entity: Entity,
    data: pa.Buffer,
    lines: pa.Array,
    integer_ends: Mapping[str, PropType],
    cut: Cuts,
) -> list[pa.Array]:
    """The id, endpoint and property columns of lines that each hold one record of this type.

    ``lines`` are the lines in ``data``; if the type has defaults, none of them is ``obscure``.
    ``integer_ends`` are the ends of an edge that may be written as integers. ``cut`` gets how many values
    are finer than they are stored.

    The caller has seen that every line begins as such a record and ends in `}`. So no object can
    reach into the next line, which begins with `{`, and as many objects as lines are one in each.
    """
    id_, ends, columns, raw = _read(entity, data, len(lines), integer_ends)
    if any(end.null_count for end in ends):
        raise Doubt
    columns = _with_defaults(entity, columns, lines)
    _check_required(entity, dict(zip(entity.properties, columns, strict=True)))
    _note_cuts(entity, raw, cut)
    return [id_, *ends, *columns]


def _note_cuts(entity: Entity, raw: Sequence[pa.Array], cut: Cuts) -> None:
    for prop, array in zip(entity.properties.values(), raw, strict=True):
        if may_be_cut(prop.type) and (count := cut_texts(prop.type, array)):
            cut[f"{entity.name}.{prop.name}"] += count


def _with_defaults(
    entity: Entity,
    columns: Sequence[pa.Array],
    lines: pa.Array,
    keys: Mapping[str, str] | None = None,
) -> list[pa.Array]:
    """The columns of properties with defaults where lines leave them out; ``keys`` are their names there."""
    found = list(columns)
    for place, (name, prop) in enumerate(entity.properties.items()):
        if prop.default is None or not found[place].null_count:
            continue
        left_out = found[place].is_null().to_numpy(zero_copy_only=False)
        left_out &= ~_says_null(lines, name if keys is None else keys[name])
        index = np.where(left_out, len(lines), np.arange(len(lines)))
        found[place] = pa.concat_arrays([found[place], prop.default_column(1)]).take(
            pa.array(index)
        )
    return found


def read_plain_columns(
    plain: PlainRows,
    data: pa.Buffer,
    lines: pa.Array,
    integer_ends: Mapping[str, PropType],
    cut: Cuts,
) -> list[pa.Array]:
    """The same columns of lines that only give values, none of which has two names (``plain.keys``)."""
    entity, keys = plain.entity, plain.keys
    assert keys is not None
    ends = {end: keys[name] for end, name in plain.ends.items()}
    named = {key: integer_ends[end] for end, key in ends.items() if end in integer_ends}
    integers = _integers_in(data, named)
    fields = [(keys["id"], pa.utf8())]
    fields += [(key, integers.get(key, pa.utf8())) for key in ends.values()]
    fields += [(keys[name], _json_type(prop.type)) for name, prop in entity.properties.items()]
    table = _parsed(data, pa.schema(fields))
    if table.num_rows != len(lines):
        raise Doubt
    id_, *raw = (_one(column) for column in table.columns)
    found = [end.cast(pa.utf8()) for end in raw[: len(ends)]]
    if any(end.null_count for end in found):
        raise Doubt
    columns = [
        stored_form(prop.type, array)
        for prop, array in zip(entity.properties.values(), raw[len(ends) :], strict=True)
    ]
    columns = _with_defaults(entity, columns, lines, keys)
    _check_required(entity, dict(zip(entity.properties, columns, strict=True)))
    _note_cuts(entity, raw[len(ends) :], cut)
    return [id_, *found, *columns]


def read_patch_columns(
    entity: Entity,
    data: pa.Buffer,
    lines: pa.Array,
    integer_ends: Mapping[str, PropType],
    cut: Cuts,
) -> tuple[list[pa.Array], pa.Array]:
    """The same columns of a patch, where anything may be missing, and the column ``0given``.

    ``lines`` are the lines in ``data``, none of which is ``obscure``. Arrow's reader makes a null of
    what is left out and of what is written as null; the text of the lines tells them apart.
    """
    id_, ends, columns, raw = _read(entity, data, len(lines), integer_ends)
    _note_cuts(entity, raw, cut)
    given = [column.is_valid().to_numpy(zero_copy_only=False) for column in (*ends, *columns)]
    if pc.any(pc.match_substring(lines, "null"), min_count=0).as_py():
        for place, name in enumerate(entity.properties, start=len(ends)):
            if not given[place].all():
                given[place] = given[place] | _says_null(lines, name)
    return [id_, *ends, *columns], given_column(entity, given, len(lines))


def obscure(entity: Entity, lines: pa.Array) -> NDArray[np.bool_]:
    """Which lines cannot tell by their text alone what they set to null.

    A key may be written with escapes, and a property may have the name of a key of records.
    """
    nulls: NDArray[np.bool_] = pc.match_substring(lines, "null").to_numpy(zero_copy_only=False)
    if not nulls.any() or not entity.properties.keys().isdisjoint(_RECORD_KEYS):
        return nulls
    escaped = pc.match_substring(lines, "\\").to_numpy(zero_copy_only=False)
    for end in ("from", "to") if len(entity.implicit_columns) > 1 else ():
        escaped |= _says_null(lines, end)
    found: NDArray[np.bool_] = nulls & escaped
    return found


def _says_null(lines: pa.Array, key: str) -> NDArray[np.bool_]:
    # In a text the quotes would be escaped, so this is a key and its value.
    found = pc.match_substring_regex(lines, rf'"\Q{key}\E"\s*:\s*null')
    mask: NDArray[np.bool_] = found.to_numpy(zero_copy_only=False)
    return mask


def _read(
    entity: Entity, data: pa.Buffer, rows: int, integer_ends: Mapping[str, PropType]
) -> tuple[pa.Array, list[pa.Array], list[pa.Array], list[pa.Array]]:
    """The ids, the ends and the properties of the lines, and the properties as JSON has them."""
    table = _table(entity, data, _integers_in(data, integer_ends))
    if table.num_rows != rows:
        raise Doubt
    names = [name for name in table.schema.names if name in {"from", "to"}]
    ends = [_one(table.column(name)).cast(pa.utf8()) for name in names]
    # Children of an absent `data` are null only when the parent's nulls are applied.
    id_, *raw = _one(table.column("data")).flatten()
    columns = [
        stored_form(prop.type, array)
        for prop, array in zip(entity.properties.values(), raw, strict=True)
    ]
    return id_, ends, columns, raw


def _integers_in(data: pa.Buffer, integer_ends: Mapping[str, PropType]) -> dict[str, pa.DataType]:
    """The ends that are integers in the first line; lines that differ from it raise a doubt later."""
    first = bytes(memoryview(data)[:_HEAD_BYTES]).partition(b"\n")[0]
    return {
        end: kind.arrow_type()
        for end, kind in integer_ends.items()
        if re.search(rb'"%s"\s*:\s*-?[0-9]' % re.escape(end.encode()), first)
    }


def _table(entity: Entity, data: pa.Buffer, integers: Mapping[str, pa.DataType]) -> pa.Table:
    return _parsed(data, json_schema(entity, integers))


def _parsed(data: pa.Buffer, schema: pa.Schema) -> pa.Table:
    from pyarrow import json

    if data.size > _MAX_BYTES:
        raise Doubt
    read = json.ReadOptions(use_threads=False, block_size=data.size + 1)
    parse = json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error")
    try:
        table = json.read_json(pa.BufferReader(data), read_options=read, parse_options=parse)
        # Arrow's reader copies bytes that are not UTF-8.
        table.validate(full=True)
    except pa.ArrowException:
        raise Doubt from None
    return table


def _one(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def json_schema(entity: Entity, ends: Mapping[str, pa.DataType]) -> pa.Schema:
    """The schema that Arrow's reader gets for the records of a type; ``ends`` are those that are not text."""
    members = [("id", pa.utf8())]
    members += [(name, _json_type(prop.type)) for name, prop in entity.properties.items()]
    is_edge = len(entity.implicit_columns) > 1
    keys = ("edge", "from", "to") if is_edge else ("type",)
    texts = ((key, ends.get(key, pa.utf8())) for key in keys)
    return pa.schema([*texts, ("data", pa.struct(members))])


def _json_type(t: PropType) -> pa.DataType:
    if t.is_vector:
        return pa.list_(pa.float64())
    if t.is_list:
        return pa.list_(_json_type(t.element))
    if t.scalar.traits.family in _TEXTS:
        return pa.utf8()
    # Rounded to float64 and then to float32, as Python rounds.
    return pa.float64() if t.scalar.is_float else t.arrow_type()


def stored_form(t: PropType, array: pa.Array) -> pa.Array:
    """Turn a column as JSON has it (texts, and numbers as float64) into the column of a property."""
    if t.is_vector:
        return _vectors(t, array)
    if t.is_list:
        items = stored_form(t.element, array.values)
        mask = array.is_null() if array.null_count else None
        return pa.ListArray.from_arrays(array.offsets, items, type=t.arrow_type(), mask=mask)
    if t.scalar.is_float:
        return _floats(t.arrow_type(), array)
    convert = _TEXTS.get(t.scalar.traits.family)
    return array if convert is None else convert(t, array)


def _floats(kind: pa.DataType, array: pa.Array) -> pa.Array:
    values = array.drop_null().to_numpy(zero_copy_only=False)
    # Arrow's reader takes NaN and Infinity. `-0` is the integer 0 to Python, but -0.0 here.
    if not np.isfinite(values).all() or (np.signbit(values) & (values == 0)).any():
        raise Doubt
    if array.type == kind:
        return array
    narrow = array.cast(kind, safe=False)
    if not pc.all(pc.is_finite(narrow), min_count=0).as_py():
        raise Doubt
    return narrow


def _vectors(t: PropType, array: pa.Array) -> pa.Array:
    assert t.dim is not None
    lengths = pc.list_value_length(array).drop_null().to_numpy(zero_copy_only=False)
    items = array.flatten()
    if items.null_count or (lengths != t.dim).any():
        raise Doubt
    narrow = _floats(t.arrow_type().value_type, items)
    if array.null_count == 0:
        return pa.FixedSizeListArray.from_arrays(narrow, type=t.arrow_type())
    room = np.zeros((len(array), t.dim), np.float32)
    room[array.is_valid().to_numpy(zero_copy_only=False)] = narrow.to_numpy(
        zero_copy_only=False
    ).reshape(-1, t.dim)
    return pa.FixedSizeListArray.from_arrays(
        pa.array(room.ravel()), type=t.arrow_type(), mask=array.is_null()
    )


def _temporal(t: PropType, array: pa.Array) -> pa.Array:
    try:
        column = array.cast(t.arrow_type())
    except pa.ArrowException:
        return _each(array, t)
    if any(_is_canonical(t, array, text, column) for text in t.scalar.time.texts(column)):
        return column
    return _each(array, t)


def _is_canonical(t: PropType, given: pa.Array, written: pa.Array, column: pa.Array) -> bool:
    """Whether the text is as it would be written: then nothing depends on how Arrow reads it."""
    if not pc.all(pc.equal(given, written), min_count=0).as_py():
        return False
    try:
        for extreme in pc.min_max(as_integers(column)).as_py().values():
            if extreme is not None:
                t.scalar.time.check(extreme)
    except Unfit:
        return False
    return True


def _each(array: pa.Array, t: PropType) -> pa.Array:
    known: dict[str | None, int | None] = {None: None}
    try:
        for text in array.unique().to_pylist():
            if text is not None:
                known[text] = t.scalar.time.parse(text)
    except Unfit:
        raise Doubt from None
    return stored_column(t, [known[text] for text in array.to_pylist()])


def _blobs(t: PropType, array: pa.Array) -> pa.Array:
    try:
        values = [None if text is None else blob_from_text(text) for text in array.to_pylist()]
    except Unfit:
        raise Doubt from None
    return stored_column(t, values)


_TEXTS: dict[Family, Callable[[PropType, pa.Array], pa.Array]] = {
    Family.TEMPORAL: _temporal,
    Family.BLOB: _blobs,
}


def _check_required(entity: Entity, columns: dict[str, pa.Array]) -> None:
    if any(columns[name].null_count for name in required_names(entity)):
        raise Doubt
    for name, source in required_embeds(entity).items():
        absent = pc.and_(columns[name].is_null(), columns[source].is_null())
        if pc.any(absent, min_count=0).as_py():
            raise Doubt
    assert all(
        columns[name].type == column_type(prop.type) for name, prop in entity.properties.items()
    )
