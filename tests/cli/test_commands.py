"""What each command answers."""

import json
import re

import pytest

import omnigraph as og
from tests.cli.conftest import SCHEMA

ULID = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}")


def test_init_makes_a_graph_and_says_where(omnigraph, place):
    result = omnigraph("init", "--schema", "people.pg", "g.omni")
    assert (result.exit, result.stdout) == (0, "initialized g.omni\n")
    assert result.stderr == "omnigraph init -> g.omni (direct, local)\n"
    with og.open(place / "g.omni", mode="r") as graph:
        assert graph.schema.source == SCHEMA


def test_init_answers_in_json(omnigraph):
    result = omnigraph("init", "--schema", "people.pg", "g.omni", "--json")
    assert result.json.keys() == {"uri", "graph_commit_id", "internal_schema_version"}
    assert result.json["uri"] == "g.omni"
    assert ULID.fullmatch(result.json["graph_commit_id"])


def test_init_replaces_stray_schema_files_only_when_forced(omnigraph, place):
    (place / "g.omni").mkdir()
    (place / "g.omni" / "_schema.pg").write_text("node Old { x: I32 }", "utf-8")
    refused = omnigraph("init", "--schema", "people.pg", "g.omni")
    assert refused.exit == 1
    assert "_schema.pg" in refused.stderr
    assert "force" in refused.stderr
    assert omnigraph("init", "--schema", "people.pg", "--force", "g.omni").exit == 0
    assert (place / "g.omni" / "_schema.pg").read_text("utf-8") == SCHEMA


def test_init_never_replaces_a_graph(omnigraph, graph):
    before = omnigraph("status", graph, "--json").json
    refused = omnigraph("init", "--schema", "people.pg", "--force", graph, "--json")
    assert refused.exit == 1
    assert refused.json["code"] == "conflict"
    assert refused.json["conflict"]["code"] == "already_initialised"
    assert omnigraph("status", graph, "--json").json == before


def test_a_bad_schema_is_shown_in_its_line(omnigraph, place):
    (place / "bad.pg").write_text("node Person {\n  name: Sting @key\n}\n", "utf-8")
    result = omnigraph("init", "--schema", "bad.pg", "g.omni", "--json")
    assert result.exit == 1
    lines = result.stderr.splitlines()
    assert lines[1].startswith("error: parse error: unknown type `Sting`")
    assert lines[2:] == [
        " --> bad.pg:2:9",
        "  |",
        "2 |   name: Sting @key",
        "  |         ^^^^^",
        "  = hint: did you mean `String`?",
    ]
    assert result.json["code"] == "bad_request"
    assert (result.json["span"]["line"], result.json["span"]["column"]) == (2, 9)
    assert not (place / "g.omni").exists()


class TestBranch:
    def test_create_list_and_delete(self, omnigraph, graph):
        created = omnigraph("branch", "create", "side", "--uri", graph)
        assert (created.exit, created.stdout) == (0, "created branch side from main\n")
        assert created.stderr == "omnigraph branch create -> g.omni (direct, local)\n"
        omnigraph("branch", "create", "deep", "--from", "side", "--uri", graph)
        assert omnigraph("branch", "list", "--uri", graph).stdout == "main\ndeep\nside\n"
        deleted = omnigraph("branch", "delete", "deep", "--uri", graph)
        assert (deleted.exit, deleted.stdout) == (0, "deleted branch deep\n")
        listed = omnigraph("branch", "list", "--uri", graph, "--json")
        assert listed.json["branches"] == ["main", "side"]
        assert len(set(listed.json["schema_hashes"].values())) == 1

    def test_create_answers_in_json(self, omnigraph, graph):
        head = omnigraph("snapshot", graph, "--json").json["graph_commit_id"]
        created = omnigraph(
            "branch", "create", " side ", "--store", graph, "--as", " act-ada ", "--json"
        )
        assert created.json == {
            "uri": graph,
            "from": "main",
            "name": "side",
            "actor_id": "act-ada",
            "head_commit_id": head,
            "version": 1,
        }

    def test_delete_answers_in_json(self, omnigraph, graph):
        omnigraph("branch", "create", "side", "--uri", graph)
        deleted = omnigraph("branch", "delete", " side ", "--uri", graph, "--json")
        assert deleted.json == {"uri": graph, "name": "side", "actor_id": None}

    def test_refusals(self, omnigraph, graph):
        omnigraph("branch", "create", "side", "--uri", graph)
        omnigraph("branch", "create", "deep", "--from", "side", "--uri", graph)
        for argv, code, words in (
            (("create", "main"), "bad_request", "main"),
            (("create", "side"), "conflict", "side"),
            (("create", "new", "--from", "nowhere"), "not_found", "nowhere"),
            (("create", " "), "bad_request", "branch"),
            (("delete", "main"), "bad_request", "main"),
            (("delete", "nowhere"), "not_found", "nowhere"),
            (("delete", "side"), "conflict", "deep"),
        ):
            result = omnigraph("branch", *argv, "--uri", graph, "--json")
            assert (result.exit, result.json["code"]) == (1, code), argv
            assert words in result.json["error"]
            assert f"error: {result.json['error']}\n" in result.stderr
        listed = omnigraph("branch", "list", "--uri", graph, "--json")
        assert listed.json["branches"] == ["main", "deep", "side"]


