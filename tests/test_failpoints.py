import os
import subprocess
import sys
import threading

import pytest

from omnigraph import failpoints
from omnigraph.errors import BadRequest, StorageError

HERE = failpoints.declare("test.here")
THERE = failpoints.declare("test.there")


@pytest.fixture(autouse=True)
def _nothing_stays_armed():
    yield
    failpoints.disarm_all()


@pytest.fixture
def run_armed():
    """Start a fresh interpreter that hits `child.point` twice, armed through the environment."""
    program = (
        "from omnigraph import failpoints\n"
        "point = failpoints.declare('child.point')\n"
        "for _ in range(2):\n"
        "    failpoints.hit(point)\n"
        "    print('passed', flush=True)\n"
    )

    def start(spec):
        return subprocess.Popen(
            [sys.executable, "-c", program],
            env={
                **os.environ,
                failpoints.ENVIRONMENT: spec,
                "PYTHONPATH": os.pathsep.join(sys.path),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return start


def test_a_hit_does_nothing_while_nothing_is_armed():
    failpoints.hit(HERE)
    failpoints.hit("never declared")


def test_the_inventory_lists_declared_points_sorted():
    names = failpoints.registered()
    assert {HERE, THERE} <= set(names)
    assert list(names) == sorted(names)


def test_raise_is_a_storage_error_that_names_the_point():
    with failpoints.arm(HERE) as armed:
        with pytest.raises(StorageError, match=r"test\.here") as caught:
            failpoints.hit(HERE)
        assert caught.value.details == {"failpoint": HERE}
        assert armed.fired == 1


def test_only_the_armed_point_fires():
    with failpoints.arm(HERE):
        failpoints.hit(THERE)
        THERE.hit()


def test_a_declared_point_is_its_name_and_can_be_hit():
    assert HERE == "test.here"
    HERE.hit()
    with failpoints.arm("test.here"), pytest.raises(StorageError):
        HERE.hit()


def test_the_end_of_the_context_disarms_even_after_an_error():
    with pytest.raises(StorageError), failpoints.arm(HERE):
        failpoints.hit(HERE)
    failpoints.hit(HERE)


def test_a_given_exception_is_raised():
    failure = OSError("disk full")
    with failpoints.arm(HERE, failure), pytest.raises(OSError, match="disk full") as caught:
        failpoints.hit(HERE)
    assert caught.value is failure


def test_a_function_gets_the_name_of_the_point():
    seen = []
    with failpoints.arm(HERE, seen.append):
        failpoints.hit(HERE)
    assert seen == [HERE]


def test_times_bounds_how_often_the_action_runs():
    seen = []
    with failpoints.arm(HERE, seen.append, times=2) as armed:
        for _ in range(5):
            failpoints.hit(HERE)
    assert len(seen) == armed.fired == 2


def test_skip_lets_the_first_hits_pass():
    seen = []
    with failpoints.arm(HERE, seen.append, skip=2, times=1) as armed:
        fired = []
        for _ in range(4):
            failpoints.hit(HERE)
            fired.append(armed.fired)
    assert fired == [0, 0, 1, 1]


def test_a_point_can_be_armed_once_at_a_time():
    with failpoints.arm(HERE), pytest.raises(ValueError, match="already"):
        failpoints.arm(HERE)
    failpoints.arm(HERE).disarm()


def test_disarming_late_leaves_a_newer_arming_alone():
    first = failpoints.arm(HERE)
    first.disarm()
    failpoints.arm(HERE)
    first.disarm()
    with pytest.raises(StorageError):
        failpoints.hit(HERE)


def test_arming_or_hitting_an_undeclared_point_is_loud():
    with pytest.raises(LookupError, match="mistyped"):
        failpoints.arm("test.mistyped")
    with failpoints.arm(HERE), pytest.raises(LookupError, match="mistyped"):
        failpoints.hit("test.mistyped")


def test_an_unknown_action_is_refused():
    with pytest.raises(ValueError, match="explode"):
        failpoints.arm(HERE, "explode")


def test_threads_share_the_count():
    threads = 8
    barrier = threading.Barrier(threads)
    seen = []

    def work():
        barrier.wait()
        for _ in range(200):
            failpoints.hit(HERE)

    with failpoints.arm(HERE, seen.append, times=700, skip=100) as armed:
        workers = [threading.Thread(target=work) for _ in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    assert len(seen) == armed.fired == 700


def test_a_pause_holds_one_thread_and_lets_the_others_pass():
    pause = failpoints.Pause()
    passed = threading.Event()

    def work():
        failpoints.hit(HERE)
        passed.set()

    with failpoints.arm(HERE, pause), failpoints.arm(THERE, times=1):
        worker = threading.Thread(target=work)
        worker.start()
        pause.wait_until_reached()
        with pytest.raises(StorageError):
            failpoints.hit(THERE)
        assert not passed.is_set()
        pause.resume()
        worker.join()
    assert passed.is_set()


@pytest.mark.parametrize("between_processes", [False, True])
def test_a_pause_nobody_ends_becomes_an_error(between_processes, monkeypatch, tmp_path):
    monkeypatch.setattr(failpoints, "PAUSE_LIMIT", 0.01)
    pause = failpoints.FilePause(tmp_path / "p") if between_processes else failpoints.Pause()
    with pytest.raises(TimeoutError, match="reached"):
        pause.wait_until_reached()
    with failpoints.arm(HERE, pause), pytest.raises(TimeoutError, match=r"test\.here"):
        failpoints.hit(HERE)


def test_a_text_arms_several_points():
    failpoints.arm_all(" test.here=raise,times=1,skip=1 ; test.there=raise;")
    failpoints.hit(HERE)
    for name in (HERE, THERE):
        with pytest.raises(StorageError):
            failpoints.hit(name)
    failpoints.hit(HERE)


@pytest.mark.parametrize(
    "text",
    [
        "test.here",
        "=raise",
        "test.here=",
        "test.here=explode",
        "test.here=exit:x",
        "test.here=pause:",
        "test.here=raise,often=1",
        "test.here=raise,times=x",
        "test.here=raise;test.here=exit",
    ],
)
def test_an_unreadable_text_names_the_variable_and_the_forms(text):
    with pytest.raises(BadRequest, match=r"OMNIGRAPH_FAILPOINTS.*name=action"):
        failpoints.arm_all(text)


def test_exit_ends_a_child_at_once(run_armed):
    child = run_armed("child.point=exit,skip=1")
    out, _ = child.communicate()
    assert out.split() == ["passed"]
    assert child.returncode == failpoints.EXIT_CODE


def test_exit_takes_a_code(run_armed):
    child = run_armed("child.point=exit:3")
    child.communicate()
    assert child.returncode == 3


def test_a_child_pauses_until_the_test_resumes_it(run_armed, tmp_path):
    pause = failpoints.FilePause(tmp_path / "held here")
    child = run_armed(f"child.point=pause:{tmp_path / 'held here'}")
    pause.wait_until_reached()
    assert child.poll() is None
    pause.resume()
    out, _ = child.communicate()
    assert out.split() == ["passed", "passed"]
    assert child.returncode == 0


def test_an_unarmed_child_runs_through(run_armed):
    child = run_armed("")
    out, _ = child.communicate()
    assert (out.split(), child.returncode) == (["passed", "passed"], 0)
