"""NumPy is rented until it has cost what Numba costs; then the next long loop buys it, once."""

import inspect
import os
import subprocess
import sys

import numpy as np
import pytest

from omnigraph.cancel import Cancel, Cancelled, watching
from omnigraph.read.kernels import frontier, hops, pairs, paths, twins
from omnigraph.read.kernels.twins import Account, KeptPrices, Prices, in_numpy
from tests.read.csr_helpers import adjacency

pytest.importorskip("numba")

CSR = adjacency([(0, 1), (1, 2), (2, 0)], 3, 3)
X = np.array([1, 2, 4])
ROWS = np.arange(3, dtype=np.int32)
FREE = Prices(importing=0, loading=0, compiling=0, calling=0, waiting=float("inf"))


class Spending(Account):
    """An account in which every loop in NumPy takes the seconds that were expected of it."""

    def run(self, loop, arguments, seconds):
        name = twins._name(loop, arguments)
        before = self._spent.get(name, 0.0)
        try:
            return super().run(loop, arguments, seconds)
        finally:
            if self._spent.get(name, 0.0) != before:
                self._spent[name] = before + seconds


def account(kept=None, **prices):
    return Spending(FREE._replace(**prices), kept or KeptPrices(None))


def pull(mine, seconds, x=X):
    """Ask for a sum that takes NumPy so many seconds; whether it has been bought by then."""
    assert mine.run(in_numpy(frontier.pull), (CSR, x), seconds).tolist() == [x[1], x[2], x[0]]
    return len(mine.bought)


class TestRentOrBuy:
    def test_a_loop_is_bought_when_it_has_cost_as_much(self):
        mine = account(compiling=1)
        assert [pull(mine, 0.25) for _ in range(6)] == [0, 0, 0, 0, 1, 1]

    def test_all_loops_together_pay_for_the_import(self, monkeypatch):
        monkeypatch.delitem(sys.modules, "numba")
        mine = account(importing=1, compiling=0.3)
        assert [pull(mine, 0.25) for _ in range(2)] == [0, 0]
        for _ in range(2):
            assert (
                mine.run(in_numpy(pairs.contains), (CSR, ROWS, ROWS), 0.3).tolist() == [False] * 3
            )
        assert mine.bought == set()
        assert pull(mine, 0.25) == 1

    def test_what_was_compiled_here_before_is_loaded_sooner(self, tmp_path):
        kept = KeptPrices(tmp_path / "numba.txt")
        mine = account(kept, loading=0.1, compiling=1)
        assert [pull(mine, 0.5) for _ in range(3)] == [0, 0, 1]
        kept.importing = 0.7
        kept.keep()
        mine = account(KeptPrices(tmp_path / "numba.txt"), loading=0.1, compiling=1)
        assert [pull(mine, 0.5) for _ in range(2)] == [0, 1]
        # Sums of fractions are another loop.
        assert [pull(mine, 0.5, X / 2) for _ in range(3)] == [1, 1, 2]

    def test_a_call_that_takes_long_counts_before_it_is_made(self):
        assert pull(account(compiling=3, waiting=2), 2.9) == 0
        assert pull(account(compiling=3, waiting=2), 3) == 1

    def test_little_work_is_numpys_and_not_counted(self, monkeypatch):
        mine = account(calling=1)
        monkeypatch.setattr(twins, "account", mine)
        assert frontier.pull(CSR, X).tolist() == [2, 4, 1]
        assert (mine.bought, mine._spent) == (set(), {})

    def test_other_threads_go_on_in_numpy_while_one_buys(self):
        mine = account()
        with mine._buying:
            assert [pull(mine, 1) for _ in range(3)] == [0] * 3
        assert pull(mine, 1) == 1

    def test_numba_may_be_switched_off(self, monkeypatch):
        monkeypatch.setenv("OMNIGRAPH_NUMBA", "0")
        assert [pull(account(), 9) for _ in range(3)] == [0] * 3

    def test_a_loop_that_cannot_be_compiled_is_left_to_numpy(self, caplog):
        # Numba knows no arrays of Python objects.
        words = np.array(["a", "b", "c"], object)
        mine = account()
        assert [pull(mine, 9, words) for _ in range(2)] == [0, 0]
        assert caplog.text.count("pull is not compiled") == 1

    def test_a_caller_that_gives_up_meanwhile_is_heard(self):
        class Fired(Cancel):
            looks = 0

            def _look(self):
                self.looks += 1
                if self.looks > 1:
                    raise Cancelled

        mine = account()
        with watching(Fired()), pytest.raises(Cancelled):
            pull(mine, 1)
        assert pull(mine, 1) == 1

    def test_what_the_import_takes_is_measured_where_nothing_is_compiled(
        self, tmp_path, monkeypatch
    ):
        for _process in range(2):
            monkeypatch.delitem(sys.modules, "numba", raising=False)
            kept = KeptPrices(tmp_path / "numba.txt")
            # The clock is at 5 when buying begins, and at 7.5 when it is done.
            mine = Account(FREE._replace(importing=1.0), kept)
            monkeypatch.setattr(twins, "thread_time", iter([4.0, 5.0, 5.0, 7.5]).__next__)
            for _ in range(2):
                mine.run(in_numpy(frontier.pull), (CSR, X), 0.1)
            assert mine.bought
        assert KeptPrices(tmp_path / "numba.txt").importing == 2.5