class TestCommit:
    def test_list_and_show_tell_the_same(self, omnigraph, graph):
        (commit,) = omnigraph("commit", "list", graph, "--json").json["commits"]
        assert commit.keys() >= {
            "graph_commit_id",
            "branch",
            "manifest_version",
            "parent_commit_id",
            "merged_parent_commit_id",
            "actor_id",
            "created_at",
        }
        assert (commit["manifest_version"], commit["parent_commit_id"]) == (1, None)
        shown = omnigraph("commit", "show", commit["graph_commit_id"], "--uri", graph, "--json")
        assert shown.json == commit

    def test_people_see_one_line_per_commit(self, omnigraph, graph):
        heading, line = omnigraph("commit", "list", graph).stdout.splitlines()
        assert heading.split() == ["commit", "version", "time", "actor", "operation"]
        assert re.fullmatch(rf"{ULID.pattern} +1  \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\dZ  - +init", line)

    def test_people_see_one_fact_per_line(self, omnigraph, graph):
        id_ = omnigraph("snapshot", graph, "--json").json["graph_commit_id"]
        lines = omnigraph("commit", "show", id_, "--store", graph).stdout.splitlines()
        facts = dict(re.split(r": +", line, maxsplit=1) for line in lines)
        assert facts["graph_commit_id"] == id_
        assert facts["branch"] == "main"
        assert facts["actor_id"] == "-"

    def test_filters_and_limit(self, omnigraph, graph):
        def count(*argv):
            return len(omnigraph("commit", "list", graph, *argv, "--json").json["commits"])

        assert count("--filter", "branch=main", "--limit", "1") == 1
        assert count("--filter", "branch=side") == 0
        assert count("--filter", "branch=main", "--filter", "actor=omnigraph:recovery") == 0

    @pytest.mark.parametrize("text", ["colour=red", "actor", "", "Actor=x", "operation=bogus"])
    def test_a_bad_filter_is_a_usage_error_even_without_a_graph(self, omnigraph, text):
        result = omnigraph("commit", "list", "nowhere.omni", "--filter", text, "--json")
        assert result.exit == 2
        assert "--filter" in result.stderr
        listed = "they are init, load, mutation, schema_apply, branch_merge, revert, embed,"
        assert (listed in result.stderr) is (text == "operation=bogus")
        assert result.json["code"] == "bad_request"

    @pytest.mark.parametrize("text", ["0", "-1", "many"])
    def test_a_bad_limit_is_a_usage_error(self, omnigraph, graph, text):
        result = omnigraph("commit", "list", graph, "--limit", text)
        assert result.exit == 2
        assert "--limit" in result.stderr

    def test_an_unknown_branch_is_not_found(self, omnigraph, graph):
        result = omnigraph("commit", "list", graph, "--branch", "nowhere", "--json")
        assert (result.exit, result.json["code"]) == (1, "not_found")

    def test_an_unknown_commit_is_not_found(self, omnigraph, graph):
        result = omnigraph("commit", "show", "01BADBADBADBADBADBADBADBAD", "--uri", graph, "--json")
        assert (result.exit, result.json["code"]) == (1, "not_found")


