"""Bodies: their limits, raw ones in files, packed ones unpacked, and nothing left behind."""

from __future__ import annotations

import asyncio
import functools
import gzip
import json
import os
import tracemalloc
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import omnigraph as og
from omnigraph.errors import BadRequest, Busy, ResourceLimit
from omnigraph.policy import DefaultDeny
from omnigraph.server.handling import zstd_frames
from omnigraph.server.handling.admission import Writers
from omnigraph.server.handling.bodies import BodyLimit, DeclaredBody, SpoolFile, read_body
from omnigraph.server.handling.lanes import ClientGone
from omnigraph.server.tokens import TokenTable
from tests.server.http import Threaded, server_state, threaded
from tests.server.small import PHOTO, TOKENS, make_graph

LINES = "/graphs/default/load/ndjson"
NDJSON = {"Content-Type": "application/x-ndjson"}


def line(name: str) -> bytes:
    return json.dumps({"type": "Person", "data": {"name": name}}).encode() + b"\n"


def zstd(data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as packed:
        packed.write(data)
    return sink.getvalue().to_pybytes()


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[og.Graph]:
    with make_graph(tmp_path_factory.mktemp("bodies") / "g.omni") as graph:
        yield graph


@pytest.fixture(scope="module")
def server(graph: og.Graph, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Threaded]:
    state = server_state(
        {"default": graph}, tmp_path_factory.mktemp("spool"), load_body_max_mb=1, blob_body_max_mb=1
    )
    with threaded(state) as server:
        yield server


@pytest.fixture(autouse=True)
def nothing_is_left(server: Threaded) -> Iterator[None]:
    yield
    assert server.spooled == []
    assert server.app.engine.writers.running == 0


def people(graph: og.Graph) -> set[str]:
    found = graph.query("query q() { match { $p: Person } return { $p.name as name } }")
    return set(found.to_arrow().column("name").to_pylist())


def limit_of(answer: Any) -> dict[str, Any]:
    assert answer.error == (413, "resource_limit", "bad_request"), answer.text
    return answer.json()["resource_limit"]


MIB = 1 << 20


@pytest.mark.parametrize(
    ("method", "path", "kind", "resource", "limit"),
    [
        ("POST", "/graphs/default/query", "application/json", "request_body_bytes", MIB),
        ("POST", "/graphs/default/load", "application/json", "graph_batch_request_bytes", 32 * MIB),
        (
            "POST",
            "/graphs/default/ingest",
            "application/json",
            "graph_batch_request_bytes",
            32 * MIB,
        ),
        ("POST", LINES, "application/x-ndjson", "load_body_bytes", MIB),
        (
            "PUT",
            "/graphs/default/blob?kind=node&type=Person&id=ada&property=photo",
            "x/y",
            "blob_body_bytes",
            MIB,
        ),
    ],
)
def test_a_body_that_is_too_large_is_refused_declared_or_not(
    server, method, path, kind, resource, limit
):
    told = {"resource": resource, "limit": limit, "actual": limit + 1}
    declared = server.http.raw(
        f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\n"
        f"Content-Length: {limit + 1}\r\n\r\n".encode()
    )
    assert limit_of(declared) == told

    def pieces() -> Iterator[bytes]:
        for _ in range(limit // MIB):
            yield b" " * MIB
        yield b" "

    coming = server.http.request(method, path, content=pieces(), headers={"Content-Type": kind})
    assert limit_of(coming) | {"actual": 0} == told | {"actual": 0}
    assert limit < limit_of(coming)["actual"] <= limit + MIB


def test_a_body_of_just_the_limit_is_taken(server):
    text = json.dumps({"source": ""})
    body = text[:-2] + "x" * (MIB - len(text)) + text[-2:]
    assert len(body) == MIB
    answer = server.http.request(
        "POST",
        "/graphs/default/lint",
        content=body.encode(),
        headers={"Content-Type": "application/json"},
    )
    assert answer.status == 200


@pytest.mark.parametrize(
    ("encoding", "pack"), [(None, bytes), ("gzip", gzip.compress), ("zstd", zstd)]
)
def test_lines_are_loaded_packed_or_not(server, graph, encoding, pack):
    name = f"from {encoding}"
    headers = NDJSON | ({"Content-Encoding": encoding} if encoding else {})
    answer = server.http.post(LINES, content=pack(line(name) + line(name + "!")), headers=headers)
    assert answer.status == 200, answer.text
    assert answer.json()["total_rows"] == 2
    assert answer.json()["uri"] == f"{server.http.base}/graphs/default"
    assert {name, name + "!"} <= people(graph)


def test_members_of_gzip_one_after_the_other_are_one_body(server, graph):
    body = gzip.compress(line("first member")) + gzip.compress(line("second member"))
    answer = server.http.post(LINES, content=body, headers=NDJSON | {"Content-Encoding": "gzip"})
    assert answer.json()["total_rows"] == 2


def columns() -> dict[str, tuple[str, bytes]]:
    table = pa.table({"name": ["of columns"], "age": pa.array([1], pa.int32())})
    parquet, arrow = pa.BufferOutputStream(), pa.BufferOutputStream()
    pq.write_table(table, parquet)
    with pa.ipc.new_file(arrow, table.schema) as writer:
        writer.write_table(table)
    return {
        "parquet": ("application/vnd.apache.parquet", parquet.getvalue().to_pybytes()),
        "arrow": ("application/vnd.apache.arrow.file", arrow.getvalue().to_pybytes()),
        "csv": ("text/csv", b"name,age\nof columns,1\n"),
    }


@pytest.mark.parametrize("form", ["parquet", "arrow", "csv"])
@pytest.mark.parametrize("encoding", [None, "gzip", "zstd"])
def test_columns_are_loaded_packed_or_not(server, form, encoding):
    kind, body = columns()[form]
    pack = {None: bytes, "gzip": gzip.compress, "zstd": zstd}[encoding]
    headers = {"Content-Type": kind} | ({"Content-Encoding": encoding} if encoding else {})
    answer = server.http.post(
        "/graphs/default/load/table",
        content=pack(body),
        headers=headers,
        params={"kind": "node", "type": "Person", "format": form},
    )
    assert answer.status == 200, answer.text
    assert answer.json()["tables"] == [{"table_key": "node:Person", "rows_loaded": 1}]


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("gzip", b"no gzip at all"),
        ("gzip", gzip.compress(line("x"))[:-9]),
        ("gzip", gzip.compress(line("x") * 100)[:40]),
        ("zstd", b"no zstd at all"),
        ("zstd", zstd(line("x") * 100)[:-5]),
        ("zstd", b"\x28\xb5\x2f\xfd\x40\x50\x01\x01"),
        ("gzip", b"\x1f\x8b" + bytes(range(256)) * 4),
    ],
    ids=[
        "no gzip",
        "no end",
        "a part of gzip",
        "no zstd",
        "a part of zstd",
        "a head of zstd",
        "a damaged head",
    ],
)
def test_damaged_packing_is_a_bad_request(server, graph, encoding, body):
    before = people(graph)
    answer = server.http.post(LINES, content=body, headers=NDJSON | {"Content-Encoding": encoding})
    assert answer.error == (400, "bad_request", "bad_request"), answer.text
    assert people(graph) == before


