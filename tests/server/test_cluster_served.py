"""Clusters as they are served: a graph that is deleted or migrated meanwhile, and what boot leaves out."""

from __future__ import annotations

import json
import shutil
import threading
import urllib.request
from contextlib import suppress
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.cluster.apply import apply
from omnigraph.cluster.commands import import_cluster
from omnigraph.cluster.planning import approve
from omnigraph.errors import Contention, NotAGraph, OmniGraphError
from omnigraph.server.process.cluster_watch import ClusterWatch
from omnigraph.storage.locks import read_leases
from tests.cluster.conftest import QUERIES, SCHEMA, Cluster
from tests.server.running import LONG, run_server
from tests.server.test_workers import send

TWO = ("--workers", "2")
NAMES = "query n() { match { $a: Author } return { $a.name as name } }"
ADD = "query add($name: String) { insert Author { name: $name } }"
GRAPHS = """version: 1
graphs:
  library: { schema: library.pg, queries: reads.gq }
  shop: { schema: library.pg }
"""
WITHOUT_LIBRARY = "version: 1\ngraphs: { shop: { schema: library.pg } }\n"


@pytest.fixture
def applied(tmp_path):
    cluster = Cluster(tmp_path / "cluster")
    cluster.config(GRAPHS)
    place = str(cluster.path)
    assert import_cluster(place)["ok"]
    assert apply(place)["converged"]
    return cluster


def read(server, graph, name="query"):
    return send(server, "POST", f"/graphs/{graph}/{name}", {"query": NAMES})


def everything_below(path: Path):
    return sorted(str(one) for one in path.rglob("*")) if path.exists() else None


class Loader(threading.Thread):
    """Loads into a graph by a handle of its own until that fails."""

    def __init__(self, uri, record):
        super().__init__(daemon=True)
        self.uri, self.record = uri, record
        self.count, self.failed = 0, None
        self.began = threading.Event()

    def run(self):
        with og.open(self.uri) as graph:
            try:
                while True:
                    with suppress(Contention):  # others write, too, and may take long
                        graph.load([self.record(self.count)])
                        self.count += 1
                    if self.count == 3:
                        self.began.set()
            except OmniGraphError as error:
                self.failed = error
            self.began.set()


def author(number):
    return {"type": "Author", "data": {"name": f"a{number}"}}


