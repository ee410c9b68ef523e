"""Which graph a command works on, and flags that no command drops silently."""

import pytest
from typer.main import get_command

from omnigraph.cli.app import build
from omnigraph.cli.command import COMMANDS


def test_flags_may_stand_before_the_command_and_before_the_group(omnigraph, graph):
    for argv in (
        ("--store", graph, "--json", "branch", "list"),
        ("branch", "--store", graph, "--json", "list"),
        ("--json", "branch", "--store", graph, "list"),
        ("branch", "list", "--store", graph, "--json"),
    ):
        assert omnigraph(*argv).json["branches"] == ["main"], argv


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


CONFIG = """\
servers: { prod: { url: "http://127.0.0.1:9" } }
clusters: { team: { root: "s3://bucket/team" } }
profiles:
  near: { store: g.omni }
  served: { server: prod, default_graph: shop }
  far: { cluster: team }
  both: { server: prod, store: g.omni }
  none: {}
"""


@pytest.fixture
def config(place):
    def write(text):
        (place / "home").mkdir(exist_ok=True)
        (place / "home" / "config.yaml").write_text(text, "utf-8")

    write(CONFIG)
    return write


class TestResolution:
    """Explicit address, then profile, then defaults."""

    def test_each_way_to_the_graph(self, omnigraph, graph, config):
        near = {"OMNIGRAPH_PROFILE": "near"}
        served = {"OMNIGRAPH_PROFILE": "served"}
        assert omnigraph("snapshot").exit == 1
        assert omnigraph("snapshot", "--profile", "near").exit == 0
        assert omnigraph("snapshot", env=near).exit == 0
        # The flag wins over the variable, an address over both.
        assert omnigraph("snapshot", "--profile", "near", env=served).exit == 0
        assert omnigraph("snapshot", graph, env=served).exit == 0
        assert omnigraph("snapshot", "--store", graph, "--profile", "served").exit == 0
        assert omnigraph("snapshot", env=served).exit == 1
        config(CONFIG + "defaults: { store: g.omni }\n")
        assert omnigraph("snapshot").exit == 0
        assert omnigraph("snapshot", env=served).exit == 1
        assert omnigraph("optimize", "--quiet").exit == 0
        config(CONFIG + "defaults: { server: prod, default_graph: shop }\n")
        result = omnigraph("snapshot")
        assert result.exit == 1
        assert "cannot reach http://127.0.0.1:9: " in result.stderr

    @pytest.mark.parametrize(
        ("argv", "said"),
        [
            (
                ("--profile", "ghost"),
                "there is no profile `ghost`; config.yaml has the profiles both",
            ),
            (("--profile", "both"), "has server and store; keep one"),
            (("--profile", "none"), "has none of them"),
            (("--profile", ""), "there is no profile ``"),
            (("--server", "ghost"), "there is no server `ghost`; config.yaml has the servers prod"),
            (("--server", "ftp://host"), "is not the URL of a server"),
            (("--server", "https://u:p@host"), "without user"),
            (("--server", "https://host", "--graph", "a_b"), "`a_b` cannot be the id of a graph"),
            (("--server", "https://host", "--graph", "graphs"), "`graphs` cannot be the id"),
            (("--server", "https://host/graphs/a", "--graph", "b"), 'names the graph "a"'),
            (("--server", "https://host", "--store", "g.omni"), '--server "https://host"'),
            (("--server", "prod", "--cluster", "team"), "--cluster cannot be used with snapshot"),
            (("g.omni", "--graph", "x"), "--graph cannot be used with snapshot (any command): "),
            (("--graph", "x"), "--graph cannot be used with snapshot (any command): "),
            (("--profile", "near", "--graph", "x"), '"g.omni" is storage of one graph'),
            (("--profile", "far"), "profile `far` names a cluster, which snapshot (any command)"),
            (("--cluster", "team", "--graph", "a"), "pass --store s3://bucket/team/graphs/a.omni"),
            (("--cluster", "./x/"), "pass --store ./x/graphs/<id>.omni"),
            # Nobody listens there.
            (("--server", "prod"), "cannot reach http://127.0.0.1:9: "),
            (("--server", "prod", "--graph", "a"), "cannot reach http://127.0.0.1:9: "),
            (("--server", "http://127.0.0.1:9/p/graphs/a/"), "cannot reach http://127.0.0.1:9/p: "),
        ],
        ids=str,
    )
    def test_what_is_refused(self, omnigraph, config, argv, said):
        result = omnigraph("snapshot", *argv)
        assert (result.exit, result.stdout) == (1, "")
        assert said in result.stderr
        assert ";" in result.stderr

    @pytest.mark.parametrize(
        ("argv", "said"),
        [
            (("--profile", "served"), "profile `served` names a server, which optimize (direct"),
            (("--cluster", "."), "there is no cluster at "),
            (("--cluster", ".", "--graph", "a"), "run `omnigraph cluster import`"),
            (("--cluster", "ghost"), "neither a cluster nor a directory"),
            (("--cluster", "team", "--store", "g"), "keep one"),
            (("g.omni", "--graph", "a"), "--graph cannot be used with optimize (direct command)"),
        ],
        ids=str,
    )
    def test_what_a_direct_command_refuses(self, omnigraph, config, argv, said):
        result = omnigraph("optimize", *argv)
        assert (result.exit, result.stdout) == (1, "")
        assert said in result.stderr

    def test_an_actor_is_not_sent_to_a_server(self, omnigraph, config):
        result = omnigraph("branch", "create", "x", "--server", "prod", "--as", "me")
        assert result.exit == 1
        assert "--as cannot be used with branch create (any command): " in result.stderr


