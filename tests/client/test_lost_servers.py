"""The command line when its server ends, or is gone in the middle of an answer: exit 1, and what to do."""

from __future__ import annotations

import json
import socket
import threading
from contextlib import contextmanager

import pytest

COMMIT = "01J00000000000000000000000"
HEAD = {
    "kind": "metadata",
    "query_name": "q",
    "target": {"branch": "main", "snapshot": None},
    "row_count": 3,
    "columns": ["n"],
    "schema": [{"name": "n", "type": "int", "nullable": True}],
    "graph_commit_id": COMMIT,
}
QUERY = "query q() { match { $p: Person } return { $p.age as n } }"


def begun(kind, body, *headers):
    """An answer in pieces without its end."""
    lines = ["HTTP/1.1 200 OK", f"Content-Type: {kind}", "Transfer-Encoding: chunked", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + b"%x\r\n%b\r\n" % (len(body), body)


LINES = "application/x-ndjson"
ROWS = begun(LINES, json.dumps(HEAD).encode() + b'\n{"n": 1}\n')
RECORDS = begun(
    LINES, b'{"type": "Person", "data": {"name": "ada"}}\n', f"Omnigraph-Snapshot-Id: {COMMIT}"
)
BLOB = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: 99\r\n"
    b'ETag: "e"\r\nOmnigraph-Snapshot-Id: %b\r\n\r\nabc' % COMMIT.encode()
)
ENDING = json.dumps(
    {
        "error": "the server is ending; send the request again",
        "kind": "draining",
        "code": "internal",
    }
).encode()
DRAINING = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\n"
    b"Connection: close\r\nContent-Length: %d\r\n\r\n%b" % (len(ENDING), ENDING)
)


@contextmanager
def answering(answer):
    """Something that gives every request this answer and hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer_all():
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    # Closed before all of it was read, the connection would be reset under the answer.
                    read_request(connection)
                    connection.sendall(answer)

        thread = threading.Thread(target=answer_all)
        thread.start()
        yield "http://{}:{}/graphs/g".format(*listener.getsockname())
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def read_request(connection):
    """Read one request to its end."""
    with connection.makefile("rb") as file:
        length, in_pieces = 0, False
        while line := file.readline().strip():
            name, _, value = line.lower().partition(b":")
            length = int(value) if name == b"content-length" else length
            in_pieces |= name == b"transfer-encoding"
        file.read(length)
        while in_pieces:
            size = int(file.readline(), 16)
            file.read(size + 2)
            in_pieces = size > 0


@pytest.mark.parametrize("form", ["table", "csv", "jsonl", "kv"])
def test_rows_that_are_cut_off_are_an_error(launcher, tmp_path, form):
    with answering(ROWS) as url:
        result = launcher.run(["query", "-e", QUERY, "--server", url, "--format", form], tmp_path)
    assert result.exit == 1
    assert "was lost before the whole answer came" in result.stderr
    assert "send the request again" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_document_that_is_cut_off_is_no_whole_document(launcher, tmp_path):
    with answering(ROWS) as url:
        result = launcher.run(["query", "-e", QUERY, "--server", url, "--json"], tmp_path)
    assert result.exit == 1
    with pytest.raises(ValueError, match=r"Extra data|Expecting|delimiter"):
        json.loads(result.stdout)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (RECORDS, ["export", "--out", "out.jsonl"]),
        (RECORDS, ["changes", "baseline", "--out", "out.jsonl"]),
        (BLOB, ["blob", "get", "node", "Person", "ada", "photo", "--out", "out.bin"]),
    ],
    ids=["export", "baseline", "blob"],
)
def test_a_file_that_is_cut_off_does_not_pass_for_a_whole_one(launcher, tmp_path, answer, words):
    with answering(answer) as url:
        result = launcher.run([*words, "--server", url], tmp_path)
        assert not (tmp_path / words[-1]).exists()
        (tmp_path / words[-1]).write_text("before")
        launcher.run([*words, "--server", url], tmp_path)
    assert result.exit == 1
    assert "was lost before the whole answer came" in result.stderr
    assert "Traceback" not in result.stderr
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == [words[-1]]
    assert (tmp_path / words[-1]).read_text() == "before"


@pytest.mark.parametrize(
    "words",
    [
        ["query", "-e", QUERY],
        ["export"],
        ["branch", "list"],
        ["mutate", "-e", "query q() { delete Person where name = 'x' }"],
        ["status"],
    ],
    ids=lambda words: words[0],
)
def test_a_server_that_is_ending_says_so(launcher, tmp_path, words):
    with answering(DRAINING) as url:
        result = launcher.run([*words, "--server", url], tmp_path)
    assert result.exit == 1
    assert "error: the server is ending; send the request again" in result.stderr


def test_a_write_whose_answer_is_lost_names_its_operation_id(launcher, tmp_path):
    mine = "01JZZZZZZZZZZZZZZZZZZZZZZ1"
    words = ["mutate", "-e", "query q() { delete Person where name = 'x' }", "--operation-id", mine]
    with answering(b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{") as url:
        result = launcher.run([*words, "--server", url], tmp_path)
    assert result.exit == 1
    assert f"send it again with the operation id {mine}" in result.stderr


FOREIGN = (
    b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 12\r\n\r\n{"ok": true}'
)


@pytest.mark.parametrize(
    "words",
    [
        ["query", "-e", QUERY],
        ["branch", "list"],
        ["commit", "list"],
        ["status"],
        ["diff", "main", "side"],
        ["log"],
        ["snapshot"],
        ["export"],
        ["schema", "show"],
        ["tag", "list"],
        ["changes", "poll"],
        ["blob", "stat", "node", "P", "a", "photo"],
        ["graphs", "list"],
    ],
    ids=" ".join,
)
def test_a_server_of_something_else_is_said_to_be_one(launcher, tmp_path, words):
    with answering(FOREIGN) as url:
        address = url.removesuffix("/graphs/g") if words[0] == "graphs" else url
        result = launcher.run([*words, "--server", address], tmp_path)
    assert result.exit == 1, result.stdout
    assert "something that is not of an OmniGraph server" in result.stderr
    assert "check the URL" in result.stderr
