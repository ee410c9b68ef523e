"""`load`, `ingest` and `mutate`."""

import json

import pyarrow as pa
import pytest
from pyarrow import parquet

import omnigraph as og
from tests.stored import read_back

ADD = "query add($n: String, $a: I32?) { insert Person { name: $n, age: $a } }"
PEOPLE = (
    '{"type":"Person","data":{"name":"ada","age":36}}\n'
    '{"type":"Person","data":{"name":"bob"}}\n'
    '{"edge":"Knows","from":"ada","to":"bob"}\n'
)


@pytest.fixture
def people(place):
    (place / "people.jsonl").write_text(PEOPLE, "utf-8")
    return "people.jsonl"


def stored(place, graph, branch="main"):
    with og.open(place / graph, mode="r") as opened:
        plain = read_back(opened, branch)
    ages = {name: row["age"] for name, row in plain.nodes["Person"].items()}
    return ages, [(src, dst) for _, src, dst, _ in plain.edges["Knows"]]


def test_load_says_what_it_did(omnigraph, graph, people, place):
    result = omnigraph("load", "--data", people, "--mode", "merge", graph)
    assert result.exit == 0
    first, *tables, commit = result.stdout.splitlines()
    assert first == "loaded 3 rows into branch main (merge, local)"
    assert tables == ["  edge:Knows: 1", "  node:Person: 2"]
    assert commit.startswith("  commit ")
    assert stored(place, graph) == ({"ada": 36, "bob": None}, [("ada", "bob")])


def test_load_answers_in_json_and_names_its_actor(omnigraph, graph, people):
    document = omnigraph(
        "load", "--data", people, "--mode", "append", "--as", "ada", "--json", graph
    ).json
    assert document["uri"] == graph
    assert (document["mode"], document["engine"], document["total_rows"]) == ("append", "local", 3)
    assert document["actor_id"] == document["commit"]["actor_id"] == "ada"
    assert document["branch_created"] is False
    assert document["timings"].keys() == {"read", "validate", "write"}


def test_load_reads_several_sources_and_stdin_as_one_commit(omnigraph, graph, people):
    more = '{"type":"Person","data":{"name":"eve"}}\n'
    argv = ("load", "--data", people, "--data", "-", "--mode", "merge", "--json", graph)
    assert omnigraph(*argv, stdin=more).json["total_rows"] == 4
    assert len(omnigraph("commit", "list", "--json", graph).json["commits"]) == 2


def test_load_reads_frames(omnigraph, graph, place):
    parquet.write_table(pa.table({"name": ["x", "y"], "age": [1, 2]}), place / "p.parquet")
    (place / "k.csv").write_text("a,b\nx,y\n", "utf-8")
    result = omnigraph(
        "load", "--node", "Person", "p.parquet", "--edge", "Knows", "k.csv",
        "--from-col", "a", "--to-col", "b", "--mode", "append", graph,
    )  # fmt: skip
    assert result.exit == 0, result.stderr
    assert stored(place, graph) == ({"x": 1, "y": 2}, [("x", "y")])


def test_load_reads_plain_rows(omnigraph, graph, place):
    (place / "p.jsonl").write_text('{"name": "x", "age": 1}\n{"Name": "y", "age": 2}\n', "utf-8")
    (place / "k.jsonl").write_text('{"a": "x", "b": "y"}\n', "utf-8")
    argv = (
        "load", "--node", "Person", "p.jsonl", "--edge", "Knows", "k.jsonl",
        "--from-col", "a", "--to-col", "b", "--mode", "append",
    )  # fmt: skip
    refused = omnigraph(*argv, graph)
    assert (refused.exit, "line 2" in refused.stderr) == (1, True)
    result = omnigraph(*argv, "--map", "Name=name", graph)
    assert result.exit == 0, result.stderr
    assert stored(place, graph) == ({"x": 1, "y": 2}, [("x", "y")])
    bare = omnigraph("load", "--data", "p.jsonl", "--mode", "merge", graph)
    assert (bare.exit, "--node" in bare.stderr) == (1, True)


