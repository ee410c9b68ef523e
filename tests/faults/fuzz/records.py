"""Records and files that are loaded."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from random import Random

import pyarrow as pa

from omnigraph import errors
from omnigraph.pipeline.formats.frame_files import file_blocks
from omnigraph.pipeline.formats.frame_layout import Layout
from omnigraph.pipeline.formats.json_lines import read_block
from omnigraph.pipeline.sources.locations import InMemory
from omnigraph.pipeline.sources.sources import InputSource
from omnigraph.pipeline.sources.splits import LineBlock
from tests.faults.fuzz.inputs import ODD_BYTES, damaged, damaged_json
from tests.faults.fuzz.parser import Parser, parser
from tests.pipeline.read_helpers import CATALOG, assert_same

PERSON = {"type": "Person", "data": {"name": "a", "age": 3, "email": None}}
EVERY = {
    "type": "Every",
    "data": {"s": "x", "kind": "a", "b": True, "i32": 1, "i64": -1, "u32": 1, "u64": 1, "f32": 0.5,
             "f64": 1e300, "day": "2020-02-29", "at": "2020-01-01T00:00:00Z", "file": "base64:aGk=",
             "vec": [1, 2, 3], "ls": ["a", None], "lb": [True], "li": [1], "lu": [2], "lf": [0.5],
             "ld": ["2020-01-01"], "lt": ["2020-01-01T00:00:00Z"]},
}  # fmt: skip
KNOWS = {"edge": "Knows", "from": "a", "to": "b", "data": {"id": "k", "since": "2020-01-01"}}
LINES = 8
RECORDS = [PERSON, EVERY, KNOWS, {"edge": "Next", "from": 1, "to": 2}]


def _line(chance: Random) -> bytes:
    if chance.random() < 0.6:
        return damaged_json(chance, RECORDS).encode("utf-8", "surrogatepass")
    return damaged(chance, [json.dumps(one).encode() for one in RECORDS], ODD_BYTES)


def _lines(chance: Random) -> bytes:
    """Damaged records, and among them good ones, which are read by columns."""
    lines = [_line(chance) for _ in range(LINES)]
    good = [json.dumps(chance.choice(RECORDS)).encode() for _ in range(chance.choice((0, 2, 4)))]
    chance.shuffle(both := lines + good)
    return chance.choice((b"\n", b"\n", b"\r\n", b"\n\n")).join(both)


@parser
def _json_records(_place: Path) -> Parser:
    def read(data: bytes) -> None:
        block = LineBlock(0, 0, data)
        patch = data[-1:] == b"\n" or len(data) % 2 == 0
        by_columns = read_block(CATALOG, block, patch=patch)
        assert_same(by_columns, read_block(CATALOG, block, by_columns=False, patch=patch))

    return Parser(_lines, read, (), inputs=LINES)


CSV = (
    ("node:Person", b"name,age,email\na,1,\nb,,x@y\n"),
    ("node:Person", b'name,age,email\n"a, b",1,"x ""y"""\n"c\nd",2,\n'),
    ("node:Person", b"name\r\na\r\nb\r\n"),
    (
        "node:Every",
        b's,b,i64,u64,f64,day,vec,ls\nx,true,2,3,0.5,2020-01-01,"[1,2,3]","[""a""]"\n',
    ),
    ("edge:Knows", b"id,from,to,since\nk,a,b,2020-01-01\n"),
)
CSV_WORDS = (*ODD_BYTES, b",", b'"', b'""', b"name", b"\r")
File = tuple[str, bytes]
"""The table that a file is loaded into, and its bytes."""


def _file(
    chance: Random, seeds: Sequence[File], damage: Callable[[Random, Sequence[bytes]], bytes]
) -> File:
    """A damaged file of one seed, or of pieces of several, for the table it was made for."""
    key, data = chance.choice(seeds)
    mixed = chance.random() < 0.1
    return key, damage(chance, [one for _, one in seeds] if mixed else [data])


def _read_file(name: str, file: File) -> None:
    key, data = file
    source = InputSource(0, name, InMemory(data), len(data), unit="row")
    for read in file_blocks(Layout(CATALOG.entity(key), "from", "to"), source):
        for batch in read().batches:
            batch.batch.validate(full=True)


REFUSED = (errors.InputError, errors.BadRequest)


@parser
def _csv(_place: Path) -> Parser:
    return Parser(
        lambda chance: _file(chance, CSV, lambda chance, seeds: damaged(chance, seeds, CSV_WORDS)),
        lambda file: _read_file("p.csv", file),
        REFUSED,
    )


@cache
def _frames() -> dict[str, list[File]]:
    from pyarrow import feather, parquet

    table = pa.table({"name": ["a", "b"], "age": pa.array([1, None], pa.int32())})
    every = pa.table(
        {"s": ["x"] * 9, "i64": range(9), "vec": [[1.0, 2.0, 3.0]] * 9, "ls": [["a"]] * 9}
    )
    written: dict[str, list[File]] = {"parquet": [], "arrow": []}
    for key, one in (("node:Person", table), ("node:Every", every)):
        out = io.BytesIO()
        parquet.write_table(one, out)
        written["parquet"].append((key, out.getvalue()))
        for write in (feather.write_feather, _write_stream):
            out = io.BytesIO()
            write(one, out)
            written["arrow"].append((key, out.getvalue()))
    return written


def _write_stream(table: pa.Table, out: io.BytesIO) -> None:
    with pa.ipc.new_stream(out, table.schema) as stream:
        stream.write_table(table)


def _flipped(chance: Random, seeds: Sequence[bytes]) -> bytes:
    """A few bytes changed, which is what a disk or a line does; sometimes more."""
    if chance.random() < 0.3:
        return damaged(chance, seeds, ODD_BYTES)
    data = bytearray(chance.choice(seeds))
    for _ in range(chance.choice((1, 1, 2, 8))):
        data[chance.randrange(len(data))] = chance.randrange(256)
    return bytes(data)


@parser
def _parquet(_place: Path) -> Parser:
    return Parser(
        lambda chance: _file(chance, _frames()["parquet"], _flipped),
        lambda file: _read_file("p.parquet", file),
        REFUSED,
    )


@parser
def _arrow(_place: Path) -> Parser:
    return Parser(
        lambda chance: _file(chance, _frames()["arrow"], _flipped),
        lambda file: _read_file("p.arrow", file),
        REFUSED,
    )
