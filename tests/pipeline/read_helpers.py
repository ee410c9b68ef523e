"""A schema with every property type, and shorthands for reading JSON lines and frames of it."""

from __future__ import annotations

import json

import omnigraph as og
from omnigraph.pipeline.formats.frame_blocks import frame_blocks
from omnigraph.pipeline.formats.frame_files import file_blocks
from omnigraph.pipeline.formats.frame_layout import Layout
from omnigraph.pipeline.formats.json_lines import read_block
from omnigraph.pipeline.sources.splits import LineBlock

SCHEMA = """
node Person {
    name: String @key
    age: I32?
    email: String?
}
node Every {
    s: String?
    kind: enum(a, b)?
    b: Bool?
    i32: I32?
    i64: I64?
    u32: U32?
    u64: U64?
    f32: F32?
    f64: F64?
    day: Date?
    at: DateTime?
    file: Blob?
    vec: Vector(3)?
    ls: [String]?
    lb: [Bool]?
    li: [I64]?
    lu: [U64]?
    lf: [F32]?
    ld: [Date]?
    lt: [DateTime]?
}
node Strict { must: String  count: I64 }
node Doc { body: String?  vec: Vector(2) @embed(body) }
node Filled {
    s: String @default("some")
    i32: I32? @default(-7)
    f32: F32 @default(0.1)
    kind: enum(a, b)? @default(b)
    day: Date? @default("2024-02-29")
    ls: [String]? @default(["x", "y"])
    data: I64? @default(1)
}
node Told { body: String? @default("hello")  vec: Vector(2) @embed(body) }
edge Knows: Person -> Person { since: Date? }
node Dock { no: I32 @key }
node Buoy { no: U64 @key }
node Grid { x: I32  y: I32  @key(x, y) }
edge Next: Dock -> Dock
edge Marks: Buoy -> Dock
edge Covers: Grid -> Person
"""

CATALOG = og.parse_schema(SCHEMA).catalog


def block_of(*lines: object, source: int = 0, offset: int = 0) -> LineBlock:
    """A block of lines: text or bytes as they are, anything else as JSON."""
    parts = [
        line
        if isinstance(line, bytes)
        else (line if isinstance(line, str) else json.dumps(line)).encode()
        for line in lines
    ]
    return LineBlock(source, offset, b"\n".join(parts))


def read(*lines: object):
    """Read lines both ways, which must agree, and give what they hold."""
    block = block_of(*lines)
    fast, slow = read_block(CATALOG, block), read_block(CATALOG, block, by_columns=False)
    assert_same(fast, slow)
    return fast


def assert_same(a, b) -> None:
    assert a.bad.to_pylist() == b.bad.to_pylist()
    assert [key for key, _ in a.batches] == [key for key, _ in b.batches]
    for (key, left), (_, right) in zip(a.batches, b.batches, strict=True):
        left.validate(full=True)
        assert left.schema.equals(right.schema), key
        assert left.equals(right), key
        # Batches compare -0.0 and 0.0 as equal; their texts do not.
        assert repr(left.to_pylist()) == repr(right.to_pylist()), key


def rows(parsed, table_key: str) -> list[dict]:
    """The rows of a table without the columns that say where they come from."""
    found = dict(parsed.batches)
    hidden = {"0source", "0offset"}
    return [
        {name: value for name, value in row.items() if name not in hidden}
        for row in found[table_key].to_pylist()
    ]


def reasons(parsed) -> list[str]:
    return parsed.bad.column("reason").to_pylist()


def node_of(type_):
    """A node type with one property `p` of that type."""
    return og.parse_schema(f"node T {{ p: {type_} }}").catalog.nodes["T"]


def typed_batches(entity, data, from_col="from", to_col="to", *, patch=False, **options):
    """The rows of a frame, read block by block."""
    layout = Layout(entity, from_col, to_col, patch=patch)
    return (block() for block in frame_blocks(layout, data, **{"source": 0, **options}))


def read_frame_file(entity, source, from_col="from", to_col="to", groups=None):
    """The rows of a file of columns, read block by block."""
    return (block() for block in file_blocks(Layout(entity, from_col, to_col), source, groups))


def gathered(parsed):
    """All rows and all bad records of a reading."""
    rows, bad = [], []
    for part in parsed:
        for _, batch in part.batches:
            batch.validate(full=True)
            rows += batch.to_pylist()
        bad += part.bad.to_pylist()
    return rows, bad