#: The table of capabilities: scope flags each command can use (s store, v server, c cluster,
#: g graph, p profile, a as).
TABLE = """
any    svgp  query explain export status snapshot schema_show schema_diff schema_plan branch_list tag_list
any    svgp  commit_list commit_show commit_changes log changes_poll changes_baseline diff history blame
any    svgp  blob_get blob_stat
any    svgpa load ingest mutate embed schema_apply branch_create branch_merge branch_delete
any    svgpa tag_create tag_delete commit_revert blob_put purge shell mcp ui
any    svcgp lint
direct scgp  optimize ensure-indices repair cleanup verify
direct -     init
served vp    graphs_list
control cgp  policy_validate policy_test policy_explain queries_list
control scgp queries_validate
control -    cluster_validate cluster_plan cluster_status cluster_refresh cluster_import
control -    cluster_force-unlock
control a    cluster_apply cluster_approve
local  -     alias profile_list profile_show login logout examples skill completion version
"""
LETTERS = {
    "store": "s",
    "server": "v",
    "cluster": "c",
    "graph": "g",
    "profile": "p",
    "as_actor": "a",
}


def test_every_command_is_in_the_table():
    def names(command, path=()):
        inner = getattr(command, "commands", None)
        if inner is None:
            return {" ".join(path)}
        return {
            found
            for word, child in inner.items()
            if not child.hidden
            for found in names(child, (*path, word))
        }

    assert names(get_command(build())) == COMMANDS.keys()


def test_every_command_has_its_capability():
    expected = {
        name.replace("_", " "): (capability, set(flags) - {"-"})
        for capability, flags, *names in map(str.split, TABLE.strip().splitlines())
        for name in names
    }
    found = {
        name: (command.capability, {LETTERS[flag] for flag in command.takes})
        for name, command in COMMANDS.items()
    }
    assert found == expected
    assert {name for name, command in COMMANDS.items() if "a" in expected[name][1]} >= {
        name for name, command in COMMANDS.items() if command.writes and command.capability == "any"
    }


def test_quiet_silences_the_echo(omnigraph, graph):
    assert omnigraph("branch", "create", "x", "--uri", graph, "--quiet").stderr == ""
    assert omnigraph("--quiet", "branch", "delete", "x", "--uri", graph).stderr == ""


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ("policy validate --file p.yaml --graph x", "leave --graph out"),
        ("policy validate --file p.yaml --graph x --bundle b", "leave --graph and --bundle out"),
        ("policy validate --store g", "; pass --cluster DIR"),
        ("queries list --queries q --cluster c --graph x", "leave --cluster and --graph out"),
        ("cluster plan --store g.omni", "; pass --config DIR"),
        ("cluster apply --graph g", "; pass --config DIR"),
    ],
)
def test_flags_are_refused_where_another_one_names_everything(omnigraph, argv, words):
    result = omnigraph(*argv.split())
    assert result.exit == 1
    assert result.stderr.endswith(f"{words}\n"), result.stderr
