"""The protocol, driven by the SDK's own client: tools, resources, errors, and what is offered to whom."""

from __future__ import annotations

import asyncio
import json

import jsonschema
import pytest
from mcp import Client

import omnigraph as og
from omnigraph.mcp.messages import Offer, make_server
from omnigraph.mcp.tool_runners import GraphRunner
from omnigraph.mcp.tools import BUILT_IN_NAMES, built_in
from omnigraph.service.stored import read_directory

SCHEMA = "node Author { name: String @key  born: I32? }\nedge Knows: Author -> Author"
NAMES = "query names() { match { $a: Author } return { $a.name as name } order { name } }"
ALL = Offer()
STORED = """
query born($n: String) @description("When an author was born") {
  match { $a: Author { name: $n } } return { $a.born as born }
}
query set_born($n: String, $y: I32) { update Author set { born: $y } where name = $n }
"""


@pytest.fixture
def place(tmp_path):
    with og.init(tmp_path / "g", SCHEMA) as graph:
        people = [
            {"type": "Author", "data": {"name": f"a{n:03}", "born": 1900 + n}} for n in range(300)
        ]
        graph.load([*people, {"edge": "Knows", "from": "a000", "to": "a001"}])
        uri = graph.uri
    queries = tmp_path / "queries"
    queries.mkdir()
    (queries / "all.gq").write_text(STORED, "utf-8")
    return uri, queries


@pytest.fixture
def talk(place):
    """Run a conversation of the SDK's client with a server on the graph."""
    uri, queries = place

    def talking(conversation, offer=ALL):
        async def run():
            runner = GraphRunner(
                lambda: og.open(uri, actor="agent"),
                "graph",
                lambda: read_directory(queries, BUILT_IN_NAMES),
            )
            try:
                async with Client(make_server(lambda _: runner, offer)) as client:
                    return await conversation(client)
            finally:
                await runner.close()

        return asyncio.run(run())

    return talking


async def call(client, name, /, **arguments):
    """Call a tool; its text is the same as its structured content."""
    result = await client.call_tool(name, arguments)
    (content,) = result.content
    assert json.loads(content.text) == result.structured_content
    return result


def test_the_tools_are_those_of_the_table_and_the_stored_queries(talk):
    async def conversation(client):
        return (await client.list_tools()).tools

    tools = {tool.name: tool for tool in talk(conversation)}
    assert set(tools) == {*built_in(), "born", "set_born"}
    assert tools["born"].description == "When an author was born"
    assert tools["query"].annotations.read_only_hint
    assert tools["branches_delete"].annotations.destructive_hint
    assert not tools["branches_create"].annotations.destructive_hint


@pytest.mark.parametrize(
    ("offer", "there", "missing"),
    [
        (Offer(read_only=True), {"query", "born", "diff"}, {"mutate", "load", "set_born"}),
        (Offer(stored_only=True), {"born", "set_born"}, {"query", "mutate", "schema"}),
        (Offer(read_only=True, stored_only=True), {"born"}, {"set_born", "query"}),
    ],
)
def test_less_can_be_offered(talk, offer, there, missing):
    async def conversation(client):
        names = {tool.name for tool in (await client.list_tools()).tools}
        denied = [await call(client, name) for name in sorted(missing)]
        unknown = await call(client, "nope")
        return names, denied, unknown

    names, denied, unknown = talk(conversation, offer)
    assert there <= names
    assert not missing & names
    for name, result in zip(sorted(missing), denied, strict=True):
        assert result.is_error
        assert str(result.structured_content).replace(name, "X") == str(
            unknown.structured_content
        ).replace("nope", "X")


