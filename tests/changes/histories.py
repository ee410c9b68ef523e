"""Random histories of a graph with branches, in which every state that was published is kept."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from random import Random

import omnigraph as og
from omnigraph import failpoints
from omnigraph.errors import RecoveryRequired
from omnigraph.manifest.snapshot import Snapshot

SCHEMA = """
node Doc { name: String @key
  n: I32?
  x: F64?
  tags: [String]?
  at: DateTime?
  body: Blob? }
edge Cites: Doc -> Doc { why: String? }
"""
LATER = SCHEMA.replace("n: I32?", 'num: I32? @rename_from("n")').replace(
    "why: String?", "why: String?\n  page: I32?"
)
NAMES = [f"d{number}" for number in range(12)]


class History:
    """A graph, and every state of it that can still be read."""

    def __init__(self, graph: og.Graph, random: Random) -> None:
        self.graph = graph
        self.random = random
        self.states: list[Snapshot] = []
        self.schema = SCHEMA
        self.did: list[str] = []
        self._number = "n"
        self._load("append", NAMES, "main")
        graph.ensure_indices(engine="local")
        self.keep("main")

    @property
    def branches(self) -> list[str]:
        return self.graph.branches.list()

    def keep(self, branch: str) -> None:
        self.states.append(self.graph.snapshot(branch=branch))

    def step(self) -> None:
        """One random operation on one random branch."""
        branch = self.random.choice(self.branches)
        act: Callable[[str], None] = self.random.choice(
            [
                self.upsert, self.upsert, self.append, self.update, self.delete, self.overwrite,
                self.roll_back, self.compact, self.fork, self.fork, self.write_blob, self.remake,
                self.change_schema,
            ]
        )  # fmt: skip
        self.did.append(f"{act.__name__} {branch}")
        act(branch)
        if branch in self.branches:
            self.keep(branch)

    def upsert(self, branch: str) -> None:
        self._load("merge", self._some(), branch)

    def append(self, branch: str) -> None:
        self._load("append", [f"new{self.random.randrange(10**9)}"], branch)

    def overwrite(self, branch: str) -> None:
        self._load("overwrite", self._some(), branch)

    def update(self, branch: str) -> None:
        name, number = self.random.choice(NAMES), self.random.randrange(3)
        self.graph.mutate(
            f'query q() {{ update Doc set {{ {self._number}: {number} }} where name = "{name}" }}',
            branch=branch,
        )

    def delete(self, branch: str) -> None:
        name = self.random.choice(NAMES)
        self.graph.mutate(f'query q() {{ delete Doc where name = "{name}" }}', branch=branch)

    def write_blob(self, branch: str) -> None:
        name = self.random.choice(NAMES)
        data = self.random.choice([b"", b"a" * 70_000, b"b" * 70_000, None])
        with suppress(og.errors.EntityNotFound):
            self.graph.blobs.write("node", "Doc", name, "body", data, branch=branch)

    def roll_back(self, branch: str) -> None:
        """A load dies after its first table; opening the graph again restores that table."""
        with failpoints.arm("load.after_table_commit", times=1), suppress(RecoveryRequired):
            self._load("merge", self._some(), branch)
        self.graph.close()
        self.graph = og.open(self.graph.uri)
        self.keep(branch)
        self._load("merge", self._some(), branch)

    def compact(self, branch: str) -> None:
        self.graph.optimize(branch)

    def fork(self, branch: str) -> None:
        free = [name for name in ("one", "two", "three") if name not in self.branches]
        if free:
            self.graph.branches.create(free[0], from_=branch)
            self._load("merge", self._some(), free[0])
            self.keep(free[0])

    def remake(self, branch: str) -> None:
        """Delete a branch and make it again from main; its old states cannot be read any more."""
        if branch == "main":
            return
        with suppress(og.errors.BranchInUse):
            self.graph.branches.delete(branch)
            self.states = [one for one in self.states if not self._is_of(one, branch)]
            self.graph.branches.create(branch)
            self._load("merge", self._some(), branch)

    def change_schema(self, branch: str) -> None:
        if self.schema == SCHEMA and self.branches == ["main"]:
            self.graph.schema.apply(LATER)
            self.schema, self._number = LATER, "num"

    def _is_of(self, state: Snapshot, branch: str) -> bool:
        return state.branch == branch or any(
            table.table_branch == branch for table in state.tables.values()
        )

    def _some(self) -> list[str]:
        return self.random.sample(NAMES, self.random.randrange(1, 5))

    def _load(self, mode: str, names: list[str], branch: str) -> None:
        draw = self.random.choice
        records = [
            {
                "type": "Doc",
                "data": {
                    "name": name,
                    self._number: draw([None, 0, 1]),
                    "x": draw([None, 0.0, -0.0, 1.5]),
                    "tags": draw([None, [], [""], ["a", "b"]]),
                    "at": draw([None, "2026-01-02T03:04:05Z"]),
                    "body": draw([None, "base64:", "base64:YWJj"]),
                },
            }
            for name in names
        ]
        ends = (draw(names), draw(names))
        cites = {"edge": "Cites", "from": ends[0], "to": ends[1], "data": {"id": draw(NAMES)}}
        if mode == "append":
            cites["data"] = {"id": f"c{self.random.randrange(10**9)}"}
        self.graph.load([*records, cites], mode=mode, branch=branch)
