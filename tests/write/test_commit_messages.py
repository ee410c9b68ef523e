"""Messages of commits: every writer takes one, its commit keeps it, and all that shows commits shows it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

import omnigraph as og
from omnigraph.clock import new_ulid
from omnigraph.errors import BadRequest
from tests.cli.running import environment
from tests.pipeline.embedders import Recording
from tests.write.writing import run, state

SCHEMA = """
node Person { name: String @key  age: I64? }
node Note { slug: String @key  body: String?  vec: Vector(4)? @embed(body)  scan: Blob? }
"""
WIDER = SCHEMA.replace("age: I64?", "age: I64?  nick: String?")
SAID = "the May dump\n\nas the supplier sent it: “naïve”"
NOTES = [{"type": "Note", "data": {"slug": slug, "body": slug}} for slug in ("n", "o")]


@pytest.fixture
def graph(tmp_path):
    """Two notes without vectors on `main`, and a person more on `side`."""
    with og.init(tmp_path / "g", SCHEMA) as plain:
        plain.load(NOTES)
        plain.branches.create("side")
        run(plain, 'insert Person { name: "Sid" }', branch="side")
    with og.open(tmp_path / "g", embedder=Recording()) as graph:
        yield graph


def _apply(graph: og.Graph, **asked: Any) -> Any:
    graph.branches.delete("side")
    return graph.schema.apply(WIDER, **asked)


def _frame(rows: int) -> Any:
    import pyarrow as pa

    return pa.table({"name": [f"p{at}" for at in range(rows)]})


WRITES: dict[str, Callable[..., Any]] = {
    "mutate": lambda graph, **asked: run(graph, 'insert Person { name: "Ann" }', **asked),
    "load": lambda graph, **asked: graph.load(NOTES, **asked),
    "load_nodes": lambda graph, **asked: graph.load_nodes("Person", _frame(2), **asked),
    "embed": lambda graph, **asked: graph.embed(**asked),
    "blob": lambda graph, **asked: graph.blobs.write("node", "Note", "n", "scan", b"x", **asked),
    "merge": lambda graph, **asked: graph.branches.merge("side", **asked),
    "revert": lambda graph, **asked: graph.commits.revert(
        graph.commits.list(filter="operation=load", limit=1)[0].graph_commit_id, **asked
    ),
    "schema": _apply,
}


@pytest.mark.parametrize("chosen", [None, new_ulid()], ids=["plain", "with an operation id"])
@pytest.mark.parametrize("write", WRITES)
def test_the_commit_of_every_writer_keeps_its_message(graph, write, chosen):
    made = WRITES[write](graph, message=f"  {SAID}\n", operation_id=chosen).commit
    assert made.message == SAID
    assert made.to_json()["facts"]["message"] == SAID
    assert graph.commits.show(made.graph_commit_id).message == SAID
    assert graph.commits.list(limit=1)[0].message == SAID
    newest = graph.commits.history("main").to_json()["commits"][0]
    assert newest["facts"]["message"] == SAID
    assert graph.commits.changes(made.graph_commit_id).cause["message"] == SAID
    (block,) = graph.changes.poll(start=f"after:{made.parent_commit_id}").blocks
    assert block.to_json()["cause"]["message"] == SAID
    assert "the May dump" in str(made)


@pytest.mark.parametrize("write", WRITES)
def test_a_commit_without_a_message_says_nothing(graph, write):
    made = WRITES[write](graph).commit
    assert made.message is None
    assert "message" not in made.facts
    assert "message" not in graph.commits.changes(made.graph_commit_id).cause


@pytest.mark.parametrize("write", WRITES)
def test_a_write_sent_again_keeps_the_first_message(graph, write):
    chosen = new_ulid()
    first = WRITES[write](graph, message="first", operation_id=chosen)
    if write == "schema":
        again = graph.schema.apply(WIDER, message="second", operation_id=chosen)
    else:
        again = WRITES[write](graph, message="second", operation_id=chosen)
    assert again.replayed
    assert again.commit == first.commit
    assert graph.commits.list(limit=1)[0].message == "first"


BAD = {
    "empty": ("", "empty"),
    "blank": (" \n", "empty"),
    "bytes": (b"text", "bytes"),
    "a number": (7, "int"),
    "a byte too long": ("é" * 2048 + "x", "4,097 bytes"),
    "no text": ("\ud800", "UTF-8"),
}


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("write", [name for name in WRITES if name != "schema"])
def test_a_message_that_no_commit_can_hold_is_refused_before_anything_is_done(graph, write, bad):
    message, why = BAD[bad]
    before = state(graph)
    with pytest.raises(BadRequest, match=why):
        WRITES[write](graph, message=message)
    assert state(graph) == before


def test_a_schema_is_not_applied_with_a_message_that_is_too_long(tmp_path):
    with og.init(tmp_path / "g", SCHEMA) as graph:
        with pytest.raises(BadRequest, match="bytes"):
            graph.schema.apply(WIDER, message="x" * 4097)
        assert graph.schema.source == SCHEMA


def test_four_kibibytes_are_not_too_long(graph):
    longest = "é" * 2048
    assert run(graph, 'insert Person { name: "Ann" }', message=longest).commit.message == longest


def test_every_commit_of_an_embed_job_has_its_message(graph):
    notes = [{"type": "Note", "data": {"slug": f"s{at}", "body": "b"}} for at in range(1001)]
    with og.open(graph.uri) as without_embedder:
        without_embedder.load(notes)
    graph.embed(message="all vectors")
    made = graph.commits.list(filter="operation=embed")
    assert [one.message for one in made] == ["all vectors"] * 2


def test_the_first_commit_says_who_made_the_graph_and_why(tmp_path):
    with og.init(tmp_path / "g", SCHEMA, actor=" ada ", message="begin") as graph:
        (first,) = graph.commits.list()
        assert (first.actor_id, first.message) == ("ada", "begin")
        assert graph.commits.list(filter="actor=ada") == [first]
    with og.init(tmp_path / "nobody", SCHEMA) as graph:
        (first,) = graph.commits.list()
        assert (first.actor_id, first.message, dict(first.facts)) == (None, None, {})
    with pytest.raises(BadRequest):
        og.init(tmp_path / "none", SCHEMA, message="")
    assert not (tmp_path / "none").exists()


DYING = """
import sys
import omnigraph as og
og.open(sys.argv[1]).load([{"type": "Person", "data": {"name": "Ulm"}}], message=sys.argv[2])
"""


def test_a_recovered_commit_has_the_message_of_its_dead_writer(tmp_path):
    with og.init(tmp_path / "g", SCHEMA) as graph:
        root = graph.uri
    point = {"OMNIGRAPH_FAILPOINTS": "load.after_phase_b_before_phase_c=exit"}
    command = [sys.executable, "-c", DYING, root, SAID]
    died = subprocess.run(command, env=environment(tmp_path / "home", point), check=False)
    assert died.returncode != 0
    with og.open(root) as graph:
        newest = graph.commits.list(limit=1)[0]
        assert newest.actor_id == "omnigraph:recovery"
        assert newest.message == SAID
