"""A small graph with a policy that records what it is asked, and all that its handle shows."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.policy import Decision, Question

SCHEMA = """
node Person { name: String @key  born: I32?  photo: Blob?  about: String?  v: Vector(2)? @embed(about) }
edge Knows: Person -> Person
"""
PERSON = {"type": "Person", "data": {"name": "ann", "photo": "base64:QUJD", "about": "tall"}}


class Lengths:
    """An embedder that needs no network."""

    model = "lengths"

    def embed(self, texts: list[str], dimension: int) -> list[list[float]]:
        """One vector a text: its length, over and over."""
        return [[float(len(text))] * dimension for text in texts]


@dataclass
class Recorder:
    """A policy that remembers what it is asked, and allows everything but the question of one number."""

    asked: list[Question] = field(default_factory=list)
    denied: int | None = None
    answer: Callable[[Question], Any] | None = None

    def check(self, question: Question) -> Any:
        """Remember the question; deny it if it is the one to be denied."""
        self.asked.append(question)
        if self.answer is not None:
            return self.answer(question)
        return Decision(len(self.asked) - 1 != self.denied, "rule-1", "not on a Sunday")

    @property
    def texts(self) -> list[str]:
        """The questions as texts: action, branch, target, with a dash for what there is not."""
        return [f"{one.action} {one.branch or '-'} {one.target or '-'}" for one in self.asked]

    def forget(self) -> None:
        """Begin again, allowing everything."""
        self.asked.clear()
        self.denied = self.answer = None


@dataclass
class World:
    """A graph that was opened with a policy, and the states of it that calls may name.

    Branch `side` has a commit of its own; `fresh` begins at a commit of `main` and has none. While
    ``is_shut``, what calls are to write is such that nobody may look at it.
    """

    policy: Recorder
    graph: og.Graph
    owner: og.Graph
    place: Path
    main_commit: str
    side_commit: str
    is_shut: bool = False

    @property
    def session(self) -> og.Session:
        """The graph as Ada uses it."""
        return self.graph.session("ada")

    def files(self) -> dict[str, tuple[int, int]]:
        """Every file of the graph with its size and time."""
        return {
            str(path.relative_to(self.place)): (path.stat().st_size, path.stat().st_mtime_ns)
            for path in self.place.rglob("*")
            if path.is_file()
        }

    def records(self, name: str) -> Any:
        """The record of one person."""
        return self._never() if self.is_shut else [{"type": "Person", "data": {"name": name}}]

    def frame(self, value: str, *columns: str) -> Any:
        """A frame of one row."""
        return self._never() if self.is_shut else pa.table({column: [value] for column in columns})

    def pieces(self) -> Iterator[bytes]:
        """The bytes of a blob."""
        return self._never() if self.is_shut else iter([b"new"])

    def source(self, text: str) -> str | Path:
        """A text in one of our languages; a file that is not there if nobody may look."""
        return self.place / "no-such-file" if self.is_shut else text

    def _never(self) -> Iterator[Any]:
        pytest.fail("the input of a denied call was read")
        yield


@contextmanager
def opened(place: Path, policy: Any = None) -> Iterator[World]:
    """Make the graph, and open it twice: for its owner, and with a policy, by default one that records."""
    policy = Recorder() if policy is None else policy
    with (
        og.init(place, SCHEMA, upkeep="off", embedder=Lengths()) as owner,
        og.open(place, policy=policy, upkeep="off", embedder=Lengths()) as graph,
    ):
        owner.load([PERSON])
        main = owner.snapshot().graph_commit_id
        owner.branches.create("side")
        owner.branches.create("fresh")
        side = owner.load([{"type": "Person", "data": {"name": "bea"}}], branch="side").commit
        owner.tags.create("of-main")
        owner.tags.create("of-side", at="side")
        yield World(policy, graph, owner, place, main, side.graph_commit_id)


def surface(handle: og.Session) -> dict[str, Any]:
    """Every public method and property of a handle and of its facets, by path; `tags.create`, say."""
    found: dict[str, Any] = {}
    for name in dir(handle):
        if name.startswith("_"):
            continue
        shown = getattr(type(handle), name, None)
        if shown is not None:
            found[name] = shown
            continue
        facet = type(getattr(handle, name))
        members = inspect.getmembers(facet)
        found |= {f"{name}.{inner}": one for inner, one in members if not inner.startswith("_")}
    return found
