"""A cleanup meets writers that stand between their checks and their commit, and the other way round."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from omnigraph import failpoints
from omnigraph.errors import Contention, OmniGraphError
from omnigraph.graph import Graph
from omnigraph.graph import open as open_graph
from tests.faults.history_cases import BOTH, build, check_sound, old_commit, shown
from tests.maintenance.cleaning import age, ages, check_report
from tests.opened import workspace_of


@pytest.fixture
def graph(tmp_path):
    with open_graph(build(tmp_path / "graph")) as graph:
        yield graph


class Running:
    """Work in a thread of its own that stands at a point until it may go on."""

    def __init__(self, point: str, work: Callable[[], Any], skip: int = 0) -> None:
        self._pause = failpoints.Pause()
        self._armed = failpoints.arm(point, self._pause, times=1, skip=skip)
        self._outcome: Any = None
        self._thread = threading.Thread(target=self._run, args=(work,))
        self._thread.start()
        self._pause.wait_until_reached()

    def _run(self, work: Callable[[], Any]) -> None:
        try:
            self._outcome = work()
        except OmniGraphError as error:
            self._outcome = error.code

    def go_on(self) -> Any:
        """Let it finish; what it returned, or the code of its error."""
        self._pause.resume()
        self._thread.join(600)
        self._armed.disarm()
        assert not self._thread.is_alive()
        return self._outcome


@contextmanager
def standing(point: str, work: Callable[[], Any], skip: int = 0) -> Iterator[Running]:
    running = Running(point, work, skip)
    try:
        yield running
    finally:
        running.go_on()


def clean(graph: Graph) -> None:
    check_report(graph, graph.cleanup(keep_versions=1))


def check_all(graph: Graph) -> None:
    """Every branch reads, writes, merges, and has nothing pending."""
    for branch in graph.branches.list():
        graph.mutate(BOTH, params={"k": f"last-{branch}"}, branch=branch)
    graph.branches.merge("side", resolve="theirs")
    clean(graph)
    shown(graph)
    check_sound(graph)


class TestSomebodyStandsBeforeHisLocks:
    """Meanwhile what he read is replaced, and a cleanup removes it."""

    def test_a_merge_whose_source_moved_on(self, graph):
        with (
            open_graph(graph.uri) as other,
            standing("branch_merge.before_locks", lambda: other.branches.merge("side")) as merge,
        ):
            for n in (8, 9):
                age(graph, n, "side", "bob")
            clean(graph)
            assert merge.go_on().outcome == "merged"
        assert ages(graph)["side"] == 5
        # What was merged is a base from now on: it can be read, and the next merge finds the rest.
        clean(graph)
        assert graph.branches.merge("side").outcome in {"merged", "already_up_to_date"}
        assert ages(graph)["bob"] == 9
        check_all(graph)

    def test_a_merge_that_takes_versions_over(self, graph):
        with (
            open_graph(graph.uri) as other,
            standing(
                "branch_merge.before_locks", lambda: other.branches.merge("main", "lazy")
            ) as merge,
        ):
            for n in (8, 9):
                age(graph, n)
            clean(graph)
            assert merge.go_on().outcome == "fast_forward"
        assert ages(graph, branch="lazy")["ada"] in {4, 9}
        check_all(graph)

    def test_a_revert_to_versions_that_nobody_else_needs(self, graph):
        wanted = old_commit(graph)
        with (
            open_graph(graph.uri) as other,
            standing("revert.before_locks", lambda: other.commits.revert(wanted, "lazy")) as revert,
        ):
            clean(graph)
            outcome = revert.go_on()
        reverted = outcome != "history_reclaimed"
        assert ("past" in ages(graph, branch="lazy")) != reverted
        check_all(graph)

    @pytest.mark.parametrize("point", ["attempt.pinned", "mutation.before_locks"])
    def test_a_write_whose_tables_moved_on(self, graph, point):
        def write() -> Any:
            return other.mutate(BOTH, params={"k": "late"}).affected_nodes

        with open_graph(graph.uri) as other, standing(point, write) as late:
            graph.mutate(BOTH, params={"k": "early"})
            clean(graph)
            assert late.go_on() == 2
        assert {"late", "early"} <= ages(graph).keys()
        check_all(graph)

    def test_a_conditional_write_is_refused_as_ever(self, graph):
        head = graph.snapshot().graph_commit_id

        def write() -> Any:
            return other.mutate(BOTH, params={"k": "late"}, if_commit=head).affected_nodes

        with open_graph(graph.uri) as other:
            with standing("mutation.before_locks", write) as late:
                clean(graph)
                assert late.go_on() == 2
            head = graph.snapshot().graph_commit_id
            with standing("mutation.before_locks", write) as late:
                age(graph, 9)
                clean(graph)
                assert late.go_on() == "precondition_failed"
        check_all(graph)


POINTS = [
    ("cleanup.before_orphans", 0),
    ("cleanup.before_table", 1),
    ("cleanup.before_version", 1),
    ("cleanup.before_trim", 0),
]


@pytest.mark.parametrize(("point", "skip"), POINTS)
def test_writers_go_on_while_a_cleanup_is_at_work(graph, monkeypatch, point, skip):
    monkeypatch.setenv("OMNIGRAPH_LOCK_WAIT_MS", "50")
    before = shown(graph)
    with (
        open_graph(graph.uri) as other,
        standing(point, lambda: other.cleanup(keep_versions=1), skip) as cleanup,
    ):
        assert shown(graph) == before
        for n in (8, 9):
            age(graph, n)
        graph.load([])
        # `lazy` forks the very version that only its head needs.
        graph.mutate(BOTH, params={"k": "first"}, branch="lazy")
        for act in (
            lambda: graph.branches.create("more"),
            lambda: graph.branches.delete("gone"),
            lambda: graph.branches.merge("side"),
        ):
            with pytest.raises(Contention):
                act()
        report = cleanup.go_on()
    assert [row.error for row in report] == [None] * len(report)
    assert ages(graph)["ada"] == 9
    assert "first" in ages(graph, branch="lazy")
    assert workspace_of(graph).store.list("__recovery") == []
    check_all(graph)
