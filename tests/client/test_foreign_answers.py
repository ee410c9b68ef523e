"""Whatever listens at an address and answers: a value of the right form, or an error of ours."""

from __future__ import annotations

import asyncio
import json
from typing import Any, get_args, get_origin

import httpx2
import msgspec
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from omnigraph.client import AsyncClient, Client
from omnigraph.client.answer_checks import _types
from omnigraph.client.core import Core
from omnigraph.errors import ApiError, BadRequest, OmniGraphError
from omnigraph.service import wire
from omnigraph.service.operations import OPERATIONS

QUERY = "query q() { match { $p: Person } return { $p.name } }"
COMMIT = "01J00000000000000000000000"
#: A call of every method that asks a server; the names are those of the client.
CALLS = {
    "snapshot": lambda c: c.snapshot(),
    "query": lambda c: c.query(QUERY),
    "queries": lambda c: c.queries(),
    "invoke": lambda c: c.invoke("q"),
    "explain": lambda c: c.explain(QUERY),
    "lint": lambda c: c.lint(QUERY),
    "catalog": lambda c: c.catalog(),
    "status": lambda c: c.status(),
    "entity": lambda c: c.entity("node", "Person", "ada"),
    "entity_history": lambda c: c.entity_history("node", "Person", "ada"),
    "entity_blame": lambda c: c.blame("node", "Person", "ada"),
    "neighbors": lambda c: c.neighbors("Person", "ada"),
    "subgraph": lambda c: c.subgraph(query=QUERY),
    "history": lambda c: c.history(),
    "diff": lambda c: c.diff("main", "side"),
    "permissions": lambda c: c.permissions([{"action": "read"}]),
    "mutate": lambda c: c.mutate(QUERY),
    "load": lambda c: c.load([{"type": "Person", "data": {"name": "ada"}}]),
    "load_table": lambda c: c.load_table("node", "Person", b"name\nada\n", format="csv"),
    "embed": lambda c: c.embed(),
    "put_blob": lambda c: c.put_blob("node", "Person", "ada", "photo", b"x"),
    "clear_blob": lambda c: c.clear_blob("node", "Person", "ada", "photo"),
    "stat_blob": lambda c: c.stat_blob("node", "Person", "ada", "photo"),
    "branches": lambda c: c.branches(),
    "create_branch": lambda c: c.create_branch("side"),
    "delete_branch": lambda c: c.delete_branch("side"),
    "merge": lambda c: c.merge("side"),
    "merge_plan": lambda c: c.merge_plan("side"),
    "tags": lambda c: c.tags(),
    "create_tag": lambda c: c.create_tag("v1"),
    "delete_tag": lambda c: c.delete_tag("v1"),
    "commits": lambda c: c.commits(),
    "commit": lambda c: c.commit(COMMIT),
    "revert": lambda c: c.revert(COMMIT),
    "purge": lambda c: c.purge({"Person": ["ada"]}, dry_run=True),
    "commit_changes": lambda c: c.commit_changes(COMMIT),
    "changes": lambda c: c.changes(),
    "schema": lambda c: c.schema(),
    "schema_diff": lambda c: c.schema_diff("main", "side"),
    "schema_plan": lambda c: c.schema_plan("node P { k: String @key }"),
    "apply_schema": lambda c: c.apply_schema("node P { k: String @key }"),
    "graphs": lambda c: c.graphs(),
    "health": lambda c: c.health(),
}
STREAMS = {
    "export": lambda c: list(c.export()),
    "baseline": lambda c: list(c.baseline()),
    "query_rows": lambda c: list(c.query_rows(QUERY)),
    "query_arrow": lambda c: c.query_arrow(QUERY),
    "blob": lambda c: c.blob("node", "Person", "ada", "photo"),
    "part of a blob": lambda c: c.blob("node", "Person", "ada", "photo", offset=1, length=2),
}
#: `load_ndjson` is `load`, and `ingest` an older one.
ELSEWHERE = {"load_ndjson", "ingest"}

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner, max_size=2),
    max_leaves=4,
)
MANY = settings(
    max_examples=12, deadline=None, database=None, suppress_health_check=list(HealthCheck)
)


def test_every_method_is_called_here():
    assert {*CALLS, *STREAMS} >= set(OPERATIONS) - ELSEWHERE


