"""Loads as the person at a terminal sees them: progress, interruption, standard input."""

import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import omnigraph as og
from tests.cli.running import environment
from tests.cli.screen import CTRL_D, Terminal
from tests.cli.terminal import at_terminal, start
from tests.stored import read_back

RECORD = '{"type":"Person","data":{"name":"ada","age":36}}\n'
LOAD = ("load", "--mode", "merge", "g.omni")


def names(place):
    with og.open(place / "g.omni", mode="r") as graph:
        return sorted(read_back(graph).nodes["Person"])


@pytest.fixture
def people(graph, place):
    (place / "people.jsonl").write_text(RECORD, "utf-8")
    return "people.jsonl"


def test_a_terminal_sees_the_progress_and_a_pipe_the_result(people, place):
    argv = (*LOAD, "--data", people)
    code, out, shown = at_terminal(argv, place)
    assert code == 0, shown
    assert re.search(r"stage 4 of 5, writing: 1 record read, 1 staged, \d+ s", shown), shown
    assert out.startswith("loaded 1 row into branch main")
    assert "\x1b" not in out
    # The line is wiped when the load is over.
    assert shown.rstrip("\r\n").endswith(("\x1b[2K", "\x1b[?25h"))


def test_the_progress_is_on_the_screen_while_the_load_runs_and_gone_after_it(graph, place):
    with Terminal((*LOAD, "--data", "-"), place) as terminal:
        terminal.wait_for("omnigraph load -> g.omni")
        terminal.wait_until(lambda screen: "opening" in screen or "stage 1 of 5" in screen)
        terminal.type(RECORD + CTRL_D * 2)  # the end of a terminal is read twice
        assert terminal.wait_for_end() == 0
        assert "loaded 1 row into branch main" in terminal.text
        assert "stage" not in terminal.text


@pytest.mark.parametrize(
    ("flag", "env"), [("--quiet", {}), ("--json", {}), ("--engine=auto", {"TERM": "dumb"})]
)
def test_no_progress_where_it_would_be_noise(people, place, flag, env):
    code, _, shown = at_terminal((*LOAD, "--data", people, flag), place, env)
    assert code == 0, shown
    assert "records" not in shown
    assert "\x1b" not in shown


def test_no_progress_without_a_terminal(omnigraph, people):
    result = omnigraph(*LOAD, "--data", people)
    assert result.exit == 0
    assert result.stderr == "omnigraph load -> g.omni (direct, local)\n"


def test_a_failure_at_a_terminal_is_one_plain_line(graph, place):
    (place / "bad.jsonl").write_text("{}\n", "utf-8")
    code, out, shown = at_terminal(("load", "--mode", "merge", graph, "--data", "bad.jsonl"), place)
    assert (code, out) == (1, "")
    assert re.search(r"error: input error: bad\.jsonl, line 1: [^\x1b]*$", shown), shown


# ------------------------------------------------------------------ standard input


def test_standard_input_is_named_and_can_be_read_once(omnigraph, graph, place):
    bad = omnigraph(*LOAD, "--data", "-", "--quiet", stdin=RECORD + "{}\n")
    assert bad.exit == 1
    assert bad.stderr.startswith("error: input error: <stdin>, line 2: ")
    twice = omnigraph(*LOAD, "--data", "-", "--data", "-", stdin=RECORD)
    assert twice.exit == 1
    assert "twice" in twice.stderr
    assert names(place) == []


@pytest.mark.parametrize("given", ["--data=people.jsonl", "--data=-"])
def test_a_full_disk_is_told_as_that(people, place, given):
    (place / "people.jsonl").write_text(RECORD * 20_000, "utf-8")

    program = (
        "import resource, runpy, signal\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))\n"
        "runpy.run_module('omnigraph', run_name='__main__')\n"
    )
    with (place / "people.jsonl").open("rb") as data:
        process = subprocess.Popen(
            [sys.executable, "-c", program, *LOAD, given, "--quiet"],
            cwd=place, env=environment(place / "home"), stdin=data, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )  # fmt: skip
        out, err = process.communicate()
    assert process.returncode == 1
    assert out == b""
    assert b"room for temporary files" in err
    assert b"internal error" not in err
    assert names(place) == []


# ------------------------------------------------------------------ interruption


@pytest.mark.parametrize(
    ("number", "code", "told"),
    [
        (signal.SIGINT, 130, b"interrupted\n"),
        (signal.SIGTERM, 143, b"ended by SIGTERM\n"),
        (signal.SIGHUP, 129, b"ended by SIGHUP\n"),
    ],
)
def test_an_interrupted_load_leaves_nothing(graph, place, number, code, told):
    scratch = place / "scratch"
    scratch.mkdir()
    ours = signal.signal(number, signal.SIG_DFL)  # below `nohup` the command would ignore one too
    try:
        process = start(
            (*LOAD, "--data", "-", "--quiet"), place, env={"TMPDIR": str(scratch)},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
    finally:
        signal.signal(number, ours)
    with process:
        try:
            process.stdin.write(RECORD.encode())
            process.stdin.flush()
            deadline = time.monotonic() + 600
            while not list(scratch.glob("omnigraph-*/*/stream.jsonl")):
                assert process.poll() is None, process.communicate()
                assert time.monotonic() < deadline
                select.select([], [], [], 0.02)
            process.send_signal(number)
            out, err = process.communicate()
        finally:
            process.kill()
    assert (process.returncode, out, err) == (code, b"", told)
    assert list(scratch.iterdir()) == []
    assert names(place) == []


def test_ingest_takes_frames_too(omnigraph, graph, place):
    Path(place, "p.csv").write_text("name,age\nada,36\n", "utf-8")
    result = omnigraph("ingest", "--node", "Person", "p.csv", "--branch", "b", graph)
    assert result.exit == 0, result.stderr
    with og.open(place / graph, mode="r") as opened:
        assert list(read_back(opened, "b").nodes["Person"]) == ["ada"]