class TestSnapshot:
    def test_the_document(self, omnigraph, graph):
        document = omnigraph("snapshot", graph, "--json").json
        assert document.keys() == {
            "branch",
            "manifest_version",
            "internal_schema_version",
            "graph_commit_id",
            "schema_hash",
            "tables",
        }
        assert [table["table_key"] for table in document["tables"]] == ["edge:Knows", "node:Person"]
        for table in document["tables"]:
            assert table.keys() == {
                "table_key",
                "table_path",
                "table_version",
                "table_branch",
                "row_count",
            }
            assert (table["row_count"], table["table_branch"]) == (0, None)

    def test_people_see_a_table(self, omnigraph, graph):
        first, heading, *rows = omnigraph("snapshot", graph).stdout.splitlines()
        assert re.fullmatch(rf"branch main at commit {ULID.pattern}, version 1", first)
        assert heading.split() == ["table", "version", "fork", "rows", "path"]
        assert [row.split()[:4] for row in rows] == [
            ["edge:Knows", "1", "-", "0"],
            ["node:Person", "1", "-", "0"],
        ]

    def test_by_branch_commit_and_version(self, omnigraph, graph):
        main = omnigraph("snapshot", graph, "--json").json
        omnigraph("branch", "create", "side", "--uri", graph)
        by_branch = omnigraph("snapshot", graph, "--branch", " side ", "--json").json
        assert by_branch == main | {"branch": "side"}
        id_ = main["graph_commit_id"]
        assert omnigraph("snapshot", graph, "--snapshot", id_, "--json").json == main
        assert omnigraph("snapshot", graph, "--at-version", "1", "--json").json == main
        assert omnigraph("snapshot", graph, "--at-version", "99").exit == 1

    @pytest.mark.parametrize("other", [("--branch", "main"), ("--at-version", "1")])
    def test_a_commit_excludes_the_other_choices(self, omnigraph, graph, other):
        assert omnigraph("snapshot", graph, "--snapshot", "x", *other).exit == 2


@pytest.mark.parametrize("word", ["show", "get"])
def test_schema_show_prints_the_source(omnigraph, graph, word):
    assert omnigraph("schema", word, graph).stdout == SCHEMA
    document = omnigraph("schema", word, graph, "--json").json
    assert document["schema_source"] == SCHEMA
    assert document["schema_hash"].startswith("sha256:")


def test_status_sums_up(omnigraph, graph):
    document = omnigraph("status", graph, "--json").json
    assert document["uri"] == graph
    assert document["branches"] == ["main"]
    assert document["pending_recoveries"] == 0
    assert [table["table_key"] for table in document["tables"]] == ["edge:Knows", "node:Person"]
    text = omnigraph("status", graph).stdout
    assert f"graph:              {graph}\n" in text
    assert re.search(r"^node:Person +0 +1 ", text, re.MULTILINE)


def test_reading_commands_write_nothing(omnigraph, graph, place):
    def files():
        return {path: path.stat().st_mtime_ns for path in place.rglob("*")}

    before = files()
    id_ = omnigraph("snapshot", graph, "--json").json["graph_commit_id"]
    for argv in (
        ("status", graph),
        ("branch", "list", "--uri", graph),
        ("commit", "list", graph),
        ("commit", "show", id_, "--uri", graph),
        ("schema", "show", graph),
    ):
        result = omnigraph(*argv)
        assert (result.exit, result.stderr) == (0, "")
    assert files() == before