def frame(window_log: int, data: bytes = b"") -> bytes:
    """A frame of zstd with one raw block, whose head names a window of 2 to this power."""
    head = b"\x28\xb5\x2f\xfd\x00" + bytes([(window_log - 10) << 3])
    return head + (len(data) << 3 | 1).to_bytes(3, "little") + data


def single_segment(size: int) -> bytes:
    """A frame whose window is its content, of which it names the size."""
    return b"\x28\xb5\x2f\xfd\xa0" + size.to_bytes(4, "little") + (1).to_bytes(3, "little")


SKIPPED = b"\x50\x2a\x4d\x18\x03\x00\x00\x00abc"


@pytest.mark.parametrize(
    "body",
    [
        frame(27, line("x")),
        frame(24, line("x")),
        frame(20, line("x")) + frame(27, line("y")),
        SKIPPED + frame(27, line("x")),
        zstd(line("x")) + frame(27, line("y")),
        single_segment(64 << 20),
    ],
    ids=["128 MiB", "16 MiB", "the second", "behind skipped bytes", "behind a real one", "single"],
)
def test_a_zstd_window_of_more_than_8_mib_is_refused_before_it_is_made(server, graph, body):
    headers = NDJSON | {"Content-Encoding": "zstd"}
    answer = server.http.post(LINES, content=body, headers=headers)
    assert answer.error[:2] == (400, "bad_request")
    assert "window of" in answer.text