def test_an_agents_session(talk):
    async def conversation(client):
        schema = await call(client, "schema")
        assert "node Author" in schema.structured_content["schema_source"]
        await call(client, "branches_create", name="try-1")
        added = '{"type": "Author", "data": {"name": "new"}}'
        loaded = await call(client, "load", data=added, branch="try-1")
        assert loaded.structured_content["total_rows"] == 1
        add = "query add($n: String) { insert Author { name: $n } }"
        asked = {"query": add, "params": {"n": "other"}, "branch": "try-1"}
        added_too = await call(client, "mutate", **asked)
        assert added_too.structured_content["affected_nodes"] == 1
        set_born = await call(client, "set_born", n="new", y=1990, branch="try-1")
        assert set_born.structured_content["affected_nodes"] == 1
        changes = await call(client, "diff", **{"from": "main", "to": "try-1"})
        assert [change["id"] for change in changes.structured_content["changes"]] == [
            "new",
            "other",
        ]
        plan = await call(client, "merge_plan", source="try-1")
        assert plan.structured_content["conflict_count"] == 0
        merged = await call(client, "branches_merge", source="try-1", message="one more")
        commit = merged.structured_content["commit"]
        assert (commit["actor_id"], commit["facts"]["message"]) == ("agent", "one more")
        await call(client, "branches_delete", branch="try-1")
        listed = await call(client, "branches_list")
        assert listed.structured_content["branches"] == ["main"]
        born = await call(client, "born", n="new")
        assert born.structured_content["rows"] == [{"born": 1990}]
        shown = await call(client, "commit_show", graph_commit_id=commit["graph_commit_id"])
        assert shown.structured_content == commit

        called = {"schema", "load", "mutate", "diff", "merge_plan", "commit_show"}
        called |= {f"branches_{verb}" for verb in ("create", "delete", "list", "merge")}
        assert called | READS.keys() == built_in().keys(), "a tool that no test calls"

    talk(conversation)


READS = {
    "schema": {},
    "query": {"query": NAMES},
    "explain": {"query": NAMES},
    "lint": {"source": NAMES},
    "branches_list": {},
    "commits_list": {"limit": 1},
    "diff": {"from": "main", "to": "main"},
    "snapshot": {},
    "entity": {"kind": "node", "type": "Author", "id": "a000"},
    "entity_history": {"kind": "node", "type": "Author", "id": "a000", "limit": 5},
    "entity_blame": {"kind": "node", "type": "Author", "id": "a000", "edges": True},
    "neighbors": {"type": "Author", "id": "a000"},
    "status": {},
}


def test_answers_are_what_their_schemas_say(talk):
    async def conversation(client):
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        for name, arguments in READS.items():
            result = await call(client, name, **arguments)
            assert not result.is_error, (name, result.structured_content)
            jsonschema.validate(result.structured_content, tools[name].output_schema)
            jsonschema.validate(arguments, tools[name].input_schema)

    talk(conversation)


def test_rows_are_cut_at_200(talk):
    async def conversation(client):
        short = (await call(client, "query", query=NAMES)).structured_content
        whole = (await call(client, "query", query=NAMES, max_rows=1000)).structured_content
        return short, whole

    short, whole = talk(conversation)
    assert (short["row_count"], short["truncated"], short["total_rows"]) == (200, True, 300)
    assert (whole["row_count"], whole["truncated"]) == (300, False)


def test_errors_are_results_with_the_body_of_http(talk):
    async def conversation(client):
        return [
            (await call(client, "query", query="query q() { match { $a: Ghost } return { $a } }")),
            (await call(client, "query", query=NAMES, branch="nope")),
            (await call(client, "born", n=5)),
            (await call(client, "mutate", query=NAMES)),
        ]

    results = talk(conversation)
    assert [result.is_error for result in results] == [True] * 4
    bodies = [result.structured_content for result in results]
    assert [body["kind"] for body in bodies] == ["type", "branch_not_found", "param", "bad_request"]
    assert bodies[0]["span"]["line"] == 1


def test_resources_are_the_schema_the_branches_and_the_queries(talk):
    async def conversation(client):
        listed = [str(resource.uri) for resource in (await client.list_resources()).resources]
        return {uri: (await client.read_resource(uri)).contents[0].text for uri in listed}

    texts = {uri: json.loads(text) for uri, text in talk(conversation).items()}
    assert texts["omnigraph://branches"]["branches"] == ["main"]
    assert texts["omnigraph://schema"]["schema_source"] == SCHEMA
    assert [entry["name"] for entry in texts["omnigraph://queries"]["queries"]] == [
        "born",
        "set_born",
    ]
