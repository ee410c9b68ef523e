"""Random writes on a branch that is deleted and made again between their preparation and their locks.

The model knows no races: a write that was overtaken does to the new branch what it would have done a
moment later, and says so.
"""

from __future__ import annotations

import copy
import random
import threading

import pytest

from omnigraph import failpoints
from omnigraph.errors import ConstraintError, InputError, KeyConflict
from omnigraph.graph import init
from tests.commit.synthetic import drifted
from tests.opened import workspace_of
from tests.sampling import FRESH, runs_all
from tests.stored import read_back
from tests.write.model import Model, Refused
from tests.write.random_model import (
    Query,
    json_record,
    kind_of,
    make_load,
    make_model,
    make_statements,
    schema_text,
)

STEPS = 20
# The fresh one differs in each process that collects: its name must not. A failure shows the seed.
SEEDS = [*range(3 if runs_all() else 1), FRESH]


def make_write(rnd, model):
    """The name of its writer, and what it needs to run on a graph or on a model."""
    if rnd.random() < 0.5:
        return "mutation", make_statements(rnd, model)
    return "load", make_load(rnd, model)


def run_on_model(model, write):
    kind, what = write
    try:
        if kind == "mutation":
            return "done", model.run(what)[:2]
        mode, records = what
        return "done", model.load(records, mode)
    except Refused as refused:
        return "refused", refused.kinds


def run_on_graph(graph, branch, model, write):
    kind, what = write
    try:
        if kind == "mutation":
            query = Query()
            for statement in what:
                query.add(model, statement)
            result = graph.mutate(query.text, params=query.given, branch=branch)
            return "done", (result.affected_nodes, result.affected_edges)
        mode, records = what
        given = [json_record(model, record) for record in records]
        tables = graph.load(given or b"", mode=mode, branch=branch).tables
        return "done", {one["table_key"].split(":")[1]: one["rows_loaded"] for one in tables}
    except (InputError, ConstraintError, KeyConflict) as refused:
        return "refused", kind_of(refused)


def agree(told, wanted):
    return told[0] == wanted[0] and (
        told[1] in wanted[1] if told[0] == "refused" else told[1] == wanted[1]
    )


def stored(graph, branch):
    plain = read_back(graph, branch)
    links = {
        name: {row_id: (src, dst, dict(row)) for row_id, src, dst, row in rows}
        for name, rows in plain.edges.items()
    }
    return {name: dict(rows) for name, rows in plain.nodes.items()}, links


def check(graph, branch, model, told, write, about):
    """What was told and what is stored, against the model after the same write."""
    wanted = run_on_model(model, write)
    shown = f"{about}: {write} on {branch}\n{schema_text(model)}"
    assert agree(told, wanted), f"{told} instead of {wanted} {shown}"
    if told[0] == "done":
        model.settle(*stored(graph, branch))
    assert stored(graph, branch) == (model.rows, model.links), shown


def copy_of(model):
    made = Model(model.nodes, model.edges)
    made.rows, made.links = copy.deepcopy(model.rows), copy.deepcopy(model.links)
    return made


class Late(threading.Thread):
    """A write that stops between its preparation and its locks, unless it ends before."""

    def __init__(self, graph, model, write):
        super().__init__(daemon=True)
        self.pause = failpoints.Pause()
        self.told = None
        self._call = (graph, "b", model, write)
        self._point = f"{write[0]}.before_locks"
        self._arrived = threading.Event()

    def run(self):
        def stop(name):
            self._arrived.set()
            self.pause(name)

        try:
            with failpoints.arm(self._point, stop, times=1):
                self.told = run_on_graph(*self._call)
        finally:
            self._arrived.set()

    def stands(self):
        """Whether it stopped; otherwise it is over."""
        self.start()
        assert self._arrived.wait(failpoints.PAUSE_LIMIT)
        self.join(0 if self.told is None else None)
        return self.told is None

    def end(self):
        self.pause.resume()
        self.join(failpoints.PAUSE_LIMIT)
        return self.told


@pytest.mark.parametrize("seed", SEEDS)
def test_random_writes_on_a_branch_that_is_made_again_under_them(tmp_path, seed):
    rnd = random.Random(seed)
    main = make_model(rnd)
    overtaken = 0
    with init(tmp_path / "g", schema_text(main)) as graph:
        for step in range(5):
            write = make_write(rnd, main)
            check(graph, "main", main, run_on_graph(graph, "main", main, write), write, step)
        graph.branches.create("b")
        model = copy_of(main)
        for step in range(STEPS):
            about = f"seed {seed}, step {step}"
            for _ in range(rnd.randrange(2)):
                write = make_write(rnd, model)
                check(graph, "b", model, run_on_graph(graph, "b", model, write), write, about)
            write = make_write(rnd, model)
            late = Late(graph, model, write)
            if late.stands():
                overtaken += 1
                graph.branches.delete("b")
                graph.branches.create("b")
                model = copy_of(main)
                for _ in range(rnd.randrange(3)):
                    other = make_write(rnd, model)
                    check(graph, "b", model, run_on_graph(graph, "b", model, other), other, about)
            check(graph, "b", model, late.end(), write, about)
            assert drifted(graph, "b") == []
        assert overtaken  # how many reach their locks depends on the seed
        assert stored(graph, "main") == (main.rows, main.links)
        assert workspace_of(graph).store.list("__recovery") == []