def test_load_makes_a_branch_when_told_to(omnigraph, graph, people, place):
    refused = omnigraph("load", "--data", people, "--mode", "merge", "--branch", "b", graph)
    assert refused.exit == 1
    assert "`b`" in refused.stderr
    document = omnigraph(
        "load", "--data", people, "--mode", "merge", "--branch", "b", "--from", "main", "--json",
        graph,
    ).json  # fmt: skip
    assert (document["branch"], document["base_branch"]) == ("b", "main")
    assert document["branch_created"] is True
    assert stored(place, graph)[0] == {}
    assert len(stored(place, graph, "b")[0]) == 2


def test_ingest_is_load_into_a_branch(omnigraph, graph, people, place):
    result = omnigraph("ingest", "--data", people, "--branch", "b", graph)
    assert result.exit == 0
    assert "deprecated" in result.stderr
    assert len(stored(place, graph, "b")[0]) == 2


def test_bad_records_are_told_and_written(omnigraph, graph, place):
    bad = '{"type":"Person","data":{"name":"x"}}\n{"type":"Person","data":{"name":"y","age":"z"}}\n'
    argv = ("load", "--data", "-", "--mode", "merge", "--rejects", "bad.jsonl", "--json", graph)
    result = omnigraph(*argv, stdin=bad)
    assert result.exit == 1
    assert "line 2" in result.stderr
    assert result.json["code"] == "bad_request"
    assert result.json["bad_records"]["total"] == 1
    (entry,) = map(json.loads, (place / "bad.jsonl").read_text("utf-8").splitlines())
    assert entry["line"] == 2
    assert stored(place, graph) == ({}, [])


def test_bad_records_are_skipped(omnigraph, graph, place):
    bad = '{"type":"Person","data":{"name":"x"}}\n{"type":"Person","data":{"name":"y","age":"z"}}\n'
    argv = ("load", "--data", "-", "--mode", "append", "--on-bad", "skip", graph)
    result = omnigraph(*argv, stdin=bad)
    assert result.exit == 0
    assert "bad records left out: 1" in result.stdout
    assert list(stored(place, graph)[0]) == ["x"]
    again = omnigraph(*argv[:4], "patch", "--on-bad", "skip", "--json", graph, stdin=bad)
    assert again.json["skipped"] == again.json["bad_records"]["total"] == 1
    assert again.json["bad_records"]["first"][0]["property"] == "age"
    assert again.json["mode"] == "patch"


@pytest.mark.parametrize(
    ("argv", "code", "word"),
    [
        (("load", "--mode", "merge"), 1, "--data"),
        (("load", "--data", "people.jsonl", "--mode", "replace"), 2, "'--mode': 'replace' is"),
        (("load", "--data", "missing.jsonl", "--mode", "merge"), 1, "missing.jsonl"),
        (("load", "--node", "Person", "--mode"), 1, "--mode"),
        (("load", "--node", "Person", "x.csv", "--mode", "merge", "--no-header"), 1, "(--names)"),
        (("load", "--data", "people.jsonl", "--mode", "merge", "--engine", "gpu"), 2, "gpu"),
    ],
)
@pytest.mark.usefixtures("people")
def test_load_misused(omnigraph, graph, argv, code, word):
    result = omnigraph(*argv, graph)
    assert result.exit == code
    assert word in result.stderr


def test_mutate(omnigraph, graph, place):
    (place / "w.gq").write_text(ADD, "utf-8")
    params = json.dumps({"n": "ada", "a": 3})
    first = omnigraph("mutate", "add", "--query", "w.gq", "--params", params, "--uri", graph)
    assert first.exit == 0
    assert first.stdout.startswith("add: 1 node, 0 edges; commit ")
    document = omnigraph("mutate", "-e", ADD, "--params-file", "-", "--json", "--uri", graph,
                         stdin='{"n": "bob"}').json  # fmt: skip
    assert (document["affected_nodes"], document["affected_edges"]) == (1, 0)
    assert document["query_name"] == "add"
    assert stored(place, graph)[0] == {"ada": 3, "bob": None}


