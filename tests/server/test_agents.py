"""Tools over HTTP: an agent meets the same tokens, policy and limits as everybody else."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import replace

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

import omnigraph as og
from omnigraph.policy import Action, Decision, DefaultDeny
from omnigraph.server.hosts import HostRules, authority_of, parse_proxy
from omnigraph.server.tokens import TokenTable
from omnigraph.service.stored import read_directory
from tests.server.http import server_state, threaded
from tests.server.running import LONG, UNENCRYPTED
from tests.server.small import ADD, ALL, CROSS, SCHEMA, TOKENS, make_graph

ENOUGH = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
HEADERS = {"accept": "application/json, text/event-stream", "content-type": "application/json"}


@pytest.fixture
def serve(tmp_path):
    """Serve a small graph with tools, openly or with tokens."""
    queries = tmp_path / "queries"
    queries.mkdir()
    (queries / "all.gq").write_text(ALL, "utf-8")
    (queries / "add.gq").write_text(ADD, "utf-8")

    def state(tokens=None):
        policy = None if tokens is None else DefaultDeny()
        graph = make_graph(tmp_path / "g", policy=policy)
        made = server_state(
            {"default": graph},
            tmp_path / "spool",
            verifier=None if tokens is None else TokenTable(tokens),
        )
        made.agents = True
        served = replace(made.graphs["default"], stored=read_directory(queries), checker=policy)
        made.graphs = {"default": served}
        return made

    return state


def talk(http, conversation, token=None):
    """Talk to the tools of a server with the SDK's own client."""

    async def run():
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        async with httpx2.AsyncClient(
            verify=UNENCRYPTED, headers=headers, trust_env=False, timeout=LONG
        ) as connection:
            url = f"{http.base}/graphs/default/mcp"
            async with Client(streamable_http_client(url, http_client=connection)) as client:
                return await conversation(client)

    return asyncio.run(run())


def test_an_agent_writes_what_http_shows(serve):
    async def conversation(client):
        names = {tool.name for tool in (await client.list_tools()).tools}
        assert {"query", "mutate", "all"} <= names
        add = "query add($name: String) { insert Person { name: $name } }"
        done = await client.call_tool("mutate", {"query": add, "params": {"name": "cyd"}})
        assert done.structured_content["affected_nodes"] == 1
        return (await client.call_tool("all", {})).structured_content["rows"]

    with threaded(serve()) as running:
        rows = talk(running.http, conversation)
        answer = running.http.post("/graphs/default/query", {"query": ALL})
    assert rows == answer.json()["rows"]
    assert {"name": "cyd"} in rows


def test_texts_without_a_name_over_http_and_as_tools(serve):
    older = "($least: I32) match { $p: Person  $p.age >= $least } return { $p.name as name } order { name }"
    ageing = """
    ($rows: [{ name: String, years: I32 }])
    for $r in $rows
    match { $p: Person { name: $r.name } }
    update $p set { age: $p.age + $r.years }
    return { $p.name as name, $p.age as age }
    """
    given = {"rows": [{"name": "bob", "years": 1}, {"name": "ada", "years": 2}]}

    async def conversation(client):
        asked = await client.call_tool("query", {"query": older, "params": {"least": 40}})
        done = await client.call_tool("mutate", {"query": ageing, "params": given})
        return asked.structured_content, done.structured_content

    with threaded(serve()) as running:
        answer = running.http.post(
            "/graphs/default/query", {"query": older, "params": {"least": 40}}
        )
        changed = running.http.post("/graphs/default/mutate", {"query": ageing, "params": given})
        asked, done = talk(running.http, conversation)
        named = running.http.post("/graphs/default/query", {"query": older, "name": "older"})
    assert answer.json()["rows"] == asked["rows"] == [{"name": "bob"}]
    assert answer.json()["query_name"] is asked["query_name"] is None
    assert changed.json()["columns"] == ["name", "age"]
    assert changed.json()["rows"] == [{"name": "bob", "age": 42}, {"name": "ada", "age": 38}]
    assert done["rows"] == [{"name": "bob", "age": 43}, {"name": "ada", "age": 40}]
    assert named.status == 400


