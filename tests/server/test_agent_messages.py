"""Messages to `POST /graphs/{graph_id}/mcp` that are none: refused in JSON, in words of the server or of the protocol."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.policy.served import MESSAGE, ServedWorld, served_world

VERSIONS = [None, "2025-06-18", "2026-07-28"]
CALL = '{"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "query", "arguments": %s}}'


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedWorld]:
    with served_world(tmp_path_factory.mktemp("messages")) as world:
        yield world


def send(world: ServedWorld, body: str | bytes, **headers: str):
    content = body.encode() if isinstance(body, str) else body
    return world.send("POST", "/graphs/default/mcp", body=content, headers={**MESSAGE, **headers})


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "body",
    [
        "", "5", "[]", "{", "{}", '"x"', f"[{CALL % '{}'}]", '{"jsonrpc": "1.0", "method": "x"}',
        '{"jsonrpc": "2.0", "id": 1.5, "method": "tools/list"}', '{"jsonrpc": "2.0", "id": 1, "result": {}}',
        '{"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": [1]}', b'{"jsonrpc": "2.0", "method": "\xff"}',
        CALL % f'{{"query": {nested(1000)}}}', CALL % f'{{"query": {nested(100_000)}}}',
    ],
    ids=lambda body: str(body)[:60],
)  # fmt: skip
def test_what_is_no_message_is_a_bad_request(world, body, version):
    headers = {} if version is None else {"mcp-protocol-version": version}
    answer = send(world, body, **headers)
    assert answer.error == (400, "bad_request", "bad_request")
    assert "no message of the protocol" in answer.json()["error"]


@pytest.mark.parametrize(
    ("arguments", "name"),
    [("[1, 2]", "query"), ("5", "query"), ('"x"', "query"), ("{}", 5)],
)
def test_arguments_that_are_no_object_are_an_error_of_the_protocol(world, arguments, name):
    body = (CALL % arguments).replace('"query"', json.dumps(name))
    answer = send(world, body)
    assert (answer.status, answer.json()["error"]["code"]) == (200, -32602)


def test_a_message_has_a_size_a_type_and_no_parameters(world):
    long = json.dumps({"data": "x" * (1 << 20)})
    assert send(world, CALL % long).error == (413, "resource_limit", "bad_request")
    assert send(world, CALL % "{}", **{"content-type": "text/plain"}).error[:2] == (
        415,
        "media_type",
    )
    assert send(world, CALL % "{}", **{"content-encoding": "gzip"}).error[:2] == (415, "media_type")
    answer = world.send("POST", "/graphs/default/mcp?a=1", body=b"{}", headers=MESSAGE)
    assert answer.error[:2] == (400, "bad_request")
    fits = json.dumps({"data": "x" * (1 << 19)})
    body = (CALL % fits).replace('"query"', '"load"')
    assert send(world, body).json()["result"]["structuredContent"]["kind"] == "input"


def test_a_stream_of_events_is_not_to_be_had(world):
    listen = '{"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen"}'
    answer = send(world, listen, **{"mcp-protocol-version": "2026-07-28"})
    assert answer.error == (400, "bad_request", "bad_request")


def test_the_answer_is_json_whatever_is_asked_for(world):
    asked = '{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}'
    for accept in ("text/event-stream", "text/html", "*/*"):
        answer = send(world, asked, accept=accept)
        assert answer.headers["content-type"] == "application/json"
        assert answer.json()["result"]["tools"]
