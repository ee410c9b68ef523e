"""A command that dies between any two of its effects: apply again converges, and nothing is done twice."""

from __future__ import annotations

import shutil

import pytest

from omnigraph import failpoints
from omnigraph.cluster.apply import apply
from omnigraph.cluster.commands import force_unlock, import_cluster, refresh, status
from omnigraph.cluster.graphs import look_at
from omnigraph.cluster.planning import approve
from omnigraph.graph import init
from omnigraph.graph import open as open_graph

APPLYING = (
    "cluster.after_lock",
    "cluster.after_recovery_file",
    "cluster.after_move",
    "cluster.after_blob",
    "cluster.before_ledger",
    "cluster.after_ledger",
    "cluster.before_recovery_removed",
    "cluster.before_unlock",
)
DELETING = (
    "cluster.after_recovery_file",
    "graph_delete.before_tombstone",
    "graph_delete.after_tombstone",
    "graph_delete.after_manifest",
    "graph_delete.before_tombstone_removed",
    "cluster.after_move",
    "cluster.before_ledger",
    "cluster.after_ledger",
    "cluster.after_approval_used",
    "cluster.before_recovery_removed",
)
MORE = "node Author {\n    name: String @key\n    born: I32?\n}\n"


class Killed(BaseException):
    """Ends a command as a kill does: nothing after it runs."""


def killed(point, monkeypatch, command):
    """Run a command that dies at a point; its lock stays, as after a real kill."""
    from omnigraph.cluster.stored import lock

    with failpoints.arm(point, Killed()), monkeypatch.context() as patched:
        patched.setattr(lock, "_unlock", lambda *_: lock.BEFORE_UNLOCK.hit())
        with pytest.raises(Killed):
            command()


def unlocked(place):
    """Remove the lock that a killed command left."""
    seen = status(place)["state_observations"]
    if seen["locked"]:
        assert force_unlock(place, seen["lock_id"])["lock_removed"]


def commits(cluster):
    with open_graph(str(cluster.path / "graphs/library.omni"), mode="r") as graph:
        return len(graph.commits.list())


@pytest.fixture
def applied(cluster):
    place = str(cluster.path)
    cluster.config("version: 1\ngraphs: { library: { schema: library.pg, queries: reads.gq } }\n")
    assert import_cluster(place)["ok"]
    return cluster


@pytest.mark.parametrize("point", APPLYING)
def test_a_killed_create_converges(applied, monkeypatch, point):
    place = str(applied.path)
    killed(point, monkeypatch, lambda: apply(place))
    unlocked(place)
    done = apply(place)
    assert (done["ok"], done["converged"]) == (True, True), done["diagnostics"]
    assert commits(applied) == 1
    assert list((applied.path / "__cluster/recoveries").glob("*")) == []
    assert apply(place)["state_written"] is False


@pytest.mark.parametrize("point", [one for one in APPLYING if one != "cluster.after_blob"])
def test_a_killed_migration_converges_and_is_made_once(applied, monkeypatch, point):
    place = str(applied.path)
    assert apply(place)["converged"]
    applied.write("library.pg", MORE)
    killed(point, monkeypatch, lambda: apply(place))
    unlocked(place)
    assert apply(place)["converged"]
    assert commits(applied) == 2
    assert list((applied.path / "__cluster/recoveries").glob("*")) == []


@pytest.mark.parametrize("point", DELETING)
def test_a_killed_delete_converges_and_uses_its_approval_once(applied, monkeypatch, point):
    place, root = str(applied.path), applied.path / "graphs/library.omni"
    assert apply(place)["converged"]
    applied.config("version: 1\n")
    assert approve(place, "graph.library", "ada")["ok"]
    killed(point, monkeypatch, lambda: apply(place))
    (file,) = (applied.path / "__cluster/approvals").iterdir()
    if root.exists() and look_at(str(root)).place == "complete":
        assert '"consumed_at": null' in file.read_text()
    unlocked(place)
    done = apply(place)
    assert (done["ok"], done["converged"]) == (True, True), done["diagnostics"]
    assert not root.exists()
    assert '"consumed_at": null' not in file.read_text()
    assert list((applied.path / "__cluster/recoveries").glob("*")) == []


def test_a_graph_made_by_hand_is_taken_over(cluster):
    place = str(cluster.path)
    init(str(cluster.path / "graphs/library.omni"), (cluster.path / "library.pg")).close()
    assert import_cluster(place)["resource_statuses"]["graph.library"] == {"status": "applied"}
    assert apply(place, "ada")["converged"]
    assert commits(cluster) == 1


def test_what_changed_behind_the_back_is_found_and_brought_back(applied):
    place = str(applied.path)
    assert apply(place)["converged"]
    with open_graph(str(applied.path / "graphs/library.omni")) as graph:
        graph.schema.apply(MORE)
    assert refresh(place)["resource_statuses"]["schema.library"]["status"] == "drifted"
    done = apply(place)
    (change,) = (one for one in done["changes"] if one["resource"] == "schema.library")
    assert [step["kind"] for step in change["migration"]] == ["drop_property"]
    assert done["converged"]


def test_a_root_that_is_gone_is_reported_and_made_again(applied):
    place = str(applied.path)
    assert apply(place)["converged"]
    shutil.rmtree(applied.path / "graphs/library.omni")
    assert refresh(place)["resource_statuses"]["graph.library"]["status"] == "drifted"
    assert apply(place)["converged"]
    assert commits(applied) == 1


@pytest.mark.parametrize("damage", ["missing", "changed"])
def test_a_blob_that_is_gone_or_changed_is_put_back(applied, damage):
    place = str(applied.path)
    assert apply(place)["converged"]
    (blob,) = (applied.path / "__cluster/resources/query").rglob("*.gq")
    whole = blob.read_bytes()
    if damage == "missing":
        blob.unlink()
    else:
        blob.write_bytes(b"query other() {}")
    condition = "payload_missing" if damage == "missing" else "payload_mismatch"
    assert status(place)["resource_statuses"]["query.library.authors"]["conditions"] == [condition]
    seen = refresh(place)["resource_statuses"]["query.library.authors"]
    assert seen == {"status": "drifted", "conditions": [condition]}
    assert apply(place)["converged"]
    assert blob.read_bytes() == whole


def test_two_at_once_one_works_and_the_other_says_who(applied):
    place = str(applied.path)
    told = []

    def meanwhile(_):
        told.append(apply(place)["diagnostics"][0])

    with failpoints.arm("cluster.before_ledger", meanwhile, times=1):
        assert apply(place)["converged"]
    assert told[0]["code"] == "state_lock_held"
    assert "apply" in told[0]["message"]


def test_a_ledger_that_changes_under_the_lock_is_not_overwritten(applied):
    place, ledger = str(applied.path), applied.path / "__cluster/state.json"

    def meanwhile(_):
        ledger.write_text(ledger.read_text().replace('"state_revision": 1', '"state_revision": 7'))

    with failpoints.arm("cluster.before_ledger", meanwhile, times=1):
        done = apply(place)
    assert [one["code"] for one in done["diagnostics"]] == ["state_cas_mismatch"]
    assert (done["converged"], done["state_written"]) == (False, False)
    assert apply(place)["converged"]
    assert commits(applied) == 1


def test_a_file_that_changes_after_it_was_read_stops_the_apply(applied):
    place = str(applied.path)

    def meanwhile(_):
        applied.write("library.pg", MORE)

    with failpoints.arm("cluster.after_lock", meanwhile, times=1):
        done = apply(place)
    assert [one["code"] for one in done["diagnostics"]] == ["resource_content_changed"]
    assert not (applied.path / "graphs").exists()
