"""How the command line finds a graph behind a server, and what it refuses there."""

import json
import subprocess
import sys

import pytest

import omnigraph as og
from tests.cli.running import environment
from tests.client.serving import serving

SCHEMA = "node Person { name: String @key }"
ROW = '{"type": "Person", "data": {"name": "ada"}}\n'
TOKENS = {"OMNIGRAPH_SERVER_BEARER_TOKENS_JSON": '{"ada": "t-ada"}'}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    place = tmp_path_factory.mktemp("place")
    for name in ("a", "b"):
        with og.init(place / f"{name}.omni", SCHEMA):
            pass
    (place / "rows.jsonl").write_text(ROW, "utf-8")
    (place / "rows.csv").write_text("name\nbob\n", "utf-8")
    return place


@pytest.fixture(scope="module")
def several(place):
    with serving(["--graph=a=a.omni", "--graph=b=b.omni", "--unauthenticated"], place) as url:
        yield url


def test_one_of_several_graphs_must_be_named(launcher, place, several):
    refused = launcher.run(["snapshot", "--server", several], place)
    assert refused.exit == 1
    assert f"{several} has the graphs a, b; name one with --graph ID" in refused.stderr
    assert launcher.run(["snapshot", "--server", several, "--graph", "b"], place).exit == 0
    assert launcher.run(["snapshot", "--server", f"{several}/graphs/a"], place).exit == 0
    ghost = launcher.run(["snapshot", "--server", several, "--graph", "ghost", "--json"], place)
    assert (ghost.exit, ghost.json["kind"]) == (1, "graph_not_found")


def test_the_graphs_of_a_server(launcher, place, several):
    listed = launcher.run(["graphs", "list", "--server", several], place)
    assert listed.stdout == f"a\t{several}/graphs/a\nb\t{several}/graphs/b\n"
    document = launcher.run(["graphs", "list", "--server", several, "--json"], place).json
    assert [graph["graph_id"] for graph in document["graphs"]] == ["a", "b"]
    unusable = launcher.run(["graphs", "list", "--server", several, "--graph", "a"], place)
    assert "--graph cannot be used with graphs list (served command): " in unusable.stderr
    nowhere = launcher.run(["graphs", "list"], place)
    assert (nowhere.exit, "--server" in nowhere.stderr) == (1, True)


def test_names_profiles_and_tokens(launcher, place):
    home = place / "home"
    home.mkdir(exist_ok=True)
    with serving(["--store", "a.omni"], place, TOKENS) as url:
        (home / "config.yaml").write_text(
            f"servers: {{ prod: {{ url: '{url}' }} }}\n"
            "profiles: { p: { server: prod, default_graph: default } }\n",
            "utf-8",
        )
        unknown = launcher.run(["branch", "list", "--server", "prod", "--json"], place)
        assert (unknown.exit, unknown.json["kind"]) == (1, "unauthenticated")
        assert launcher.run(["login", "prod", "--token", "t-ada"], place).exit == 0
        # It does not tell its graphs, and is asked for `default`.
        assert launcher.run(["branch", "list", "--server", "prod"], place).stdout == "main\n"
        assert launcher.run(["branch", "list", "--profile", "p"], place).stdout == "main\n"
        denied = launcher.run(["branch", "create", "x", "--server", "prod", "--json"], place)
        assert (denied.exit, denied.json["kind"]) == (1, "policy_denied")
        assert f"omnigraph branch create -> {url}/graphs/default (served)" in denied.stderr
        assert "t-ada" not in denied.stdout + denied.stderr
        launcher.run(["logout", "prod"], place)
        variable = {"OMNIGRAPH_TOKEN_PROD": "t-ada"}
        assert launcher.run(["branch", "list", "--server", "prod"], place, variable).exit == 0
    with serving(["--graph=only=a.omni"], place, TOKENS) as url:
        guessed = launcher.run(
            ["branch", "list", "--server", url], place, {"OMNIGRAPH_BEARER_TOKEN": "t-ada"}
        )
        assert guessed.exit == 1
        assert "name one with --graph ID" in guessed.stderr


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ("load --node Person rows.csv --node Person rows.csv", "--store"),
        ("load --node Person rows.csv --data rows.jsonl", "--store"),
        ("load --data rows.jsonl --rejects bad.jsonl", "--rejects"),
        ("load --data rows.jsonl --engine local", "--engine"),
        ("load --data rows.jsonl --spark-master local[2]", "--spark-master"),
        ("load --data rows.jsonl --spark-conf a=b", "--spark-conf"),
        ("load --node Person rows.jsonl", "--data"),
        ("export --format csv --type Person --out x.csv", "--format"),
        ("export --engine local", "--engine"),
        ("branch delete x", "--yes"),
        ("load --data rows.jsonl --mode overwrite", "--yes"),
        ("branch create x --as me", "--as"),
        ("optimize", "--store"),
    ],
)
def test_what_a_server_cannot_do_is_refused(launcher, place, several, argv, said):
    result = launcher.run([*argv.split(), "--server", f"{several}/graphs/b"], place)
    assert (result.exit, result.stdout) == (1, "")
    assert said in result.stderr
    assert not (place / "bad.jsonl").exists()


def test_a_query_that_opens_its_graph_needs_no_client(place):
    program = (
        "import sys; from omnigraph.cli import main; "
        "main(['query', 'a.omni', '-e', 'query q() { match { $p: Person } return { $p.name } }']); "
        "import json; print(json.dumps(sorted(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=place,
        env=environment(place / "home"),
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = json.loads(done.stdout.splitlines()[-1])
    names = ("httpx2", "uvicorn", "cedarpy", "mcp", "omnigraph.client", "omnigraph.server")
    assert [name for name in loaded if name.startswith(names)] == []