class TestKeptPrices:
    def test_they_are_for_later_processes(self, tmp_path):
        path = tmp_path / "cache" / "numba.txt"
        kept = KeptPrices(path)
        kept.importing = 0.75
        kept.compiled |= {"pull Csr int64", "contains Csr int32 int32"}
        kept.keep()
        again = KeptPrices(path)
        assert (again.importing, again.compiled) == (kept.importing, kept.compiled)
        assert [found.name for found in path.parent.iterdir()] == ["numba.txt"]

    @pytest.mark.parametrize(
        "damaged",
        [b"", b"soon\npull", b"\xff\xfe", b"1" * 100_000],
        ids=["empty", "word", "bytes", "long"],
    )
    def test_damaged_ones_count_as_nothing(self, damaged, tmp_path):
        (tmp_path / "numba.txt").write_bytes(damaged)
        kept = KeptPrices(tmp_path / "numba.txt")
        assert (kept.importing, kept.compiled) == (None, set())

    @pytest.mark.parametrize(("written", "read"), [("-3", 0.0), ("1e9", 10.0), ("nan", None)])
    def test_no_import_takes_less_than_nothing_or_for_ever(self, written, read, tmp_path):
        (tmp_path / "numba.txt").write_text(written)
        assert KeptPrices(tmp_path / "numba.txt").importing == read

    def test_where_nothing_can_be_written_nothing_is_kept(self, tmp_path):
        (tmp_path / "file").write_text("")
        kept = KeptPrices(tmp_path / "file" / "numba.txt")
        kept.importing = 1.0
        kept.keep()
        assert (tmp_path / "file").read_text() == ""


def test_every_twin_has_the_loop_it_stands_for():
    """A loop of the same name, which takes the same arguments."""
    from omnigraph.read.kernels import frontier_numba, hops_numba, pairs_numba, paths_numba

    twins_of = {
        frontier: frontier_numba,
        hops: hops_numba,
        pairs: pairs_numba,
        paths: paths_numba,
    }
    checked = set()
    for plain, compiled in twins_of.items():
        for name, loop in vars(plain).items():
            if getattr(loop, "__module__", "") == plain.__name__ and hasattr(loop, "__wrapped__"):
                sizes = inspect.Parameter.KEYWORD_ONLY
                mine = inspect.signature(loop).parameters.values()
                assert [p.name for p in mine if p.kind != sizes] == list(
                    inspect.signature(getattr(compiled, name)).parameters
                )
                checked.add(name)
    assert checked >= {"pull", "contains", "counted", "least_costs"}


SCRIPT = """
import os, sys, threading
import numpy as np
{before}
from omnigraph.read.kernels import frontier, hops, twins
from tests.read.csr_helpers import adjacency
csr = adjacency([(0, 1), (1, 2), (2, 0)], 3, 3)
rows = np.arange(3, dtype=np.int32)
def ask():
    assert frontier.pull(csr, np.array([1, 2, 4])).tolist() == [2, 4, 1]
    assert hops.reach_count(csr, rows, 1, 2).tolist() == [2, 2, 2]
{then}
print("numba.core" in sys.modules)
"""
EAGER = """
from omnigraph.read.kernels import twins
twins.account = twins.Account(twins.Prices(0, 0, 0, 0, 0), twins.KeptPrices.of_settings())
"""
ASKED = "for _ in range(50): ask()"


def run(before, then, tmp_path, monkeypatch):
    # Where nothing was compiled before.
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "numba"))
    monkeypatch.setenv("OMNIGRAPH_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PYTHONPATH", ".", prepend=os.pathsep)
    command = [sys.executable, "-c", SCRIPT.format(before=before, then=then)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("before", "switch", "imported"),
    [
        ("", "", "False"),
        (EAGER, "", "True"),
        (EAGER, "0", "False"),
        ("sys.modules['numba'] = None" + EAGER, "", "False"),
    ],
    ids=["small work", "much work", "switched off", "not installed"],
)
def test_numba_is_imported_only_when_it_pays(before, switch, imported, tmp_path, monkeypatch):
    monkeypatch.setenv("OMNIGRAPH_NUMBA", switch)
    assert run(before, ASKED, tmp_path, monkeypatch) == imported
    kept = KeptPrices(tmp_path / "cache" / "numba.txt")
    assert (kept.importing is not None) == (imported == "True")
    assert any(name.startswith("pull ") for name in kept.compiled) == (imported == "True")


FORKED = """
ready = threading.Event()
def buy():
    with twins.account._buying:
        ready.set()
        threading.Event().wait()
{between}
child = os.fork()
if child == 0:
    ask()
    os._exit(7)
assert os.waitpid(child, 0)[1] == 7 << 8
ask()
"""


@pytest.mark.parametrize(
    "between",
    ["ask()", "", "threading.Thread(target=buy, daemon=True).start(); ready.wait()"],
    ids=["bought", "not bought", "in the middle"],
)
def test_parent_and_child_of_a_fork_go_on(between, tmp_path, monkeypatch):
    """Also where another thread is about to buy: the child never waits for it."""
    bought = "ready" not in between
    then = FORKED.format(between=between)
    assert run(EAGER, then, tmp_path, monkeypatch) == str(bought)
