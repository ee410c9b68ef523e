"""Both clients against a server: what is sent, what comes back, and what goes wrong on the way."""

import asyncio
import gzip
import io
import socket
import ssl
import threading
from contextlib import ExitStack, contextmanager, suppress

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import omnigraph as og
from omnigraph.client import AsyncClient, Client
from omnigraph.client.core import Core
from omnigraph.client.streams import connection_options
from omnigraph.clock import new_ulid
from omnigraph.errors import (
    ApiError,
    BadRequest,
    BlobRange,
    BranchNotFound,
    GraphNotFound,
    InputError,
    PolicyDenied,
    PreconditionFailed,
    TypeCheckError,
    Unauthenticated,
)
from omnigraph.service import wire
from tests.client.serving import serving

SCHEMA = """\
node Person {
  name: String @key
  age: I64?
  photo: Blob?
}
edge Knows: Person -> Person
"""
NAMES = "query names() { match { $p: Person } return { $p.name as name } order { name } }"
AGES = (
    "query ages() { match { $p: Person } return { $p.name as name, $p.age as age } order { name } }"
)
TOKENS = {"OMNIGRAPH_SERVER_BEARER_TOKENS_JSON": '{"ada": "t-ada"}'}


def person(name, **more):
    return {"type": "Person", "data": {"name": name, **more}}


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    place = tmp_path_factory.mktemp("served")
    with og.init(place / "g.omni", SCHEMA):
        pass
    with serving(["--store", "g.omni", "--unauthenticated"], place) as url:
        yield url


@pytest.fixture
def client(url):
    """A graph with one person, on a branch of the test's own that is `main` to it."""
    with Client(url, "default") as client:
        client.load([person("ada", age=2**60, photo=b"picture")], mode="overwrite")
        yield client


def names(client, **target):
    return [row["name"] for row in client.query(NAMES, **target)["rows"]]


class TestLoads:
    @pytest.mark.parametrize("mode", ["one", "list", "bytes", "file", "path", "several", "gzip"])
    def test_any_source_is_one_body(self, client, tmp_path, mode):
        lines = b'\xef\xbb\xbf// people\n{"type": "Person", "data": {"name": "bob"}}'
        path, packed = tmp_path / "a.jsonl", tmp_path / "b.jsonl.gz"
        path.write_bytes(lines)
        packed.write_bytes(gzip.compress(lines))
        sources = {
            "one": person("bob"),
            "list": [person("bob")],
            "bytes": lines,
            "file": io.BytesIO(lines),
            "path": str(path),
            "several": [lines, path, packed, person("bob"), io.BytesIO(lines)],
            "gzip": packed,
        }
        client.load(sources[mode])
        assert names(client) == ["ada", "bob"]

    def test_a_directory_and_a_glob(self, client, tmp_path):
        for name in ("x", "y"):
            (tmp_path / f"{name}.jsonl").write_text(
                f'{{"type":"Person","data":{{"name":"{name}"}}}}'
            )
        client.load(tmp_path)
        client.load(str(tmp_path / "*.jsonl"))
        assert names(client) == ["ada", "x", "y"]

    @pytest.mark.parametrize(
        "kind", ["arrow", "pandas", "polars", "dicts", "reader", "parquet", "csv"]
    )
    def test_frames_of_any_library(self, client, tmp_path, kind):
        columns = {"name": ["bob", "cy"], "age": [1, None]}
        table = pa.table(columns)
        pq.write_table(table, tmp_path / "t.parquet")
        (tmp_path / "t.csv").write_text("name,age\nbob,1\ncy,\n")
        frames = {
            "arrow": table,
            "pandas": pd.DataFrame(columns).astype({"age": "Int64"}),
            "polars": pl.DataFrame(columns),
            "dicts": table.to_pylist(),
            "reader": table.to_reader(),
            "parquet": tmp_path / "t.parquet",
            "csv": tmp_path / "t.csv",
        }
        client.load_table("node", "Person", frames[kind])
        assert client.query(AGES)["rows"][1:] == table.to_pylist()

    def test_columns_are_renamed_and_edges_have_ends(self, client):
        client.load_table("node", "Person", [{"Full": "bob"}], columns={"Full": "name"})
        client.load_table("edge", "Knows", [{"a": "ada", "b": "bob"}], from_col="a", to_col="b")
        found = client.neighbors("Person", "ada")
        assert [node["id"] for node in found["nodes"]] == ["bob"]
        client.mutate('query q() { delete Person where name = "bob" }')  # and its edge

    def test_a_bad_record_is_named_and_nothing_is_there(self, client):
        with pytest.raises(InputError) as caught:
            client.load([person("bob"), person("cy", age="old")])
        assert caught.value.details["bad_records"]["total"] == 1
        assert names(client) == ["ada"]

    @pytest.mark.parametrize("source", [7, [7], None, [["x"]]])
    def test_what_is_no_source_is_refused_before_it_is_sent(self, client, source):
        with pytest.raises(BadRequest, match="no source"):
            client.load(source)

    def test_a_file_that_is_not_there(self, client, tmp_path):
        with pytest.raises(InputError, match="check the path"):
            client.load(tmp_path / "absent.jsonl")
        assert names(client) == ["ada"]


