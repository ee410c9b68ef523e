"""`query` and `explain`."""

import csv
import io
import itertools
import json
import os
import pty
import re
import subprocess
import sys

import pytest

import omnigraph as og
from omnigraph import cancel
from omnigraph.cli.process import run
from tests.cli.conftest import SCHEMA
from tests.cli.running import environment

READS = """
query everyone() {
  match { $p: Person }
  return { $p.name as name, $p.age as age }
  order { name }
}
query named($n: String) {
  match { $p: Person { name: $n } }
  return { $p.name, $p.age }
}
query rename($n: String) { update Person set { age: 1 } where name = $n }
"""
PEOPLE = (
    '{"type":"Person","data":{"name":"ada","age":36}}\n'
    '{"type":"Person","data":{"name":"bob, \\"the\\" builder"}}\n'
    '{"type":"Person","data":{"name":"日本\\u001b[31m"}}\n'
    '{"edge":"Knows","from":"ada","to":"日本\\u001b[31m"}\n'
)
INLINE = 'query one() { match { $p: Person { name: "ada" } } return { $p.age as age } }'


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A directory for all tests here, which only read."""
    place = tmp_path_factory.mktemp("queries")
    for name, text in {"people.pg": SCHEMA, "reads.gq": READS, "people.jsonl": PEOPLE}.items():
        (place / name).write_text(text, "utf-8")
    return place


def fill(launcher, place, graph):
    """Make a graph with three people."""
    load = ("load", "--data", "people.jsonl", "--mode", "merge", "--quiet", graph)
    for argv in (("init", "--schema", "people.pg", graph), load):
        done = launcher.run(argv, place)
        assert done.exit == 0, done.stderr
    return graph


@pytest.fixture(scope="module")
def people(launcher, place):
    """A graph with three people; the queries lie beside it."""
    return fill(launcher, place, "g.omni")


@pytest.fixture
def ask(omnigraph, people):
    """Run a query on the graph."""

    def run(*argv, **more):
        return omnigraph("query", *argv, "--store", people, **more)

    return run


def test_a_table_is_the_default(ask):
    result = ask("everyone", "--query", "reads.gq")
    assert result.exit == 0
    assert result.stderr == ""
    assert result.stdout.splitlines() == [
        "3 rows from branch main via everyone",
        "name               | age",
        "-------------------+-----",
        "ada                | 36",
        'bob, "the" builder | null',
        r"日本\x1b[31m       | null",
    ]


def test_a_table_fits_the_terminal(people, place):
    source = 'query q() { match { $p: Person } return { $p.name as a, "%s" as b } limit 1 }'
    argv = ["query", "-e", source % ("wide " * 20), "--store", people]
    mine, theirs = pty.openpty()
    subprocess.run(
        [sys.executable, "-m", "omnigraph", *argv],
        cwd=place,
        env=environment(place / "home", {"COLUMNS": "40", "LINES": "24"}),
        stdout=theirs,
        check=True,
    )
    shown = os.read(mine, 4096).decode()
    os.close(theirs)
    os.close(mine)
    lines = shown.splitlines()
    assert lines[0] == "1 row from branch main via q"
    assert max(map(len, lines[1:])) == 40
    assert lines[3].endswith("…")


def test_json_is_the_whole_answer(ask, omnigraph, people):
    document = ask("named", "--query", "reads.gq", "--params", '{"n":"ada"}', "--json").json
    head = omnigraph("snapshot", people, "--json").json["graph_commit_id"]
    assert document == {
        "query_name": "named",
        "target": {"branch": "main", "snapshot": None},
        "row_count": 1,
        "columns": ["p.name", "p.age"],
        "schema": [
            {"name": "p.name", "type": "string", "nullable": False},
            {"name": "p.age", "type": "int", "nullable": True},
        ],
        "rows": [{"p.name": "ada", "p.age": 36}],
        "graph_commit_id": head,
        "as_of": None,
    }
    assert ask("-e", INLINE, "--format", "json").json == ask("-e", INLINE, "--json").json


def test_the_first_rows_only(ask):
    argv = ("everyone", "--query", "reads.gq", "--max-rows", "1")
    document = ask(*argv, "--json").json
    assert (document["row_count"], document["truncated"], document["total_rows"]) == (1, True, 3)
    cut = ask(*argv, "--format", "csv")
    assert cut.stdout == "name,age\nada,36\n"
    assert cut.stderr == "these are the first 1 of 3 rows\n"


def test_the_operator_chooses_the_format_and_the_table(ask, tmp_path):
    settings = "output: {}, table_max_column_width: 8, table_cell_layout: wrap"

    def shown(output, *argv):
        (tmp_path / "config.yaml").write_text(f"defaults: {{ {settings.format(output)} }}", "utf-8")
        named = ("named", "--query", "reads.gq", "--params", '{"n": "bob, \\"the\\" builder"}')
        return ask(*named, *argv, env={"OMNIGRAPH_HOME": str(tmp_path)}).stdout

    assert shown("kv").splitlines()[1:] == ["row 1", 'p.name: bob, "the" builder', "p.age: null"]
    assert shown("kv", "--format", "csv").splitlines()[0] == "p.name,p.age"
    assert shown("kv", "--json").startswith("{\n")
    assert shown("table").splitlines()[3:] == ['bob, "th | null', 'e" build |', "er       |"]
    settings = settings.replace("8", "4")
    assert shown("table").splitlines()[1:4] == ["p.na | p.ag", "me   | e", "-----+-----"]


def test_a_time_limit(ask):
    everyone = ("everyone", "--query", "reads.gq")
    assert ask(*everyone, "--timeout", "1h").exit == 0
    for wrong in ("5", "0s", "soon"):
        refused = ask(*everyone, "--timeout", wrong)
        assert (refused.exit, "such as 30s" in refused.stderr) == (1, True)


@pytest.mark.parametrize("command", ["query", "explain"])
def test_work_that_takes_longer_is_stopped(command, people, place, monkeypatch, capsys):
    """The clock goes on by ten seconds at every look."""
    seconds = itertools.count(step=10)
    monkeypatch.setattr(cancel, "monotonic", lambda: float(next(seconds)))
    monkeypatch.chdir(place)
    argv = [command, "everyone", "--query", "reads.gq", "--store", people, "--json"]
    assert run([*argv, "--timeout", "5s"]) == 1
    body = json.loads(capsys.readouterr().out)
    assert (body["kind"], body["code"]) == ("resource_limit", "bad_request")
    assert body["resource_limit"]["resource"] == "query_milliseconds"
    assert body["resource_limit"]["limit"] == 5000
    assert run([*argv, "--timeout", "1w"]) == 0


def test_jsonl(ask):
    head, *rows = ask("everyone", "--query", "reads.gq", "--format", "jsonl").stdout.splitlines()
    assert json.loads(head) == {
        "kind": "metadata",
        "query_name": "everyone",
        "target": {"branch": "main", "snapshot": None},
        "row_count": 3,
    }
    assert [json.loads(row)["age"] for row in rows] == [36, None, None]


def test_csv_can_be_read_back(ask):
    text = ask("everyone", "--query", "reads.gq", "--format", "csv").stdout
    assert list(csv.reader(io.StringIO(text))) == [
        ["name", "age"],
        ["ada", "36"],
        ['bob, "the" builder', "null"],
        ["日本\x1b[31m", "null"],
    ]


def test_kv(ask):
    result = ask("-e", INLINE, "--format", "kv")
    assert result.stdout == "1 row from branch main via one\nrow 1\nage: 36\n"


def test_queries_and_parameters_come_from_stdin_too(ask):
    assert ask("--query", "-", "--json", stdin=INLINE).json["rows"] == [{"age": 36}]
    argv = ("named", "--query", "reads.gq", "--params-file", "-", "--json")
    assert ask(*argv, stdin='{"n": "nobody"}').json["rows"] == []


def test_the_past_and_other_branches(launcher, place, omnigraph):
    people = fill(launcher, place, "past.omni")

    def ask(*argv):
        return omnigraph("query", *argv, "--store", people)

    before = omnigraph("snapshot", people, "--json").json
    omnigraph("branch", "create", "dev", "--uri", people)
    change = ("mutate", "rename", "--query", "reads.gq", "--params", '{"n":"ada"}', "--quiet")
    assert omnigraph(*change, "--store", people).exit == 0

    def age(*target):
        return ask("-e", INLINE, *target, "--json").json["rows"][0]["age"]

    assert age() == 1
    assert age("--branch", "dev") == 36
    assert age("--snapshot", before["graph_commit_id"]) == 36
    assert age("--at-version", str(before["manifest_version"])) == 36
    old = ask("-e", INLINE, "--at-version", str(before["manifest_version"]), "--json").json
    assert old["target"]["version"] == before["manifest_version"]


@pytest.mark.parametrize(
    ("argv", "exit", "words"),
    [
        (["--json", "--format", "csv", "-e", INLINE], 2, ["--format"]),
        (["--branch", "main", "--snapshot", "x", "-e", INLINE], 2, ["--snapshot"]),
        (["--format", "xml", "-e", INLINE], 2, ["--format"]),
        (["-e", INLINE, "--query", "reads.gq"], 2, ["--query", "-e"]),
        (["-e", INLINE, "--params", "{}", "--params-file", "x"], 2, ["--params-file"]),
        (["-e", " "], 1, ["-e"]),
        ([], 1, ["--query"]),
        (["stored"], 1, ["stored", "--server", "--query"]),
        (["absent", "--query", "reads.gq"], 1, ["absent", "not found"]),
        (["--query", "reads.gq"], 1, ["3 queries"]),
        (["rename", "--query", "reads.gq", "--params", '{"n":"x"}'], 1, ["mutate"]),
        (["named", "--query", "reads.gq"], 1, ["param error", "n"]),
        (["named", "--query", "reads.gq", "--params", "[1]"], 1, ["object"]),
        (["named", "--query", "reads.gq", "--params", "{"], 1, ["JSON"]),
        (["named", "--query", "reads.gq", "--params", '{"n":"a","n":"b"}'], 1, ["`n` twice"]),
        (["named", "--query", "-", "--params-file", "-"], 2, ["--params-file", "stdin"]),
        (["-e", INLINE, "--branch", "nowhere"], 1, ["nowhere"]),
        (["-e", INLINE, "--snapshot", "nowhere"], 1, ["nowhere"]),
        (["-e", INLINE, "--at-version", "99"], 1, ["99"]),
        (["-e", INLINE, "--as", "ada"], 1, ["--as"]),
        (["-e", "query q() { match { $p: Pers } return { $p } }"], 1, ["T1", "^^^^"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else str(value),
)
def test_refusals(ask, argv, exit, words):
    result = ask(*argv)
    assert result.exit == exit
    assert result.stderr.startswith("error: ")
    for word in words:
        assert word in result.stderr


@pytest.mark.parametrize(
    ("given", "words"), [("[" * 100_000, "nest too deep"), (f'{{"n":{"9" * 5000}}}', "not JSON")]
)
def test_parameters_too_large_to_read_are_refused(ask, place, given, words):
    (place / "given.json").write_text(given, "utf-8")
    result = ask("named", "--query", "reads.gq", "--params-file", "given.json")
    assert result.exit == 1
    assert words in result.stderr
    assert "bug" not in result.stderr


@pytest.mark.parametrize("format", ["json", "jsonl"])
def test_json_stays_json_where_the_output_is_not_utf8(fresh, people, format):
    argv = ("query", "everyone", "--query", "reads.gq", "--format", format, "--store", people)
    result = fresh(*argv, env={"PYTHONIOENCODING": "ascii"})
    assert result.stdout.isascii()
    text = result.stdout if format == "json" else result.stdout.splitlines()[3]
    answer = json.loads(text)
    row = answer["rows"][2] if format == "json" else answer
    assert row["name"] == "日本\x1b[31m"


def test_explain_shows_the_plan_and_runs_nothing(omnigraph, people):
    result = omnigraph("explain", "named", "--query", "reads.gq", "--store", people)
    assert result.exit == 0
    lines = result.stdout.splitlines()
    assert lines[0].startswith("named on branch main, commit ")
    assert lines[1:4] == [
        "scan $p: Person [$p.name = $n]",
        "    node:Person: 3 rows",
        "    index node:Person.id (btree): none",
    ]


def test_a_profile_runs_the_query_and_drops_its_rows(omnigraph, people):
    argv = ("explain", "everyone", "--query", "reads.gq", "--profile", "--store", people)
    document = omnigraph(*argv, "--json").json
    assert list(document)[-4:] == ["path", "as_of", "profile", "row_count"]
    assert document["row_count"] == 3
    assert [phase["name"] for phase in document["profile"]] == ["snapshot", "plan", "run"]
    assert "rows" not in document
    text = omnigraph(*argv).stdout.splitlines()
    assert "3 rows" in text
    heading, *phases = text[text.index("3 rows") + 1 :]
    assert heading.split() == ["phase", "estimated", "rows", "ms", "bytes"]
    # Cells may be empty, but every phase has its time, and times stand below each other.
    times = [re.findall(r"\d+\.\d\d", line) for line in phases]
    assert times
    assert {len(found) for found in times} == {1}
    ends = {line.index(found) + len(found) for line, (found,) in zip(phases, times, strict=True)}
    assert ends == {heading.index("ms") + len("ms")}


def test_explain_in_json(omnigraph, people):
    argv = ("explain", "named", "--query", "reads.gq", "--params", '{"n":"x"}', "--json")
    document = omnigraph(*argv, "--store", people).json
    assert document["query_name"] == "named"
    assert document["steps"][0]["indexes"] == [
        {"table_key": "node:Person", "column": "id", "kind": "btree", "coverage": "none"}
    ]
    assert omnigraph("explain", "rename", "--query", "reads.gq", "--store", people).exit == 1


def test_a_table_ends_where_nobody_reads_on(omnigraph, place):
    """Unless more are asked for, or a program reads them."""
    with og.init(place / "many.omni", (place / "people.pg").read_text("utf-8")) as graph:
        graph.load([{"type": "Person", "data": {"name": f"p{at:05}"}} for at in range(10_001)])
    names = "query q() { match { $p: Person } return { $p.name } order { $p.name } }"
    argv = ("query", "many.omni", "-e", names)
    table = omnigraph(*argv)
    assert table.stdout.startswith("10,000 rows from branch main via q\n")
    assert table.stdout.count("\np0") == 10_000
    assert "these are the first 10,000 of 10,001 rows; --format csv" in table.stderr
    more = omnigraph(*argv, "--max-rows", "10001").stdout
    assert more.count("\np0") + more.count("\np1") == 10_001
    assert omnigraph(*argv, "--format", "csv").stdout.count("\np") == 10_001
    assert omnigraph(*argv, "--json").json["row_count"] == 10_001
    piped = omnigraph("shell", "many.omni", stdin=names)
    assert piped.stdout.count("\np0") == 10_000
    assert "the first 10,000 of 10,001 rows" in piped.stderr
