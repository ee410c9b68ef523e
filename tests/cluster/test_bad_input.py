"""Files under `__cluster` and roots of graphs that are not as a command expects them."""

from __future__ import annotations

import json
import shutil
import socket

import pytest

import omnigraph as og
from omnigraph import failpoints
from omnigraph.cluster.apply import apply
from omnigraph.cluster.commands import force_unlock, import_cluster, refresh, status
from omnigraph.cluster.declared import read_resources
from omnigraph.cluster.planning import approve, plan
from omnigraph.cluster.served import find_graph
from omnigraph.cluster.stored import recovery_files
from omnigraph.errors import BadRequest, StorageError
from omnigraph.graph.graph import state_of
from omnigraph.manifest import migrations
from omnigraph.storage.objects.object_store import ObjectStore
from tests.cluster.conftest import POLICY, SCHEMA
from tests.cluster.deleting import elsewhere
from tests.cluster.test_kills import MORE, killed, unlocked

ONE = "version: 1\ngraphs: { library: { schema: library.pg, queries: reads.gq } }\n"
TWO = "version: 1\ngraphs: { a: { schema: library.pg }, b: { schema: library.pg } }\n"
NONE = "version: 1\n"


@pytest.fixture
def place(cluster):
    cluster.config(ONE)
    assert import_cluster(str(cluster.path))["ok"]
    return str(cluster.path)


@pytest.fixture
def applied(place):
    assert apply(place)["converged"]
    return place


def codes(document):
    return [one["code"] for one in document["diagnostics"]]


def becomes(document, address):
    (change,) = (one for one in document["changes"] if one["resource"] == address)
    return change["disposition"], change.get("reason")


def lock_of(**facts):
    known = {"version": 1, "lock_id": "L1", "operation": "apply", "created_at": "x", "pid": 1}
    return json.dumps({**known, **facts})


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "invalid_state_lock"),
        ("no json", "invalid_state_lock"),
        ("[]", "invalid_state_lock"),
        (lock_of(pid="1"), "invalid_state_lock"),
        (lock_of(lock_id=None), "invalid_state_lock"),
        (lock_of(version=2), "unsupported_state_lock_version"),
    ],
)
def test_a_lock_that_cannot_be_read_is_held_and_stays(cluster, applied, text, code):
    cluster.write("__cluster/lock.json", text)
    assert codes(apply(applied)) == ["state_lock_held"]
    assert status(applied)["state_observations"]["locked"]
    assert codes(force_unlock(applied, "L1")) == [code]
    assert (cluster.path / "__cluster/lock.json").read_text() == text


def test_a_lock_of_another_host_is_not_taken_for_dead(cluster, applied):
    cluster.write("__cluster/lock.json", lock_of(pid=2**22 + 1, host="elsewhere"))
    (told,) = apply(applied)["diagnostics"]
    assert "on elsewhere" in told["message"]
    assert "is gone" not in told["message"]
    cluster.write("__cluster/lock.json", lock_of(pid=2**22 + 1, host=socket.gethostname()))
    (told,) = apply(applied)["diagnostics"]
    assert "that process is gone" in told["message"]
    assert force_unlock(applied, "L1")["lock_removed"]
    assert codes(force_unlock(applied, "L1")) == ["state_lock_missing"]


