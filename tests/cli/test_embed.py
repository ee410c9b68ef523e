"""`omnigraph embed`: its document, its words, and its exit codes."""

import json

import pytest

import omnigraph as og
from tests.embeddings.server import OK, EmbeddingServer, Spoilt

SCHEMA = "node Note { slug: String @key  body: String?  vec: Vector(4)? @embed(body) }"
MOCK = {"OMNIGRAPH_EMBEDDINGS_MOCK": "1"}


@pytest.fixture
def notes(place):
    with og.init(place / "n.omni", SCHEMA) as graph:
        graph.load([{"type": "Note", "data": {"slug": s, "body": s}} for s in "abc"])
    return "n.omni"


def test_the_document_and_the_words(omnigraph, notes, place):
    done = omnigraph("embed", "--limit", "2", "--json", "--as", "ada", notes, env=MOCK)
    assert done.exit == 0, done.stderr
    document = json.loads(done.stdout)
    with og.open(place / notes, mode="r") as graph:
        head = graph.commits.list()[0].to_json()
    assert document == {
        "uri": notes, "branch": "main", "filled": 2, "pending": 1, "failed": 0, "commit": head,
    }  # fmt: skip
    assert (head["operation"], head["actor_id"]) == ("embed", "ada")
    done = omnigraph("embed", "--type", "Note", notes, env=MOCK)
    assert done.stdout.startswith("filled 1 vector on branch main\n  commit ")
    done = omnigraph("embed", "--json", notes)
    assert json.loads(done.stdout)["commit"] is None


def test_what_the_provider_refuses_is_counted_and_ends_with_1(omnigraph, notes):
    refuse = Spoilt(lambda vectors: [[0.0] * 4 for _ in vectors])
    # All three together, then one and two, then the two one by one.
    with EmbeddingServer(refuse, OK, refuse, OK, refuse) as server:
        done = omnigraph("embed", "--json", notes, env=server.environment())
    document = json.loads(done.stdout)
    assert (done.exit, document["filled"], document["pending"], document["failed"]) == (1, 2, 1, 1)
    assert document["commit"]["operation"] == "embed"


def test_failures(omnigraph, notes):
    done = omnigraph("embed", "--json", notes)
    assert (done.exit, json.loads(done.stdout)["kind"]) == (1, "provider")
    assert omnigraph("embed", "--type", "Nope", notes, env=MOCK).exit == 1
    assert omnigraph("embed", "--limit", "0", notes, env=MOCK).exit == 2
