"""Two copies of a graph with one cache directory: nothing of one is ever found by the other.

Their graph ids, locations, branches and version numbers are the same, and their rows are not.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.read.search import scratch_index
from omnigraph.read.thresholds import SearchThresholds, Thresholds, ViewThresholds
from tests.opened import read_with

SCHEMA = """
node Doc { name: String @key  body: String  v: Vector(2)? }
edge Cites: Doc -> Doc
"""
KEEP_ALL = Thresholds(
    view=ViewThresholds(kept_rows=0, derived_rows=0), search=SearchThresholds(unindexed_rows=0)
)
QUESTIONS = {
    "text": 'match { $d: Doc  search($d.body, "solar") } return { $d.name }',
    "rank": 'match { $d: Doc } return { $d.name } order { bm25($d.body, "solar") } limit 500',
    "paths": "match { $a: Doc  $a cites{1,3} $b } return { $a.name, $b.name }",
    "values": "match { $d: Doc } return { $d.name, $d.body }",
    "near": "match { $d: Doc } return { $d.name } order { nearest($d.v, [1.0, 0.0]) } limit 5",
}


@pytest.fixture(autouse=True)
def _one_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("OMNIGRAPH_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("OMNIGRAPH_DISK_CACHE_MB")


def write(graph: og.Graph, rng: random.Random, branch: str) -> None:
    """The same number of commits and versions in every copy, other rows in each."""
    for _ in range(3):
        names = [f"d{rng.randrange(40):02d}" for _ in range(6)]
        words = [rng.choice(["solar", "wind", "tide", "coal"]) for _ in names]
        docs = [
            {"type": "Doc", "data": {"name": name, "body": word, "v": [rng.random(), rng.random()]}}
            for name, word in dict(zip(names, words, strict=True)).items()
        ]
        ends = rng.sample(sorted(set(names)), 2) if len(set(names)) > 1 else names[:1] * 2
        graph.load([*docs, {"edge": "Cites", "from": ends[0], "to": ends[1]}], branch=branch)


def answers(graph: og.Graph, branch: str) -> dict[str, list[str]]:
    read_with(graph, KEEP_ALL)
    return {
        kind: sorted(
            json.dumps(row) for row in graph.query(f"query q() {{ {text} }}", branch=branch).rows
        )
        for kind, text in QUESTIONS.items()
    }


ASK = """
import json, sys
import omnigraph as og
from tests.read.test_copies import answers
with og.open(sys.argv[1], mode="r") as graph:
    print(json.dumps(answers(graph, sys.argv[2])))
"""


def in_new_process(root: Path, branch: str, cache: Path) -> dict[str, list[str]]:
    environment = {**os.environ, "OMNIGRAPH_CACHE_DIR": str(cache)}
    run = [sys.executable, "-c", ASK, str(root), branch]
    made = subprocess.run(
        run,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    found: dict[str, list[str]] = json.loads(made.stdout)
    return found


@pytest.fixture
def copies(tmp_path):
    """Two copies with histories of their own; the places of both."""
    one, other = tmp_path / "one", tmp_path / "other"
    with og.init(one, SCHEMA, upkeep="off") as graph:
        write(graph, random.Random(0), "main")
    shutil.copytree(one, other)
    for seed, root in enumerate((one, other), 1):
        with og.open(root, upkeep="off") as graph:
            write(graph, random.Random(seed), "main")
    return one, other


def test_the_copies_differ_although_their_numbers_do_not(copies):
    pins = []
    for root in copies:
        with og.open(root, mode="r") as graph:
            pins.append({key: pin.table_version for key, pin in graph.snapshot().tables.items()})
    assert pins[0] == pins[1]


def test_in_one_process(copies, tmp_path, monkeypatch):
    found = []
    for root in (*copies, *copies):
        with og.open(root, mode="r") as graph:
            found.append(answers(graph, "main"))
    wanted = []
    for root in copies:
        monkeypatch.setenv("OMNIGRAPH_CACHE_DIR", str(tmp_path / f"own of {root.name}"))
        with og.open(root, mode="r") as graph:
            wanted.append(answers(graph, "main"))
    assert found == [*wanted, *wanted]
    for kind in QUESTIONS:
        assert wanted[0][kind] != wanted[1][kind], kind


def test_in_new_processes(copies, tmp_path):
    found = [in_new_process(root, "main", tmp_path / "cache") for root in copies]
    wanted = [in_new_process(root, "main", tmp_path / root.name / "own") for root in copies]
    assert found == wanted
    for kind in ("topology", "text"):
        assert list((tmp_path / "cache" / kind).iterdir()), f"nothing of {kind} was kept"


def test_a_backup_put_back(copies, tmp_path):
    """The same address, too."""
    one, other = copies
    in_new_process(one, "main", tmp_path / "cache")
    shutil.rmtree(one)
    other.rename(one)
    found = in_new_process(one, "main", tmp_path / "cache")
    assert found == in_new_process(one, "main", tmp_path / "own")


def test_equal_states_share_what_is_kept(tmp_path):
    """Before either is written to, a copy need not build again what its original has built."""
    with og.init(tmp_path / "one", SCHEMA) as graph:
        write(graph, random.Random(0), "main")
        first = answers(graph, "main")
    built = sorted((tmp_path / "cache" / "text").iterdir())
    shutil.copytree(tmp_path / "one", tmp_path / "other")
    with og.open(tmp_path / "other", mode="r") as copy:
        assert answers(copy, "main") == first
    assert sorted((tmp_path / "cache" / "text").iterdir()) == built


def test_a_compaction_and_an_index_keep_the_text_index_of_a_warm_process(tmp_path):
    with og.init(tmp_path / "one", SCHEMA, upkeep="off") as graph:
        write(graph, random.Random(0), "main")
        first = answers(graph, "main")
        built = sorted((tmp_path / "cache" / "text").iterdir())
        graph.optimize()
        second = {kind: graph.query(f"query q() {{ {text} }}") for kind, text in QUESTIONS.items()}
        assert sorted(json.dumps(row) for row in second["text"].rows) == first["text"]
    assert sorted((tmp_path / "cache" / "text").iterdir()) == built
    assert scratch_index._open
