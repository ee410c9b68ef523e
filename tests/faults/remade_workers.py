"""Every writer there is, on a branch that another process deletes and makes again meanwhile."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pyarrow as pa

import omnigraph.pipeline.datasource.commit
import omnigraph.pipeline.load
import omnigraph.write.mutate  # noqa: F401 - they declare the points that are armed here
from omnigraph import failpoints
from omnigraph.errors import OmniGraphError
from omnigraph.graph import Graph
from omnigraph.graph import open as open_graph
from omnigraph.pipeline.datasource.commit import commit_rows
from omnigraph.pipeline.datasource.options import write_options
from omnigraph.pipeline.datasource.write import plan_write, write_rows
from tests.commit.synthetic import drifted
from tests.opened import accepted_by, workspace_of
from tests.stored import read_back

SCHEMA = """
node Person { name: String @key  age: I64? @index }
edge Knows: Person -> Person
"""

Outcome = tuple[Any, ...]


@dataclass(frozen=True)
class Content:
    """The rows of a branch: ages by name, and edges by their ends."""

    people: dict[str, int]
    knows: tuple[tuple[str, str], ...] = ()

    def put(self, **people: int) -> Content:
        return replace(self, people={**self.people, **people})

    def link(self, *ends: tuple[str, str]) -> Content:
        return replace(self, knows=tuple(sorted([*self.knows, *ends])))


BASE = Content({"base1": 1, "base2": 2})


def records(content: Content) -> list[dict[str, Any]]:
    people = [{"type": "Person", "data": {"name": n, "age": a}} for n, a in content.people.items()]
    return people + [{"edge": "Knows", "from": a, "to": b} for a, b in content.knows]


def filled(content: Content, who: str) -> Content:
    """What two commits add; each kind of branch has rows of its own, and one name in common."""
    age = AGES[who]
    more = content.put(**{f"{who}1": age, "both": age, f"{who}2": age})
    return more.link((f"{who}1", f"{who}2"))


AGES = {"old": 7, "new": 8, "parent": 5, "again": 6}


def fill(graph: Graph, branch: str, who: str) -> None:
    """Two commits: the same number of versions of each table, whoever fills."""
    age = AGES[who]
    graph.load(records(Content({f"{who}1": age, "both": age})), branch=branch)
    second = Content({f"{who}2": age}, ((f"{who}1", f"{who}2"),))
    graph.load(records(second), branch=branch)


# ------------------------------------------------------------------ the writers


@dataclass(frozen=True)
class Kind:
    """A writer: how it writes, and what must become of it on a branch with other content.

    ``judge`` gives the code of its error (or "done") with the content after it. ``loses`` says that
    it may be told of its lost race instead; ``on_old`` that it needs rows of the old branch.
    """

    run: Callable[..., Any]
    judge: Callable[[Content], tuple[str, Content]]
    writer: str = "mutation"
    loses: bool = False
    on_old: bool = False


def mutation(body: str) -> Callable[..., Any]:
    def run(graph: Graph, branch: str, **options: Any) -> tuple[int, int]:
        result = graph.mutate(f"query q() {{ {body} }}", branch=branch, **options)
        return result.affected_nodes, result.affected_edges

    return run


def loading(content: Content, mode: Any) -> Callable[..., Any]:
    def run(graph: Graph, branch: str, **options: Any) -> int:
        given = records(content)
        return graph.load(given, branch=branch, mode=mode, engine="local", **options).total_rows

    return run


def data_source(people: dict[str, int], **options: str) -> Callable[..., Any]:
    """What the data source does with one task, without Spark."""

    def run(graph: Graph, branch: str) -> int:
        ages = pa.array(people.values(), pa.int64())
        batch = pa.record_batch({"name": pa.array(people), "age": ages})
        asked = write_options({"graph": graph.uri, "type": "Person", "branch": branch, **options})
        plan = plan_write(
            workspace_of(graph), accepted_by(graph), asked, batch.schema, overwrite=False
        )
        return commit_rows(workspace_of(graph), plan, [write_rows(plan, [batch], 0)]).total_rows

    return run


def build_indexes(graph: Graph, branch: str) -> list[str]:
    report = graph.ensure_indices(branch=branch)
    assert report.failed == []
    return sorted(f"{key}.{name}" for key, name in report.built)


def compact_tables(graph: Graph, branch: str) -> int:
    report = graph.optimize(branch)
    assert report.failed == ()
    return sum(row.fragments_removed for row in report)


def same(content: Content) -> tuple[str, Content]:
    return "done", content


def dangling(content: Content) -> tuple[str, Content]:
    return "constraint", content


def appended(content: Content) -> tuple[str, Content]:
    return ("key_conflict", content) if "new1" in content.people else ("done", content.put(new1=0))


def overwritten(content: Content) -> tuple[str, Content]:
    """Nodes alone: the edges of the branch stay, and may lose an end."""
    return ("constraint", content) if content.knows else ("done", Content({"old1": 0, "old2": 0}))


def without_base(content: Content) -> tuple[str, Content]:
    return "done", replace(content, people={n: a for n, a in content.people.items() if n != "base1"})  # fmt: skip


MERGED = Content({"both": 50, "w": 9}, (("w", "base1"),))
REPLACED = Content({"o1": 1, "o2": 2}, (("o1", "o2"),))

KINDS = {
    "insert": Kind(
        mutation('insert Person { name: "w", age: 9 }'), lambda on: ("done", on.put(w=9))
    ),
    "update": Kind(
        mutation("update Person set { age: 70 } where age = 1"),
        lambda on: ("done", on.put(base1=70)),
    ),
    "update-old": Kind(
        mutation("update Person set { age: 70 } where age = 7"), same, on_old=True
    ),
    "delete": Kind(mutation('delete Person where name = "base1"'), without_base),
    "delete-old": Kind(mutation("delete Person where age = 7"), same, on_old=True),
    "edge": Kind(
        mutation('insert Knows { from: "base1", to: "base2" }'),
        lambda on: ("done", on.link(("base1", "base2"))),
    ),
    "edge-old": Kind(
        mutation('insert Knows { from: "old1", to: "base1" }'), dangling, on_old=True
    ),
    "merge": Kind(
        loading(MERGED, "merge"),
        lambda on: ("done", on.put(**MERGED.people).link(*MERGED.knows)),
        "load",
    ),
    "append": Kind(
        loading(Content({"w": 9}), "append"), lambda on: ("done", on.put(w=9)), "load"
    ),
    "append-strict": Kind(loading(Content({"new1": 0}), "append"), appended, "load"),
    "overwrite": Kind(
        loading(REPLACED, "overwrite"), lambda _on: ("done", REPLACED), "load"
    ),
    "overwrite-nodes": Kind(
        loading(Content({"old1": 0, "old2": 0}), "overwrite"), overwritten, "load", on_old=True
    ),
    "empty": Kind(loading(Content({}), "merge"), same, "load"),
    # What tasks wrote for a branch may have gone with it.
    "data-source": Kind(
        data_source({"w": 9}), lambda on: ("done", on.put(w=9)), "load", loses=True
    ),
    "data-source-merge": Kind(
        data_source({"both": 50, "w": 9}, merge="true"),
        lambda on: ("done", on.put(both=50, w=9)),
        "load",
        loses=True,
    ),
    "indexes": Kind(build_indexes, same, "ensure_indices", loses=True),
    "compaction": Kind(compact_tables, same, "optimize", loses=True, on_old=True),
}  # fmt: skip


# ------------------------------------------------------------------ the processes


def serve_writes(pipe: Connection, environment: dict[str, str]) -> None:
    """Write whenever told, as (uri, branch, kind, options, moment, place of the pause).

    Then, on the same handle: `again` writes one more row, anything else ends with it.
    """
    os.environ.update(environment)
    while True:
        uri, branch, name, options, moment, place = pipe.recv()
        kind = KINDS[name]
        with open_graph(uri) as graph:
            if options.pop("at_head", False):
                options["if_commit"] = graph.snapshot(branch=branch).graph_commit_id
            point = f"{kind.writer}.{moment}"
            with failpoints.arm(point, failpoints.FilePause(Path(place)), times=1):
                pipe.send(outcome(kind.run, graph, branch, **options))
            if pipe.recv() == "again":
                pipe.send(outcome(mutation('insert Person { name: "again" }'), graph, branch))


def outcome(run: Callable[..., Any], *arguments: Any, **options: Any) -> Outcome:
    """("done", what it gave), or the code of its error with the message."""
    try:
        return "done", run(*arguments, **options)
    except OmniGraphError as error:
        return error.code, str(error)
    except Exception as error:  # noqa: BLE001 - told to the test, which expects none
        return type(error).__name__, str(error)


def look(uri: str, branch: str) -> tuple[Content, list[str], list[str]]:
    """What a process reads that has nothing of the graph yet; tables that drifted; sidecars."""
    with open_graph(uri, mode="r") as graph:
        asked = graph.query(
            "query q() { match { $p: Person } return { $p.name, $p.age } }", branch=branch
        )
        people = {row["p.name"]: row["p.age"] for row in asked}
        plain = read_back(graph, branch)
        assert {name: row["age"] for name, row in plain.nodes["Person"].items()} == people
        knows = sorted((src, dst) for _, src, dst, _ in plain.edges["Knows"])
        walked = graph.query(
            "query q() { match { $a: Person $a knows $b } return { $a.name, $b.name } }",
            branch=branch,
        )
        assert sorted((row["a.name"], row["b.name"]) for row in walked) == knows
        one = graph.query(
            "query q($n: I64) { match { $p: Person $p.age = $n } return { $p.name } }",
            params={"n": AGES["new"]},
            branch=branch,
        )
        found = {row["p.name"] for row in one}
        assert found == {name for name, age in people.items() if age == AGES["new"]}
        content = Content(people, tuple(knows))
        return content, drifted(graph, branch), workspace_of(graph).store.list("__recovery")
