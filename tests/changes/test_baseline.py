"""Baselines: a state of a branch on disk, and the cursor that goes on exactly there."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path

import pytest

import omnigraph
from omnigraph.errors import BadRequest, BranchNotFound, CursorRejected

SCHEMA = (
    "node Person { name: String @key }\nnode Team { code: String @key }\nedge In: Person -> Team"
)


@pytest.fixture
def graph(tmp_path):
    with omnigraph.init(tmp_path / "graph", SCHEMA) as graph:
        load(graph, "ann", "bob")
        graph.load([
            {"type": "Team", "data": {"code": "t"}},
            {"edge": "In", "from": "ann", "to": "t", "data": {"id": "e"}},
        ])  # fmt: skip
        yield graph


def load(graph, *names, branch="main"):
    records = [{"type": "Person", "data": {"name": name}} for name in names]
    return graph.load(records, branch=branch).commit.graph_commit_id


def ids(data):
    return [json.loads(line)["data"]["id"] for line in data.splitlines()]


def test_a_baseline_is_an_export_and_its_cursor_goes_on_after_it(graph, tmp_path):
    out, exported = tmp_path / "baseline", io.BytesIO()
    head = graph.snapshot().graph_commit_id
    done = graph.changes.baseline(out)
    graph.export(exported)
    assert out.read_bytes() == exported.getvalue()
    assert done.snapshot_commit_id == head
    assert done.stats.records == 4
    assert done.to_json().keys() == {"snapshot_commit_id", "resume_cursor", "stats"}
    following = load(graph, "cid")
    page = graph.changes.poll(cursor=done.resume_cursor)
    assert [block.commit.graph_commit_id for block in page.blocks] == [following]


def test_what_is_committed_meanwhile_comes_first_from_the_cursor(graph):
    out, made = io.BytesIO(), []

    def commit_once(*_):
        if not made:
            made.append(load(graph, "late"))

    done = graph.changes.baseline(out, progress=commit_once)
    assert ids(out.getvalue()) == ["ann", "bob", "t", "e"]
    page = graph.changes.poll(cursor=done.resume_cursor)
    assert [block.commit.graph_commit_id for block in page.blocks] == made


def test_an_interrupted_baseline_gives_no_cursor_and_no_file(graph, tmp_path):
    out = tmp_path / "baseline"
    out.write_text("the one before\n")

    def stop(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        graph.changes.baseline(out, progress=stop)
    assert out.read_text() == "the one before\n"
    assert [path.name for path in tmp_path.iterdir() if path.name != "graph"] == ["baseline"]


def test_kinds_and_types_restrict_what_is_written_and_ops_only_the_cursor(graph):
    def written(**filter):
        out = io.BytesIO()
        return graph.changes.baseline(out, **filter), ids(out.getvalue())

    done, people = written(types=["Person"], ops=["delete"])
    assert people == ["ann", "bob"]
    load(graph, "cid")
    page = graph.changes.poll(cursor=done.resume_cursor, types=["Person"], ops=["delete"])
    assert [block.changes for block in page.blocks] == [()]
    with pytest.raises(CursorRejected, match="filter"):
        graph.changes.poll(cursor=done.resume_cursor, types=["Person"])
    assert written(kinds=["edge"])[1] == ["e"]
    with pytest.raises(BadRequest, match="Boat"):
        written(types=["Boat"])
    with pytest.raises(BranchNotFound):
        graph.changes.baseline(io.BytesIO(), "ghost")


def test_a_branch_and_its_incarnation(graph):
    graph.branches.create("side")
    load(graph, "cid", branch="side")
    done = graph.changes.baseline(io.BytesIO(), "side")
    assert graph.changes.poll("side", cursor=done.resume_cursor).caught_up
    graph.branches.delete("side")
    graph.branches.create("side")
    with pytest.raises(CursorRejected, match="made again"):
        graph.changes.poll("side", cursor=done.resume_cursor)


def test_the_file_and_its_directory_are_on_disk_before_the_cursor_is_known(
    graph, tmp_path, monkeypatch
):
    out, synced, sync = tmp_path / "new" / "baseline", [], os.fsync
    out.parent.mkdir()

    def recorded(handle):
        sync(handle)
        place = Path(f"/proc/self/fd/{handle}").resolve()
        if out.parent in {place, place.parent}:
            synced.append((place.is_dir(), out.exists()))

    monkeypatch.setattr(os, "fsync", recorded)
    graph.changes.baseline(out)
    # The bytes before the file has its name, the directory after.
    assert synced == [(False, False), (True, True)]
