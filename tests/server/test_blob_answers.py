"""Blobs over HTTP: ranges, validators, and the ways to write them."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import pytest

import omnigraph as og
from omnigraph.errors import BlobChanged, BlobRange
from omnigraph.server.handling.blob_answers import blob_reply
from tests.server.http import Answer, Threaded, server_state, threaded
from tests.server.small import PHOTO, make_graph

DATA = b"ABCDEFGHIJ"
PATH = "/graphs/default/blob"


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[og.Graph]:
    place = tmp_path_factory.mktemp("blobs") / "g.omni"
    with make_graph(place, external_blobs=["s3://bucket/base/"]) as graph:
        yield graph


@pytest.fixture(scope="module")
def server(graph: og.Graph, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Threaded]:
    with threaded(server_state({"default": graph}, tmp_path_factory.mktemp("spool"))) as server:
        yield server


def get(server: Threaded, method: str = "GET", **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return server.http.request(method, PATH, params=PHOTO, headers=named)


def test_all_of_a_blob(server, graph):
    answer = get(server)
    assert (answer.status, answer.content) == (200, DATA)
    stat = graph.blobs.stat("node", "Person", "ada", "photo")
    assert answer.headers["etag"] == f'"{stat.etag}"'
    assert answer.headers["omnigraph-snapshot-id"] == stat.graph_commit_id
    assert answer.headers["content-length"] == "10"
    assert answer.headers["accept-ranges"] == "bytes"
    assert answer.headers["content-type"] == "application/octet-stream"


def test_the_head_of_a_blob_reads_nothing(server, monkeypatch):
    opened = []
    monkeypatch.setattr("omnigraph.service.blobs.open_blob", lambda *a: opened.append(a))
    head = get(server, "HEAD", Range="bytes=2-3")
    assert (head.status, head.content, head.headers["content-length"]) == (200, b"", "10")
    assert "content-range" not in head.headers
    assert opened == []


@pytest.mark.parametrize(
    ("given", "data", "content_range"),
    [
        ("bytes=0-3", DATA[:4], "bytes 0-3/10"),
        ("bytes=4-4", DATA[4:5], "bytes 4-4/10"),
        ("bytes=8-", DATA[8:], "bytes 8-9/10"),
        ("bytes=-3", DATA[-3:], "bytes 7-9/10"),
        ("bytes=-99", DATA, "bytes 0-9/10"),
        ("bytes=5-9999", DATA[5:], "bytes 5-9/10"),
        ("BYTES= 1 - 2", DATA[1:3], "bytes 1-2/10"),
    ],
)
def test_a_range_of_a_blob(server, given, data, content_range):
    answer = get(server, Range=given)
    assert (answer.status, answer.content) == (206, data)
    assert answer.headers["content-range"] == content_range
    assert answer.headers["content-length"] == str(len(data))


@pytest.mark.parametrize(
    "given",
    [
        "bytes=0-1,4-5",
        "bytes=5-2",
        "bytes=a-b",
        "bytes=",
        "bytes=-",
        "bytes",
        "items=0-3",
        "bytes=0x1-3",
        "bytes=1--3",
    ],
)
def test_ranges_that_are_not_understood_count_for_nothing(server, given):
    answer = get(server, Range=given)
    assert (answer.status, answer.content) == (200, DATA)


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("bytes=2-" + "9" * 5000, "bytes 2-9/10"),
        ("bytes=-" + "9" * 40, "bytes 0-9/10"),
        ("bytes=" + "0" * 5000 + "8-9", "bytes 8-9/10"),
    ],
    ids=["the end", "from the end", "the start"],
)
def test_a_number_of_a_range_may_have_any_length(server, given, shown):
    answer = get(server, Range=given)
    assert (answer.status, answer.headers["content-range"]) == (206, shown)


@pytest.mark.parametrize(
    "given",
    [
        "bytes=10-",
        "bytes=10-20",
        "bytes=999999-",
        pytest.param(f"bytes={'9' * 5000}-", id="a long number"),
        "bytes=-0",
    ],
)
def test_a_range_behind_the_end(server, given):
    answer = get(server, Range=given)
    assert answer.error == (416, "blob_range", "bad_request")
    assert answer.headers["content-range"] == "bytes */10"
    assert answer.json()["blob_range"]["length"] == 10


def test_validators_in_their_order(server):
    etag = get(server).headers["etag"]
    for known in (etag, f'"x", {etag}', f"W/{etag}", "*"):
        same = get(server, If_None_Match=known)
        assert (same.status, same.content, same.headers["etag"]) == (304, b"", etag)
        assert get(server, "HEAD", If_None_Match=known).status == 304
    assert get(server, If_None_Match='"x"').status == 200
    for fits in (etag, f'"x", {etag}', "*"):
        assert get(server, If_Match=fits).status == 200
    for other in ('"x"', f"W/{etag}", "x", ""):
        assert get(server, If_Match=other).error == (412, "blob_changed", "conflict")
    assert get(server, If_Match='"x"', If_None_Match=etag).status == 412
    assert get(server, If_None_Match=etag, Range="bytes=99-").status == 304
    assert get(server, If_Range=etag, Range="bytes=0-1").status == 206
    for stale in ('"x"', f"W/{etag}", "Tue, 17 Nov 2026 00:00:00 GMT"):
        assert get(server, If_Range=stale, Range="bytes=0-1").status == 200


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"id": "nobody"}, (404, "entity_not_found")),
        ({"id": "bob"}, (404, "entity_not_found")),
        ({"type": "Nothing"}, (400, "bad_request")),
        ({"property": "age"}, (400, "bad_request")),
        ({"kind": "tree"}, (400, "bad_request")),
        ({"branch": "nowhere"}, (404, "branch_not_found")),
        ({"branch": "main", "tag": "x"}, (400, "bad_request")),
        ({"offset": "1"}, (400, "bad_request")),
    ],
)
def test_blobs_that_are_not_there(server, changed, error):
    answer = server.http.get(PATH, params=PHOTO | changed)
    assert answer.error[:2] == error, answer.text


def test_a_target_is_read(server, graph):
    first = graph.commits.list()[-2].graph_commit_id
    answer = server.http.get(PATH, params=PHOTO | {"snapshot": first})
    assert answer.headers["omnigraph-snapshot-id"] == first


def test_an_external_blob_is_never_fetched(server, graph):
    graph.load([{"type": "Person", "data": {"name": "ext", "photo": "s3://bucket/base/x.png"}}])
    answer = server.http.get(PATH, params=PHOTO | {"id": "ext"})
    assert answer.error == (424, "external_blob_source", None)
    assert answer.json()["external_blob_source"]["uri"] == "s3://bucket/base/x.png"
    assert server.http.request("HEAD", PATH, params=PHOTO | {"id": "ext"}).status == 424


def test_put_and_delete_under_conditions(server):
    bob = PHOTO | {"id": "bob"}

    def put(data: bytes, **headers: str) -> Answer:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return server.http.request("PUT", PATH, content=data, params=bob, headers=named)

    assert put(b"x", If_Match='"nothing"').error[:2] == (412, "blob_changed")
    first = put(b"one", If_None_Match="*")
    assert (first.status, first.json()["size"]) == (200, 3)
    assert put(b"two", If_None_Match="*").status == 412
    assert put(b"two", If_None_Match='"x"').status == 400
    assert put(b"two", If_Match=f'"{first.json()["etag"]}"').status == 200
    assert put(b"three", If_Match=f'"{first.json()["etag"]}"').status == 412
    assert server.http.get(PATH, params=bob).content == b"two"
    stale = {"If-Match": '"x"'}
    assert server.http.request("DELETE", PATH, params=bob, headers=stale).status == 412
    cleared = server.http.request("DELETE", PATH, params=bob)
    assert (cleared.status, cleared.json()["size"], cleared.json()["etag"]) == (200, None, None)
    assert server.http.get(PATH, params=bob).status == 404


def test_an_empty_blob(server):
    cyd = PHOTO | {"id": "bob"}
    assert server.http.request("PUT", PATH, content=b"", params=cyd).json()["size"] == 0
    answer = server.http.get(PATH, params=cyd)
    assert (answer.status, answer.content, answer.headers["content-length"]) == (200, b"", "0")
    assert server.http.get(PATH, params=cyd, headers={"Range": "bytes=0-"}).status == 416


def test_a_large_blob_comes_whole_and_in_parts(server):
    data = bytes(range(256)) * 20_000
    bob = PHOTO | {"id": "bob"}
    assert server.http.request("PUT", PATH, content=data, params=bob).status == 200
    assert server.http.get(PATH, params=bob).content == data
    part = server.http.get(PATH, params=bob, headers={"Range": "bytes=1000000-3000000"})
    assert part.content == data[1_000_000:3_000_001]


def test_the_range_that_is_asked_for_without_a_server():
    stat = SimpleNamespace(size=10, etag="e", graph_commit_id="c")
    reply = blob_reply(stat, {b"range": b"bytes=2-4"}, SimpleNamespace())
    assert (reply.status, reply.start, reply.length) == (206, 2, 3)
    with pytest.raises(BlobRange):
        blob_reply(stat, {b"range": b"bytes=10-"}, SimpleNamespace())
    with pytest.raises(BlobChanged):
        blob_reply(stat, {b"if-match": b'"x"'})
