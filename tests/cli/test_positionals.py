"""The words of a command line: the graph first, then names; and what is said of words in the wrong place."""

from __future__ import annotations

import json

import pytest

import omnigraph as og

NAMES = "query names() { match { $p: Person } return { $p.name } order { $p.name } }"
ADD = "query add($n: String) { insert Person { name: $n } }"
ADA = '{"type":"Person","data":{"name":"ada"}}\n'
BOB = '{"type":"Person","data":{"name":"bob"}}\n'


@pytest.fixture
def site(place):
    """Two graphs, `g.omni` with a person on the branch `side`, and files to load and to run."""
    (place / "ada.jsonl").write_text(ADA, "utf-8")
    (place / "bob.jsonl").write_text(BOB, "utf-8")
    (place / "q.gq").write_text(f"{NAMES}\n{ADD}\n", "utf-8")
    schema = (place / "people.pg").read_text("utf-8")
    og.init(place / "other.omni", schema).close()
    with og.init(place / "g.omni", schema) as graph:
        graph.branches.create("side")
        graph.load(ADA.encode(), branch="side")
    return place


def set_default(place, text):
    (place / "home").mkdir(exist_ok=True)
    (place / "home" / "config.yaml").write_text(text, "utf-8")


DEFAULTS = {
    "profile": ("profiles: { near: { store: g.omni } }\n", ("--profile", "near")),
    "default": ("defaults: { store: g.omni }\n", ()),
}


def commits(place):
    """Every commit and branch of both graphs."""
    found = []
    for name in ("g.omni", "other.omni"):
        with og.open(place / name, mode="r") as graph:
            found.append((graph.branches.list(), graph.commits.history().to_json()))
    return found


def names_of(omnigraph, *where):
    return [row["p.name"] for row in omnigraph("query", *where, "-e", NAMES, "--json").json["rows"]]


COMMANDS = {
    "query": ("query", "names", "--query", "q.gq"),
    "query by text": ("query", "-e", NAMES),
    "mutate": ("mutate", "add", "--query", "q.gq", "--params", '{"n":"eve"}'),
    "explain": ("explain", "names", "--query", "q.gq"),
    "branch create": ("branch", "create", "third"),
    "branch list": ("branch", "list"),
    "branch merge": ("branch", "merge", "side"),
    "branch delete": ("branch", "delete", "side"),
    "tag create": ("tag", "create", "v1"),
    "tag create at": ("tag", "create", "v1", "side"),
    "tag list": ("tag", "list"),
    "diff": ("diff", "main", "side"),
    "commit list": ("commit", "list"),
    "load": ("load", "bob.jsonl"),
    "load two": ("load", "bob.jsonl", "ada.jsonl"),
    "load data": ("load", "--data", "bob.jsonl"),
    "ingest": ("ingest", "bob.jsonl"),
    "export": ("export",),
    "status": ("status",),
    "log": ("log",),
    "snapshot": ("snapshot",),
    "schema show": ("schema", "show"),
    "schema plan": ("schema", "plan", "--schema", "people.pg"),
    "embed": ("embed",),
    "changes poll": ("changes", "poll"),
}
GROUPS = {"branch", "tag", "commit", "schema", "changes"}


def graph_first(argv):
    """The same command with the graph as its first argument."""
    at = 2 if argv[0] in GROUPS else 1
    return (*argv[:at], "g.omni", *argv[at:])


@pytest.mark.parametrize("command", COMMANDS)
def test_the_graph_comes_first(omnigraph, site, command):
    argv = COMMANDS[command]
    first = omnigraph(*graph_first(argv))
    assert first.exit == 0, first.stderr


@pytest.mark.parametrize("command", ["query", "branch create", "branch list", "diff", "load two"])
def test_words_are_names_where_an_option_names_the_graph(omnigraph, site, command):
    result = omnigraph("--store", "g.omni", *COMMANDS[command])
    assert result.exit == 0, result.stderr


@pytest.mark.sampled(25, every=("command",))
@pytest.mark.parametrize("way", DEFAULTS)
@pytest.mark.parametrize("command", COMMANDS)
def test_words_are_names_where_a_profile_names_the_graph(omnigraph, site, command, way):
    text, flags = DEFAULTS[way]
    set_default(site, text)
    result = omnigraph(*flags, *COMMANDS[command])
    assert result.exit == 0, result.stderr


def test_single_commits_are_named_after_the_graph(omnigraph, site):
    made = omnigraph("commit", "list", "g.omni", "--branch", "side", "--json").json["commits"][0]
    chosen = made["graph_commit_id"]
    assert omnigraph("commit", "show", "g.omni", chosen, "--json").json == made
    assert (
        omnigraph("commit", "changes", "g.omni", chosen, "--json").json["changes"][0]["id"] == "ada"
    )
    reverted = omnigraph("commit", "revert", "g.omni", chosen, "--branch", "side", "--json").json
    assert reverted["reverted"] == chosen


def test_files_are_loaded_with_those_of_data_as_one_commit(omnigraph, site):
    loaded = omnigraph("load", "g.omni", "ada.jsonl", "-", "--data", "bob.jsonl", "--json", stdin=(
        '{"type":"Person","data":{"name":"cy"}}\n'
    )).json  # fmt: skip
    assert (loaded["mode"], loaded["total_rows"]) == ("merge", 3)
    assert names_of(omnigraph, "g.omni") == ["ada", "bob", "cy"]


