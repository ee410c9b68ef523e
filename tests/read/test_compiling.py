"""Loops are compiled in the background: NumPy answers until then, and neither exits nor forks mind."""

import inspect
import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from omnigraph.cancel import Cancel, Cancelled, watching
from omnigraph.read.kernels import (
    frontier,
    frontier_numpy,
    hops,
    hops_numpy,
    pairs,
    pairs_numpy,
)
from omnigraph.read.kernels.compiling import Compiler
from omnigraph.read.kernels.dispatch import Costs, Dispatch
from tests.read.csr_helpers import adjacency, only

pytest.importorskip("numba")

NUMBA = "omnigraph.read.kernels.frontier_numba"
CSR = adjacency([(0, 1), (1, 2), (2, 0)], 3, 3)
X = np.array([1, 2, 4])


class TestSwitching:
    @pytest.fixture
    def compiler(self):
        return Compiler()

    def pull(self, compiler, *, waiting=float("inf")):
        dispatch = Dispatch(NUMBA, Costs(0, 0, 0, waiting), compiler)
        return dispatch.choose(frontier_numpy.pull, 1)(CSR, X).tolist()

    def test_numpy_answers_until_the_loop_is_ready(self, compiler):
        # As during a fork: nothing is imported or compiled while it lasts.
        with compiler._busy:
            for _ in range(3):
                assert self.pull(compiler) == [2, 4, 1]
            assert compiler.ready() == set()
            assert len(compiler._jobs) == 1
        assert self.pull(compiler, waiting=0) == [2, 4, 1]
        assert compiler.ready() == {"pull"}

    def test_a_long_call_waits_for_it(self, compiler):
        ready = []

        def ask():
            assert self.pull(compiler, waiting=0) == [2, 4, 1]
            ready.append(compiler.ready())

        with compiler._busy:
            thread = threading.Thread(target=ask)
            thread.start()
        thread.join()
        assert ready == [{"pull"}]

    def test_what_somebody_waits_for_comes_first(self, compiler):
        dispatch, rows = Dispatch(NUMBA, Costs(0, 0, 0), compiler), np.array([0], np.int32)
        with compiler._busy:
            # The first is begun, the others are queued.
            for name in ("push_any", "expand", "expand_multi"):
                dispatch.choose(getattr(frontier_numpy, name), 0)(CSR, rows)
            assert soon(lambda: len(compiler._queue) == 2)
            thread = threading.Thread(target=self.pull, args=[compiler], kwargs={"waiting": 0})
            thread.start()
            assert soon(lambda: compiler._queue[0].key.name == "pull")
        thread.join()
        assert "pull" in compiler.ready()

    def test_waiting_ends_when_the_question_is_cancelled(self, compiler):
        class Fired(Cancel):
            looks = 0

            def _look(self):
                self.looks += 1
                if self.looks > 2:
                    raise Cancelled

        with compiler._busy, watching(Fired()), pytest.raises(Cancelled):
            self.pull(compiler, waiting=0)

    def test_a_loop_that_cannot_be_compiled_is_left_to_numpy(self, compiler, caplog):
        dispatch = Dispatch(NUMBA, Costs(0, 0, 0, 0), compiler)
        # Numba knows no arrays of Python objects.
        words = np.array(["a", "b", "c"], object)
        assert dispatch.choose(frontier_numpy.pull, 0)(CSR, words).tolist() == ["b", "c", "a"]
        assert compiler.ready() == set()
        assert "pull is not compiled" in caplog.text

    def test_a_thread_that_cannot_start_leaves_all_to_numpy(self, compiler, monkeypatch):
        def refuse(thread):
            raise RuntimeError("can't start new thread")

        monkeypatch.setattr(threading.Thread, "start", refuse)
        for _ in range(2):
            assert self.pull(compiler, waiting=0) == [2, 4, 1]
        assert compiler.ready() == set()

    def test_types_are_compiled_one_by_one(self, compiler):
        self.pull(compiler, waiting=0)
        with compiler._busy:
            dispatch = Dispatch(NUMBA, Costs(0, 0, 0), compiler)
            assert dispatch.choose(frontier_numpy.pull, 0)(CSR, X / 2).tolist() == [1, 2, 0.5]
            assert [job.made is not None for job in compiler._jobs.values()] == [True, False]