class TestLint:
    GOOD = "query all() { match { $p: Person } return { $p.name } }\n"
    BAD = "query all() {\n  match { $p: Persn }\n  return { $p.name }\n}\n"

    def test_a_good_file(self, omnigraph, place):
        (place / "q.gq").write_text(self.GOOD, "utf-8")
        result = omnigraph("lint", "--query", "q.gq", "--schema", "people.pg")
        assert (result.exit, result.stderr) == (0, "")
        assert result.stdout == "ok      read all\n1 query: 0 errors, 0 warnings, 0 infos\n"

    def test_a_bad_file(self, omnigraph, place):
        (place / "q.gq").write_text(self.BAD, "utf-8")
        result = omnigraph("lint", "--query", "q.gq", "--schema", "people.pg", "--json")
        assert result.exit == 1
        assert result.json["status"] == "error"
        assert result.json["schema_source"] == {"kind": "file", "path": "people.pg"}
        assert (result.json["query_path"], result.json["errors"]) == ("q.gq", 1)
        assert result.json["results"][0]["status"] == "error"
        assert result.stderr.startswith("error: type error: ")
        assert " --> q.gq:2:" in result.stderr
        assert "did you mean `Person`?" in result.stderr

    def test_a_file_that_is_no_query(self, omnigraph, place):
        (place / "q.gq").write_text("quarry all() {}", "utf-8")
        result = omnigraph("lint", "--query", "q.gq", "--schema", "people.pg", "--json")
        assert (result.exit, result.json["status"]) == (1, "error")
        assert result.json["findings"][0]["severity"] == "error"
        assert " --> q.gq:1:1" in result.stderr

    @pytest.mark.parametrize("address", [("g.omni",), ("--store", "g.omni")])
    def test_against_a_graph(self, omnigraph, graph, place, address):
        (place / "q.gq").write_text(self.GOOD, "utf-8")
        result = omnigraph("lint", "--query", "q.gq", *address, "--json")
        assert result.exit == 0
        assert result.json["schema_source"] == {"kind": "graph", "uri": "g.omni"}

    def test_from_stdin(self, omnigraph):
        argv = ("lint", "--query", "-", "--schema", "people.pg", "--json")
        assert omnigraph(*argv, stdin=self.GOOD).json["queries_processed"] == 1
        assert omnigraph(*argv, stdin=self.BAD).exit == 1

    def test_needs_exactly_one_schema(self, omnigraph, graph, place):
        (place / "q.gq").write_text(self.GOOD, "utf-8")
        neither = omnigraph("lint", "--query", "q.gq")
        assert neither.exit == 1
        assert "--schema" in neither.stderr
        both = omnigraph("lint", "--query", "q.gq", "--schema", "people.pg", graph)
        assert both.exit == 1
        assert "both" in both.stderr

    @pytest.mark.parametrize("missing", ["--query", "--schema"])
    def test_a_missing_file_is_named(self, omnigraph, place, missing):
        (place / "q.gq").write_text(self.GOOD, "utf-8")
        files = {"--query": "q.gq", "--schema": "people.pg", missing: "nope"}
        result = omnigraph("lint", *(part for pair in files.items() for part in pair), "--json")
        assert result.exit == 1
        assert "nope" in result.json["error"]


@pytest.mark.parametrize("argv", [("version",), ("--version",), ("-v",)])
def test_version_prints_two_lines(omnigraph, argv):
    result = omnigraph(*argv)
    assert result.exit == 0
    first, second = result.stdout.splitlines()
    assert first == f"omnigraph {og.__version__}"
    assert re.fullmatch(r"internal-schema \d+", second)


def test_version_in_json_says_the_same(omnigraph, graph):
    document = omnigraph("version", "--json").json
    assert document["version"] == og.__version__
    stamp = omnigraph("snapshot", graph, "--json").json["internal_schema_version"]
    assert document == {"version": og.__version__, "internal_schema_version": stamp}


def test_json_is_one_pretty_document(omnigraph, graph):
    text = omnigraph("tag", "list", "--uri", graph, "--json").stdout
    assert text == json.dumps({"tags": []}, indent=2) + "\n"


def test_a_schema_without_types_is_accepted_with_a_word(omnigraph, place):
    (place / "empty.pg").write_text("// nothing yet\n", "utf-8")
    result = omnigraph("init", "--schema", "empty.pg", "e.omni", "--quiet")
    assert (result.exit, result.stdout) == (0, "initialized e.omni\n")
    assert result.stderr.count("\n") == 1
    assert "declares no types" in result.stderr
    typed = omnigraph("init", "--schema", "people.pg", "p.omni", "--quiet")
    assert (typed.exit, typed.stderr) == (0, "")


def test_the_top_of_the_file_system_is_refused(omnigraph):
    result = omnigraph("init", "--schema", "people.pg", "/")
    assert result.exit == 1
    assert "top of the file system" in result.stderr


def test_the_long_name_of_a_query_in_place(omnigraph, graph):
    text = "query q() { match { $p: Person } return { count($p) as n } }"
    short = omnigraph("query", "-e", text, "--store", graph, "--json").json
    assert omnigraph("query", "--query-string", text, "--store", graph, "--json").json == short
