"""A writer dies at every point: the graph is as before or as after, and goes on.

Points x ways to die x who comes next x main or a branch, for a writer made for tests. What must follow from
a death is derived from how far the writer got: nothing moved, some tables moved, all moved, or published.
Real operations are cut at every call in `tests/faults/matrix/`.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

import pytest

from omnigraph import failpoints
from omnigraph.clock import new_ulid
from omnigraph.commit.audit import read_audit
from omnigraph.commit.changes import Write
from omnigraph.commit.heal import heal, sweep
from omnigraph.commit.protocol import commit
from omnigraph.commit.recovery import RECOVERY_ACTOR, rollback_commit_id
from omnigraph.errors import CommitNotFound, RecoveryRequired
from omnigraph.graph import Graph
from omnigraph.graph import open as open_graph
from omnigraph.manifest.workspace import Workspace
from tests.commit.synthetic import ALL, Died, contents, drifted, prepare, write
from tests.faults.commit_workers import identified, open_and_die, open_read_write, write_and_die
from tests.manifest.publishing import new_graph
from tests.opened import workspace_of
from tests.storage.processes import context, run_processes

NOTHING, PENDING, PARTLY, FINISHED, PUBLISHED = range(5)


@dataclass(frozen=True)
class Death:
    """Where a writer of three tables dies, and how far it got by then."""

    moment: str
    skip: int
    reached: int

    def point(self, writer: str) -> str:
        return self.moment if "." in self.moment else f"{writer}.{self.moment}"

    def __str__(self) -> str:
        return f"{self.moment}-{self.skip}"


DEATHS = [
    Death("recovery.sidecar_list", 0, NOTHING),
    Death("before_phase_a", 0, NOTHING),
    Death("recovery.sidecar_write", 0, NOTHING),
    Death("before_phase_b", 0, PENDING),
    Death("before_table_commit", 0, PENDING),
    Death("before_table_commit", 1, PARTLY),
    Death("before_table_commit", 2, PARTLY),
    Death("after_table_commit", 0, PARTLY),
    Death("after_table_commit", 1, PARTLY),
    Death("after_table_commit", 2, FINISHED),
    Death("after_phase_b_before_phase_c", 0, FINISHED),
    Death("publish.before_write", 0, FINISHED),
    Death("publish.after_write", 0, PUBLISHED),
    Death("after_phase_c_before_phase_d", 0, PUBLISHED),
    Death("recovery.sidecar_delete", 0, PUBLISHED),
    Death("before_locks", 0, NOTHING),
]
FORK_DEATHS = [
    Death("before_fork", 0, PENDING),
    Death("before_fork", 1, PARTLY),
    Death("before_fork", 2, PARTLY),
    Death("after_fork", 0, PENDING),
    Death("after_fork", 1, PARTLY),
    Death("after_fork", 2, PARTLY),
]
PLACES = ["main", "forking", "forked"]
# How a writer dies makes no difference to a fork that is published already: "raise" will do there.
EVERYWHERE = [
    (place, death, how)
    for place in PLACES
    for death in (DEATHS if place != "forking" else [*DEATHS, *FORK_DEATHS])
    for how in ("raise", "exit")
    if (place, how) != ("forked", "exit")
]


class Case:
    """One graph with some history, one write that dies in it, and what must be true afterwards."""

    def __init__(self, graph: Graph, place: str, death: Death, writer: str = "load") -> None:
        self.graph = graph
        self.death = death
        self.writer = writer
        self.branch = "main" if place == "main" else "x"
        write(workspace_of(graph), {key: ["old"] for key in ALL})
        if place != "main":
            graph.branches.create("x")
        if place == "forked":
            write(workspace_of(graph), {key: ["older"] for key in ALL}, branch="x")
        self.operation_id, self.commit_id = new_ulid(), new_ulid()
        self.before = contents(graph, self.branch)
        self.commits = len(graph.commits.list(self.branch))
        self.main = contents(graph)

    @property
    def after(self) -> dict[str, list[str]]:
        return {key: sorted([*ids, "new"]) for key, ids in self.before.items()}

    def die(self, how: str) -> None:
        rows = {key: ["new"] for key in ALL}
        options = {"branch": self.branch, "writer": self.writer, "actor": "ada"}
        point, ids = self.death.point(self.writer), (self.operation_id, self.commit_id)
        if how == "exit":
            die_in_child(write_and_die, self.graph.uri, rows, options, ids, point, self.death.skip)
            return
        workspace = workspace_of(self.graph)
        wanted = identified(prepare(workspace, rows, **options), *ids)
        with failpoints.arm(point, Died(), skip=self.death.skip), pytest.raises(Died):
            heal_and_commit(workspace, wanted)

    def check_readers(self) -> None:
        """A read-only open works at once, sees a whole state, and changes nothing."""
        pending = workspace_of(self.graph).store.list("__recovery")
        assert len(pending) == (0 if self.death.reached == NOTHING else 1)
        with open_graph(self.graph.uri, mode="r") as reader:
            visible = self.after if self.death.reached == PUBLISHED else self.before
            assert contents(reader, self.branch) == visible
        assert workspace_of(self.graph).store.list("__recovery") == pending

    def write_again(self) -> None:
        """The same handle goes on, except where a rollback must come first."""
        rows = {key: ["next"] for key in ALL}
        forking = self.branch != "main" and "older" not in self.before[ALL[0]]
        # A fork that a pending operation claims is not made anew.
        if self.death.reached == PARTLY or (self.death.reached == PENDING and forking):
            with pytest.raises(RecoveryRequired, match="reopen the graph read-write") as blocked:
                write(workspace_of(self.graph), rows, branch=self.branch)
            assert blocked.value.details["operation_id"] == self.operation_id
            assert contents(self.graph, self.branch) == self.before
            return
        write(workspace_of(self.graph), rows, branch=self.branch)
        survives = self.death.reached in (FINISHED, PUBLISHED)
        expected = self.after if survives else self.before
        assert contents(self.graph, self.branch) == {
            key: sorted([*ids, "next"]) for key, ids in expected.items()
        }
        self.before = {key: sorted([*ids, "next"]) for key, ids in self.before.items()}
        self.commits += 1

    def check_settled(self) -> None:
        """Before or after, pins at HEAD, one audit row, one commit, and nothing more to do."""
        graph = self.graph
        settled = self._facts()
        forward = self.death.reached in (FINISHED, PUBLISHED)
        assert settled["contents"] == (self.after if forward else self.before)
        assert settled["drifted"] == []
        assert settled["pending"] == []
        made = 0 if self.death.reached == NOTHING else 1
        assert settled["commits"] == self.commits + made
        assert len(settled["audit"]) == made
        for audit in settled["audit"]:
            self._check_audit(audit, forward=forward)
        if not forward:
            with pytest.raises(CommitNotFound):
                graph.commits.show(self.commit_id)
        if self.branch != "main":
            assert contents(graph) == self.main
        assert sweep(workspace_of(graph)).recovered == []
        assert self._facts() == settled
        write(workspace_of(graph), {key: ["last"] for key in ALL}, branch=self.branch)
        assert drifted(graph, self.branch) == []

    def _check_audit(self, audit, *, forward: bool) -> None:
        assert audit.operation_id == self.operation_id
        assert audit.recovery_kind == ("RolledForward" if forward else "RolledBack")
        assert audit.recovery_for_actor == "ada"
        wanted = self.commit_id if forward else rollback_commit_id(self.operation_id)
        assert audit.graph_commit_id == wanted
        commit = self.graph.commits.show(wanted)
        published = self.death.reached == PUBLISHED
        assert commit.actor_id == ("ada" if published else RECOVERY_ACTOR)
        if not published:
            assert commit.facts["recovery"]["recovery_for_actor"] == "ada"
            assert commit.facts["recovery"]["operation_id"] == self.operation_id

    def _facts(self) -> dict[str, object]:
        return {
            "contents": contents(self.graph, self.branch),
            "drifted": drifted(self.graph, self.branch),
            "pending": workspace_of(self.graph).store.list("__recovery"),
            "commits": len(self.graph.commits.list(self.branch)),
            "audit": read_audit(workspace_of(self.graph)),
        }


def heal_and_commit(workspace: Workspace, wanted: Write) -> None:
    heal(workspace)
    commit(workspace, wanted)


def die_in_child(worker, *arguments) -> None:
    process = context.Process(target=worker, args=arguments)
    process.start()
    process.join(600)
    assert process.exitcode == 0


@pytest.mark.sampled(10, every=("place", "how"))
@pytest.mark.parametrize(("place", "death", "how"), EVERYWHERE, ids=str)
def test_the_same_handle_goes_on(tmp_path, place, death, how):
    with new_graph(tmp_path) as graph:
        case = Case(graph, place, death)
        case.die(how)
        case.check_readers()
        case.write_again()
        sweep(workspace_of(graph))
        case.check_settled()


@pytest.mark.sampled(20)
@pytest.mark.parametrize(("place", "death", "how"), EVERYWHERE, ids=str)
def test_the_next_open_settles_it(tmp_path, place, death, how):
    with new_graph(tmp_path) as graph:
        case = Case(graph, place, death)
        case.die(how)
        case.check_readers()
        if how == "exit":
            open_graph(graph.uri).close()
        else:
            assert run_processes(open_read_write, [(graph.uri,)]) == [[]]
        case.check_settled()


# ------------------------------------------------------------------ recovery dies too

HALF, WHOLE, DONE = DEATHS[7], DEATHS[10], DEATHS[13]
RECOVERY_DEATHS = [
    (HALF, "recovery.before_restore"),
    (HALF, "recovery.after_restore"),
    (HALF, "recovery.before_publish"),
    (HALF, "publish.before_write"),
    (HALF, "publish.after_write"),
    (HALF, "recovery.after_publish"),
    (HALF, "recovery.record_audit"),
    (HALF, "recovery.sidecar_delete"),
    (WHOLE, "recovery.before_publish"),
    (WHOLE, "publish.before_write"),
    (WHOLE, "publish.after_write"),
    (WHOLE, "recovery.after_publish"),
    (WHOLE, "recovery.record_audit"),
    (WHOLE, "recovery.sidecar_delete"),
    (DONE, "recovery.record_audit"),
    (DONE, "recovery.sidecar_delete"),
]


@pytest.mark.sampled(12)
@pytest.mark.parametrize("place", ["main", "forked"])
@pytest.mark.parametrize(("death", "point"), RECOVERY_DEATHS, ids=str)
def test_a_recovery_that_dies_again_and_again_converges(tmp_path, place, death, point):
    with new_graph(tmp_path) as graph:
        case = Case(graph, place, death)
        case.die("raise")
        with failpoints.arm(point, Died()) as armed:
            for _ in range(3):
                # What comes after a step that was done is not reached twice.
                with contextlib.suppress(Died):
                    open_graph(graph.uri).close()
        assert armed.fired >= 1
        open_graph(graph.uri).close()
        case.check_settled()


@pytest.mark.sampled(5, every=("death",))
@pytest.mark.parametrize(("death", "point"), RECOVERY_DEATHS, ids=str)
def test_a_process_that_dies_while_recovering_is_followed_by_another(tmp_path, death, point):
    with new_graph(tmp_path) as graph:
        case = Case(graph, "forked", death)
        case.die("raise")
        die_in_child(open_and_die, graph.uri, point)
        open_graph(graph.uri).close()
        case.check_settled()


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("death", [HALF, WHOLE, DONE], ids=str)
def test_a_recovery_that_dies_at_one_point_after_the_other_converges(tmp_path, place, death):
    points = [point for first, point in RECOVERY_DEATHS if first is death]
    # Once published, a recovery does not publish again.
    points = [point for point in points if point != "recovery.after_publish"]
    if place == "forking":
        # A rollback deletes the fork: nothing is restored.
        points = [point for point in points if "restore" not in point]
    with new_graph(tmp_path) as graph:
        case = Case(graph, place, death)
        case.die("raise")
        for point in points:
            with failpoints.arm(point, Died()) as armed, pytest.raises(Died):
                open_graph(graph.uri)
            assert armed.fired == 1
        open_graph(graph.uri).close()
        case.check_settled()


@pytest.mark.parametrize("point", [point for death, point in RECOVERY_DEATHS if death is WHOLE])
def test_a_heal_that_dies_is_repeated_by_the_next_write(tmp_path, point):
    with new_graph(tmp_path) as graph:
        case = Case(graph, "main", WHOLE)
        case.die("raise")
        with failpoints.arm(point, Died()), pytest.raises(Died):
            write(workspace_of(graph), {ALL[0]: ["blocked"]})
        case.write_again()
        case.check_settled()
