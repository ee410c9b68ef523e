"""A graph with every kind of file, how its files are damaged, and what is asked of it then."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa

from omnigraph.graph import Graph, init
from omnigraph.graph import open as open_graph
from omnigraph.storage.tables.indexing.index_health import forget_damage
from omnigraph.storage.tables.lance_import import forget_sessions

SCHEMA = """
node Person {
  name: String @key
  bio: String? @index
  age: I32? @index
  mood: enum(calm, loud)?
  face: Vector(4)? @index
  photo: Blob?
}
edge Knows: Person -> Person @card(0..) { since: I32? @index }
"""
WORDS = ["river", "cloud", "engine", "planet", "running", "quickly", "maps"]
QUERIES = """
query by_name($n: String) { match { $p: Person { name: $n } } return { $p.age as age } }
query friends($n: String) {
  match { $p: Person { name: $n }  $p knows $f } return { $f.name as name } order { name }
}
query of_age($a: I32) { match { $p: Person  $p.age = $a } return { $p.name as n } order { n } }
query words() { match { $p: Person  search($p.bio, "runs") } return { $p.name as n } order { n } }
query nearly() {
  match { $p: Person  fuzzy($p.bio, "rivet", 1) } return { $p.name as n } order { n }
}
query ranked() { match { $p: Person } return { $p.name as n } order { bm25($p.bio, "maps") desc } limit 400 }
query near($v: Vector(4)) {
  match { $p: Person } return { $p.name as n } order { nearest($p.face, $v) } limit 5
}
query total() { match { $p: Person } return { count($p) as n } }
"""
PEOPLE = 400
LARGE = b"a photo that is kept in a file of its own" * 4_000


def people(first: int, count: int) -> pa.Table:
    """Rows of persons; all of it follows from their numbers."""
    numbers = range(first, first + count)
    chances = [Random(n) for n in numbers]
    return pa.table(
        {
            "name": [f"p{n:04d}" for n in numbers],
            "bio": [
                " ".join(one.choices(WORDS, k=4)) if n % 9 else None
                for n, one in zip(numbers, chances, strict=False)
            ],
            "age": pa.array([n % 40 if n % 7 else None for n in numbers], pa.int32()),
            "mood": [("calm", "loud")[n % 2] for n in numbers],
            "face": pa.array(
                [[one.random() for _ in range(4)] for one in chances], pa.list_(pa.float32(), 4)
            ),
        }
    )


def friendships(count: int) -> pa.Table:
    """Rows of edges."""
    return pa.table(
        {
            "from": [f"p{n % PEOPLE:04d}" for n in range(count)],
            "to": [f"p{(n * 7 + 1) % PEOPLE:04d}" for n in range(count)],
            "since": pa.array([1990 + n % 30 for n in range(count)], pa.int32()),
        }
    )


def build(root: Path | str, *, indexes: bool = True) -> None:
    """Make a graph with a branch, a tag, blobs, deletions and (or without) all kinds of indexes."""
    with init(root, SCHEMA) as graph:
        graph.load_nodes("Person", people(0, PEOPLE), mode="append")
        graph.load_edges("Knows", friendships(600), mode="append")
        if indexes:
            graph.ensure_indices()
        graph.tags.create("first", "main")
        graph.branches.create("side")
        graph.mutate('query m() { delete Person where name = "p0007" }')
        graph.mutate('query m() { update Person set { age: 3 } where name = "p0011" }')
        graph.blobs.write("node", "Person", "p0001", "photo", LARGE)
        graph.blobs.write("node", "Person", "p0002", "photo", b"small")
        graph.mutate(
            'query m() { update Person set { age: 4 } where name = "p0012" }', branch="side"
        )
        graph.load_nodes("Person", people(PEOPLE, 20), branch="side")


def answers(graph: Graph, **target: Any) -> dict[str, Any]:
    """What a state of the graph answers, through every kind of index."""
    asked: dict[str, list[dict[str, Any]]] = {
        "by_name": [{"n": f"p{n:04d}"} for n in (0, 7, 11, 12, 399, 405)],
        "friends": [{"n": f"p{n:04d}"} for n in (0, 57, 399)],
        "of_age": [{"a": a} for a in (3, 4, 33)],
        "words": [{}],
        "nearly": [{}],
        "ranked": [{}],
        "near": [{"v": [0.5, 0.5, 0.5, 0.5]}, {"v": [0.1, 0.9, 0.1, 0.9]}],
        "total": [{}],
    }
    found = {
        f"{name} {number}": [
            tuple(row.values())
            for row in graph.query(QUERIES, name=name, params=params, **target).rows
        ]
        for name, several in asked.items()
        for number, params in enumerate(several)
    }
    # Scores follow the statistics of the index that is used; which texts match does not.
    found["ranked 0"] = sorted(found["ranked 0"])
    return found


Damage = Callable[[Path], None]


def remove(path: Path) -> None:
    """Lose the file."""
    path.unlink()


def truncate(path: Path) -> None:
    """Keep the first half."""
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])


def empty(path: Path) -> None:
    """Keep the name alone."""
    path.write_bytes(b"")


def flip(place: float) -> Damage:
    """Turn the bits of one byte, at a part of the file's length."""

    def damage(path: Path) -> None:
        data = bytearray(path.read_bytes())
        if data:
            data[min(len(data) - 1, int(place * len(data)))] ^= 0xFF
        path.write_bytes(data)

    return damage


def break_footer(path: Path) -> None:
    """Make the footer count more buffers than there can be, for which Lance asks for 64 GB."""
    data = bytearray(path.read_bytes())
    data[-13] ^= 0xFF
    path.write_bytes(data)


def garble(path: Path) -> None:
    """Make nonsense of the first values; size and footer stay as they are."""
    data = bytearray(path.read_bytes())
    length = min(64, len(data) // 8)
    data[:length] = b"\xff" * length
    path.write_bytes(data)


class Restorable:
    """A graph on a disk that can be put back as it was; branches are tied to its place."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._kept = root.with_name(root.name + ".kept")
        shutil.copytree(root, self._kept)

    def restore(self) -> None:
        """Put all files back, and forget what was known of them."""
        shutil.rmtree(self.root)
        shutil.copytree(self._kept, self.root)
        forget_sessions()
        forget_damage()

    def files(self, pattern: str = "**/*") -> list[Path]:
        """All files of the graph, by name."""
        return sorted(path for path in self.root.glob(pattern) if path.is_file())

    def open(self, mode: Any = "rw") -> Graph:
        """Open it."""
        return open_graph(self.root, mode=mode)
