"""What type checkers make of the public API."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

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


def check(text: str, tmp_path: Path) -> str:
    (tmp_path / "program.py").write_text(text)
    run = [sys.executable, "-m", "mypy", "--strict", str(tmp_path / "program.py")]
    made = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=False)
    assert made.stderr == ""
    return made.stdout


def test_the_commit_of_a_load_is_there_unless_it_only_checked(tmp_path):
    assert "Success" in check(PROGRAM, tmp_path)


def test_that_of_a_check_may_be_none(tmp_path):
    assert '"None" has no attribute "graph_commit_id"' in check(WRONG, tmp_path).replace(
        'Item "None" of "GraphCommit | None"', '"None"'
    )
