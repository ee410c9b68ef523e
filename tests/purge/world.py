"""A graph with something of everything, and an outside look at every byte of its files."""

from __future__ import annotations

import base64
import os
import random
from pathlib import Path
from typing import Any

import omnigraph as og

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
    """The files below some directories that have one of the texts anywhere in their bytes."""
    found = set()
    for root in roots:
        for folder, _, names in os.walk(root):
            for name in names:
                data = Path(folder, name).read_bytes()
                found |= {(name, text) for text in texts if text in data}
    return found


def listing(root: Path) -> dict[str, int]:
    """Every file of a graph with its size, lock files left out."""
    return {
        str(path.relative_to(root)): path.stat().st_size
        for path in root.rglob("*")
        if path.is_file() and "__locks" not in path.parts
    }


def people_in(graph: og.Graph, **target: Any) -> set[str]:
    return {row["slug"] for row in graph.query(ALL, **target).rows}
