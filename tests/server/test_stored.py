"""Stored queries of a real server: what does not load, and a schema that somebody else changes under them."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

import omnigraph as og
from tests.mcp.test_stdio import greeted
from tests.policy.served import MESSAGE
from tests.server.http import Http
from tests.server.running import clean_environment, run_server, start_server

PERSON = "node Person { name: String @key  age: I64? }\n"
CITY = "node City { name: String @key }\nedge LivesIn: Person -> City\n"
QUERIES = {
    "people": "query people() { match { $p: Person } return { $p.name as name } order { name } }",
    "cities": "query cities() { match { $c: City } return { $c.name as name } }",
    "aged": "query aged($n: String) { match { $p: Person { name: $n } } return { $p.age as age } }",
    "found": "query found($n: String) { insert City { name: $n } }",
}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    with og.init(tmp_path / "g", PERSON + CITY) as graph:
        graph.load([{"type": "Person", "data": {"name": "ada", "age": 36}}])
    write(tmp_path, QUERIES)
    return tmp_path / "g"


def write(place: Path, queries: dict[str, str]) -> Path:
    directory = place / "queries"
    directory.mkdir(exist_ok=True)
    for name, text in queries.items():
        (directory / f"{name}.gq").write_text(text)
    return directory


def invoked(http: Http, name: str, **params: object) -> tuple[int, dict]:
    answer = http.post(f"/graphs/default/queries/{name}", {"params": params} if params else {})
    return answer.status, answer.json()


def called(http: Http, name: str, **arguments: object) -> dict:
    asked = {"name": name, "arguments": arguments}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": asked}
    answer = http.post("/graphs/default/mcp", message, headers=MESSAGE)
    return answer.json()["result"]["structuredContent"]


def test_a_schema_of_another_process_breaks_only_what_does_not_fit(place, start):
    server = start("--store", place, "--queries", place.parent / "queries", "--unauthenticated")
    http = Http(server.host, server.port)
    for name, params in (
        ("people", {}),
        ("cities", {}),
        ("aged", {"n": "ada"}),
        ("found", {"n": "Oslo"}),
    ):
        assert invoked(http, name, **params)[0] == 200, name
    # This process is not the server's.
    with og.open(place) as graph:
        graph.schema.apply(PERSON, allow_data_loss=True)
    for _ in range(2):
        for name, params in (("cities", {}), ("found", {"n": "Bergen"})):
            status, body = invoked(http, name, **params)
            assert (status, body["kind"], body["code"]) == (409, "schema_conflict", "conflict")
            assert f"stored query `{name}`" in body["error"]
            assert "line 1: type error: T1" in body["error"]
            assert "City" in body["error"]
            assert called(http, name, **params)["kind"] == "schema_conflict"
        assert invoked(http, "people")[1]["rows"] == [{"name": "ada"}]
        assert invoked(http, "aged", n="ada")[1]["rows"] == [{"age": 36}]
    listed = http.get("/graphs/default/queries").json()["queries"]
    assert [entry["name"] for entry in listed] == sorted(QUERIES)
    # A schema that breaks no more than is broken may be applied through the server.
    wider = {"schema_source": PERSON.replace("age", "born: I64?  age")}
    assert http.post("/graphs/default/schema/apply", wider).status == 200
    with og.open(place) as graph:
        graph.schema.apply(PERSON + CITY, allow_data_loss=True)
    assert invoked(http, "cities")[1]["rows"] == []
    assert invoked(http, "found", n="Bergen")[1]["affected_nodes"] == 1
    assert called(http, "cities")["rows"] == [{"name": "Bergen"}]
    # On a branch queries may break; what would break them on `main` is not merged.
    with og.open(place) as graph:
        graph.branches.create("fewer")
    fewer = {"schema_source": PERSON, "branch": "fewer"}
    assert http.post("/graphs/default/schema/apply", fewer).status == 200
    on_branch = http.post("/graphs/default/queries/cities", {"branch": "fewer"})
    assert (on_branch.status, on_branch.json()["kind"]) == (409, "schema_conflict")
    for route in ("branches/merge", "branches/merge/plan"):
        merged = http.post(f"/graphs/default/{route}", {"source": "fewer"})
        assert merged.status == 400, route
        assert "break stored queries: `cities`" in merged.json()["error"], route
    assert invoked(http, "cities")[0] == 200
    assert server.stop() == 0


def test_everything_wrong_with_a_directory_is_said_at_the_start(place, launcher):
    directory = write(
        place.parent,
        {
            "again": QUERIES["people"],
            "ghosts": "query ghosts() { match { $g: Ghost } return { $g.name } }",
            "status": "query status() { match { $p: Person } return { $p.name } }",
            "torn": "query torn( {",
        },
    )
    flags = ("--store", place, "--queries", directory, "--unauthenticated")
    refused = run_server(*flags, launcher=launcher)
    assert refused.returncode == 1
    assert "torn.gq" in refused.stderr
    assert "`people`" in refused.stderr
    assert "`status`" in refused.stderr
    for name in ("again", "status", "torn"):
        (directory / f"{name}.gq").unlink()
    refused = run_server(*flags, launcher=launcher)
    assert refused.returncode == 1
    assert "`ghosts`: ghosts.gq, line 1" in refused.stderr
    assert "Ghost" in refused.stderr
    assert "Traceback" not in refused.stderr


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory, launcher):
    place = tmp_path_factory.mktemp("stored")
    with og.init(place / "g", PERSON + CITY) as graph:
        graph.load([{"type": "Person", "data": {"name": "ada", "age": 36}}])
    flags = (
        "--store",
        place / "g",
        "--queries",
        write(place, QUERIES),
        "--unauthenticated",
        "--no-mcp",
    )
    with start_server(*flags, log=place / "log", launcher=launcher) as server:
        yield Http(server.host, server.port)


@pytest.mark.parametrize(
    ("name", "body", "status", "kind", "words"),
    [
        ("aged", {}, 400, "param", "n"),
        ("aged", {"params": {}}, 400, "param", "n"),
        ("aged", {"params": {"n": None}}, 400, "param", "n"),
        ("aged", {"params": {"n": 5}}, 400, "param", "n"),
        ("aged", {"params": {"n": "ada", "m": 1}}, 400, "param", "m"),
        ("aged", {"params": []}, 400, "bad_request", "object"),
        ("aged", {"params": {"n": "ada"}, "expect_mutation": True}, 400, "bad_request", "read"),
        ("found", {"params": {"n": "x"}, "expect_mutation": False}, 400, "bad_request", "mutation"),
        ("found", {"params": {"n": "x"}, "snapshot": "01JZZZZZZZZZZZZZZZZZZZZZZ1"}, 400, "bad_request", "snapshot"),
        ("found", {"params": {"n": "x"}, "max_rows": 1}, 400, "bad_request", "max_rows"),
        ("people", {"branch": "nope"}, 404, "branch_not_found", "nope"),
        ("people", {"message": "hello"}, 400, "bad_request", "message"),
        ("People", {}, 404, "stored_query_not_found", "People"),
        ("people%20", {}, 404, "stored_query_not_found", "people "),
        ("..%2Fpeople", {}, 404, "stored_query_not_found", "../people"),
    ],
)  # fmt: skip
def test_what_an_invocation_does_not_take(http, name, body, status, kind, words):
    answer = http.post(f"/graphs/default/queries/{name}", body)
    assert (answer.status, answer.json()["kind"]) == (status, kind), answer.text
    assert words in answer.json()["error"]


def test_a_condition_on_a_read_is_refused(http):
    headers = {"Omnigraph-If-Graph-Commit": "01JZZZZZZZZZZZZZZZZZZZZZZ1"}
    answer = http.post("/graphs/default/queries/people", {}, headers=headers)
    assert answer.error == (400, "bad_request", "bad_request")


def test_an_agent_works_through_a_server(place, start, tmp_path):
    server = start("--store", place, "--queries", place.parent / "queries", "--unauthenticated")
    argv = [sys.executable, "-m", "omnigraph", "mcp", "--server", server.base, "--graph", "default"]
    with greeted(argv, tmp_path / "stderr") as agent:
        called = {}
        # A stored query is found without a list, and by the one before.
        for tool, arguments in (
            ("aged", {"n": "ada"}), ("people", {}), ("found", {"n": "Oslo"}), ("cities", {}),
            ("query", {"query": QUERIES["people"]}), ("nope", {}), ("aged", {"n": 5}), ("aged", {}),
        ):  # fmt: skip
            called[f"{tool} {arguments}"] = agent.call(tool, arguments)["result"][
                "structuredContent"
            ]
        listed = agent.answer(agent.send("tools/list"))["result"]["tools"]
    kinds = [
        told.get("kind") or told.get("rows") or told["affected_nodes"] for told in called.values()
    ]
    assert kinds == [
        [{"age": 36}], [{"name": "ada"}], 1, [{"name": "Oslo"}], [{"name": "ada"}], "bad_request", "param", "param",
    ]  # fmt: skip
    assert {tool["name"] for tool in listed} >= {"query", "mutate", *QUERIES}
    # One list for the first stored query, one for what is unknown, one for the agent's own.
    assert server.stop() == 0  # a request is in the log after its answer
    routes = [record["route"] for record in server.requests()]
    assert routes.count("queries") == 3


LOADED = """
import sys
from omnigraph.server.process.main import main
code = main()
print(*sys.modules)
sys.exit(code)
"""


@pytest.mark.parametrize("flag", ["--no-mcp", None])
def test_without_tools_nothing_of_the_protocol_is_loaded(place, flag):
    argv = [sys.executable, "-c", LOADED, "--store", str(place), "--unauthenticated"]
    argv += ["--bind", "127.0.0.1:0", *([flag] if flag else [])]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    with subprocess.Popen(argv, env=clean_environment(), **pipes) as process:
        host, _, port = process.stdout.readline().strip().partition("=")[2].rpartition(":")
        http = Http(host, int(port))
        assert http.post("/graphs/default/query", {"query": QUERIES["people"]}).status == 200
        asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        assert http.post("/graphs/default/mcp", asked, headers=MESSAGE).status == (
            404 if flag else 200
        )
        process.send_signal(signal.SIGTERM)
        loaded = set(process.stdout.read().split())
    assert process.returncode == 0
    of_tools = {"mcp", "mcp_types", "httpx2", "omnigraph.client", "omnigraph.mcp"} & loaded
    # With them, the first message loads it all: what shows that the test looks at the right thing.
    assert of_tools == (
        set() if flag else {"mcp", "mcp_types", "httpx2", "omnigraph.client", "omnigraph.mcp"}
    )
