"""A graph with something of everything, and an outside look at every byte of its files."""

from __future__ import annotations

import base64
import os
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
from lance.file import LanceFileReader, LanceFileSession

import omnigraph as og
from omnigraph.storage.tables.indexing.index_health import index_parts
from omnigraph.storage.tables.table import Table, open_table
from tests.opened import workspace_of

SCHEMA = """
node Person {
    slug: String @key
    name: String @index
    bio: String? @index
    vec: Vector(8)? @index
    photo: Blob?
}
node City { slug: String @key }
edge Knows: Person -> Person { note: String? @index }
edge LivesIn: Person -> City
"""
PEOPLE = 40
ALL = "query all() { match { $p: Person } return { $p.slug as slug } order { $p.slug } }"


def secrets(number: int) -> list[bytes]:
    """Texts that only the files of one person have."""
    return [
        f"slug-{number}-x".encode(),
        f"name-{number}-x".encode(),
        f"changed-{number}-x".encode(),
        f"token{number}x".encode(),
        f"PHOTO{number}X".encode(),
        f"knows-{number}-x".encode(),
        f"note{number}x".encode(),
    ]


def person(number: int, **more: Any) -> dict[str, Any]:
    rnd = random.Random(number)
    photo = f"PHOTO{number}X".encode() * (20 if number % 2 else 9_000)
    data = {
        "slug": f"slug-{number}-x",
        "name": f"name-{number}-x",
        "bio": f"something about token{number}x",
        "vec": [rnd.random() for _ in range(8)],
        "photo": f"base64:{base64.b64encode(photo).decode()}",
    }
    return {"type": "Person", "data": {**data, **more}}


def knows(number: int, other: int) -> dict[str, Any]:
    data = {"id": f"knows-{number}-x", "note": f"note{number}x"}
    ends = {"from": f"slug-{number}-x", "to": f"slug-{other}-x"}
    return {"edge": "Knows", **ends, "data": data}


def build(uri: str) -> None:
    """Make the graph: indexes, updates, a delete, a merge of fragments, and writes after it."""
    with og.init(uri, SCHEMA, upkeep="off") as graph:
        records = [person(number) for number in range(PEOPLE)]
        records.append({"type": "City", "data": {"slug": "oslo"}})
        records += [knows(number, (number + 1) % PEOPLE) for number in range(PEOPLE)]
        records += [
            {
                "edge": "LivesIn",
                "from": f"slug-{number}-x",
                "to": "oslo",
                "data": {"id": f"lives-{number}-x"},
            }
            for number in range(PEOPLE)
        ]
        graph.load(records)
        graph.ensure_indices()
        graph.mutate(
            'query u() { update Person set { name: "changed-7-x" } where slug = "slug-7-x" }'
        )
        graph.mutate('query d() { delete Person where slug = "slug-8-x" }')
        graph.optimize()
        graph.load([person(7, name="name-7-x"), person(PEOPLE)])


def slug(number: int) -> str:
    return f"slug-{number}-x"


def hits(roots: list[Path], texts: list[bytes]) -> set[tuple[str, bytes]]:
    """The files below some directories that have one of the texts: in their bytes, or in what those stand for."""
    found = set()
    for root in roots:
        for folder, _, names in os.walk(root):
            for name in names:
                path = Path(folder, name)
                data = path.read_bytes() + _decoded(path)
                found |= {(str(path.relative_to(root)), text) for text in texts if text in data}
    return found


def _decoded(path: Path) -> bytes:
    """All texts of a Lance file: larger ones are compressed."""
    if path.suffix != ".lance":
        return b""
    session = LanceFileSession(str(path.parent))
    schema = session.open_reader(path.name).metadata().schema
    # Lance lists what is inside of a Blob, too, and cannot read it alone.
    names = [one.name for one in schema if pa.types.is_string(one.type) and one.name != "blob_uri"]
    if not names:
        return b""
    read = session.open_reader(path.name, columns=names).read_all().to_table()
    return "\0".join(str(one) for name in names for one in read.column(name).to_pylist()).encode()


def listing(root: Path) -> dict[str, int]:
    """Every file of a graph with its size, lock files left out."""
    return {
        str(path.relative_to(root)): path.stat().st_size
        for path in root.rglob("*")
        if path.is_file() and "__locks" not in path.parts
    }


def cities_in(graph: og.Graph, **target: Any) -> set[str]:
    found = graph.query("query q() { match { $c: City } return { $c.slug as slug } }", **target)
    return {row["slug"] for row in found.rows}


def people_in(graph: og.Graph, **target: Any) -> set[str]:
    return {row["slug"] for row in graph.query(ALL, **target).rows}


def rows_of(graph: og.Graph, table_key: str) -> set[int]:
    """The row ids that a table has now."""
    return set(_open(graph, table_key).read([], with_row_id=True).column("_rowid").to_pylist())


def entries_of(graph: og.Graph, table_key: str) -> dict[str, set[int]]:
    """By column, the row ids that the files of its text and vector indexes have entries of, read from outside."""
    table = _open(graph, table_key)
    found: dict[str, set[int]] = {}
    for part in index_parts(table.ref, table.dataset):
        for path in Path(part.place).iterdir():
            if path.suffix in (".lance", ".idx"):
                read = LanceFileReader(str(path)).read_all().to_table()
                if "_rowid" in read.column_names:
                    found.setdefault(part.column, set()).update(read.column("_rowid").to_pylist())
    return found


def _open(graph: og.Graph, table_key: str) -> Table:
    return open_table(workspace_of(graph).pinned(graph.snapshot().tables[table_key]))