def test_tools_that_an_actor_may_never_call_are_not_there(serve):
    async def conversation(client):
        names = {tool.name for tool in (await client.list_tools()).tools}
        add = "query add($name: String) { insert Person { name: $name } }"
        denied = await client.call_tool("mutate", {"query": add, "params": {"name": "cyd"}})
        unknown = await client.call_tool("nope", {})
        read = await client.call_tool("query", {"query": ALL})
        return names, denied.structured_content, unknown.structured_content, read.structured_content

    with threaded(serve(TOKENS), TOKENS["ada"]) as running:
        names, denied, unknown, read = talk(running.http, conversation, TOKENS["ada"])
    assert {"query", "schema", "diff"} <= names
    assert not {"mutate", "load", "branches_merge", "all"} & names
    assert str(denied).replace("mutate", "X") == str(unknown).replace("nope", "X")
    assert read["row_count"] == 2


def test_the_checks_of_every_route_come_first(serve):
    with threaded(serve(TOKENS)) as running:
        http = running.http
        path = "/graphs/default/mcp"
        assert http.post(path, ENOUGH, headers=HEADERS).error == (
            401,
            "unauthenticated",
            "unauthorized",
        )
        signed = http.as_(TOKENS["ada"])
        assert signed.get(path).error == (405, "method_not_allowed", "method_not_allowed")
        assert signed.post("/graphs/other/mcp", ENOUGH, headers=HEADERS).error[:2] == (
            404,
            "graph_not_found",
        )
        listed = signed.post(path, ENOUGH, headers=HEADERS)
        assert listed.status == 200
        assert listed.json()["result"]["tools"]
        too_long = {**ENOUGH, "params": {"filler": "x" * (1 << 20)}}
        assert signed.post(path, too_long, headers=HEADERS).status == 413


def test_without_tools_the_route_is_unknown(serve):
    state = serve()
    state.agents = False
    with threaded(state) as running:
        assert running.http.post("/graphs/default/mcp", ENOUGH, headers=HEADERS).error[:2] == (
            404,
            "route_not_found",
        )


def test_a_schema_that_breaks_a_stored_query_is_refused(serve):
    with threaded(serve()) as running:
        smaller = "node Tag { name: String @key  size: I64 }"
        body = {"schema_source": smaller, "allow_data_loss": True}
        refused = running.http.post("/graphs/default/schema/apply", body)
        assert refused.error == (400, "bad_request", "bad_request")
        assert "`all`" in refused.json()["error"]
        assert running.http.get("/graphs/default/schema").json()["schema_source"] == SCHEMA


def test_stored_queries_are_listed_and_invoked(serve):
    with threaded(serve()) as running:
        http = running.http
        listed = http.get("/graphs/default/queries").json()["queries"]
        assert [entry["name"] for entry in listed] == ["add", "all"]
        assert http.post("/graphs/default/queries/all").json()["row_count"] == 2
        assert http.post("/graphs/default/queries/all", {"max_rows": 1}).json()["truncated"]
        assert http.post("/graphs/default/queries/nope", {}).error[:2] == (
            404,
            "stored_query_not_found",
        )
        wrong = http.post("/graphs/default/queries/all", {"expect_mutation": True})
        assert wrong.error[:2] == (400, "bad_request")
        assert http.post("/graphs/default/queries/all", {"parms": {}}).status == 400


DENIED_HEADERS = [
    {},
    {"omnigraph-operation-id": "x"},
    {"omnigraph-if-graph-commit": "x"},
    {"omnigraph-if-graph-commit": "01JZZZZZZZZZZZZZZZZZZZZZZ1"},
    {"accept": "application/x-ndjson"},
]


@pytest.mark.parametrize("headers", DENIED_HEADERS, ids=str)
def test_no_header_tells_a_stored_query_from_none(serve, headers):
    with threaded(serve(TOKENS), TOKENS["ada"]) as running:
        answers = set()
        for name in ("all", "add", "no_such"):
            answer = running.http.post(f"/graphs/default/queries/{name}", {}, headers=headers)
            answers.add((answer.status, answer.text.replace(name, "NAME")))
    assert len(answers) == 1
    assert answers.pop()[0] in {400, 404}