def answered(call, status, headers, body):
    """What a caller gets of an answer: the value, or an error of ours. Nothing else may come."""
    transport = httpx2.MockTransport(
        lambda _: httpx2.Response(status, headers=headers, content=body)
    )
    with Client("http://h", "g", transport=transport) as client:
        try:
            return call(client)
        except OmniGraphError as error:
            assert str(error)
            json.dumps(error.body())
            return error


def any_word(name):
    """Documents that are nearly the answer of an operation: made from its type, then one member broken."""
    kind = _types(name)[0]
    whole = made_of(kind)
    broken = st.tuples(whole, JSON, st.randoms(use_true_random=False)).map(lambda t: _broken(*t))
    return whole | broken | JSON | st.dictionaries(st.text(), JSON)


def made_of(hint: Any) -> st.SearchStrategy[Any]:
    """Values of a type of answers."""
    if hint is Any:
        return JSON
    origin, parts = get_origin(hint), get_args(hint)
    if origin is list:
        return st.lists(made_of(parts[0]), max_size=2)
    if origin is dict:
        return st.dictionaries(st.text(max_size=5), made_of(parts[1]), max_size=2)
    if parts:
        return st.one_of([made_of(part) for part in parts])
    if hasattr(hint, "__required_keys__"):
        members = {key: made_of(_bare(one)) for key, one in hint.__annotations__.items()}
        always = {key: members[key] for key in hint.__required_keys__}
        return st.fixed_dictionaries(
            always, optional={key: members[key] for key in hint.__optional_keys__}
        )
    return st.from_type(hint)


def _bare(hint: Any) -> Any:
    return get_args(hint)[0] if "NotRequired" in str(get_origin(hint)) else hint


def _broken(document: Any, value: Any, random: Any) -> Any:
    """The document with a value somewhere that was not there."""
    at, path = document, []
    while isinstance(at, dict) and at:
        path.append(random.choice(sorted(at)))
        at = at[path[-1]]
        if random.random() < 0.4:
            break
    if not path:
        return value
    copy = json.loads(json.dumps(document))
    inner = copy
    for step in path[:-1]:
        inner = inner[step]
    if random.random() < 0.5:
        inner[path[-1]] = value
    else:
        del inner[path[-1]]
    return copy


@pytest.mark.parametrize("name", CALLS)
def test_any_document_is_the_answer_or_an_error(name):
    operation = {"load": "load_ndjson", "stat_blob": "blob"}.get(name, name)

    @MANY
    @given(
        document=any_word(operation), status=st.sampled_from([200, 200, 200, 201, 302, 400, 503])
    )
    def ask(document, status):
        body = json.dumps(document).encode()
        got = answered(CALLS[name], status, {"content-type": "application/json"}, body)
        if isinstance(got, OmniGraphError):
            return
        assert isinstance(got, dict)
        assert status in {200, 503}
        assert any(_fits(document, kind) for kind in _types(operation))

    ask()


def _fits(document, kind):
    try:
        msgspec.convert(document, kind)
    except msgspec.ValidationError:
        return False
    return True


FOREIGN = [
    *((200, body) for body in (b"{}", b"[]", b"", b"<html>", b'{"ok": true}', b"\xff\xfe")),
    *((204, b""), (302, b"{}"), (200, b"[" * 100_000)),
]


@pytest.mark.parametrize("name", CALLS)
def test_something_else_is_said_to_be_something_else(name):
    for status, body in FOREIGN:
        got = answered(CALLS[name], status, {"content-type": "application/json"}, body)
        assert isinstance(got, ApiError), (status, body[:20], got)
        assert got.kind == "foreign_answer"
        assert "check the URL, and what stands between" in str(got)


HEADERS = st.fixed_dictionaries(
    {},
    optional={
        "content-type": st.sampled_from(
            ["application/x-ndjson", "application/vnd.apache.arrow.stream", "text/html"]
        ),
        "omnigraph-snapshot-id": st.just(COMMIT),
        "content-range": st.sampled_from(["bytes 1-2/9", "bytes 0-2/9", "x"]),
        "etag": st.just('"e"'),
    },
)