class TestReads:
    def test_integers_are_integers_in_every_form(self, client):
        wanted = [{"name": "ada", "age": 2**60}]
        assert client.query(AGES)["rows"] == wanted
        assert list(client.query_rows(AGES)) == wanted
        table = client.query_arrow(AGES)
        assert table.to_pylist() == wanted
        assert b'"query_name":"ages"' in table.schema.metadata[b"omnigraph"].replace(b" ", b"")

    def test_exports_load_again(self, client):
        records = list(client.export())
        client.load(records, mode="overwrite")
        assert list(client.export()) == records
        assert client.query(AGES)["rows"] == [{"name": "ada", "age": 2**60}]

    def test_a_baseline_ends_with_its_cursor(self, client):
        *records, last = client.baseline()
        assert [record["data"]["name"] for record in records] == ["ada"]
        assert client.changes(cursor=last["baseline"]["resume_cursor"])["blocks"] == []

    def test_blobs(self, client, tmp_path):
        where = ("node", "Person", "ada", "photo")
        assert client.blob(*where) == b"picture"
        assert client.blob(*where, offset=3, length=2) == b"tu"
        with pytest.raises(BlobRange):
            client.blob(*where, offset=99)
        etag = client.stat_blob(*where)["etag"]
        (tmp_path / "p").write_bytes(b"x" * 3_000_000)
        written = client.put_blob(*where, tmp_path / "p", if_match=etag)
        assert written["size"] == 3_000_000
        assert client.blob(*where) == b"x" * 3_000_000
        with pytest.raises(og.errors.BlobChanged):
            client.put_blob(*where, b"y", if_match=etag)
        client.put_blob(*where, io.BytesIO(b""))
        assert client.blob(*where, length=5) == b""
        client.clear_blob(*where)
        with pytest.raises(og.errors.EntityNotFound):
            client.stat_blob(*where)

    def test_errors_have_their_classes_and_places(self, client):
        with pytest.raises(BranchNotFound) as caught:
            client.query(NAMES, branch="ghost")
        assert caught.value.details["branch"] == "ghost"
        with pytest.raises(TypeCheckError) as wrong:
            client.query(NAMES.replace("Person", "Persn"))
        assert "^^^^^" in wrong.value.render()
        with pytest.raises(PreconditionFailed):
            client.load(person("x"), if_commit=new_ulid())
        with pytest.raises(TypeCheckError):
            list(client.query_rows(NAMES.replace("Person", "Persn")))


class TestIdentity:
    def test_a_write_sent_again_has_no_second_effect(self, client):
        mine = new_ulid()
        first = client.load(person("bob"), operation_id=mine)
        again = client.load(person("bob"), operation_id=mine)
        assert again["replayed"] is True
        assert again["commit"]["graph_commit_id"] == first["commit"]["graph_commit_id"]
        assert client.commits(filter=f"operation_id={mine}")["commits"] == [first["commit"]]

    def test_tokens_graphs_and_refusals(self, tmp_path):
        with og.init(tmp_path / "g.omni", SCHEMA):
            pass
        with serving(["--store", "g.omni"], tmp_path, TOKENS) as url:
            with Client(url, "default") as nobody, pytest.raises(Unauthenticated):
                nobody.branches()
            with Client(url, "default", "t-ada") as ada:
                assert ada.branches()["branches"] == ["main"]
                assert ada.permissions([{"action": "read"}])["actor_id"] == "ada"
                with pytest.raises(PolicyDenied):
                    ada.load(person("x"))
            with Client(url, "ghost", "t-ada") as elsewhere, pytest.raises(GraphNotFound):
                elsewhere.branches()


class TestAsync:
    def test_it_does_the_same(self, client, url, tmp_path):
        (tmp_path / "more.jsonl").write_text('{"type": "Person", "data": {"name": "bob"}}\n')

        async def run():
            async with AsyncClient(url, "default") as again:
                await again.load([tmp_path / "more.jsonl", person("cy")])
                answer, branches = await asyncio.gather(again.query(NAMES), again.branches())
                assert [row["name"] for row in answer["rows"]] == ["ada", "bob", "cy"]
                assert branches["branches"] == ["main"]
                assert [row async for row in again.query_rows(NAMES)] == answer["rows"]
                assert (await again.query_arrow(NAMES)).num_rows == 3
                assert len([record async for record in again.export()]) == 3
                assert await again.blob("node", "Person", "ada", "photo", length=3) == b"pic"
                assert (await again.stat_blob("node", "Person", "ada", "photo"))["size"] == 7
                with pytest.raises(BranchNotFound):
                    await again.query(NAMES, branch="ghost")

        asyncio.run(run())


