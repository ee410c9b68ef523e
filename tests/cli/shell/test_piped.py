"""Statements from a standard input that is no terminal."""

import json

import pytest

import omnigraph as og
from omnigraph.cli.address import Store
from omnigraph.cli.call import Invocation
from omnigraph.cli.command import COMMANDS, Flags
from omnigraph.cli.shell.shell import Shell
from omnigraph.cli.shell.statements import Statement
from omnigraph.cli.sides.embedded import EmbeddedSide
from omnigraph.errors import OmniGraphError
from tests.cli.conftest import SCHEMA

COUNT = "query n() { match { $p: Person } return { count($p) as n } }\n"
INSERT = "query add($name: String) { insert Person { name: $name } }\n"


@pytest.fixture
def graph(place):
    with og.init(place / "g.omni", SCHEMA) as graph:
        graph.load([{"type": "Person", "data": {"name": name}} for name in ("ann", "bob")])
        graph.tags.create("v1")
        graph.branches.create("side")
    return "g.omni"


def test_statements_run_in_order_and_mutations_are_seen(omnigraph, graph):
    stdin = f'.format csv\n{COUNT}.params {{"name": "cy", "other": 1}}\n{INSERT}{COUNT}'
    result = omnigraph("shell", graph, "--as", "ada", stdin=stdin)
    assert (result.exit, result.stderr) == (0, "")
    first, second, added, *last = result.stdout.splitlines()
    assert [first, second, *last] == ["n", "2", "n", "3"]
    assert added.startswith("add: 1 node, 0 edges; commit ")
    commit = omnigraph("commit", "show", added.split()[-1], "--uri", graph, "--json").json
    assert commit["actor_id"] == "ada"


def test_queries_without_a_name_run_with_what_they_use(omnigraph, graph):
    stdin = """.format csv
match { $p: Person }
return { count($p) as n }

insert Person { name: "cy" };
query named() { match { $p: Person } return { $p.name as name } }
match { $r: named()  $r.name > "ann" }
return { count($r) as later }

match { $p: Person } return { count($p) as all }"""
    result = omnigraph("shell", graph, stdin=stdin)
    assert (result.exit, result.stderr) == (0, "")
    first, second, added, *last = result.stdout.splitlines()
    assert [first, second, *last] == ["n", "2", "later", "2", "all", "3"]
    assert added.startswith("(anonymous): 1 node, 0 edges; commit ")


def test_the_first_failure_ends_it_at_the_line_of_the_input(omnigraph, graph):
    stdin = f"{COUNT}\n\nquery bad() {{\n  match {{ $g: Ghost }} return {{ $g.name }} }}\n{INSERT}"
    result = omnigraph("shell", graph, stdin=stdin)
    assert result.exit == 1
    assert "<stdin>:5:15" in result.stderr
    assert "^^^^^" in result.stderr
    assert "add" not in result.stdout


@pytest.mark.parametrize("wrong", [".foo", ".load nope.jsonl", ".at tag:ghost", INSERT.strip()])
def test_a_failure_without_a_place_names_the_line(omnigraph, graph, wrong):
    result = omnigraph("shell", graph, stdin=f".format csv\n\n{wrong}\n{COUNT}")
    assert (result.exit, result.stdout) == (1, "")
    assert result.stderr.splitlines()[-1].startswith("error: line 3 of stdin: ")


REFUSED = {
    "query q() { match {": "parse error",
    "hello": "expected a query",
    "quit": "write .quit",
    ".brunch": "did you mean `.branch`?",
    ".branch ghost": "there is no branch `ghost`",
    ".at tag:ghost": "ghost",
    ".at time:": "names no time",
    ".params [1]": "no JSON object",
    ".params {": "not JSON",
    ".format xml": "there is no format `xml`",
    ".schema Ghost": "there is no type `Ghost`",
    ".explain": "no query has been run",
    ".load": ".load takes a file",
    ".load people.pg soon": "there is no mode `soon`",
    '.load "people.pg': "cannot read",
    INSERT: "parameter `name` of type String is missing; .params sets it",
}


def test_what_is_refused(graph, place):
    with og.open(place / graph) as opened:
        call = Invocation(COMMANDS["shell"], Flags())
        side = EmbeddedSide(opened, graph)
        shell = Shell(call, Store(graph, is_local=True), side, None)
        for text, said in REFUSED.items():
            with pytest.raises(OmniGraphError) as refused:
                shell.run(Statement(text.strip(), 1))
            assert said in str(refused.value), text
        shell.run(Statement(".at tag:v1", 1))
        with pytest.raises(OmniGraphError, match="state of the past"):
            shell.run(Statement(INSERT, 1))


def test_dot_commands_choose_what_is_looked_at(omnigraph, graph, place):
    (place / "more.jsonl").write_text('{"type":"Person","data":{"name":"dan"}}\n', "utf-8")
    lines = [
        ".format csv", ".branch side", ".load more.jsonl", COUNT, ".at tag:v1", COUNT, ".at", COUNT,
        ".branch main", COUNT, ".at main@1", COUNT, ".at time:2999-01-01", COUNT, ".branch",
        ".quit", "nonsense",
    ]  # fmt: skip
    result = omnigraph("shell", graph, stdin="\n".join(lines))
    assert result.exit == 0, result.stderr
    loaded, table, commit, *rest = result.stdout.splitlines()
    assert (loaded.split(" (")[0], table) == ("loaded 1 row into branch side", "  node:Person: 1")
    assert commit.startswith("  commit ")
    assert rest == [
        *("n", "3", "n", "2", "n", "3", "n", "2", "n", "0", "n", "2"),
        "* main",
        "  side",
    ]


def test_schema_params_explain_and_profile_are_shown(omnigraph, graph):
    lines = [
        ".schema Knows", '.params {"name": "ü"}', ".params", f".explain {COUNT}", ".profile",
        ".format jsonl", COUNT, ".help",
    ]  # fmt: skip
    result = omnigraph("shell", graph, "--branch", "side", stdin="\n".join(lines))
    assert result.exit == 0, result.stderr
    shown = result.stdout
    assert shown.startswith('edge Knows: Person -> Person\n{"name": "ü"}\n')
    assert "n on branch side, commit" in shown
    assert "phase" in shown
    rows = [json.loads(line) for line in shown.splitlines() if line.startswith('{"')][1:]
    assert (rows[0]["target"]["branch"], rows[1]) == ("side", {"n": 2})
    assert ".quit" in shown


def test_json_and_no_graph_are_refused(omnigraph, graph):
    assert "--json cannot be used" in omnigraph("shell", graph, "--json").stderr
    assert omnigraph("shell", "nowhere.omni").exit == 1