def test_no_call_compiles_what_its_example_did_not(monkeypatch):
    """Rows of every length, with and without weights and masks: nobody waits for the compiler."""
    from omnigraph.read.kernels import frontier_numba, hops_numba, pairs_numba

    called: list[str] = []
    before: dict[str, int] = {}
    real = Dispatch._call

    def call(self, loop, *arguments, waits):
        compiled = self._compiler.get(self._module, loop.__name__, *arguments, waits=True)
        assert compiled is not None, loop.__name__
        called.append(loop.__name__)
        before.update(signatures(frontier_numba, hops_numba, pairs_numba))
        made = real(self, loop, *arguments, waits=waits)
        assert signatures(frontier_numba, hops_numba, pairs_numba) == before, loop.__name__
        return made

    only("numba", monkeypatch)
    monkeypatch.setattr(Dispatch, "_call", call)
    rng = np.random.default_rng(5)
    ends = zip(rng.integers(0, 300, 9000), rng.zipf(1.3, 9000) % 300, strict=True)
    csr = adjacency(list(ends), 300, 300)
    rows, others = rng.integers(0, 300, (2, 200)).astype(np.int32)
    counts, mask = np.arange(300), np.arange(300) % 3 > 0
    for x in (counts, counts / 7):
        frontier.pull(csr, x)
        frontier.push(csr, rows, x[rows])
    frontier.pull_any(csr, mask)
    frontier.pull_count(csr, mask)
    frontier.pull_min(csr, counts.astype(np.int32))
    frontier.pull_max(csr, counts.astype(np.int32))
    frontier.push_any(csr, rows)
    frontier.expand(csr, rows)
    frontier.expand_multi(csr, rows)
    pairs.contains(csr, rows, others)
    pairs.marked(np.arange(300 * 300 // 8 + 1).astype(np.uint8), 300, rows, others)
    for weights in (None, counts):
        starts = np.arange(0, 201, 20)
        frontier.expand_merged(csr, rows, starts, None if weights is None else weights[:200])
        for chosen in (None, mask):
            pairs.common_count(csr, rows, csr, others, weights, chosen)
            pairs.common_expand(csr, rows, csr, others, chosen)
        for some in (rows, rows[:3]):
            hops.reach_count(csr, some, 1, 4, weights=weights)
            hops.reach_count(csr, some, 2, 3, inverse=True, weights=weights)
    list(hops.reach(csr, rows, 1, 3))
    twins = {
        name
        for numpy_, numba in (
            (frontier_numpy, frontier_numba),
            (hops_numpy, hops_numba),
            (pairs_numpy, pairs_numba),
        )
        for name, function in vars(numpy_).items()
        if inspect.isfunction(function) and function.__module__ == numpy_.__name__
        if not name.startswith("_") and hasattr(numba, name)
    }
    assert set(called) == twins, "call each of them above"


def soon(condition):
    """Wait until something is so, for a minute at most."""
    until = time.monotonic() + 60
    while not condition() and time.monotonic() < until:
        time.sleep(0.001)
    return condition()


def signatures(*modules):
    """How many forms of every loop are compiled."""
    return {
        name: len(loop.signatures)
        for module in modules
        for name, loop in vars(module).items()
        if hasattr(loop, "signatures")
    }


BEGUN = """
import os, sys, time
import numpy as np
from omnigraph.read.kernels import dispatch, frontier, hops, pairs
from tests.read.csr_helpers import adjacency

csr = adjacency([(0, 1), (1, 2), (2, 0)], 3, 3)
rows = np.arange(3, dtype=np.int32)

def ask(*costs):
    for loops in (frontier, hops, pairs):
        loops.dispatcher.costs = dispatch.Costs(*costs)
    assert frontier.pull(csr, np.array([1, 2, 4])).tolist() == [2, 4, 1]
    assert hops.reach_count(csr, rows, 1, 2).tolist() == [2, 2, 2]
    assert pairs.common_count(csr, rows, csr, rows).tolist() == [1, 1, 1]

ask(0, 0, 0)
time.sleep({seconds})
"""
FORKED = """
child = os.fork()
ask(0, 0, 0, 0)
ready = sorted(dispatch.COMPILER.ready())
assert {"common_count", "counted", "pull"} <= set(ready), ready
if child == 0:
    os._exit(7)
assert os.waitpid(child, 0)[1] == 7 << 8
"""


def run(script, tmp_path, monkeypatch):
    # Where nothing was compiled before.
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", ".", prepend=os.pathsep)
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("seconds", [0, 0.05, 0.4, 1])
def test_a_process_ends_while_it_compiles(seconds, tmp_path, monkeypatch):
    run(BEGUN.format(seconds=seconds), tmp_path, monkeypatch)


@pytest.mark.parametrize("seconds", [0, 0.4])
def test_parent_and_child_of_a_fork_go_on(seconds, tmp_path, monkeypatch):
    """The child can import and compile what the parent was about to when it forked."""
    run(BEGUN.format(seconds=seconds) + FORKED, tmp_path, monkeypatch)
