"""A real S3 over HTTP on 127.0.0.1: moto behind a threaded server, with faults that can be armed.

Moto is imported where a server is made, not here: most modules that import this one only want a name, among them
those of workers in processes of their own, each of which would take most of a second for it.
"""

from __future__ import annotations

import logging
import os
import re
import socket
import threading
import urllib.request
from collections.abc import Callable, Iterable
from typing import Any

Environ = dict[str, Any]
StartResponse = Callable[..., Any]
App = Callable[[Environ, StartResponse], Iterable[bytes]]
#: Looks at a request, may change it, and may answer it in the store's place (status, body).
Fault = Callable[[Environ], tuple[str, bytes] | None]
#: Status, headers and body.
Answer = tuple[str, list[tuple[str, str]], bytes]

BUCKET = "graphs"
ACCESS_KEY = "test-access-key"
SECRET_KEY = "test-secret-key"

LEASE_MS = 30_000
"""How long locks of tests outlive their holder. Where one dies holding them, its environment says less."""

_RANGE = re.compile(r"bytes=([0-9]+)-([0-9]*)")


class S3Server:
    """One server with one bucket."""

    def __init__(self) -> None:
        from moto.moto_server.werkzeug_app import MotoRequestHandler, create_backend_app
        from werkzeug.serving import make_server

        # Small pages, so that every longer listing goes over more than one.
        os.environ["MOTO_S3_DEFAULT_MAX_KEYS"] = "50"
        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        # Not moto's server for all of AWS, which looks for the service of every request on disk.
        self._store: App = create_backend_app("s3")
        self._one_at_a_time = threading.Lock()
        self._faults: list[Fault] = []
        self._after: list[Fault] = []
        self._server = make_server(
            "127.0.0.1", 0, self._answer, threaded=True, request_handler=MotoRequestHandler
        )
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def start(self) -> S3Server:
        self._thread.start()
        self.make_bucket(BUCKET)
        return self

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def environment(self) -> dict[str, str]:
        """What a process needs in its environment to reach this server."""
        return {
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ALLOW_HTTP": "true",
            # On a busy machine a process may stand still for many seconds, and this server with it.
            "OMNIGRAPH_LOCK_LEASE_MS": str(LEASE_MS),
        }

    def make_bucket(self, name: str) -> None:
        request = urllib.request.Request(f"{self.endpoint}/{name}", method="PUT")
        with urllib.request.urlopen(request) as answer:
            assert answer.status == 200

    def before(self, fault: Fault) -> None:
        """Arm a fault that sees every request before the store does."""
        self._faults.append(fault)

    def after(self, fault: Fault) -> None:
        """Arm a fault that may replace the answer once the store has done its work."""
        self._after.append(fault)

    def lose_replies(self, which: Callable[[Environ], bool], times: int = 1) -> list[str]:
        """Do what matching requests ask for, then hang up on them; which those were, as they come."""
        lost: list[str] = []

        def hang_up(environ: Environ) -> tuple[str, bytes] | None:
            if len(lost) >= times or not which(environ):
                return None
            lost.append(f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}")
            environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
            return "500 Internal Server Error", b""  # nobody is there to hear it

        self.after(hang_up)
        return lost

    def disarm(self) -> None:
        self._faults.clear()
        self._after.clear()

    def _answer(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        for fault in list(self._faults):
            if (answer := fault(environ)) is not None:
                _read_rest(environ)
                return _say(start_response, *answer)
        # moto checks a precondition and stores in two steps; S3 does both in one.
        with self._one_at_a_time:
            status, headers, body = _plain_read(environ) or self._ask_moto(environ)
        for fault in list(self._after):
            if (answer := fault(environ)) is not None:
                return _say(start_response, *answer)
        start_response(status, headers)
        return [body]

    def _ask_moto(self, environ: Environ) -> Answer:
        replies: list[tuple[Any, ...]] = []
        body = b"".join(self._store(environ, lambda *reply: replies.append(reply)))
        return (*replies[-1][:2], body)


def _plain_read(environ: Environ) -> Answer | None:
    """Answer the read of an object without conditions; None: that is for moto.

    Most requests are such reads, and moto takes a millisecond and a half for each.
    """
    method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
    if (
        method not in {"GET", "HEAD"}
        or environ.get("QUERY_STRING")
        or "HTTP_AUTHORIZATION" not in environ
        or any(name.startswith(("HTTP_IF_", "HTTP_X_AMZ_CHECKSUM")) for name in environ)
        or not path.isascii()
    ):
        return None
    from moto.core.models import DEFAULT_ACCOUNT_ID
    from moto.s3.models import FakeKey, s3_backends

    bucket, _, name = path.removeprefix("/").partition("/")
    known = s3_backends[DEFAULT_ACCOUNT_ID]["aws"].buckets.get(bucket)
    key = None if known is None else known.keys.get(name)
    if known is not None and name and key is None and method == "HEAD":
        return "404 NOT FOUND", [("content-length", "0")], b""
    if not isinstance(key, FakeKey):
        return None
    headers = {**key.metadata, **key.response_dict, "Accept-Ranges": "bytes"}
    if "HTTP_RANGE" not in environ:
        return "200 OK", list(headers.items()), b"" if method == "HEAD" else key.value
    wanted = _RANGE.fullmatch(environ["HTTP_RANGE"])
    if wanted is None or method == "HEAD":
        return None
    first, end = int(wanted[1]), min(int(wanted[2] or key.size), key.size - 1)
    if first > end:
        return None
    headers["content-range"] = f"bytes {first}-{end}/{key.size}"
    headers["content-length"] = str(end - first + 1)
    return "206 Partial Content", list(headers.items()), key.value[first : end + 1]


def _read_rest(environ: Environ) -> None:
    # Unread input would be taken for the next request on a kept connection.
    environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))


def _say(start_response: StartResponse, status: str, body: bytes) -> Iterable[bytes]:
    start_response(status, [("Content-Length", str(len(body))), ("Connection", "close")])
    return [body]