def test_a_graph_before_files_counts_more_than_a_profile(omnigraph, site):
    set_default(site, DEFAULTS["default"][0])
    assert omnigraph("load", "other.omni", "bob.jsonl").exit == 0
    assert omnigraph("load", "--data", "ada.jsonl", "other.omni").exit == 0
    assert names_of(omnigraph, "--store", "other.omni") == ["ada", "bob"]
    assert names_of(omnigraph, "--store", "g.omni") == []


def test_a_word_that_can_only_be_a_graph_counts_more_than_a_profile(omnigraph, site):
    set_default(site, DEFAULTS["default"][0])
    assert omnigraph("branch", "list", "other.omni").stdout == "main\n"
    assert omnigraph("branch", "list").stdout == "main\nside\n"


WRONG = {
    "name before graph": (
        ("query", "names", "g.omni", "--query", "q.gq"),
        ["`names` was taken for the graph", "`g.omni` for NAME", "query URI NAME"],
    ),
    "file before graph": (
        ("load", "ada.jsonl", "g.omni"),
        ["`ada.jsonl` was taken for the graph", "`g.omni` for FILE", "load URI FILE"],
    ),
    "a file alone": (
        ("load", "ada.jsonl"),
        ["`ada.jsonl` was taken for the graph", "nothing to load"],
    ),
    "a name alone": (
        ("branch", "create", "third"),
        ["`third` was taken for the graph", "NAME is missing", "branch create URI NAME", "--store"],
    ),
    "a query alone": (("query", "names"), ["`names` was taken for the graph"]),
    "a query with its source": (
        ("query", "names", "--query", "q.gq"),
        ["`names` was taken for the graph", "no graph at"],
    ),
    "states before graph": (
        ("diff", "main", "side", "g.omni"),
        ["`main` was taken for the graph", "`side` for FROM", "`g.omni` for TO"],
    ),
    "one state": (("diff", "main", "side"), ["`main` was taken for the graph", "TO is missing"]),
    "a commit before graph": (
        ("commit", "show", "01JZZZZZZZZZZZZZZZZZZZZZZ1", "g.omni"),
        ["`01JZZZZZZZZZZZZZZZZZZZZZZ1` was taken for the graph", "`g.omni` for ID"],
    ),
    "two graphs": (
        ("query", "other.omni", "-e", NAMES, "--store", "g.omni"),
        ["`other.omni`, which is a graph, was taken for NAME", '--store "g.omni"'],
    ),
    "too many words": (
        ("branch", "create", "other.omni", "third", "--uri", "g.omni"),
        ["`other.omni`, which is a graph, was taken for NAME", '--uri "g.omni"'],
    ),
    "two graphs and no name": (
        ("branch", "list", "other.omni", "--uri", "g.omni"),
        ["one graph", '"other.omni"', '"g.omni"'],
    ),
    "two graphs and files": (
        ("load", "other.omni", "ada.jsonl", "--store", "g.omni"),
        ["`other.omni`, which is a graph, was taken for FILE", '--store "g.omni"'],
    ),
    "a text without its option": (("query", "g.omni", NAMES), ["after -e"]),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_word_in_the_wrong_place_is_told(omnigraph, site, case):
    argv, said = WRONG[case]
    before = commits(site)
    result = omnigraph(*argv, "--json")
    assert result.exit == 1
    for text in said:
        assert text in result.stderr, text
    assert json.loads(result.stdout)["kind"]
    assert commits(site) == before


@pytest.mark.parametrize("way", DEFAULTS)
@pytest.mark.parametrize(
    "argv",
    [
        ("query", "other.omni", "-e", NAMES),
        ("tag", "create", "other.omni", "main"),
        ("branch", "create", "other.omni"),
        ("branch", "create", "other.omni", "third"),
    ],
)
def test_a_graph_where_a_profile_asks_for_names_is_told_and_nothing_is_done(
    omnigraph, site, way, argv
):
    text, flags = DEFAULTS[way]
    set_default(site, text)
    result = omnigraph(*flags, *argv)
    assert result.exit == 1
    assert "`other.omni`, which is a graph, was taken for NAME" in result.stderr
    assert ("profile `near`" if flags else "`defaults.store`") in result.stderr
    assert omnigraph("branch", "list", "g.omni").stdout == "main\nside\n"
    assert "other.omni" not in omnigraph("tag", "list", "g.omni").stdout


def test_a_branch_may_be_called_like_a_graph(omnigraph, site):
    assert omnigraph("branch", "create", "other.omni", "--store", "g.omni").exit == 0
    assert omnigraph("diff", "main", "other.omni", "--store", "g.omni").exit == 0


@pytest.mark.parametrize(
    ("argv", "missing"),
    [
        (("branch", "create"), "NAME"),
        (("branch", "create", "g.omni"), "NAME"),
        (("branch", "create", "--store", "g.omni"), "NAME"),
        (("diff", "g.omni", "main"), "TO"),
        (("blob", "get", "g.omni", "node", "Person"), "ID"),
    ],
)
def test_a_missing_name_is_a_usage_error(omnigraph, site, argv, missing):
    result = omnigraph(*argv)
    assert result.exit == 2
    assert f"Missing argument '{missing}'" in result.stderr


def test_too_many_words_are_a_usage_error(omnigraph, site):
    result = omnigraph("status", "g.omni", "x")
    assert result.exit == 2
    assert "omnigraph status takes URI" in result.stderr


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["branch", "delete", "g.omni", "s"], ["side"]),
        (["diff", "g.omni", "main", ""], ["main", "side"]),
        (["diff", "--store", "g.omni", "main", "s"], ["side"]),
        (["branch", "delete", ""], []),
    ],
)
def test_completion_knows_where_names_stand(omnigraph, site, words, found):
    result = omnigraph("__complete", *words)
    assert result.stdout.split() == found
