"""The S3 of the tests answers plain reads itself, with what moto would answer."""

from __future__ import annotations

import urllib.error
import urllib.request

import pytest

from tests.s3_server import BUCKET, _plain_read

DATA = bytes(range(100))
SIGNED = {"Authorization": "whoever"}


@pytest.fixture
def asked(s3):
    """Sends a request and returns what the server itself and moto answer to it."""

    def ask(method, name, **headers):
        seen = []

        def note(environ):
            seen.append((_plain_read(environ), s3._ask_moto(environ)))

        s3.before(note)
        request = urllib.request.Request(
            f"{s3.endpoint}/{BUCKET}/{name}",
            method=method,
            headers={**SIGNED, **headers},
        )
        try:
            with urllib.request.urlopen(request) as reply:
                reply.read()
        except urllib.error.HTTPError as refused:
            refused.close()
        s3.disarm()
        return seen[0]

    put = urllib.request.Request(
        f"{s3.endpoint}/{BUCKET}/plain/a%20b",
        method="PUT",
        data=DATA,
        headers={**SIGNED, "Content-Type": "application/octet-stream", "x-amz-meta-kept": "yes"},
    )
    urllib.request.urlopen(put).close()
    return ask


def told(answer):
    """Status, the headers that say something of the object, and the body."""
    status, headers, body = answer
    words = {name.lower(): value for name, value in headers}
    shown = ("etag", "last-modified", "content-range", "content-length", "x-amz-meta-kept")
    return status.upper(), {name: words.get(name) for name in shown}, body


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_whole_object(asked, method):
    own, moto = asked(method, "plain/a%20b")
    assert told(own) == told(moto)
    assert own[2] == (DATA if method == "GET" else b"")


@pytest.mark.parametrize(
    ("given", "bytes_"),
    [("10-19", DATA[10:20]), ("0-0", DATA[:1]), ("90-", DATA[90:]), ("95-400", DATA[95:])],
    ids=["middle", "first byte", "to the end", "beyond the end"],
)
def test_a_range(asked, given, bytes_):
    own, moto = asked("GET", "plain/a%20b", Range=f"bytes={given}")
    assert told(own) == told(moto)
    assert own[2] == bytes_


def test_an_object_that_is_not_there(asked):
    own, moto = asked("HEAD", "plain/none")
    assert own[0] == moto[0] == "404 NOT FOUND"


@pytest.mark.parametrize(
    ("method", "name", "headers"),
    [
        ("GET", "plain/none", {}),
        ("GET", "plain/a%20b", {"Range": "bytes=200-300"}),
        ("GET", "plain/a%20b", {"Range": "bytes=-5"}),
        ("GET", "plain/a%20b", {"If-Match": '"other"'}),
        ("GET", "plain/a%20b?acl", {}),
        ("PUT", "plain/c", {}),
    ],
)
def test_all_else_is_left_to_moto(asked, method, name, headers):
    own, _ = asked(method, name, **headers)
    assert own is None
