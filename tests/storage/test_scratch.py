"""Temporary directories: those of a process that is gone are removed, all others stay."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from omnigraph.storage import scratch
from omnigraph.storage.owner import OwnerProcess
from omnigraph.storage.scratch import make_scratch, remove_abandoned, scratch_directory

SRC = Path(__file__).parents[2] / "src"
HOLDING = """
import signal, sys
from omnigraph.storage.scratch import make_scratch, scratch_directory
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # below `nohup` it would be ignored
held = scratch_directory()
print(held.name, make_scratch("spark"), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A place for temporary files, in which nobody has looked around yet."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(scratch, "_swept", {})
    return tmp_path


@pytest.fixture
def holder(place):
    """Another process, and its two directories."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDING],
        env={**os.environ, "TMPDIR": str(place), "PYTHONPATH": str(SRC)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    held = [Path(name) for name in process.stdout.readline().split()]
    assert len(held) == 2
    for directory in held:
        (directory / "below").mkdir()
        (directory / "below" / "rows.arrow").write_bytes(b"x")
    yield process, held
    process.kill()
    process.communicate()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGHUP])
def test_what_a_killed_process_left_goes_with_the_next_directory(place, holder, number):
    process, held = holder
    process.send_signal(number)
    process.wait()
    assert all(directory.is_dir() for directory in held)
    with scratch_directory() as mine:
        assert os.listdir(place) == [Path(mine).name]


def test_what_a_live_process_holds_stays(place, holder):
    _, held = holder
    with scratch_directory():
        assert all((directory / "below" / "rows.arrow").exists() for directory in held)
    own = make_scratch("text")
    remove_abandoned(place)
    assert own.is_dir()


def gone():
    """The number of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def named(pid, start=None, where=None):
    """What a directory of a process is called."""
    started = scratch._digest(OwnerProcess.current().process_start if start is None else start)
    return f"omnigraph-{where or scratch._place()}-{pid}-{started}-abc"


def test_a_number_that_was_given_to_another_process_does_not_protect(place):
    (place / named(os.getpid(), "an earlier boot/17")).mkdir()
    (place / named(os.getpid())).mkdir()
    remove_abandoned(place)
    assert os.listdir(place) == [named(os.getpid())]


def test_what_is_not_ours_stays(place):
    elsewhere = scratch._digest("another machine")
    stranger = place / "omnigraph-mine"
    names = [named(gone(), where=elsewhere), named(gone()) + "-link", "omnigraph-mine", "draft"]
    for name in names:
        (place / name).mkdir() if not name.endswith("-link") else None
    (stranger / "kept").touch()
    (place / names[1]).symlink_to(stranger)
    file = place / f"{named(gone())}-file"
    file.touch()
    remove_abandoned(place)
    assert sorted(os.listdir(place)) == sorted([*names, file.name])
    assert (stranger / "kept").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make what is another user's")
def test_what_is_another_users_stays(place):
    other = place / named(gone())
    other.mkdir()
    os.chown(other, 12345, -1)
    remove_abandoned(place)
    assert other.is_dir()


def test_the_look_around_is_not_repeated_at_once(place):
    with scratch_directory():
        left = place / named(gone())
        left.mkdir()
        with scratch_directory():
            assert left.is_dir()


def test_a_place_that_cannot_be_listed_is_no_fault(tmp_path):
    remove_abandoned(tmp_path / "nowhere")
