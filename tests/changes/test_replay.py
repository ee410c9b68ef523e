"""Replaying the change feed from the beginning gives the content of the branch, whatever happened."""

from __future__ import annotations

import io
import json
import random
from contextlib import suppress

import pytest

import omnigraph
from omnigraph.errors import BranchInUse, MergeConflicts

SCHEMA = """
node Person { name: String @key  age: I32? }
edge Knows: Person -> Person
"""
AGE = "query q($name: String, $age: I32) { update Person set { age: $age } where name = $name }"
GONE = "query q($name: String) { delete Person where name = $name }"


def content(graph, branch):
    out = io.BytesIO()
    graph.export(out, branch=branch)
    found = {}
    for line in out.getvalue().splitlines():
        record = json.loads(line)
        values = record["data"]
        key = record.get("type", record.get("edge")), values.pop("id")
        ends = {"from": record["from"], "to": record["to"]} if "edge" in record else None
        found[key] = (values, ends)
    return found


def replay(graph, branch, limit):
    """Apply the blocks as a consumer does; what it is told about the past must be what it has."""
    held = {}
    page = graph.changes.poll(branch, start="beginning", limit=limit)
    while True:
        for block in page.blocks:
            for change in block.changes:
                key = change.type, change.id
                assert held.get(key) == image(change.before), "the feed skipped something"
                held[key] = image(change.after)
                if change.op == "delete":
                    del held[key]
        if page.next_page_token is not None:
            page = graph.changes.poll(branch, page_token=page.next_page_token, limit=limit)
        elif page.caught_up:
            return held
        else:
            page = graph.changes.poll(branch, cursor=page.cursor, limit=limit)


def image(shown):
    return None if shown is None else (shown["properties"], shown.get("endpoints"))


@pytest.mark.parametrize("seed", [2, 3])
def test_a_replayed_feed_is_the_branch(tmp_path, seed):
    choose = random.Random(seed)
    names = [f"p{at}" for at in range(6)]
    with omnigraph.init(tmp_path / "graph", SCHEMA) as graph:
        graph.branches.create("a")
        graph.branches.create("b")
        for step in range(16):
            branches = graph.branches.list()
            branch = choose.choice(branches)
            act = choose.choice(
                ["load", "load", "age", "gone", "create", "merge", "merge", "delete"]
            )
            if act == "create" and len(branches) < 3:
                graph.branches.create(choose.choice([n for n in "ab" if n not in branches]), branch)
            elif act == "merge" and len(branches) > 1:
                source = choose.choice([one for one in branches if one != branch])
                with suppress(MergeConflicts):
                    graph.branches.merge(source, branch, resolve="theirs")
            elif act == "delete" and branch != "main":
                with suppress(BranchInUse):
                    graph.branches.delete(branch)
            elif act == "age":
                graph.mutate(AGE, {"name": choose.choice(names), "age": step}, branch=branch)
            elif act == "gone":
                graph.mutate(GONE, {"name": choose.choice(names)}, branch=branch)
            else:
                some = choose.sample(names, 3)
                graph.load(
                    [{"type": "Person", "data": {"name": one, "age": step}} for one in some]
                    + [{"edge": "Knows", "from": some[0], "to": some[1]}],
                    branch=branch,
                )
        operations = {one.operation for b in graph.branches.list() for one in graph.commits.list(b)}
        assert operations >= {"load", "mutation", "branch_merge"}, (
            "the history has too little in it"
        )
        for branch in graph.branches.list():
            assert replay(graph, branch, choose.randint(1, 6)) == content(graph, branch)