def test_mutate_shows_the_rows_of_return(omnigraph, graph):
    text = "for $n in $ns insert $p: Person { name: $n } return { $p.name as name, $p.age as age }"
    asked = ("mutate", "-e", f"($ns: [String]) {text}", "--params", '{"ns": ["z", "b"]}')
    shown = omnigraph(*asked, "--uri", graph)
    assert shown.exit == 0
    said, *table = shown.stdout.splitlines()
    assert said.startswith("(anonymous): 2 nodes, 0 edges; commit ")
    assert [line.split() for line in table] == [["name", "age"], ["z", "-"], ["b", "-"]]
    document = omnigraph(*asked, "--json", "--uri", graph).json
    assert document["columns"] == ["name", "age"]
    assert document["rows"] == [{"name": "z", "age": None}, {"name": "b", "age": None}]


def test_mutate_if_commit(omnigraph, graph):
    head = omnigraph("snapshot", "--json", graph).json["graph_commit_id"]
    argv = (
        "mutate",
        "-e",
        ADD,
        "--params",
        '{"n":"a"}',
        "--if-commit",
        head,
        "--json",
        "--uri",
        graph,
    )
    assert omnigraph(*argv).exit == 0
    lost = omnigraph(*argv)
    assert lost.exit == 4
    assert lost.json["precondition_failure"]["expected"] == head


@pytest.mark.parametrize(
    ("argv", "word"),
    [
        (("-e", ""), "-e"),
        ((), "--query"),
        (("-e", ADD, "--params", "{"), "JSON"),
        (("-e", ADD, "--params", "[]"), "object"),
        (("-e", "query q() { match { $p: Person } return { $p } }"), "query"),
        (("other", "-e", ADD), "other"),
        (("-e", ADD.replace("Person", "Persn"), "--params", '{"n":"a"}'), "^^^^^"),
    ],
)
def test_mutate_misused(omnigraph, graph, argv, word):
    result = omnigraph("mutate", *argv, "--uri", graph)
    assert result.exit == 1
    assert word in result.stderr


@pytest.mark.usefixtures("people")
def test_internal_branches_are_never_written(omnigraph, graph):
    head = omnigraph("snapshot", graph, "--json").json["graph_commit_id"]
    for argv in (
        ("load", "--data", "people.jsonl", "--mode", "merge"),
        ("mutate", "-e", ADD, "--params", '{"n":"a"}'),
        ("commit", "revert", head),
        ("blob", "put", "node", "Person", "ada", "age", "--clear"),
        ("embed",),
    ):
        refused = omnigraph(*argv, "--branch", " __x ", "--store", graph, "--json")
        assert (refused.exit, refused.json["kind"]) == (1, "bad_request"), argv
        assert "`__x` cannot be written to" in refused.json["error"]


def test_flags_of_mutate_that_exclude_each_other(omnigraph, graph):
    for argv in (("--query", "x.gq"), ("--params", "{}", "--params-file", "x.json")):
        result = omnigraph("mutate", "-e", ADD, *argv, "--uri", graph)
        assert result.exit == 2
        assert argv[-2] in result.stderr


def test_status_names_files_that_are_not_the_graphs(omnigraph, graph, place):
    stray = place / graph / "__recovery" / "notes.txt"
    stray.parent.mkdir(exist_ok=True)
    stray.write_text("mine", "utf-8")
    assert omnigraph("status", graph, "--json").json["stray_files"] == ["__recovery/notes.txt"]
    result = omnigraph("status", graph)
    assert result.exit == 0
    assert "__recovery/notes.txt" in result.stderr
    assert "pending recoveries: 0" in result.stdout