@pytest.mark.parametrize(
    "body", [frame(23, line("a")), SKIPPED + frame(20, line("b")) + zstd(line("c"))]
)
def test_windows_up_to_8_mib_and_frames_one_after_the_other_are_taken(server, graph, body):
    headers = NDJSON | {"Content-Encoding": "zstd"}
    answer = server.http.post(LINES, content=body, headers=headers)
    assert answer.status == 200, answer.text


def test_a_zstd_body_of_endless_small_blocks_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(zstd_frames, "MOST_BLOCKS", 1000)
    path = tmp_path / "body"
    path.write_bytes(b"\x28\xb5\x2f\xfd\x00\x50" + bytes(3) * 2000)
    with pytest.raises(BadRequest, match="more than 1,000 blocks"):
        zstd_frames.check_windows(path)


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_a_bomb_is_counted_unpacked_and_never_held(server, encoding):
    body = bomb(encoding, 128)
    assert len(body) < MIB
    told = limit_of(
        server.http.post(LINES, content=body, headers=NDJSON | {"Content-Encoding": encoding})
    )
    assert (told["resource"], told["limit"]) == ("load_body_bytes", MIB)
    assert MIB < told["actual"] <= 3 * MIB, "it was given up soon after the limit"


@functools.cache
def bomb(encoding: str, mib: int) -> bytes:
    """A small body that becomes large."""
    if encoding == "gzip":
        packer = zlib.compressobj(9, zlib.DEFLATED, 31)
        return b"".join(packer.compress(b"\n" * MIB) for _ in range(mib)) + packer.flush()
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as packed:
        for _ in range(mib):
            packed.write(b"\n" * MIB)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_unpacking_holds_no_more_than_a_piece(tmp_path, encoding):
    spool = SpoolFile(tmp_path)
    spool.path.write_bytes(bomb(encoding, 64))
    tracemalloc.start()
    try:
        unpacked = spool.unpacked(encoding, BodyLimit("load_body_bytes", 65 * MIB))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert unpacked.path.stat().st_size == 64 * MIB
    assert most < 8 * MIB


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"type": "Person", "data": {"name": "\xff"}}', ""),
        (b"nothing", "line 1"),
        (line("fine") + b"{", "line 2"),
        (b'{"type": "Nothing", "data": {}}', "Nothing"),
    ],
)
def test_a_bad_record_is_named_and_nothing_is_loaded(server, graph, body, words):
    before = people(graph)
    answer = server.http.post(LINES, content=body, headers=NDJSON)
    assert answer.status == 400
    assert words in answer.text
    assert people(graph) == before


def test_no_body_names_a_file_of_the_server(server, graph, tmp_path):
    secret = tmp_path / "secret.jsonl"
    secret.write_bytes(line("secret"))
    for data in (str(secret), f"file://{secret}", str(tmp_path / "*.jsonl"), "-"):
        answer = server.http.post("/graphs/default/load", {"data": data})
        assert answer.status == 400, data
    photo = {"name": "eve", "photo": {"$file": "/etc/passwd"}}
    record = json.dumps({"type": "Person", "data": photo})
    assert server.http.post("/graphs/default/load", {"data": record}).status == 400
    assert server.http.post(LINES, content=record.encode(), headers=NDJSON).status == 400
    for field in ("engine", "spark_master", "rejects_file", "nodes"):
        refused = server.http.post("/graphs/default/load", {"data": "", field: "x"})
        assert refused.status == 400
    refused = server.http.post("/graphs/default/load", {"data": "", "rejects": str(secret)})
    assert refused.status == 400
    assert "secret" not in people(graph)


