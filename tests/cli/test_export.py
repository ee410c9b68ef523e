"""`omnigraph export`: lines on stdout or in a file, and nothing of them where it refuses."""

import json
import subprocess
import sys

import pytest

import omnigraph as og
from tests.cli.running import environment

SCHEMA = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person"
LINES = """\
{"type":"Person","data":{"id":"Zoë","name":"Zoë","age":null}}
{"type":"Person","data":{"id":"ann","name":"ann","age":7}}
{"edge":"Knows","from":"ann","to":"Zoë","data":{"id":"k"}}
"""


@pytest.fixture
def store(place):
    with og.init(place / "p.omni", SCHEMA) as graph:
        graph.load([json.loads(line) for line in LINES.splitlines()])
        graph.branches.create("side")
        graph.load([{"type": "Person", "data": {"name": "bob"}}], mode="merge", branch="side")
    return "p.omni"


def test_lines_go_to_stdout_and_words_to_stderr(omnigraph, store):
    done = omnigraph("export", store)
    assert (done.exit, done.stdout) == (0, LINES)
    assert done.stderr.startswith("exported 3 records of commit ")
    assert "cleanup" not in done.stderr, "a lease was put"
    part = omnigraph("export", "--type", "Person", "--branch", "side", "--quiet", "--store", store)
    found = [json.loads(line)["data"]["id"] for line in part.stdout.splitlines()]
    assert (found, part.stderr) == (["Zoë", "ann", "bob"], "")


def test_a_file_is_written_whole_or_not_at_all(omnigraph, store, place):
    assert omnigraph("export", "--out", "x.jsonl", store).stdout == ""
    assert (place / "x.jsonl").read_text("utf-8") == LINES
    for wrong in (("--type", "Persn"), ("--branch", "none"), ("--snapshot", "x")):
        done = omnigraph("export", "--out", "y.jsonl", *wrong, store)
        assert (done.exit, done.stdout) == (1, "")
    assert omnigraph("export", "--json", store).json["code"] == "bad_request"
    assert "Person" in omnigraph("export", "--type", "Persn", store).stderr
    assert sorted(path.name for path in place.glob("*.jsonl")) == ["x.jsonl"]
    assert omnigraph("export", "--out", "missing/x.jsonl", store).exit == 1


def test_a_reader_that_leaves_is_no_error_to_tell(store, place):
    with og.open(place / store) as graph:
        names = [f"person {number:06}" for number in range(20_000)]
        graph.load([{"type": "Person", "data": {"name": name}} for name in names])
    command = [sys.executable, "-m", "omnigraph", "export", "--type", "Person", store]
    with subprocess.Popen(
        command,
        cwd=place,
        env=environment(place),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as running:
        assert running.stdout.readline() == LINES.splitlines(keepends=True)[0].encode()
        running.stdout.close()
        assert b"Traceback" not in running.stderr.read()
    with og.open(place / store) as graph:
        assert not list((place / store / "__leases").glob("*")), "the lease went with the export"
        assert graph.export("/dev/null").records == 20_003


def test_types_are_written_as_files_of_columns(omnigraph, place):
    """And loaded back by `--node` and `--edge`."""
    for name in ("g.omni", "copy.omni"):
        assert omnigraph("init", "--schema", "people.pg", name).exit == 0
    data = (
        '{"type":"Person","data":{"name":"ada","age":36}}\n{"type":"Person","data":{"name":"bob"}}\n'
        '{"edge":"Knows","from":"ada","to":"bob"}\n'
    )
    assert omnigraph("load", "g.omni", "-", stdin=data).exit == 0
    result = omnigraph("export", "g.omni", "--output", "tables/", "--format", "csv")
    assert (result.exit, result.stdout) == (0, "")
    assert "exported 3 records" in result.stderr
    node, edge = ("--node", "Person", "tables/Person.csv"), ("--edge", "Knows", "tables/Knows.csv")
    assert omnigraph("load", "copy.omni", *node, *edge).exit == 0
    assert omnigraph("export", "copy.omni").stdout == omnigraph("export", "g.omni").stdout
    one = omnigraph("export", "g.omni", "--type", "Knows", "--format", "csv")
    assert one.stdout.startswith('"id","from","to"\n')
    refused = omnigraph("export", "g.omni", "--out", "all.parquet")
    assert refused.exit == 1
    assert "--type" in refused.stderr
    assert not (place / "all.parquet").exists()
