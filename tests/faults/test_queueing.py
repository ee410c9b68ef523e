"""Writers of one table queue: all succeed, and each means what it means when its turn comes."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from omnigraph import failpoints
from omnigraph.errors import Contention
from omnigraph.graph import Graph
from omnigraph.storage.locks.lock_files import LockFiles
from omnigraph.storage.locks.waiting import WAITING_DIR, Purpose
from tests.faults.queue_workers import (
    load_beside,
    load_paused,
    mutate_paused,
    write_beside,
    write_in_turn,
)
from tests.faults.queueing_helpers import LIMIT, SCHEMA, check, put_tokens
from tests.graphs import graph_of
from tests.measured import MEASURED
from tests.opened import workspace_of
from tests.sampling import runs_all
from tests.storage.processes import run_processes, stopped_at, talk_to
from tests.write.writing import ends, nodes, run, state

# A busy machine takes seconds for a turn, and there are eight before it.
PATIENT = {"OMNIGRAPH_LOCK_WAIT_MS": "600000"}
# A twentieth of what `./dev faults --all` does: 1,600 mutations take minutes on a busy machine.
PROCESSES, TIMES = 8, 200 if runs_all() else 10
# A load that is large beside single rows; 1,000,000 shows the same and takes minutes.
LOAD_ROWS = int(os.environ.get("QUEUEING_LOAD_ROWS", "100_000" if runs_all() else "20_000"))


graph = graph_of(SCHEMA)


def test_eight_processes_write_single_rows_to_one_table(graph, record_property, monkeypatch):
    for name, value in PATIENT.items():
        monkeypatch.setenv(name, value)
    turns = TIMES // 5
    put_tokens(graph, turns)
    names = [f"p{at}" for at in range(PROCESSES)]
    calls = [(graph.uri, name, TIMES) for name in names]
    told = dict(zip(names, run_processes(write_in_turn, calls, LIMIT), strict=True))
    check(graph, told, turns, {})
    # Four of five steps commit, and of each round of claims one; init and the tokens are two more.
    made = [one for one in graph.commits.list() if one.operation != "optimize"]
    assert len(made) == 2 + PROCESSES * turns * 4 + turns
    longest = max(one.longest for one in told.values())
    record_property(MEASURED, f"longest of {PROCESSES * TIMES} mutations {longest:.2f} s")


def test_small_writers_beside_a_large_load(graph, record_property):
    """The load is pinned before they write and commits after: it lost, and runs again."""
    times = 40 if runs_all() else 10
    put_tokens(graph, times // 5)
    graph.load([{"type": "Item", "data": {"name": f"row-{at}", "n": -1}} for at in range(100)])
    names = [f"p{at}" for at in range(PROCESSES)]
    with ExitStack() as stack:
        _, load = stack.enter_context(talk_to(load_beside, (PATIENT, graph.uri, LOAD_ROWS)))
        assert heard(load) == "pinned"
        writers = [
            stack.enter_context(talk_to(write_beside, (PATIENT, graph.uri, name, times)))[1]
            for name in names
        ]
        assert [heard(pipe) for pipe in writers] == ["begun"] * PROCESSES
        load.send("go")
        told = dict(zip(names, [heard(pipe) for pipe in writers], strict=True))
        answer = heard(load)
        assert not isinstance(answer, str), answer
        rows, seconds = answer
    assert rows == LOAD_ROWS
    check(graph, told, times // 5, {f"row-{at}": at for at in range(LOAD_ROWS)})
    longest = max(one.longest for one in told.values())
    record_property(
        MEASURED,
        f"load of {LOAD_ROWS} rows {seconds:.1f} s, longest of {PROCESSES * times} mutations "
        f"beside it {longest:.2f} s",
    )


def heard(pipe):
    assert pipe.poll(LIMIT), "a worker did not answer"
    return pipe.recv()


# ------------------------------------------------------------------ what runs again


@pytest.fixture
def overtaken(graph, tmp_path):
    """Run a mutation that is prepared, then overtaken by others, then goes on; what it told."""

    def race(call, overtake, environment=()):
        arguments = (dict(environment), graph.uri, call, "mutation.before_locks")
        with stopped_at(tmp_path / "overtaken", mutate_paused, arguments) as late:
            overtake()
            return late.go_on()

    return race


def test_an_update_that_runs_again_matches_what_is_there_then(graph, overtaken):
    run(graph, 'insert Item { name: "a", n: 1 } insert Item { name: "b", n: 2 }')
    call = {"source": "query q() { update Item set { n: 3 } where n = 1 }"}
    assert overtaken(call, lambda: run(graph, 'update Item set { n: 2 } where name = "a"')) == (0, 0)  # fmt: skip
    assert nodes(graph, "Item") == {"a": {"name": "a", "n": 2}, "b": {"name": "b", "n": 2}}
    assert len(graph.commits.list()) == 3


def test_an_update_that_runs_again_takes_along_what_came_to_match(graph, overtaken):
    run(graph, 'insert Item { name: "a", n: 1 } insert Item { name: "b", n: 2 }')
    call = {"source": "query q() { update Item set { n: 3 } where n = 1 }"}
    assert overtaken(call, lambda: run(graph, 'update Item set { n: 1 } where name = "b"')) == (2, 0)  # fmt: skip
    assert {row["n"] for row in nodes(graph, "Item").values()} == {3}


def test_a_delete_that_runs_again_spares_what_no_longer_matches(graph, overtaken):
    run(graph, 'insert Item { name: "a", n: 1 } insert Item { name: "b", n: 1 }')
    run(graph, 'insert Next { from: "a", to: "b" }')
    call = {"source": "query q() { delete Item where n = 1 }"}
    assert overtaken(call, lambda: run(graph, 'update Item set { n: 2 } where name = "a"')) == (1, 1)  # fmt: skip
    assert set(nodes(graph, "Item")) == {"a"}
    assert ends(graph, "Next") == []


def test_an_edge_whose_end_was_deleted_meanwhile_is_refused(graph, overtaken):
    run(graph, 'insert Item { name: "a" } insert Item { name: "b" }')
    call = {"source": 'query q() { insert Next { from: "a", to: "b" } }'}
    code, message = overtaken(call, lambda: run(graph, 'delete Item where name = "b"'))
    assert code == "constraint", message
    assert ends(graph, "Next") == []


def test_an_insert_that_runs_again_replaces_the_row_of_its_key(graph, overtaken):
    call = {"source": 'query q() { insert Item { name: "a", n: 2 } }'}
    assert overtaken(call, lambda: run(graph, 'insert Item { name: "a", n: 1 }')) == (1, 0)
    assert nodes(graph, "Item") == {"a": {"name": "a", "n": 2}}


@pytest.mark.parametrize("verb", ["insert", "update", "delete"])
@pytest.mark.parametrize(("retries", "answer"), [(0, "expected_version_mismatch"), (1, 1)])
def test_retries_say_how_often_a_lost_race_is_run_again(graph, overtaken, verb, retries, answer):
    run(graph, 'insert Item { name: "a", n: 1 }')
    statement = {
        "insert": 'insert Item { name: "b", n: 1 }',
        "update": "update Item set { n: 3 } where n = 1",
        "delete": "delete Item where n = 1",
    }[verb]
    call = {"source": f"query q() {{ {statement} }}", "retries": retries}
    first, _ = overtaken(call, lambda: run(graph, 'insert Item { name: "c" }'))
    assert first == answer
    wanted = {
        "insert": {"a": 1, "b": 1, "c": None},
        "update": {"a": 3, "c": None},
        "delete": {"c": None},
    }[verb]
    wanted = {"a": 1, "c": None} if retries == 0 else wanted
    assert {key: row.get("n") for key, row in nodes(graph, "Item").items()} == wanted


def test_a_load_that_lost_is_judged_again_by_what_is_there_then(graph, tmp_path):
    """The look-up of existing ids and the ends of edges; the records are those it read."""
    run(graph, 'insert Item { name: "a", n: 1 }')
    records = [
        {"type": "Item", "data": {"name": "b", "n": 5}},
        {"edge": "Next", "from": "b", "to": "a"},
    ]
    for overtake, answer, rows, edges in [
        ('insert Item { name: "b", n: 2 }', 2, {"a", "b"}, [("b", "a")]),
        ('delete Item where name = "a"', ("constraint",), {"b"}, []),
    ]:
        arguments = ({}, graph.uri, records, "load.before_locks")
        with stopped_at(tmp_path / f"pause-{len(rows)}", load_paused, arguments) as late:
            run(graph, overtake)
            told = late.go_on()
        assert (told[:1] if isinstance(told, tuple) else told) == answer, told
        assert set(nodes(graph, "Item")) == rows
        assert ends(graph, "Next") == edges
    assert nodes(graph, "Item")["b"]["n"] == 5


# ------------------------------------------------------------------ waiting is bounded


def holding(graph, tmp_path):
    """A load of another process that holds the lock of the table until it may go on."""
    records = [{"type": "Item", "data": {"name": "slow"}}]
    arguments = ({}, graph.uri, records, "load.before_phase_a")
    return stopped_at(tmp_path / "held", load_paused, arguments)


def test_a_wait_that_is_too_long_is_contention_and_changes_nothing(graph, tmp_path, monkeypatch):
    before = state(graph)
    with holding(graph, tmp_path) as holder:
        with monkeypatch.context() as patch:
            patch.setenv("OMNIGRAPH_LOCK_WAIT_MS", "20")
            with pytest.raises(Contention) as waited:
                run(graph, 'insert Item { name: "impatient" }')
        assert waited.value.details["attempts"] >= 1
        # Whom it waited for: the operation of the holder.
        assert "load" in " ".join([str(waited.value), *waited.value.__notes__])
        assert state(graph) == before
        assert holder.go_on() == 1
    run(graph, 'insert Item { name: "patient" }')
    assert set(nodes(graph, "Item")) == {"slow", "patient"}


def test_the_waiting_of_all_attempts_is_bounded(graph, tmp_path, overtaken):
    """The first attempt loses its race, the second one waits for a lock that is not given back."""
    with ExitStack() as stack:
        holders = []

        def overtake():
            run(graph, 'insert Item { name: "first" }')
            holders.append(stack.enter_context(holding(graph, tmp_path)))

        call = {"source": 'query q() { insert Item { name: "late" } }'}
        code, _ = overtaken(call, overtake, {"OMNIGRAPH_LOCK_WAIT_MS": "20"})
        assert code == "contention"
        assert holders[0].go_on() == 1
    assert set(nodes(graph, "Item")) == {"first", "slow"}
    assert workspace_of(graph).store.list("__recovery") == []
    run(graph, 'insert Item { name: "next" }')


def test_a_writer_behind_a_slow_holder_has_patience_left_when_it_is_through(
    graph, tmp_path, monkeypatch
):
    """It waited longer than for others, and lost: the holder's commit came first. It still goes on."""
    records = [{"type": "Item", "data": {"name": "slow"}}]
    # It builds indexes while it holds the lock.
    arguments = ({"OMNIGRAPH_INDEX_MIN_ROWS": "1"}, graph.uri, records, "load.before_phase_a")
    monkeypatch.setenv("OMNIGRAPH_LOCK_WAIT_MS", "4000")
    with (
        ThreadPoolExecutor(1) as pool,
        stopped_at(tmp_path / "slow", load_paused, arguments) as holder,
    ):
        waiter = pool.submit(run, graph, 'insert Item { name: "late" }')
        while not has_queue(graph):
            time.sleep(0.01)
        time.sleep(4.2)  # longer than one waits for anybody else
        assert holder.go_on() == 1
        waiter.result(LIMIT)
    assert set(nodes(graph, "Item")) == {"slow", "late"}


