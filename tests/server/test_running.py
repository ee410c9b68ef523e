"""The engine's part of a request: what stops it, what it holds, and how its answer leaves."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

import httpx2
import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph import failpoints
from omnigraph.cancel import look
from omnigraph.clock import new_ulid
from omnigraph.commit.protocol import POINTS
from omnigraph.errors import StorageError
from omnigraph.server.handling import lanes as lanes_module
from omnigraph.server.limits import PIECE_BYTES
from omnigraph.server.process.transport import ConnectionLimits
from omnigraph.service import calls
from omnigraph.service.operations import OPERATIONS
from tests.server.http import Http, Threaded, server_state, threaded
from tests.server.running import pass_time
from tests.server.small import ADD, ALL, CROSS, LONG, ONE, RAW, TAGS, make_graph


def eventually(is_so: Callable[[], bool], what: str = "it") -> None:
    """Wait until something is so; how long that takes is no matter of this test."""
    until = time.monotonic() + 120
    while not is_so():
        assert time.monotonic() < until, f"{what} did not happen"
        time.sleep(0.01)


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[og.Graph]:
    with make_graph(tmp_path_factory.mktemp("running") / "g.omni") as graph:
        yield graph


@pytest.fixture(scope="module")
def server(graph: og.Graph, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Threaded]:
    with threaded(server_state({"default": graph}, tmp_path_factory.mktemp("spool"))) as server:
        yield server
        engine = server.app.engine
        eventually(lambda: not engine.lanes.is_busy)
        eventually(lambda: engine.writers.running == engine.streams.running == 0)
        eventually(lambda: engine.answers.held == 0)
        assert server.spooled == []


@contextmanager
def asking(http: Http, path: str, body: Any, **headers: str) -> Iterator[socket.socket]:
    """A connection on which a request was sent, and nothing read yet."""
    data = json.dumps(body).encode() if not isinstance(body, bytes) else body
    lines = {"Host": "localhost", "Content-Type": "application/json", **headers}
    if "Content-Length" not in lines:
        lines["Content-Length"] = str(len(data))
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    with http.connected() as connection:
        connection.sendall(f"POST /graphs/default/{path} HTTP/1.1\r\n{head}\r\n".encode() + data)
        yield connection


def test_a_query_ends_when_its_client_goes(server):
    reads = server.app.engine.reads
    with asking(server.http, "query", {"query": CROSS}):
        eventually(lambda: reads.running == 1)
    eventually(lambda: reads.running == 0)
    assert not server.app.engine.lanes.is_busy


def test_whoever_waits_for_a_turn_and_goes_leaves_the_queue(server, monkeypatch):
    reads = server.app.engine.reads
    monkeypatch.setattr(reads, "_patience", 120)
    with ExitStack() as busy:
        for _ in range(4):
            busy.enter_context(asking(server.http, "query", {"query": CROSS}))
        eventually(lambda: reads.running == 4)
        with asking(server.http, "query", {"query": ALL}):
            eventually(lambda: reads.waiting == 1)
        eventually(lambda: reads.waiting == 0)
        assert reads.running == 4
    eventually(lambda: reads.running == 0)


def test_slow_readers_keep_neither_writes_nor_health_nor_the_next_reader_from_their_turn(
    server, monkeypatch
):
    reads = server.app.engine.reads
    monkeypatch.setattr(reads, "_patience", 120)  # a busy machine takes seconds for a hundred
    monkeypatch.setattr(reads, "_an_actor", 96)
    with ExitStack() as busy:
        # Four at work first: of a hundred that come at once more than 96 could wait, and some be refused.
        for _ in range(4):
            busy.enter_context(asking(server.http, "query", {"query": CROSS}))
        eventually(lambda: reads.running == 4)
        for _ in range(96):
            busy.enter_context(asking(server.http, "query", {"query": CROSS}))
        eventually(lambda: reads.waiting == 96)
        assert server.http.get("/healthz").status == 200
        added = server.http.post(
            "/graphs/default/mutate", {"query": ADD, "params": {"name": "meanwhile"}}
        )
        assert added.status == 200
        refused = server.http.post("/graphs/default/query", {"query": ALL})
        assert refused.error == (429, "too_many_requests", "too_many_requests")
        assert refused.headers["retry-after"] == "1"
    eventually(lambda: reads.running == 0 and reads.waiting == 0)
    assert server.http.post("/graphs/default/query", {"query": ALL}).status == 200


def test_a_server_that_ends_stops_reads_and_says_so(graph, tmp_path):
    with (
        threaded(server_state({"default": graph}, tmp_path / "spool")) as server,
        asking(server.http, "query", {"query": CROSS}) as connection,
    ):
        eventually(lambda: server.app.engine.reads.running == 1)
        server.app.engine.lanes.cancel_all()
        answer = server.http.read(connection)
        assert answer.error == (503, "draining", "internal")


def test_a_long_answer_comes_in_pieces_and_is_whole(server):
    with server.http.stream("POST", "/graphs/default/query", json={"query": LONG}) as answer:
        assert answer.headers["transfer-encoding"] == "chunked"
        assert "content-length" not in answer.headers
        pieces = list(answer.iter_raw())
    document = json.loads(b"".join(pieces))
    assert document["row_count"] == len(TAGS) == len(document["rows"])
    assert document["rows"][-1] == {"name": "t4999", "size": 4999}
    eventually(lambda: server.app.engine.answers.held == 0)


def test_no_piece_is_larger_than_pieces_are(server):
    with asking(server.http, "query", {"query": LONG}) as connection:
        sizes = chunk_sizes(connection)
    assert len(sizes) > 2
    assert max(sizes) <= PIECE_BYTES
    assert sizes[-1] == 0


def chunk_sizes(connection: socket.socket) -> list[int]:
    """Read an answer that comes in chunks, and return how large they are; the last is the end."""
    with connection.makefile("rb") as file:
        while file.readline().strip():
            pass
        sizes = []
        while line := file.readline():
            size = int(line, 16)
            sizes.append(size)
            file.read(size + 2)
            if not size:
                break
        return sizes


def test_a_short_answer_has_a_length(server):
    answer = server.http.post("/graphs/default/query", {"query": ONE, "params": {"name": "ada"}})
    assert answer.headers["content-length"] == str(len(answer.content))


def test_a_client_that_could_not_see_a_cut_gets_no_long_answer(server):
    body = json.dumps({"query": LONG})
    answer = server.http.raw(
        f"POST /graphs/default/query HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n{body}".encode()
    )
    assert answer.error == (426, "http_version", "bad_request")


def broken_after(rows: int) -> Callable[..., Any]:
    """A query whose rows fail after some pieces."""

    def query(call: calls.Call, request: Any) -> Any:

        made = calls_query(call, request)

        def pieces() -> Iterator[list[str]]:
            for _ in range(rows):
                yield ['{"x":"' + "y" * 1000 + '"}'] * 200
            raise StorageError("a file is gone")

        return replace(made, pieces=pieces())

    return query


calls_query = calls.query


def replaced(monkeypatch: pytest.MonkeyPatch, name: str, run: Callable[..., Any]) -> None:
    """Have an operation run something else."""
    from omnigraph.server.handling.routing import ROUTES

    operation = OPERATIONS[name]
    methods = ROUTES._fixed[operation.path.encode()]

    monkeypatch.setitem(methods, operation.method, replace(operation, run=run))


def test_an_answer_that_fails_after_its_first_byte_has_no_end(server, monkeypatch, caplog):
    replaced(monkeypatch, "query", broken_after(20))
    with pytest.raises(httpx2.RemoteProtocolError):
        server.http.post("/graphs/default/query", {"query": ALL})
    assert "answer broken off" in caplog.text
    eventually(lambda: server.app.engine.answers.held == 0)


def test_an_answer_that_fails_before_its_first_byte_is_an_error(server, monkeypatch):
    replaced(monkeypatch, "query", broken_after(0))
    answer = server.http.post("/graphs/default/query", {"query": ALL})
    assert answer.error == (500, "storage", "internal")
    assert answer.json()["error"] == f"internal error; request {answer.headers['x-request-id']}"


class Producer:
    """An export that writes pieces until it is stopped, and remembers what became of it."""

    def __init__(self, pieces: int = 10**9, fails: bool = False) -> None:
        self.pieces = pieces
        self.fails = fails
        self.written = 0
        self.ended = threading.Event()
        self.may_end = threading.Event()
        self.may_end.set()

    def __call__(self, call: calls.Call, _: Any) -> dict[str, Any]:
        try:
            for _at in range(self.pieces):
                look()
                call.out.write(b"x" * 999_999 + b"\n")
                self.written += 1_000_000
            if self.fails:
                raise StorageError("a file is gone")
            return {}
        finally:
            self.may_end.wait(600)
            self.ended.set()


def test_a_stalled_export_produces_no_more_and_ends_with_its_client(server, monkeypatch):
    producer = Producer()
    replaced(monkeypatch, "export", producer)
    streams = server.app.engine.streams
    with asking(server.http, "export", {}) as connection:
        assert connection.recv(100).startswith(b"HTTP/1.1 200")
        before = -1
        while before != producer.written:
            before = producer.written
            time.sleep(0.5)
        # Sockets of this machine take some megabytes; nothing more is made while nobody reads.
        assert producer.written < 50_000_000
        assert streams.running == 1
        producer.may_end.clear()
    eventually(lambda: not server.app.engine.lanes.streams._work_queue.qsize())
    assert streams.running == 1, "the place is free after the producer, not before"
    producer.may_end.set()
    eventually(lambda: streams.running == 0)
    assert producer.ended.is_set()


def test_eight_streams_at_once_and_the_ninth_is_refused_before_its_answer(server, monkeypatch):
    replaced(monkeypatch, "export", Producer())
    with ExitStack() as stack:
        for _ in range(8):
            stack.enter_context(asking(server.http, "export", {}))
        eventually(lambda: server.app.engine.streams.running == 8)
        refused = server.http.post("/graphs/default/export", {})
        assert refused.error[:2] == (429, "too_many_requests")
        assert refused.headers["retry-after"] == "1"
        assert server.http.post("/graphs/default/query", {"query": LONG}).status == 200
    eventually(lambda: server.app.engine.streams.running == 0)


def test_an_export_that_fails_has_no_end(server, monkeypatch):
    replaced(monkeypatch, "export", Producer(3, fails=True))
    with pytest.raises(httpx2.RemoteProtocolError):
        server.http.post("/graphs/default/export", {})
    eventually(lambda: server.app.engine.streams.running == 0)


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ({"branch": "nowhere"}, (404, "branch_not_found")),
        ({"type_names": ["Nothing"]}, (400, "bad_request")),
        ({"types": ["Person"]}, (400, "bad_request")),
        ({"branch": "main", "tag": "v"}, (400, "bad_request")),
    ],
)
def test_what_an_export_refuses_it_refuses_before_its_answer(server, body, error):
    assert server.http.post("/graphs/default/export", body).error[:2] == error
    eventually(lambda: server.app.engine.streams.running == 0)


def test_an_export_is_what_the_engine_writes(server, graph, tmp_path):
    graph.export(tmp_path / "all.jsonl")
    answer = server.http.post("/graphs/default/export", {})
    assert answer.content == (tmp_path / "all.jsonl").read_bytes()
    assert answer.headers["content-type"] == "application/x-ndjson; charset=utf-8"


def head_of(graph: og.Graph) -> str:
    return graph.commits.list(limit=1)[0].graph_commit_id


WRITES = {
    "mutation": ("mutate", {"query": ADD, "params": {"name": "gone"}}, {}),
    "load": ("load/ndjson", RAW["load_ndjson"][1], {"Content-Type": "application/x-ndjson"}),
}
STOPPED = ["before_locks", "before_phase_a"]
FINISHED = [
    "before_phase_b",
    "before_table_commit",
    "after_table_commit",
    "after_phase_b_before_phase_c",
    "after_phase_c_before_phase_d",
]


@pytest.mark.parametrize("writer", WRITES)
@pytest.mark.parametrize("moment", [*STOPPED, *FINISHED])
def test_a_client_that_goes_leaves_nothing_half_done(server, graph, writer, moment):
    """Until a write begins to publish it is stopped; from then on it is finished, and its id finds it."""
    path, body, headers = WRITES[writer]
    operation_id = new_ulid()
    before, writers, pause = head_of(graph), server.app.engine.writers, failpoints.Pause()
    with failpoints.arm(POINTS[writer, moment], pause, times=1):
        with asking(server.http, path, body, **headers, **{"Omnigraph-Operation-Id": operation_id}):
            pause.wait_until_reached()
            assert writers.running == 1
        eventually(lambda: bool(cancelled(server)), "the notice that the client has gone")
        assert writers.running == 1, "the place is held until the engine has ended"
        pause.resume()
        eventually(lambda: writers.running == 0)
    assert server.spooled == []
    is_written = moment in FINISHED
    found = server.http.get(f"/graphs/default/commits?operation_id={operation_id}").json()
    assert len(found["commits"]) == is_written
    assert (head_of(graph) != before) is is_written
    # Sent again it happens once, and nothing stands in its way.
    with asking(
        server.http, path, body, **headers, **{"Omnigraph-Operation-Id": operation_id}
    ) as connection:
        again = server.http.read(connection)
    assert again.json().get("replayed", False) is is_written
    found = server.http.get(f"/graphs/default/commits?operation_id={operation_id}").json()
    assert len(found["commits"]) == 1


def test_a_client_that_goes_while_it_sends_leaves_no_file(server, graph):
    before, writers = head_of(graph), server.app.engine.writers
    headers = {"Content-Type": "application/x-ndjson", "Content-Length": "1000000"}
    with asking(server.http, "load/ndjson", b"half of it", **headers):
        eventually(lambda: len(server.spooled) == 1)
        assert writers.running == 1
    eventually(lambda: writers.running == 0)
    assert server.spooled == []
    assert head_of(graph) == before


def cancelled(server: Threaded) -> list[Any]:
    return [token for token in tuple(server.app.engine.lanes._tokens) if token._cancelled]


def test_the_engine_never_ends_the_event_loop(server, monkeypatch):
    """What looks like Ctrl-C inside a thread is an ordinary failure outside."""

    def interrupted(call: calls.Call, request: Any) -> Any:
        raise KeyboardInterrupt

    replaced(monkeypatch, "query", interrupted)
    replaced(monkeypatch, "export", interrupted)
    replaced(monkeypatch, "mutate", interrupted)
    for path in ("query", "mutate"):
        answer = server.http.post(f"/graphs/default/{path}", {"query": ALL})
        assert answer.error == (500, "internal", "internal")
    assert server.http.post("/graphs/default/export", {}).status == 500
    assert server.http.get("/healthz").status == 200


def test_short_requests_are_not_watched(server, monkeypatch):
    begun = []
    monkeypatch.setattr(lanes_module.Watch, "begin", begun.append)
    monkeypatch.setattr(lanes_module, "UNWATCHED", 600)
    server.http.post("/graphs/default/query", {"query": ONE, "params": {"name": "ada"}})
    assert begun == []


def endless(call: calls.Call, request: Any) -> Any:
    """A query whose rows never end, and which holds a thousand bytes."""

    def pieces() -> Iterator[list[str]]:
        while True:
            yield ['{"x":"' + "y" * 1000 + '"}'] * 200

    return replace(calls_query(call, request), pieces=pieces(), held=1000)


def test_a_client_that_reads_nothing_is_cut_and_what_it_held_is_free(graph, tmp_path, monkeypatch):
    replaced(monkeypatch, "query", endless)
    replaced(monkeypatch, "export", Producer())
    patience = ConnectionLimits(pace_seconds=600)
    with threaded(server_state({"default": graph}, tmp_path / "s"), patience=patience) as server:
        engine = server.app.engine
        with (
            asking(server.http, "query", {"query": ALL}),
            asking(server.http, "export", {}),
        ):
            eventually(lambda: engine.answers.held == 1000 and engine.streams.running == 1)

            def are_free() -> bool:
                pass_time(server.server, patience.pace_seconds / 10)
                return engine.answers.held == 0 and engine.streams.running == 0

            eventually(are_free)
        assert engine.reads.running == 0


def test_answers_that_are_being_sent_are_bounded(server, monkeypatch):
    replaced(monkeypatch, "query", endless)
    answers = server.app.engine.answers
    monkeypatch.setattr(answers, "_most", 2500)
    monkeypatch.setattr(answers, "_patience", 0.05)
    with ExitStack() as stalled:
        for _ in range(2):
            stalled.enter_context(asking(server.http, "query", {"query": ALL}))
        eventually(lambda: answers.held == 2000)
        refused = server.http.post("/graphs/default/query", {"query": ALL})
        assert refused.error[:2] == (429, "too_many_requests")
        assert server.http.get("/graphs/default/branches").status == 200
    eventually(lambda: answers.held == 0)


@pytest.mark.parametrize("accept", ["application/x-ndjson", "application/vnd.apache.arrow.stream"])
def test_the_other_forms_of_an_answer_hold_and_free_it(server, accept):
    answer = server.http.post("/graphs/default/query", {"query": LONG}, headers={"Accept": accept})
    assert answer.headers["transfer-encoding"] == "chunked"
    if "arrow" in accept:
        table = pa.ipc.open_stream(answer.content).read_all()
        assert table.column("size").to_pylist() == list(range(5_000))
        about = json.loads(table.schema.metadata[b"omnigraph"])
    else:
        about, *rows = (json.loads(line) for line in answer.content.splitlines())
        assert rows[-1] == {"name": "t4999", "size": 4999}
    assert about["row_count"] == 5_000
    eventually(lambda: server.app.engine.answers.held == 0)