def test_a_raw_body_is_not_read_before_the_policy_and_the_turn(graph, tmp_path):
    with og.open(graph.uri, policy=DefaultDeny(), local_files=False) as denied:
        state = server_state({"default": denied}, tmp_path / "spool", verifier=TokenTable(TOKENS))
        with threaded(state, TOKENS["ada"]) as server:
            expecting = (
                f"POST {LINES} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKENS['ada']}\r\n"
                "Content-Type: application/x-ndjson\r\nContent-Length: 100000\r\n"
                "Expect: 100-continue\r\n\r\n"
            )
            # The client is never told to go on, so nothing of its body is here when it is answered.
            assert server.http.raw(expecting.encode()).error[:2] == (403, "policy_denied")


def test_bytes_that_come_undeclared_are_charged_as_they_come(graph, tmp_path):
    state = server_state({"default": graph}, tmp_path / "spool", per_actor_bytes_max=100_000)
    with threaded(state) as server:

        def pieces() -> Iterator[bytes]:
            for _ in range(20):
                yield b" " * 9_999 + b"\n"

        answer = server.http.post(LINES, content=pieces(), headers=NDJSON)
        assert answer.error[:2] == (429, "too_many_requests")
        assert answer.headers["retry-after"] == "1"
        declared = server.http.post(LINES, content=b" " * 100_001, headers=NDJSON)
        assert declared.status == 429
        assert server.spooled == []
        assert server.app.engine.writers._bytes == {}
        assert server.http.post(LINES, content=line("after"), headers=NDJSON).status == 200


# -- without a server


def messages(*parts: bytes | None) -> Any:
    """What ASGI hands out: parts of a body, and None for a client that has gone."""
    left = list(parts)

    async def receive() -> dict[str, Any]:
        part = left.pop(0)
        if part is None:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": part, "more_body": bool(left)}

    return receive


def test_a_body_is_put_together():
    limit = BodyLimit("request_body_bytes", 10)
    assert asyncio.run(read_body(messages(b"0123456789"), limit)) == b"0123456789"
    assert asyncio.run(read_body(messages(b"01", b"", b"23"), limit)) == b"0123"
    assert asyncio.run(read_body(messages(b""), limit)) == b""
    with pytest.raises(ResourceLimit):
        asyncio.run(read_body(messages(b"01234", b"56789", b"x"), limit))
    with pytest.raises(ClientGone):
        asyncio.run(read_body(messages(b"01", None), limit))


@pytest.mark.parametrize(
    ("parts", "failure"),
    [((b"01", None), ClientGone), ((b"0" * 11, b""), ResourceLimit), ((b"0" * 9, b"1"), Busy)],
)
def test_a_body_that_does_not_come_whole_is_told(tmp_path, parts, failure):
    slot = Writers(1, 9).enter("ada")
    spool = SpoolFile(tmp_path)
    with ThreadPoolExecutor(1) as pool, pytest.raises(failure):
        asyncio.run(
            spool.receive(
                messages(*parts), DeclaredBody(BodyLimit("load_body_bytes", 10)), slot, pool
            )
        )
    spool.remove()
    spool.remove()
    assert not list(tmp_path.iterdir())


def test_a_file_that_cannot_be_unpacked_leaves_none(tmp_path):
    spool = SpoolFile(tmp_path)
    spool.path.write_bytes(b"nothing packed")
    with pytest.raises(BadRequest):
        spool.unpacked("gzip", BodyLimit("load_body_bytes", 10))
    assert list(tmp_path.iterdir()) == [spool.path]


def test_a_body_is_for_the_owner_alone(tmp_path: Path):
    assert SpoolFile(tmp_path).path.stat().st_mode & 0o077 == 0


def test_a_blob_is_put_from_a_file(server, graph):
    data = os.urandom(MIB - 7)
    path = "/graphs/default/blob"
    answer = server.http.request("PUT", path, content=data, params=PHOTO)
    assert answer.status == 200, answer.text
    assert answer.json()["size"] == len(data)
    assert server.http.get(path, params=PHOTO).content == data
