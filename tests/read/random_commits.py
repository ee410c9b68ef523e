"""A small graph and random commits on its branches."""

from __future__ import annotations

import random

from omnigraph.graph import Graph
from omnigraph.storage.tables.table import open_table
from tests.graphs import person
from tests.opened import workspace_of
from tests.read.view_helpers import city, edge
from tests.write.writing import run

PEOPLE = [f"p{number:02}" for number in range(60)]


def fill(graph: Graph) -> None:
    """Sixty persons who know each other and live in twenty cities."""
    knows = [edge("Knows", one, PEOPLE[at * 7 % 60]) for at, one in enumerate(PEOPLE)]
    lives = [edge("LivesIn", one, f"c{at % 20}") for at, one in enumerate(PEOPLE)]
    cities = [city(f"c{number}") for number in range(20)]
    graph.load([*map(person, PEOPLE), *cities, *knows, *lives])


class Writer:
    """Random commits on any branch of a graph."""

    def __init__(self, graph: Graph, seed: int) -> None:
        self.graph = graph
        self.random = random.Random(seed)
        self.branches = ["main"]
        self.made = 0
        self.deleted = PEOPLE[0]

    def step(self) -> None:
        acts = [self.insert, self.upsert, self.update, self.delete_node, self.connect]
        acts += [self.disconnect, self.replace, self.branch, self.drop]
        act = self.random.choices(acts, [4, 2, 1, 3, 3, 2, 1, 2, 1])[0]
        act(self.random.choice(self.branches))

    def people(self, branch: str) -> list[str]:
        pin = self.graph.snapshot(branch=branch).tables["node:Person"]
        return sorted(
            open_table(workspace_of(self.graph).pinned(pin)).read(["id"])["id"].to_pylist()
        )

    def anyone(self, branch: str) -> str:
        return self.random.choice(self.people(branch))

    def insert(self, branch: str) -> None:
        self.made += 1
        name = f"{self.random.choice('aqz')}{self.made}"
        run(
            self.graph,
            f'insert Person {{ name: "{name}" }} '
            f'insert Knows {{ from: "{name}", to: "{self.anyone(branch)}" }}',
            branch=branch,
        )

    def upsert(self, branch: str) -> None:
        names = {self.anyone(branch), f"m{self.made}"}
        self.graph.load([person(name, age=self.made) for name in names], branch=branch)

    def update(self, branch: str) -> None:
        where = f'where name = "{self.anyone(branch)}"'
        run(self.graph, f"update Person set {{ age: {self.made} }} {where}", branch=branch)

    def delete_node(self, branch: str) -> None:
        self.deleted = name = self.anyone(branch)
        run(self.graph, f'delete Person where name = "{name}"', branch=branch)
        if self.random.random() < 0.3:
            self.graph.load([person(name), edge("Knows", name, name)], branch=branch)

    def connect(self, branch: str) -> None:
        ends = f'from: "{self.anyone(branch)}", to: "{self.anyone(branch)}"'
        run(self.graph, f"insert Knows {{ {ends} }}", branch=branch)

    def disconnect(self, branch: str) -> None:
        run(self.graph, f'delete Knows where from = "{self.anyone(branch)}"', branch=branch)

    def replace(self, branch: str) -> None:
        # All rows get new row ids, and the edges that name them stay.
        kept = [person(name) for name in self.people(branch)]
        self.graph.load(kept, mode="overwrite", branch=branch)

    def branch(self, branch: str) -> None:
        if len(self.branches) < 3:
            self.made += 1
            self.branches.append(self.random.choice(["one", "two", f"b{self.made}"]))
            if self.branches[-1] in self.branches[:-1]:
                self.branches.pop()
            else:
                self.graph.branches.create(self.branches[-1], branch)

    def drop(self, branch: str) -> None:
        if branch != "main" and branch == self.branches[-1]:
            self.graph.branches.delete(self.branches.pop())