class Asker(threading.Thread):
    """Writes by HTTP until it is told that there is no graph."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.server, self.last, self.strange = server, None, []

    def run(self):
        number = 0
        while self.last != 404:
            number += 1
            body = {"query": ADD, "params": {"name": f"h{number}"}}
            self.last, document = send(self.server, "POST", "/graphs/library/mutate", body)
            if self.last not in {200, 404, 409, 429}:
                self.strange.append((self.last, document))
                return


def test_a_graph_that_is_deleted_while_workers_serve_it_and_writers_load(applied, start):
    place, root = str(applied.path), applied.path / "graphs/library.omni"
    server = start("--cluster", place, "--unauthenticated", *TWO)
    assert read(server, "library")[0] == 200
    loader, asker = Loader(str(root), author), Asker(server)
    loader.start()
    asker.start()
    assert loader.began.wait(LONG)
    applied.config(WITHOUT_LIBRARY)
    assert approve(place, "graph.library", "ada")["ok"]
    done = apply(place)
    assert (done["ok"], done["converged"]) == (True, True), done["diagnostics"]
    loader.join(LONG)
    asker.join(LONG)
    assert isinstance(loader.failed, NotAGraph), loader.failed
    assert (asker.last, asker.strange) == (404, [])
    for _ in range(8):  # connections go to both workers
        assert read(server, "library")[0] == 404
        body = {"query": ADD, "params": {"name": "x"}}
        assert send(server, "POST", "/graphs/library/mutate", body)[0] == 404
    assert read(server, "shop")[0] == 200
    assert server.stop() == 0
    assert everything_below(root) is None


def test_the_lease_of_an_export_ends_with_the_graph(applied, monkeypatch):
    """An export goes on while it can, but its lease does not come back."""
    place, root = str(applied.path), applied.path / "graphs/library.omni"
    monkeypatch.setattr(read_leases.put_lease, "__kwdefaults__", {"renew_seconds": 0.005})

    class Deleting:
        """A file whose first bytes take as long as the delete of the graph."""

        is_done = False

        def write(self, data):
            if data and not self.is_done:
                self.is_done = True
                (lease,) = (root / "__leases").glob("*.json")
                assert json.loads(lease.read_text())["operation"] == "export"
                applied.config(WITHOUT_LIBRARY)
                assert approve(place, "graph.library", "ada")["ok"]
                assert apply(place)["converged"]
                for thread in threading.enumerate():
                    if thread.name == "read lease":
                        thread.join(LONG)
                        assert not thread.is_alive()
            return len(data)

    with og.open(root) as graph:
        graph.load([author(1)])
        out = Deleting()
        with suppress(OmniGraphError):  # what it had not read yet is gone
            graph.export(out)
        assert out.is_done
    assert everything_below(root) is None


def test_a_graph_that_is_migrated_while_it_is_served(applied, start):
    place = str(applied.path)
    born = SCHEMA.replace("@key\n", "@key\n    born: I32?\n")
    applied.write("library.pg", born)
    borns = "query borns() { match { $a: Author } return { $a.born } }"
    applied.write("borns.gq", borns)
    applied.config(GRAPHS.replace("queries: reads.gq", "queries: [reads.gq, borns.gq]"))
    assert apply(place)["converged"]
    server = start("--cluster", place, "--unauthenticated", *TWO)

    def ask(name):
        return {send(server, "POST", f"/graphs/library/queries/{name}", {})[0] for _ in range(6)}

    assert (ask("authors"), ask("borns"), ask("homes")) == ({200}, {200}, {404})
    applied.write("library.pg", SCHEMA.replace("@key\n", "@key\n    home: String?\n"))
    applied.write("homes.gq", borns.replace("born", "home"))
    applied.config(GRAPHS.replace("queries: reads.gq", "queries: [reads.gq, homes.gq]"))
    assert apply(place)["converged"]
    assert (ask("authors"), ask("borns"), ask("homes")) == ({200}, {409}, {404})
    add = "query add() { insert Author { name: 'lem', home: 'krakow' } }".replace("'", '"')
    assert send(server, "POST", "/graphs/library/mutate", {"query": add})[0] == 200
    assert server.stop() == 0
    again = start("--cluster", place, "--unauthenticated")
    path = "/graphs/library/queries"
    assert send(again, "POST", f"{path}/homes", {})[1]["rows"] == [{"a.home": "krakow"}]
    assert send(again, "POST", f"{path}/borns", {})[0] == 404


# ------------------------------------------------------------------ boot

PROVIDED = """version: 1
providers: { embedding: { e: { kind: openai, api_key: "${EMBED_KEY}" } } }
graphs:
  library: { schema: library.pg }
  texts: { schema: library.pg, embedding_provider: e }
policies:
  ops: { file: ops.yaml, applies_to: [cluster] }
  team: { file: team.yaml, applies_to: [library, texts] }
