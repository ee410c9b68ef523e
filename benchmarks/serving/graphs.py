"""The graphs of the server benchmark, and files to load."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

import omnigraph

SCHEMA = """
node Person { key: String @key  name: String  age: I32  about: String? }
edge Knows: Person -> Person
"""
BLOBS = "node Doc { key: String @key  body: Blob? }"
POINT = """query q($key: String) { match { $p: Person { key: $key } }
           return { $p.name as name, $p.age as age } }"""
ROWS = "query q() { match { $p: Person } return { $p.key as key, $p.name as name, $p.age as age } }"
HEAVY = """query q($age: I32) { match { $a: Person  $a.age > $age  $a knows $b  $b knows $c  $c.age > $age }
           return { count($c) as n } }"""
RAISE = "query q($key: String) { update Person set { age: 70 } where key = $key }"
TEXT = 900
"""Characters of the long text of a person: a record of an export has about a kilobyte then."""


class Sizes(NamedTuple):
    """How much of everything there is."""

    persons: int
    edges_each: int
    export_mb: int
    load_mb: int
    blob_mb: int
    points: int
    seconds: float


LARGE = Sizes(1_000_000, 3, 1024, 200, 1024, 2_000, 8.0)
SMALL = Sizes(20_000, 3, 16, 8, 64, 300, 1.5)


def make_people(place: Path, sizes: Sizes) -> None:
    """Persons without long texts who know some others: for queries."""
    draw = np.random.default_rng(3)
    count = sizes.persons
    keys = pa.array([f"p{number}" for number in range(count)])
    with omnigraph.init(place, SCHEMA) as graph:
        people = {
            "key": keys,
            "name": [f"person {number}" for number in range(count)],
            "age": pa.array(draw.integers(18, 90, count), pa.int32()),
        }
        graph.load_nodes("Person", pa.table(people), mode="append")
        ends = draw.integers(0, count, (2, count * sizes.edges_each))
        frame = pa.table({"from": keys.take(pa.array(ends[0])), "to": keys.take(pa.array(ends[1]))})
        graph.load_edges("Knows", frame, mode="append")
        graph.ensure_indices()


def make_texts(place: Path, megabytes: int) -> None:
    """Persons with long texts, about a kilobyte each: for exports."""
    draw = np.random.default_rng(5)
    letters = "".join(chr(code) for code in draw.integers(97, 123, 64 * TEXT))
    left = megabytes * 1024
    with omnigraph.init(place, SCHEMA) as graph:
        for start in range(0, left, 100_000):
            numbers = range(start, min(left, start + 100_000))
            people = {
                "key": [f"p{number}" for number in numbers],
                "name": [f"person {number}" for number in numbers],
                "age": pa.array([number % 80 for number in numbers], pa.int32()),
                "about": [_text(letters, number) for number in numbers],
            }
            graph.load_nodes("Person", pa.table(people), mode="append")


def _text(letters: str, number: int) -> str:
    at = number * 37 % (len(letters) - TEXT)
    return letters[at : at + TEXT]


def make_records(file: Path, megabytes: int) -> None:
    """A file of JSON lines to load, with a kilobyte a line."""
    letters = "abcdefghij klmnopqrst uvwxyz " * 64

    def lines() -> Iterator[str]:
        for number in range(megabytes * 1024):
            about = _text(letters, number)
            data = {"key": f"n{number}", "name": f"person {number}", "age": number % 80}
            yield json.dumps({"type": "Person", "data": {**data, "about": about}}) + "\n"

    with file.open("w", encoding="utf-8") as out:
        out.writelines(lines())


def make_blobs(place: Path) -> None:
    """A document without its bytes."""
    with omnigraph.init(place, BLOBS) as graph:
        graph.load([{"type": "Doc", "data": {"key": "d"}}])