def test_a_schema_that_is_denied_tells_nothing_of_stored_queries(serve):
    with threaded(serve(TOKENS), TOKENS["ada"]) as running:
        body = {"schema_source": "node Tag { name: String @key }", "allow_data_loss": True}
        refused = running.http.post("/graphs/default/schema/apply", body)
    assert refused.error == (403, "policy_denied", "forbidden")
    assert "`all`" not in refused.text


def call(tool, **arguments):
    """The message that calls a tool."""
    return {**ENOUGH, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}


def eventually(is_so):
    until = time.monotonic() + LONG
    while not is_so():
        assert time.monotonic() < until, "it never came about"
        time.sleep(0.02)


def test_a_client_that_goes_stops_the_tool_it_called(serve):
    with threaded(serve()) as running:
        reads = running.app.engine.reads
        body = json.dumps(call("query", query=CROSS)).encode()
        lines = [b"POST /graphs/default/mcp HTTP/1.1", b"Host: 127.0.0.1"]
        lines += [f"{name}: {value}".encode() for name, value in HEADERS.items()]
        lines += [b"Content-Length: %d" % len(body), b"", body]
        with running.http.connected() as connection:
            connection.sendall(b"\r\n".join(lines))
            eventually(lambda: reads.running == 1)
        eventually(lambda: reads.running == 0)
        assert running.http.post("/graphs/default/query", {"query": ALL}).status == 200


def test_tools_work_behind_a_proxy_that_hides_a_prefix(serve):
    state = serve()
    state.hosts = HostRules(authority_of("127.0.0.1", 0), proxies=(parse_proxy("127.0.0.1/32"),))
    with threaded(state) as running:
        headers = {**HEADERS, "x-forwarded-prefix": "/og"}
        answer = running.http.post("/graphs/default/mcp", call("status"), headers=headers)
        shown = answer.json()["result"]["structuredContent"]
        assert shown["uri"] == f"{running.http.base}/og/graphs/default"


def test_requests_of_tools_have_the_id_of_the_message(serve, caplog):
    with threaded(serve()) as running, caplog.at_level("INFO", "omnigraph.server.requests"):
        headers = {**HEADERS, "x-request-id": "mine"}
        running.http.post("/graphs/default/mcp", call("schema"), headers=headers)
        eventually(lambda: "mcp" in {record.route for record in requests_in(caplog)})
    told = {record.route: record.request_id for record in requests_in(caplog)}
    assert told["schema"] == told["mcp"] == "mine"


def requests_in(caplog):
    """What was logged about requests; other parts of the process may log as well."""
    return [record for record in caplog.records if record.name == "omnigraph.server.requests"]


class OnlyStored:
    """A policy that allows to invoke queries, and to read one branch."""

    def check(self, question):
        return Decision(
            question.action is Action.INVOKE_QUERY
            or (question.action is Action.READ and question.branch == "side")
        )

    def could(self, _actor, action):
        return action in {Action.INVOKE_QUERY, Action.READ}


def test_who_may_only_invoke_has_the_stored_queries_as_tools(serve, tmp_path):
    async def conversation(client):
        names = {tool.name for tool in (await client.list_tools()).tools}
        return names, (await client.call_tool("all", {"branch": "side"})).structured_content

    state = serve(TOKENS)
    state.graphs["default"].graph.close()
    graph = og.open(tmp_path / "g", policy=OnlyStored(), local_files=False)
    state.graphs = {
        "default": replace(
            state.graphs["default"], graph=graph, mode="policy", checker=OnlyStored()
        )
    }
    with graph, threaded(state, TOKENS["ada"]) as running:
        assert running.http.get("/graphs/default/queries").status == 403
        names, answer = talk(running.http, conversation, TOKENS["ada"])
    assert "all" in names
    assert answer["row_count"] == 2
