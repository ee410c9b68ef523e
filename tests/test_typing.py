"""What type checkers make of the public API."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

PROGRAM = """
from typing import assert_type

import omnigraph as og


def loads(graph: og.Graph, session: og.Session) -> str:
    assert_type(graph.load([]).commit, og.GraphCommit)
    assert_type(session.load("x.jsonl", mode="append", actor="ada").commit, og.GraphCommit)
    assert_type(graph.load_nodes("Person", None, ignore_extra=True).commit, og.GraphCommit)
    assert_type(graph.load_edges("Knows", None, "a", "b").commit, og.GraphCommit)
    assert_type(graph.load([], check=True).commit, og.GraphCommit | None)
    assert_type(graph.load_nodes("Person", None, check=True).commit, og.GraphCommit | None)
    result: og.LoadResult = graph.load([])
    return graph.load([]).commit.graph_commit_id + str(result.total_rows)
"""
WRONG = """
import omnigraph as og


def checked(graph: og.Graph) -> str:
    return graph.load([], check=True).commit.graph_commit_id
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """What mypy says of both programs, which it reads in one run."""
    place = tmp_path_factory.mktemp("typing")
    files = {"right.py": PROGRAM, "wrong.py": WRONG}
    for name, text in files.items():
        (place / name).write_text(text)
    run = [sys.executable, "-m", "mypy", "--strict", *(str(place / name) for name in files)]
    made = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=False)
    assert made.stderr == ""
    return made.stdout


def test_the_commit_of_a_load_is_there_unless_it_only_checked(told):
    assert "right.py" not in told
    assert "checked 2 source files" in told


def test_that_of_a_check_may_be_none(told):
    assert '"None" has no attribute "graph_commit_id"' in told.replace(
        'Item "None" of "GraphCommit | None"', '"None"'
    )
    assert "Found 1 error" in told