def has_queue(graph: Graph) -> bool:
    return any(Path(graph.uri, WAITING_DIR).glob("*"))


def test_a_lost_race_is_run_again_where_nobody_waits(graph, overtaken):
    """Its locks were free: the next attempt waits for nothing."""
    call = {"source": 'query q() { insert Item { name: "late" } }'}
    answer = overtaken(
        call, lambda: run(graph, 'insert Item { name: "a" }'), {"OMNIGRAPH_LOCK_WAIT_MS": "0"}
    )
    assert answer == (1, 0)
    assert set(nodes(graph, "Item")) == {"a", "late"}


@pytest.mark.parametrize(("rows", "slow"), [(10, False), (10_001, True)])
def test_a_large_load_says_that_it_is_slow(graph, rows, slow, monkeypatch):
    """When it lost its race, it judges all its rows again while others wait."""
    monkeypatch.setenv("OMNIGRAPH_INDEX_MIN_ROWS", str(10**9))  # a build would be slow by itself
    (lock,) = lock_names_of(graph, "Item")
    seen = []
    with failpoints.arm("load.before_phase_a", lambda _: seen.append(LockFiles(graph.uri).holder_of(lock))):  # fmt: skip
        graph.load([{"type": "Item", "data": {"name": f"{at}"}} for at in range(rows)])
    assert [one.purpose for one in seen] == [Purpose("load", slow)]


def lock_names_of(graph: Graph, type_name: str) -> list[str]:
    """The lock files of a table that was written to."""
    run(graph, f'insert {type_name} {{ name: "first" }}')
    return [f"__locks/{file.name}" for file in Path(graph.uri, "__locks").glob("table-*.lock")]