def test_certificates_are_read_for_tls_alone_and_otherwise_nobody_is_trusted():
    safe, plain = (
        connection_options(Core(f"{scheme}://127.0.0.1:1", "g", None), None).trusted
        for scheme in ("https", "http")
    )
    assert safe is True
    assert plain.verify_mode is ssl.CERT_REQUIRED
    assert plain.check_hostname
    assert plain.get_ca_certs() == []


@contextmanager
def answering(answer):
    """Something that takes one request, answers with these bytes and hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer_one():
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(answer)
                connection.shutdown(socket.SHUT_WR)
                # Closed before all of the request was read, the connection would be reset under the answer.
                with suppress(ConnectionError):
                    while connection.recv(65536):
                        pass

        thread = threading.Thread(target=answer_one)
        thread.start()
        yield "http://{}:{}".format(*listener.getsockname())
        thread.join()


CUT = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n"
    b"Omnigraph-Snapshot-Id: 01J00000000000000000000000\r\n\r\n"
)
LINE = b'{"type": "Person", "data": {"name": "ada"}}\n'

NOT_OURS = [
    b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\n<html>",
    b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:9/\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
]


class TestLostConnections:
    def test_a_stream_without_its_end_is_no_whole_answer(self):
        piece = b"%x\r\n%b\r\n" % (len(LINE), LINE)
        with answering(CUT + piece) as url, Client(url, "g") as client:
            received = []
            with pytest.raises(ApiError, match="lost before the whole answer") as caught:
                received.extend(client.export())
            assert caught.value.kind == "connection_lost"

    def test_a_document_that_is_too_short(self):
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{}"
        with answering(head) as url, Client(url, "g") as client, pytest.raises(ApiError):
            client.branches()

    def test_a_write_without_an_answer_names_its_operation_id(self):
        mine = new_ulid()
        lost = pytest.raises(ApiError, match=f"not known: .*{mine}")
        with answering(b"") as url, Client(url, "g") as client, lost:
            client.mutate("query q() { }", operation_id=mine)

    def test_nobody_listens(self):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
        lost = pytest.raises(ApiError, match="check the URL, and whether the server runs")
        with Client(f"http://127.0.0.1:{port}", "g") as client, lost as caught:
            client.branches()
        assert caught.value.kind == "unreachable"

    def test_something_else_answers(self):
        page = b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 6\r\n\r\n<html>"
        lost = pytest.raises(ApiError, match="not of an OmniGraph server")
        with answering(page) as url, Client(url, "g") as client, lost as caught:
            client.branches()
        assert (caught.value.kind, caught.value.status) == ("foreign_answer", 502)

    def test_a_redirect_does_not_get_the_token(self):
        moved = b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:9/\r\nContent-Length: 0\r\n\r\n"
        lost = pytest.raises(ApiError, match="answered 302")
        with answering(moved) as url, Client(url, "g", "t") as client, lost:
            client.branches()

    @pytest.mark.parametrize("answer", NOT_OURS, ids=["page", "redirect", "nothing"])
    def test_a_page_of_a_proxy_is_no_export_and_no_blob(self, answer):
        calls = [
            lambda client: list(client.export()),
            lambda client: list(client.query_rows(NAMES)),
            lambda client: client.query_arrow(NAMES),
            lambda client: client.blob("node", "Person", "ada", "photo"),
        ]
        for call in calls:
            foreign = pytest.raises(ApiError, match="not of an OmniGraph server")
            with answering(answer) as url, Client(url, "g") as client, foreign as caught:
                call(client)
            assert caught.value.kind == "foreign_answer"

    def test_pieces_that_are_read_later_fail_with_our_errors(self):
        with answering(CUT + b"5\r\n") as url, Client(url, "g") as client, ExitStack() as opened:
            asked = client.core.prepare("export", wire.ExportBody())
            answer = opened.enter_context(client.receive(asked))
            try:
                list(answer.pieces)
            except ApiError as error:
                assert error.kind == "connection_lost"
            else:
                pytest.fail("a cut answer passed for a whole one")

    def test_a_silent_server_is_given_up(self):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            url = "http://{}:{}".format(*listener.getsockname())
            with Client(url, "g", timeout=0.2) as client, pytest.raises(ApiError, match="too long"):
                client.branches()
