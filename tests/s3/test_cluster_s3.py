"""A cluster in an object store: applied, read for serving without its directory, killed, deleted."""

from __future__ import annotations

import io

import pytest

import omnigraph as og
from omnigraph import failpoints
from omnigraph.cluster.apply import apply
from omnigraph.cluster.commands import force_unlock, import_cluster, status
from omnigraph.cluster.planning import approve
from omnigraph.cluster.served import read_serving
from omnigraph.errors import BadRequest, NotAGraph
from omnigraph.storage.objects.stores import open_store
from tests.cluster.conftest import QUERIES, SCHEMA, Cluster
from tests.cluster.deleting import POINTS, author, delete_once, make, write
from tests.cluster.processes import check_two_appliers
from tests.cluster.test_kills import DELETING, killed

CONFIG = """version: 1
storage: {root}
providers: {{ embedding: {{ e: {{ kind: openai, api_key: "${{EMBED_KEY}}" }} }} }}
graphs:
  library: {{ schema: library.pg, queries: reads.gq }}
  texts: {{ schema: library.pg, embedding_provider: e }}
policies:
  team: {{ file: team.yaml, applies_to: [library] }}
  ops: {{ file: ops.yaml, applies_to: [cluster] }}
"""


@pytest.fixture
def applied(s3_root, tmp_path):
    cluster = Cluster(tmp_path)
    cluster.config(CONFIG.format(root=s3_root.canonical))
    place = str(tmp_path)
    assert import_cluster(place)["ok"]
    assert apply(place, "ada")["converged"]
    return cluster


def test_it_is_served_without_its_directory(applied, s3_root):
    served = read_serving(s3_root.canonical, {})
    assert [one.id for one in served.graphs] == ["library"]
    assert served.quarantined.keys() == {"texts"}
    assert "EMBED_KEY" in served.quarantined["texts"]
    (library,) = served.graphs
    assert [query.name for query in library.queries] == ["authors"]
    assert library.bundle is not None
    assert served.server_bundle is not None
    both = read_serving(s3_root.canonical, {"EMBED_KEY": "k"})
    assert [one.id for one in both.graphs] == ["library", "texts"]
    assert apply(str(applied.path), "ada")["state_written"] is False
    store = open_store(s3_root)
    (blob,) = (name for name in store.list("__cluster/resources/query"))
    store.delete(blob)
    with pytest.raises(BadRequest, match="catalog_payload_missing"):
        read_serving(s3_root.canonical, {})


def test_two_appliers_in_two_processes(s3, s3_root, tmp_path, launcher):
    cluster = Cluster(tmp_path)
    graphs = "{ library: { schema: library.pg, queries: reads.gq } }"
    cluster.config(f"version: 1\nstorage: {s3_root.canonical}\ngraphs: {graphs}\n")
    check_two_appliers(cluster, launcher, s3.environment())


@pytest.mark.parametrize("point", POINTS)
def test_a_delete_before_the_locks_of_a_write(s3_root, point):
    uri = s3_root.canonical
    make(uri)
    with og.open(uri) as graph:
        with failpoints.arm(point, delete_once(uri)), pytest.raises(NotAGraph):
            write(graph, point)
        assert open_store(s3_root).list() == []
        with pytest.raises(NotAGraph):
            graph.load([author(2)])
        with pytest.raises(NotAGraph):
            graph.export(io.BytesIO())
        assert open_store(s3_root).list() == []


@pytest.mark.sampled(3, every=())
@pytest.mark.parametrize(
    "lost",
    [
        "lock.json",
        "recoveries",
        "state.json",
        "resources",
        "approvals",
        "deleted.json",
        "_versions",
    ],
)
def test_replies_that_are_lost_change_nothing(applied, s3, s3_root, lost):
    """A store that did what it was asked for, and hung up: the command goes on, or the next one converges."""
    place = str(applied.path)
    config = (applied.path / "cluster.yaml").read_text()
    applied.config(config.replace("  texts: { schema: library.pg, embedding_provider: e }\n", ""))
    applied.write("library.pg", SCHEMA.replace("@key\n", "@key\n    born: I32?\n"))
    applied.write("reads.gq", QUERIES.replace("authors", "writers"))

    def which(environ):
        return environ["REQUEST_METHOD"] in {"PUT", "DELETE"} and lost in environ["PATH_INFO"]

    hung_up = s3.lose_replies(which, times=3)
    assert approve(place, "graph.texts", "ada")["ok"]
    done = apply(place, "ada")
    assert (done["ok"], done["converged"]) == (True, True), done["diagnostics"]
    assert hung_up
    s3.disarm()
    again = apply(place, "ada")
    assert (again["converged"], again["state_written"]) == (True, False)
    store = open_store(s3_root)
    assert store.list("__cluster/recoveries") == []
    assert not store.exists("__cluster/lock.json")
    assert [name for name in store.list("graphs") if "texts" in name] == []
    with og.open(f"{s3_root.canonical}/graphs/library.omni", mode="r") as graph:
        assert len(graph.commits.list()) == 2


@pytest.mark.parametrize("point", [DELETING[2], DELETING[3], DELETING[5]])
def test_a_killed_delete_is_finished_and_leaves_nothing(applied, s3_root, monkeypatch, point):
    place = str(applied.path)
    uri = f"{s3_root.canonical}/graphs/texts.omni"
    config = (
        (applied.path / "cluster.yaml")
        .read_text()
        .replace("  texts: { schema: library.pg, embedding_provider: e }\n", "")
    )
    applied.config(config)
    assert approve(place, "graph.texts", "ada")["ok"]
    with og.open(uri) as held:
        killed(point, monkeypatch, lambda: apply(place, "ada"))
        seen = status(place)["state_observations"]
        assert force_unlock(place, seen["lock_id"])["lock_removed"]
        failpoints.disarm_all()
        done = apply(place, "ada")
        assert (done["ok"], done["converged"]) == (True, True), done["diagnostics"]
        with pytest.raises(NotAGraph):
            held.mutate('query q() { insert Author { name: "x" } }')
    left = [name for name in open_store(s3_root).list("graphs") if "texts" in name]
    assert left == []
