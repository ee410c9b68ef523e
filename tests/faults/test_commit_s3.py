"""The same deaths on an object store, where locks are leases that only time can take away."""

from __future__ import annotations

import os
import signal
from uuid import uuid4

import pytest

from omnigraph import failpoints
from omnigraph.commit.audit import read_audit
from omnigraph.commit.heal import heal, sweep
from omnigraph.errors import RecoveryRequired, StorageError
from omnigraph.graph import init
from omnigraph.graph import open as open_graph
from tests.commit.synthetic import ALL, MEMBER_OF, PERSON, TEAM, contents, drifted, dying_at, write
from tests.faults import test_crash_matrix as matrix
from tests.faults.commit_workers import write_paused
from tests.manifest.publishing import SCHEMA
from tests.opened import workspace_of
from tests.s3_server import BUCKET
from tests.storage.processes import talk_to

# Only those have it that are to die: others may stand still for as long as they like, and these for this long.
LEASE_MS = 10_000

# A representative part: pending, partly, finished, published; forks half made.
DEATHS = [
    ("main", matrix.DEATHS[3]),
    ("main", matrix.DEATHS[7]),
    ("main", matrix.DEATHS[10]),
    ("main", matrix.DEATHS[14]),
    ("forking", matrix.DEATHS[7]),
    ("forking", matrix.DEATHS[10]),
    ("forking", matrix.FORK_DEATHS[3]),
    ("forked", matrix.DEATHS[7]),
]


@pytest.fixture
def graph(s3):
    with init(f"s3://{BUCKET}/{uuid4().hex}", SCHEMA) as graph:
        yield graph


@pytest.mark.sampled(4, every=("place",))  # all of them are tried on disk
@pytest.mark.parametrize(("place", "death"), DEATHS, ids=str)
def test_a_writer_that_fails_is_settled_by_the_next_open(graph, place, death):
    case = matrix.Case(graph, place, death)
    case.die("raise")
    case.check_readers()
    open_graph(graph.uri).close()
    case.check_settled()


def test_a_recovery_that_dies_on_the_way_converges(graph):
    case = matrix.Case(graph, "main", matrix.DEATHS[7])
    case.die("raise")
    for point in ("recovery.after_restore", "publish.before_write", "recovery.record_audit"):
        with dying_at(point):
            open_graph(graph.uri)
    open_graph(graph.uri).close()
    case.check_settled()


def write_with_short_lease(pipe, environment, uri, rows, point, pause) -> None:
    hasty = {**environment, "OMNIGRAPH_LOCK_LEASE_MS": str(LEASE_MS)}
    write_paused(pipe, hasty, uri, rows, point, pause)


@pytest.fixture
def paused(graph, s3, tmp_path):
    """Start a writer in another process that stops at a point."""

    def start(point: str):
        pause = failpoints.FilePause(tmp_path / "pause")
        rows = {PERSON: ["slow"], TEAM: ["slow"]}
        arguments = (s3.environment(), graph.uri, rows, point, str(tmp_path / "pause"))
        return talk_to(write_with_short_lease, arguments), pause

    return start


def test_a_live_lease_keeps_everybody_out(graph, paused):
    talk, pause = paused("load.after_table_commit")
    with talk as (_, pipe):
        pause.wait_until_reached()
        assert len(heal(workspace_of(graph)).in_flight) == 1
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("OMNIGRAPH_LOCK_WAIT_MS", str(LEASE_MS + 1000))
            # Longer than the lease: it is renewed all the while.
            assert len(sweep(workspace_of(graph)).in_flight) == 1
        pause.resume()
        assert pipe.recv()[0] == "committed"
    assert contents(graph) == {PERSON: ["slow"], TEAM: ["slow"], MEMBER_OF: []}
    assert read_audit(workspace_of(graph)) == []


def test_a_killed_writers_lease_runs_out_and_the_next_open_settles_it(graph, paused):
    talk, pause = paused("load.after_table_commit")
    with talk as (process, _):
        pause.wait_until_reached()
        process.kill()
        process.join()
        assert len(heal(workspace_of(graph)).in_flight) == 1
        assert [one.recovery_kind for one in sweep(workspace_of(graph)).recovered] == ["RolledBack"]
    assert contents(graph) == {PERSON: [], TEAM: [], MEMBER_OF: []}
    assert drifted(graph) == []
    write(workspace_of(graph), {key: ["next"] for key in ALL})