@pytest.mark.parametrize(
    ("harm", "code"),
    [
        (lambda text: text[: len(text) // 2], "invalid_state_json"),
        (lambda text: text.replace('"version": 1', '"version": 2'), "unsupported_state_version"),
        (lambda _: "\udcff", "invalid_state_json"),
    ],
)
def test_a_ledger_that_cannot_be_used_stops_every_command(cluster, applied, harm, code):
    ledger = cluster.path / "__cluster/state.json"
    harmed = harm(ledger.read_text()).encode("utf-8", "surrogateescape")
    ledger.write_bytes(harmed)
    for command in (plan, apply, refresh, status, import_cluster):
        assert codes(command(applied)) == [code]
    assert ledger.read_bytes() == harmed
    assert not (cluster.path / "__cluster/lock.json").exists()


def test_a_ledger_of_another_cluster_deletes_nothing(cluster, applied, tmp_path_factory):
    from tests.cluster.conftest import Cluster

    other = Cluster(tmp_path_factory.mktemp("other"))
    other.config(TWO)
    assert import_cluster(str(other.path))["ok"]
    assert apply(str(other.path))["converged"]
    shutil.copy(other.path / "__cluster/state.json", cluster.path / "__cluster/state.json")
    done = apply(applied)
    assert becomes(done, "graph.a") == ("blocked", "approval_required")
    assert becomes(done, "graph.library") == ("blocked", "graph_create_failed")
    refresh(applied)
    assert apply(applied)["converged"]
    assert (cluster.path / "graphs/library.omni/__manifest").exists()


# ------------------------------------------------------------------ approvals


def test_an_approval_is_for_one_state_and_used_once(cluster, applied):
    cluster.config(NONE)
    assert approve(applied, "graph.library", "ada")["ok"]
    cluster.config(f"{NONE}metadata: {{ name: other }}\n")  # no resource: the same digest
    cluster.write("more.pg", SCHEMA)
    cluster.config("version: 1\ngraphs: { more: { schema: more.pg } }\n")
    done = apply(applied)
    assert becomes(done, "graph.library") == ("blocked", "approval_stale")
    assert "approval_stale" in codes(done)
    cluster.config(NONE)
    done = apply(applied)
    assert becomes(done, "graph.library") == ("applied", None)
    assert becomes(done, "graph.more") == ("blocked", "approval_required")
    cluster.config(ONE)
    apply(applied)
    cluster.config(NONE)
    assert becomes(apply(applied), "graph.library") == ("blocked", "approval_required")


def test_an_approval_is_not_open_again_when_its_graph_was_made_again(cluster, applied, monkeypatch):
    """The delete is killed when it is done, and so is the apply that makes the graph again."""
    cluster.config(NONE)
    assert approve(applied, "graph.library", "ada")["ok"]
    killed("cluster.after_move", monkeypatch, lambda: apply(applied))
    unlocked(applied)
    cluster.config(ONE)
    killed("cluster.after_move", monkeypatch, lambda: apply(applied))
    unlocked(applied)
    assert apply(applied)["converged"]
    cluster.config(NONE)
    assert becomes(apply(applied), "graph.library") == ("blocked", "approval_required")
    assert (cluster.path / "graphs/library.omni/__manifest").exists()


def test_a_graph_that_waits_for_its_delete_keeps_its_bundle(cluster):
    place = str(cluster.path)
    assert import_cluster(place)["ok"]
    assert apply(place, "ada")["converged"]
    cluster.config(NONE)
    done = apply(place, "ada")
    assert becomes(done, "policy.team") == ("blocked", "dependency_not_applied")
    assert "apply_dependency_blocked" in codes(done)
    assert approve(place, "graph.library", "ada")["ok"]
    done = apply(place, "ada")
    assert done["converged"]
    assert becomes(done, "policy.team") == ("applied", None)
    assert POLICY in [one.read_text() for one in cluster.path.rglob("__cluster/**/*.yaml")]


# ------------------------------------------------------------------ roots of graphs


def as_file(root):
    root.parent.mkdir(exist_ok=True)
    root.write_text("x")


def broken(root):
    og.init(root, SCHEMA).close()
    for file in (root / "__manifest/_versions").iterdir():
        file.write_bytes(b"x")


def half_made(root):
    root.mkdir(parents=True)
    (root / "_schema.pg").write_text(SCHEMA)


@pytest.mark.parametrize("harm", [as_file, broken, half_made])
def test_a_root_that_is_no_graph(cluster, place, harm):
    harm(cluster.path / "graphs/library.omni")
    done = apply(place)
    assert becomes(done, "graph.library") == ("blocked", "graph_create_failed")
    assert becomes(done, "query.library.authors") == ("blocked", "dependency_not_applied")
    seen = refresh(place)
    assert "graph_observation_error" in codes(seen)
    assert seen["resource_statuses"]["graph.library"]["status"] == "error"
    (cluster.path / "__cluster/state.json").unlink()
    before = sorted(cluster.path.rglob("*"))
    assert "graph_observation_error" in codes(import_cluster(place))
    assert sorted(cluster.path.rglob("*")) == before


def test_a_graph_of_a_newer_format(cluster, applied, monkeypatch):
    cluster.write("library.pg", MORE)
    with monkeypatch.context() as patched:
        patched.setattr(migrations, "INTERNAL_SCHEMA_VERSION", 1)
        done = apply(applied)
    assert becomes(done, "schema.library") == ("blocked", "schema_apply_failed")
    assert any("upgrade omnigraph first" in one["message"] for one in done["diagnostics"])
    assert apply(applied)["converged"]


def test_an_empty_root_is_none(cluster, place):
    (cluster.path / "graphs/library.omni").mkdir(parents=True)
    assert apply(place)["converged"]


def test_a_graph_that_was_moved_away_is_made_again_and_taken_back(cluster, applied):
    root = cluster.path / "graphs/library.omni"
    with og.open(root) as graph:
        identity = graph.snapshot().graph_id
    root.rename(cluster.path / "aside.omni")
    assert refresh(applied)["resource_statuses"]["graph.library"]["conditions"] == ["graph_missing"]
    (cluster.path / "aside.omni").rename(root)
    assert becomes(apply(applied), "graph.library") == ("blocked", "graph_create_failed")
    assert refresh(applied)["ok"]
    assert apply(applied)["converged"]
    with og.open(root) as graph:
        assert graph.snapshot().graph_id == identity


def test_a_graph_that_a_writer_holds_for_too_long(cluster, applied, monkeypatch):
    monkeypatch.setenv("OMNIGRAPH_LOCK_WAIT_MS", "50")
    recoveries = cluster.path / "__cluster/recoveries"
    with og.open(cluster.path / "graphs/library.omni") as graph:
        locks = state_of(graph).workspace.locks
        with locks.acquire(locks.head_lock("main")):
            cluster.write("library.pg", MORE)
            done = elsewhere(lambda: apply(applied))
            assert becomes(done, "schema.library") == ("blocked", "schema_apply_failed")
            assert list(recoveries.glob("*")) == []
            cluster.config(NONE)
            assert approve(applied, "graph.library", "ada")["ok"]
            done = elsewhere(lambda: apply(applied))
            for address in ("graph.library", "schema.library", "query.library.authors"):
                assert becomes(done, address) == ("blocked", "graph_delete_failed")
            assert list(recoveries.glob("*")) == []
        graph.load([{"type": "Author", "data": {"name": "a"}}])
    assert apply(applied)["converged"]


def test_the_first_move_that_fails_stops_the_others(cluster, place):
    cluster.config(TWO)
    as_file(cluster.path / "graphs/a.omni")
    done = apply(place)
    assert becomes(done, "graph.a") == ("blocked", "graph_create_failed")
    assert becomes(done, "graph.b") == ("blocked", "graph_create_skipped")
    assert not (cluster.path / "graphs/b.omni").exists()


def test_the_first_migration_or_delete_that_fails_stops_the_others(cluster, place, monkeypatch):
    cluster.config(TWO)
    assert apply(place)["converged"]
    cluster.write("library.pg", MORE)
    root = cluster.path / "graphs/a.omni"
    root.rename(cluster.path / "aside.omni")
    as_file(root)
    assert "schema_preview_unavailable" in codes(plan(place))
    done = apply(place)
    assert becomes(done, "schema.a") == ("blocked", "schema_apply_failed")
    assert becomes(done, "schema.b") == ("blocked", "schema_apply_skipped")
    root.unlink()
    (cluster.path / "aside.omni").rename(root)
    cluster.config(NONE)
    for name in "ab":
        assert approve(place, f"graph.{name}", "ada")["ok"]
    monkeypatch.setenv("OMNIGRAPH_LOCK_WAIT_MS", "50")
    with og.open(root) as graph:
        locks = state_of(graph).workspace.locks
        with locks.acquire(locks.head_lock("main")):
            done = elsewhere(lambda: apply(place, "ada"))
    assert becomes(done, "graph.a") == ("blocked", "graph_delete_failed")
    assert becomes(done, "graph.b") == ("blocked", "graph_delete_skipped")
    assert apply(place, "ada")["converged"]
    assert not root.exists()


# ------------------------------------------------------------------ stores that fail


@pytest.mark.parametrize(
    ("method", "part", "code"),
    [
        ("write_text_if_absent", "lock.json", "state_lock_error"),
        ("read_versioned", "state.json", "state_read_error"),
        ("write_text_if_match", "state.json", "state_write_error"),
        ("write_text", "recoveries", "recovery_sidecar_write_error"),
        ("replace_bytes", "resources", "resource_payload_write_error"),
    ],
)
def test_a_store_that_fails_is_told_and_the_next_apply_converges(
    cluster, place, monkeypatch, method, part, code
):
    whole = getattr(ObjectStore, method)

    def failing(self, name, *rest):
        if part in name:
            raise StorageError("the store is out of reach; try again")
        return whole(self, name, *rest)

    with monkeypatch.context() as patched:
        patched.setattr(ObjectStore, method, failing)
        done = apply(place)
        assert code in codes(done)
        assert (done["ok"], done["converged"]) == (False, False)
    assert apply(place)["converged"]
    assert list((cluster.path / "__cluster/recoveries").glob("*")) == []


def test_a_ledger_is_imported_once(applied):
    assert codes(import_cluster(applied)) == ["state_already_exists"]


def test_a_blob_that_cannot_be_read_is_told_and_kept(cluster, applied, monkeypatch):
    whole = ObjectStore.read_bytes

    def failing(self, name, *rest):
        if "resources" in name:
            raise StorageError("the store is out of reach; try again")
        return whole(self, name, *rest)

    with monkeypatch.context() as patched:
        patched.setattr(ObjectStore, "read_bytes", failing)
        assert "payload_read_error" in codes(refresh(applied))
        assert "catalog_payload_mismatch" in codes(status(applied))
    assert refresh(applied)["ok"]
    assert codes(status(applied)) == []
    assert apply(applied)["converged"]


def test_a_folder_of_queries_that_cannot_be_listed(cluster, monkeypatch):
    cluster.config("version: 1\ngraphs: { library: { schema: library.pg, queries: reads } }\n")
    (cluster.path / "reads").mkdir()

    def refused(place):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(read_resources.os, "scandir", refused)
    assert cluster.codes() == {("query_dir_unreadable", "graphs.library.queries")}


def test_a_graph_that_was_not_applied_is_named(applied):
    with pytest.raises(
        BadRequest, match=r"has the graphs library; `shop` is not one .graph_not_applied"
    ):
        find_graph(applied, "shop")


def test_an_approval_that_cannot_be_written(cluster, applied, monkeypatch):
    cluster.config(NONE)

    def failing(*_):
        raise StorageError("the store is out of reach; try again")

    with monkeypatch.context() as patched:
        patched.setattr(ObjectStore, "write_text", failing)
        assert codes(approve(applied, "graph.library", "ada")) == ["approval_write_error"]
    assert becomes(apply(applied), "graph.library") == ("blocked", "approval_required")


def test_a_recovery_that_nobody_can_attribute_is_told(cluster, applied):
    cluster.write(f"{recovery_files.RECOVERIES}/x.json", "{}")
    assert codes(apply(applied)) == ["cluster_recovery_unattributed"]


def test_a_migration_that_ended_in_a_third_schema_blocks_its_graph_until_a_refresh(
    cluster, applied, monkeypatch
):
    cluster.write("library.pg", MORE)
    killed("cluster.after_recovery_file", monkeypatch, lambda: apply(applied))
    failpoints.disarm_all()
    unlocked(applied)
    with og.open(cluster.path / "graphs/library.omni") as graph:
        graph.schema.apply(SCHEMA.replace("@key\n", "@key\n    home: String?\n"))
    done = apply(applied)
    assert "actual_applied_state_pending" in codes(done)
    assert becomes(done, "schema.library") == ("blocked", "cluster_recovery_pending")
    refresh(applied)
    assert apply(applied)["converged"]


def test_a_schema_change_that_no_migration_makes_waits(cluster, applied):
    cluster.write("library.pg", SCHEMA.replace("name: String @key", "name: I64 @key"))
    done = apply(applied)
    assert becomes(done, "schema.library") == ("deferred", "apply_unsupported_kind")
    assert (done["ok"], done["converged"], done["deferred_count"]) == (True, False, 1)
    assert "apply_unsupported_change" in codes(done)
