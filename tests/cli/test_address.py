"""Which graph a command works on, and flags that no command drops silently."""

import pytest


def test_flags_may_stand_before_the_command_and_before_the_group(omnigraph, graph):
    for argv in (
        ("--store", graph, "--json", "branch", "list"),
        ("branch", "--store", graph, "--json", "list"),
        ("--json", "branch", "--store", graph, "list"),
        ("branch", "list", "--store", graph, "--json"),
    ):
        assert omnigraph(*argv).json == {"branches": ["main"]}, argv


def test_the_flag_further_right_wins(omnigraph, graph):
    result = omnigraph("--store", "nowhere.omni", "snapshot", "--store", graph)
    assert result.exit == 0


@pytest.mark.parametrize("spelled", ["{place}/g.omni", "file://{place}/g.omni", "./g.omni/"])
def test_spellings_of_a_local_graph(omnigraph, graph, place, spelled):
    uri = spelled.format(place=place)
    result = omnigraph("branch", "create", "side", "--uri", uri)
    assert result.exit == 0
    assert result.stderr == f"omnigraph branch create -> {uri} (direct, local)\n"


def test_no_graph_lists_the_ways_to_name_one(omnigraph):
    result = omnigraph("snapshot", "--json")
    assert (result.exit, result.json["code"]) == (1, "bad_request")
    assert "--store" in result.stderr
    assert "--server" in result.stderr


@pytest.mark.parametrize("argv", [("snapshot", ""), ("snapshot", "--store", "")])
def test_an_empty_address_is_none(omnigraph, argv):
    result = omnigraph(*argv)
    assert result.exit == 1
    assert "empty" in result.stderr


@pytest.mark.parametrize("argv", [("snapshot", "a.omni"), ("branch", "list", "--uri", "a.omni")])
def test_two_graphs_are_one_too_many(omnigraph, argv):
    result = omnigraph(*argv, "--store", "b.omni")
    assert result.exit == 1
    assert "a.omni" in result.stderr
    assert "b.omni" in result.stderr


@pytest.mark.parametrize("argv", [("snapshot",), ("snapshot", "--store"), ("lint", "--query", "q")])
@pytest.mark.parametrize("url", ["http://127.0.0.1:9", "HTTPS://example.org/graphs/g"])
def test_a_server_is_no_storage(omnigraph, argv, url):
    result = omnigraph(*argv, url)
    assert result.exit == 1
    assert "--server" in result.stderr


def test_another_scheme_is_refused_with_the_known_ones(omnigraph):
    result = omnigraph("snapshot", "gs://bucket/g")
    assert result.exit == 1
    assert "s3://" in result.stderr


@pytest.mark.parametrize(
    ("argv", "flag", "command"),
    [
        (("init", "--schema", "people.pg", "g"), "--store", "init (direct command)"),
        (("init", "--schema", "people.pg", "g"), "--as", "init (direct command)"),
        (("init", "--schema", "people.pg", "g"), "--server", "init (direct command)"),
        (("optimize", "g"), "--server", "optimize (direct command)"),
        (("optimize", "g"), "--as", "optimize (direct command)"),
        (("lint", "--query", "q.gq"), "--as", "lint (any command)"),
        (("snapshot", "g"), "--as", "snapshot (any command)"),
        (("snapshot", "g"), "--cluster", "snapshot (any command)"),
        (("branch", "list"), "--as", "branch list (any command)"),
        (("branch", "delete", "x"), "--cluster", "branch delete (any command)"),
        (("version",), "--store", "version (local command)"),
        (("version",), "--profile", "version (local command)"),
    ],
)
def test_a_flag_the_command_cannot_use_is_refused_with_advice(omnigraph, argv, flag, command):
    result = omnigraph(*argv, flag, "x")
    assert result.exit == 1
    start = f"error: {flag} cannot be used with {command}: "
    assert result.stderr.startswith(start)
    why, _, instead = result.stderr.removeprefix(start).partition("; ")
    assert why
    assert instead


@pytest.mark.parametrize("actor", ["omnigraph:recovery", " omnigraph:x", "", "  ", "x" * 257])
def test_actors_of_the_product_and_of_nobody_are_refused(omnigraph, graph, actor):
    result = omnigraph("branch", "create", "x", "--uri", graph, "--as", actor)
    assert result.exit == 1
    assert "--as" in result.stderr
    assert omnigraph("branch", "list", "--uri", graph).stdout == "main\n"


def test_quiet_silences_the_echo(omnigraph, graph):
    assert omnigraph("branch", "create", "x", "--uri", graph, "--quiet").stderr == ""
    assert omnigraph("--quiet", "branch", "delete", "x", "--uri", graph).stderr == ""