@pytest.mark.parametrize("name", STREAMS)
def test_any_stream_is_the_answer_or_an_error(name):
    lines = st.lists(JSON.map(json.dumps), max_size=3).map(lambda texts: "\n".join(texts).encode())
    head = any_word("query").map(lambda one: json.dumps(one).encode() + b"\n{}\n")
    table = pa.table({"n": [1]})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    arrow = st.integers(0, 400).map(lambda size: sink.getvalue().to_pybytes()[:size])

    @MANY
    @given(
        headers=HEADERS,
        body=st.binary(max_size=60) | lines | head | arrow,
        status=st.sampled_from([200, 200, 206, 302, 500]),
    )
    def ask(headers, body, status):
        answered(STREAMS[name], status, headers, body)

    ask()


@pytest.mark.parametrize(
    ("offset", "length", "status", "given_range", "is_taken"),
    [
        (1, 2, 206, "bytes 1-2/9", True),
        (1, 2, 200, None, False),
        (1, 2, 206, "bytes 0-1/9", False),
        (1, 2, 206, None, False),
        (0, None, 206, "bytes 0-1/9", False),
        (0, None, 200, None, True),
    ],
)
def test_a_part_of_a_blob_is_the_part_that_was_asked_for(
    offset, length, status, given_range, is_taken
):
    headers = {"omnigraph-snapshot-id": COMMIT, "etag": '"e"'}
    if given_range is not None:
        headers["content-range"] = given_range
    got = answered(
        lambda c: c.blob("node", "P", "a", "photo", offset=offset, length=length),
        status,
        headers,
        b"bc",
    )
    assert (got == b"bc") is is_taken
    assert is_taken or got.kind == "foreign_answer"


def test_rows_that_are_missing_are_missed():
    head = {
        "kind": "metadata",
        "query_name": "q",
        "target": {"branch": "main", "snapshot": None},
        "as_of": None,
        "row_count": 2,
        "columns": ["n"],
        "schema": [],
        "graph_commit_id": COMMIT,
    }
    body = json.dumps(head).encode() + b'\n{"n": 1}\n'
    headers = {"content-type": "application/x-ndjson"}
    got = answered(STREAMS["query_rows"], 200, headers, body)
    assert isinstance(got, ApiError)
    assert "1 rows of 2" in str(got)
    assert answered(STREAMS["query_rows"], 200, headers, body + b'{"n": 2}\n') == [
        {"n": 1},
        {"n": 2},
    ]


def test_a_server_that_is_ending_is_healthy_no_more():
    body = b'{"status": "draining"}'
    got = answered(CALLS["health"], 503, {"content-type": "application/json"}, body)
    assert got == {"status": "draining"}


def test_the_awaiting_client_says_the_same():
    async def ask():
        transport = httpx2.MockTransport(lambda _: httpx2.Response(200, json={"ok": True}))
        async with AsyncClient("http://h", "g", transport=transport) as client:
            with pytest.raises(ApiError, match="not of an OmniGraph server"):
                await client.branches()
            with pytest.raises(ApiError, match="not of an OmniGraph server"):
                await client.query_arrow(QUERY)

    asyncio.run(ask())


def test_names_of_sources_stand_in_errors():
    core = Core("http://h", "g", None)
    with Client("http://h", "g") as client:
        asked = client.loading([b'{"a": 1}', {"type": "P"}, {"type": "Q"}])
    assert b"".join(asked.content) == b'{"a": 1}\n{"type":"P"}\n{"type":"Q"}\n'
    body = {
        "error": "input error: body, line 3: bad",
        "kind": "input",
        "bad_records": {
            "total": 2,
            "first": [
                {"source": "body", "line": 1, "reason": "r", "property": None},
                {"source": "body", "line": 3, "reason": "r", "property": None},
            ],
        },
    }
    error = core.failure(asked, 400, json.dumps(body).encode())
    assert str(error) == "input error: <records>, line 2: bad"
    listed = [(one["source"], one["line"]) for one in error.body()["bad_records"]["first"]]
    assert listed == [("<bytes>", 1), ("<records>", 2)]


def test_a_body_that_cannot_be_sent_is_refused_before():
    with Client("http://h", "g") as client, pytest.raises(BadRequest):
        client.core.prepare("delete_branch", wire.NoParameters(), "..")