"""
TOKENS = {"OMNIGRAPH_SERVER_BEARER_TOKENS_JSON": json.dumps({"ada": "t-ada", "rita": "t-rita"})}


def listed(server, token="t-ada"):
    request = urllib.request.Request(
        f"{server.base}/graphs", headers={"authorization": f"Bearer {token}"}
    )
    with urllib.request.urlopen(request, timeout=LONG) as answer:
        return json.load(answer)


def test_a_graph_whose_key_is_missing_is_left_out_unless_all_are_required(
    tmp_path, start, launcher
):
    cluster = Cluster(tmp_path / "cluster")
    cluster.config(PROVIDED)
    place = str(cluster.path)
    assert import_cluster(place)["ok"]
    assert apply(place, "ada")["converged"]
    flags = ("--cluster", place, "--metrics-bind", "127.0.0.1:0")
    server = start(*flags, *TWO, environ=TOKENS)
    found = listed(server)
    assert [one["graph_id"] for one in found["graphs"]] == ["library"]
    ((left),) = found["quarantined"]
    assert left["graph_id"] == "texts"
    assert "EMBED_KEY" in left["reason"]
    assert read(server, "texts")[0] == 404
    assert "texts is quarantined" in server.log.read_text()
    assert server.gauges("quarantined_graphs") == [1]
    assert server.stop() == 0
    refused = run_server(*flags, "--require-all-graphs", environ=TOKENS, launcher=launcher)
    assert refused.returncode == 1
    assert "EMBED_KEY" in refused.stderr
    both = start(*flags, "--require-all-graphs", environ={**TOKENS, "EMBED_KEY": "k"})
    assert [one["graph_id"] for one in listed(both)["graphs"]] == ["library", "texts"]


def damage_root(cluster):
    shutil.rmtree(cluster.path / "graphs/library.omni/__manifest")


def remove_root(cluster):
    shutil.rmtree(cluster.path / "graphs/library.omni")


def migrate_behind_the_back(cluster):
    with og.open(cluster.path / "graphs/library.omni") as graph:
        graph.schema.apply("node Shelf {\n    name: String @key\n}\n")


def leave_a_recovery(cluster):
    from omnigraph.clock import new_ulid
    from omnigraph.cluster.stored.recovery_files import RecoveryFile

    record = RecoveryFile(
        operation_id=new_ulid(),
        operation="schema_apply",
        graph_id="library",
        graph_uri=str(cluster.path / "graphs/library.omni"),
        actor=None,
        started_at="2026-01-01T00:00:00Z",
    )
    cluster.write(record.name, record.text())


@pytest.mark.parametrize(
    ("harm", "told"),
    [
        (damage_root, "library.omni"),
        (remove_root, "library.omni"),
        (migrate_behind_the_back, "Author"),
        (leave_a_recovery, "cluster_recovery_pending"),
    ],
)
def test_one_graph_that_cannot_be_served_does_not_stop_the_others(applied, start, harm, told):
    harm(applied)
    server = start("--cluster", applied.path, "--unauthenticated")
    assert read(server, "shop")[0] == 200
    assert read(server, "library")[0] == 404
    (record,) = (line for line in server.log.read_text().splitlines() if "quarantined" in line)
    assert told in record


def test_no_graph_is_healthy(applied, launcher):
    for name in ("library", "shop"):
        shutil.rmtree(applied.path / f"graphs/{name}.omni")
    ended = run_server("--cluster", applied.path, "--unauthenticated", launcher=launcher)
    assert ended.returncode == 1
    assert "cluster_no_healthy_graphs" in ended.stderr


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("__cluster/state.json", None, "cluster_state_missing"),
        ("__cluster/state.json", "{", "invalid_state_json"),
        ("__cluster/state.json", '{"version": 2}', "unsupported_state_version"),
        ("__cluster/recoveries/x.json", "{}", "cluster_recovery_unattributed"),
    ],
)
def test_a_cluster_that_cannot_be_served_at_all(applied, launcher, name, text, told):
    if text is None:
        (applied.path / name).unlink()
    else:
        applied.write(name, text)
    ended = run_server("--cluster", applied.path, "--unauthenticated", launcher=launcher)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert told in ended.stderr


def edited(cluster, change):
    ledger = cluster.path / "__cluster/state.json"
    document = json.loads(ledger.read_text())
    change(document["applied_revision"]["resources"])
    ledger.write_text(json.dumps(document))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda all_: all_.clear(), "cluster_empty"),
        (lambda all_: all_["policy.team"].pop("applies_to"), "policy_bindings_missing"),
        (lambda all_: all_["policy.team"].update(applies_to=["cluster"]), "policy_invalid"),
        (
            lambda all_: all_["policy.ops"].update(applies_to=["library"]),
            "duplicate_policy_binding",
        ),
        (lambda all_: all_.pop("provider.embedding.e"), "embedding_provider_missing"),
        (
            lambda all_: all_["provider.embedding.e"].pop("embedding_profile"),
            "embedding_profile_missing",
        ),
        (
            lambda all_: all_["provider.embedding.e"]["embedding_profile"].update(model="m"),
            "embedding_digest_mismatch",
        ),
        (
            lambda all_: all_["graph.library"].update(external_blob_policy={"allow": ["s3://x/"]}),
            "external_blob_policy_digest_mismatch",
        ),
    ],
)
def test_a_ledger_that_somebody_edited_is_not_served(tmp_path, change, told):
    from omnigraph.cluster.served import read_serving
    from omnigraph.errors import BadRequest

    cluster = Cluster(tmp_path)
    cluster.config(PROVIDED)
    assert import_cluster(str(tmp_path))["ok"]
    assert apply(str(tmp_path), "ada")["converged"]
    assert read_serving(str(tmp_path), {}).graphs
    edited(cluster, change)
    with pytest.raises(BadRequest, match=told):
        read_serving(str(tmp_path), {})


def test_a_new_revision_is_told_once(applied, caplog):
    place = str(applied.path)
    revision = json.loads((applied.path / "__cluster/state.json").read_text())["state_revision"]
    watch = ClusterWatch(place, revision, pause=3600)
    try:
        watch.look()
        assert caplog.text == ""
        applied.write("reads.gq", QUERIES.replace("authors", "writers"))
        assert apply(place)["converged"]
        watch.look()
        watch.look()
        assert caplog.text.count(f"restart to serve revision {revision + 1}") == 1
        (applied.path / "__cluster/state.json").unlink()
        watch.look()
        assert "cannot be read" in caplog.text
    finally:
        watch.close()
