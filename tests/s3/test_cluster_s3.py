"""A cluster in an object store: applied, read for serving without its directory, killed, deleted."""

from __future__ import annotations

import pytest

import omnigraph as og
from omnigraph import failpoints
from omnigraph.cluster.apply import apply
from omnigraph.cluster.commands import force_unlock, import_cluster, status
from omnigraph.cluster.planning import approve
from omnigraph.cluster.serving import read_serving
from omnigraph.errors import BadRequest, NotAGraph
from omnigraph.storage.objects.stores import open_store
from tests.cluster.conftest import Cluster
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