def test_a_load_on_a_stale_commit_exits_with_4(omnigraph, graph, people):
    listed = omnigraph("commit", "list", "--json", graph)
    stale = json.loads(listed.stdout)["commits"][0]["graph_commit_id"]
    argv = ("load", "--data", people, "--mode", "merge", "--quiet", graph, "--if-commit", stale)
    assert omnigraph(*argv).exit == 0
    lost = omnigraph(*argv, "--json")
    assert lost.exit == 4
    assert json.loads(lost.stdout)["precondition_failure"]["expected"] == stale


def test_columns_of_ends_without_edges_are_refused(omnigraph, graph, people):
    result = omnigraph("load", "--data", people, "--from-col", "a", "--mode", "merge", graph)
    assert result.exit == 1
    assert "--from-col" in result.stderr


class TestMessages:
    """`-m`: what a commit is for, in every command that makes one, and where it is shown."""

    SAID = "the May dump\nas it came"

    @pytest.mark.parametrize("flag", ["-m", "--message"])
    def test_log_and_commits_show_it(self, omnigraph, graph, people, flag):
        loaded = omnigraph("load", "--data", people, flag, self.SAID, "--json", graph).json
        assert loaded["commit"]["facts"]["message"] == self.SAID
        made = loaded["commit"]["graph_commit_id"]
        for argv in (("log",), ("log", "--flat"), ("commit", "list")):
            shown = omnigraph(*argv, graph).stdout
            (line,) = [line for line in shown.splitlines() if made in line]
            assert "the May dump" in line
            assert "as it came" not in shown
        assert (
            r"the May dump\nas it came" in omnigraph("commit", "show", made, "--uri", graph).stdout
        )
        changed = omnigraph("commit", "changes", made, "--uri", graph).stdout.splitlines()
        assert changed[1:3] == ["  the May dump", "  as it came"]
        polled = omnigraph("changes", "poll", "--start", "beginning", "--json", graph).json
        assert [block["cause"].get("message") for block in polled["blocks"]] == [self.SAID]

    def test_every_command_that_commits_takes_one(self, omnigraph, place):
        (place / "blobs.pg").write_text("node Doc { name: String @key  scan: Blob? }\n", "utf-8")
        more = "node Doc { name: String @key  scan: Blob?  title: String? }\n"
        (place / "more.pg").write_text(more, "utf-8")
        (place / "x.bin").write_bytes(b"x")
        add = 'query add() { insert Doc { name: "a" } }'
        at = ("--store", "d.omni", "--quiet", "--json")
        assert omnigraph("init", "--schema", "blobs.pg", "-m", "0 init", "d.omni").exit == 0
        omnigraph("branch", "create", "side", *at)
        omnigraph("mutate", "-e", add, "--branch", "side", "-m", "1 mutate", *at)
        omnigraph("branch", "merge", "side", "-m", "2 merge", "--delete-branch", *at)
        omnigraph("blob", "put", "node", "Doc", "a", "scan", "--data", "x.bin", "-m", "3 blob", *at)
        commits = omnigraph("commit", "list", *at).json["commits"]
        omnigraph("commit", "revert", commits[0]["graph_commit_id"], "-m", "4 revert", *at)
        omnigraph("schema", "apply", "--schema", "more.pg", "-m", "5 schema", *at)
        found = omnigraph("log", *at).json["commits"]
        said = sorted(one["facts"]["message"] for one in found)
        assert said == ["0 init", "1 mutate", "2 merge", "3 blob", "4 revert", "5 schema"]

    def test_one_that_is_too_long_changes_nothing(self, omnigraph, graph, people):
        result = omnigraph("load", "--data", people, "-m", "x" * 4097, graph)
        assert result.exit == 1
        assert "at most 4,096" in result.stderr
        assert len(omnigraph("commit", "list", "--json", graph).json["commits"]) == 1

    def test_the_first_commit_names_the_operator(self, omnigraph, place):
        (place / "home").mkdir()
        (place / "home" / "config.yaml").write_text("operator:\n  actor: ada\n", "utf-8")
        assert omnigraph("init", "--schema", "people.pg", "o.omni").exit == 0
        (first,) = omnigraph("commit", "list", "--json", "o.omni").json["commits"]
        assert first["actor_id"] == "ada"