@pytest.mark.parametrize(
    ("point", "kind", "heard"),
    [
        # Undone: nothing of it is there, and it may simply be run again.
        ("load.after_table_commit", "RolledBack", "contention"),
        # Finished by somebody else: it finds its own commit, and nothing is run again.
        ("load.after_phase_b_before_phase_c", "RolledForward", "committed"),
    ],
)
def test_a_stopped_writer_is_recovered_from_and_stops_when_it_wakes(
    graph, paused, point, kind, heard
):
    talk, pause = paused(point)
    with talk as (process, pipe):
        pause.wait_until_reached()
        os.kill(process.pid, signal.SIGSTOP)
        pause.resume()
        assert [one.recovery_kind for one in sweep(workspace_of(graph)).recovered] == [kind]
        write(workspace_of(graph), {key: ["meanwhile"] for key in ALL})
        before = contents(graph)
        os.kill(process.pid, signal.SIGCONT)
        outcome, commit_id = pipe.recv()
    assert outcome == heard
    assert contents(graph) == before
    survived = ["meanwhile", "slow"] if kind == "RolledForward" else ["meanwhile"]
    assert before == {PERSON: survived, TEAM: survived, MEMBER_OF: ["meanwhile"]}
    if kind == "RolledForward":
        assert graph.commits.show(commit_id).actor_id == "omnigraph:recovery"
    open_graph(graph.uri).close()
    assert contents(graph) == before
    assert drifted(graph) == []
    assert len(read_audit(workspace_of(graph))) == 1


# ------------------------------------------------------------------ lost answers


def losing(method: str, *, part: str):
    def fault(environ):
        if environ["REQUEST_METHOD"] == method and part in environ["PATH_INFO"]:
            return "500 Internal Server Error", b""
        return None

    return fault


def test_a_sidecar_whose_writing_failed_is_not_left_behind(graph, s3):
    s3.before(losing("PUT", part="__recovery/"))
    with pytest.raises(StorageError, match="__recovery"):
        write(workspace_of(graph), {PERSON: ["a"]})
    s3.disarm()
    assert workspace_of(graph).store.list("__recovery") == []
    write(workspace_of(graph), {PERSON: ["b"]})
    assert contents(graph)[PERSON] == ["b"]
    assert read_audit(workspace_of(graph)) == []


def test_a_sidecar_that_the_store_kept_without_saying_so_is_found(graph, s3):
    """Every answer to its writing is lost: the store is asked, and the write goes on."""
    s3.after(losing("PUT", part="__recovery/"))
    made = write(workspace_of(graph), {PERSON: ["a"]})
    s3.disarm()
    assert graph.snapshot().commit == made
    assert contents(graph)[PERSON] == ["a"]
    assert workspace_of(graph).store.list("__recovery") == []


def test_a_sidecar_that_cannot_be_deleted_is_consumed_later(graph, s3):
    s3.before(losing("DELETE", part="__recovery/"))
    s3.before(losing("POST", part=""))
    made = write(workspace_of(graph), {PERSON: ["a"]})
    s3.disarm()
    assert len(workspace_of(graph).store.list("__recovery")) == 1
    write(workspace_of(graph), {PERSON: ["b"]})
    assert workspace_of(graph).store.list("__recovery") == []
    assert [one.graph_commit_id for one in read_audit(workspace_of(graph))] == [
        made.graph_commit_id
    ]


def test_a_store_that_fails_in_the_middle(graph, s3):
    """Every commit to the second table is refused for a while."""
    team = graph.snapshot().tables[TEAM].location
    s3.before(losing("PUT", part=f"{team}/_versions"))
    with pytest.raises(RecoveryRequired):
        write(workspace_of(graph), {PERSON: ["a"], TEAM: ["a"]})
    s3.disarm()
    assert contents(graph) == {PERSON: [], TEAM: [], MEMBER_OF: []}
    with open_graph(graph.uri) as reopened:
        assert drifted(reopened) == []
        write(workspace_of(reopened), {PERSON: ["b"], TEAM: ["b"]})
        assert contents(reopened)[TEAM] == ["b"]
