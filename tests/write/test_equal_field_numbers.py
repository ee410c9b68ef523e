"""Lance numbers columns for itself: two branches number different columns alike, and freed numbers come again.

Every state must be read right all the same, with its indexes and blobs.
"""

from __future__ import annotations

import io
import json

import pytest

import omnigraph as og
from omnigraph.errors import HistoryReclaimed
from omnigraph.storage.tables.indexing.table_indexes import list_indexes
from omnigraph.storage.tables.table import open_table
from tests.opened import workspace_of

SCHEMA = "node Ship { imo: String @key  flag: String? }\n"
BYTES = {1: "base64:AQID", 2: "base64:BAU="}
KINDS = {
    "number": ("I32? @index", {1: 11, 2: 22}),
    "text": ("String? @index", {1: "eleven", 2: "twenty"}),
    "blob": ("Blob?", BYTES),
}


def with_property(name, kind):
    return SCHEMA.replace("flag: String?", f"flag: String?  {name}: {kind}")


class Seen:
    """What every commit of a graph held when it was made."""

    def __init__(self, graph):
        self.graph = graph
        self.commits = {}

    def content(self, **where):
        out = io.BytesIO()
        self.graph.export(out, **where)
        return [json.loads(line)["data"] for line in out.getvalue().splitlines()]

    def note(self, branch, expected):
        """The head of a branch holds exactly these rows."""
        assert self.content(branch=branch) == expected
        self.commits[self.graph.snapshot(branch=branch).graph_commit_id] = expected

    def check(self):
        """Every commit that is there still holds what it held, in every state that can be branched from."""
        read = 0
        for at, (commit, expected) in enumerate(self.commits.items()):
            try:
                self.graph.branches.create(f"past{at}", from_=og.at(snapshot=commit))
            except HistoryReclaimed:
                continue
            assert self.content(branch=f"past{at}") == expected
            self.graph.branches.delete(f"past{at}")
            read += 1
        return read


def table_of(graph, branch):
    workspace = workspace_of(graph)
    pin = workspace.manifest.state(branch).head.tables["node:Ship"]
    return open_table(workspace.pinned(pin))


def ship(number, name, values):
    return {"type": "Ship", "data": {"imo": f"S{number}", "flag": "NO", name: values[number]}}


def image(number, **more):
    return {"id": f"S{number}", "imo": f"S{number}", "flag": "NO", **more}


def found_by(graph, name, value, branch):
    text = f"query q($v: {type_word(value)}) {{ match {{ $s: Ship {{ {name}: $v }} }} return {{ $s.imo }} }}"
    return [
        next(iter(row.values()))
        for row in graph.query(text, params={"v": value}, branch=branch).rows
    ]


def type_word(value):
    return "I32" if isinstance(value, int) else "String"


@pytest.fixture
def graph(tmp_path):
    with og.init(tmp_path / "g", SCHEMA) as graph:
        graph.load([{"type": "Ship", "data": {"imo": f"S{at}", "flag": "NO"}} for at in (1, 2)])
        yield graph


PAIRS = [("number", "text"), ("blob", "number"), ("text", "blob")]


@pytest.mark.parametrize(("ours", "theirs"), PAIRS)
def test_two_branches_number_different_columns_alike(graph, ours, theirs):
    seen = Seen(graph)
    graph.branches.create("feature")
    seen.note("main", [image(1), image(2)])
    sides = {"main": ("mine", *KINDS[ours]), "feature": ("theirs", *KINDS[theirs])}
    for branch, (name, kind, values) in sides.items():
        graph.schema.apply(with_property(name, kind), branch=branch)
        seen.note(branch, [image(1, **{name: None}), image(2, **{name: None})])
        graph.load([ship(1, name, values)], branch=branch)
        graph.ensure_indices(branch=branch)
        graph.load([ship(2, name, values)], branch=branch)
        seen.note(branch, [image(at, **{name: values[at]}) for at in (1, 2)])
    numbers = [table_of(graph, branch).field_ids()[sides[branch][0]] for branch in sides]
    assert numbers[0] == numbers[1]
    for branch, (name, kind, values) in sides.items():
        if "@index" in kind:
            assert any(one.column == name for one in list_indexes(table_of(graph, branch)))
            assert found_by(graph, name, values[2], branch) == ["S2"]
    there, back = graph.diff("main", "feature").changes, graph.diff("feature", "main").changes
    mine, others = sides["main"], sides["feature"]
    assert [(one.id, one.op) for one in there] == [("S1", "update"), ("S2", "update")]
    assert [(one.before, one.after) for one in there] == [(one.after, one.before) for one in back]
    assert there[0].before["properties"][mine[0]] == mine[2][1]
    assert there[0].after["properties"][others[0]] == others[2][1]
    assert seen.check() == len(seen.commits)
    for source, target in (("feature", "main"), ("main", "feature")):
        graph.branches.merge(source, target)
        both = [{mine[0]: mine[2][at], others[0]: others[2][at]} for at in (1, 2)]
        seen.note(target, [image(at, **both[at - 1]) for at in (1, 2)])
        for name, kind, values in sides.values():
            if "@index" in kind:
                assert found_by(graph, name, values[1], target) == ["S1"]
    assert seen.check() == len(seen.commits)


@pytest.mark.parametrize(("first", "second"), PAIRS)
@pytest.mark.parametrize("branch", ["main", "feature"])
def test_a_freed_number_is_given_again(graph, branch, first, second):
    seen = Seen(graph)
    graph.branches.create("feature")
    (kind, values), (other_kind, other_values) = KINDS[first], KINDS[second]
    graph.schema.apply(with_property("x", kind), branch=branch)
    graph.load([ship(1, "x", values), ship(2, "x", values)], branch=branch)
    graph.ensure_indices(branch=branch)
    seen.note(branch, [image(at, x=values[at]) for at in (1, 2)])
    graph.tags.create("kept", at=og.at(branch=branch))
    freed = table_of(graph, branch).field_ids()["x"]
    graph.schema.apply(SCHEMA, branch=branch)
    graph.load([{"type": "Ship", "data": {"imo": "S2", "flag": "NO"}}], branch=branch)
    graph.optimize(branch)
    graph.cleanup(keep_versions=1)
    seen.note(branch, [image(1), image(2)])
    # An index of the same name, too, where both have one: the first column of the name, then another.
    graph.schema.apply(with_property("x", other_kind), branch=branch)
    assert table_of(graph, branch).field_ids()["x"] == freed
    seen.note(branch, [image(at, x=None) for at in (1, 2)])
    graph.load([ship(1, "x", other_values)], branch=branch)
    graph.ensure_indices(branch=branch)
    graph.load([ship(2, "x", other_values)], branch=branch)
    seen.note(branch, [image(at, x=other_values[at]) for at in (1, 2)])
    if "@index" in other_kind:
        assert found_by(graph, "x", other_values[1], branch) == ["S1"]
        assert found_by(graph, "x", other_values[2], branch) == ["S2"]
    assert seen.check() >= 3
    (before, after) = (og.at(tag="kept"), og.at(branch=branch))
    for one in graph.diff(before, after).changes:
        number = int(one.id[1:])
        assert "x" not in one.before["properties"]
        assert one.after["properties"]["x"] == other_values[number]
    assert len(graph.diff(before, after).changes) == 2
