"""The part of Kubernetes' API that Spark uses, served on the loopback address from memory.

Objects of one namespace are created, applied, read, listed by labels, watched through web sockets and deleted,
with the versions, conflicts and answers of the real server. It checks no schema and asks for no credentials.
"""

from __future__ import annotations

import base64
import contextlib
import copy
import hashlib
import itertools
import json
import re
import threading
import uuid
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import yaml

NAMESPACE = "default"
KINDS = {
    "pods": "Pod",
    "services": "Service",
    "configmaps": "ConfigMap",
    "secrets": "Secret",
    "persistentvolumeclaims": "PersistentVolumeClaim",
    "networkpolicies": "NetworkPolicy",
}
GROUPS = r"(?:api/v1|apis/networking\.k8s\.io/v1)"
ADDRESS = re.compile(rf"/{GROUPS}/namespaces/{NAMESPACE}/([a-z]+)(?:/([a-z0-9.-]+))?")
TERM = re.compile(r"([^,!=]+)(!?)==?([^,]*)")


class Refused(Exception):
    """An answer that is a failure: its code, and the word for it."""

    def __init__(self, code, reason, message):
        super().__init__(message)
        self.code, self.reason = code, reason


class Objects:
    """All objects, and what happened to them since the start."""

    def __init__(self):
        self.changed = threading.Condition()
        self.events = []  # (version, kind, what happened, object)
        self._now = {}

    def get(self, kind, name):
        with self.changed:
            found = self._now.get((kind, name))
        if found is None:
            raise Refused(404, "NotFound", f'{kind} "{name}" not found')
        return found

    def chosen(self, kind, label="", field=""):
        with self.changed:
            return [
                one
                for (held, _), one in self._now.items()
                if held == kind and matches(one, label, field)
            ]

    def create(self, kind, given):
        given = copy.deepcopy(given)
        meta = given["metadata"]
        if "name" not in meta:
            meta["name"] = meta["generateName"] + uuid.uuid4().hex[:5]
        with self.changed:
            if (kind, meta["name"]) in self._now:
                raise Refused(409, "AlreadyExists", f'{kind} "{meta["name"]}" already exists')
            meta |= {"namespace": NAMESPACE, "uid": str(uuid.uuid4())}
            meta["creationTimestamp"] = "2026-01-01T00:00:00Z"
            if kind == "pods":
                given["status"] = {"phase": "Pending"}
            return self._put("ADDED", kind, given)

    def update(self, kind, name, change):
        """Replace an object by what ``change`` makes of a copy of it."""
        with self.changed:
            return self._put("MODIFIED", kind, change(copy.deepcopy(self.get(kind, name))))

    def delete(self, kind, name):
        with self.changed:
            found = copy.deepcopy(self.get(kind, name))
            del self._now[kind, name]
            return self._put("DELETED", kind, found)

    def events_after(self, version, kind, ended):
        """What happens to a kind from that version on, while the server runs."""
        for at in itertools.count():
            with self.changed:
                while at >= len(self.events):
                    if ended.is_set():
                        return
                    self.changed.wait(0.2)
                number, held, what, one = self.events[at]
            if held == kind and number > version:
                yield what, one

    def version(self):
        return len(self.events)

    def _put(self, what, kind, given):
        version = len(self.events) + 1
        given["metadata"]["resourceVersion"] = str(version)
        if what != "DELETED":
            self._now[kind, given["metadata"]["name"]] = given
        self.events.append((version, kind, what, given))
        self.changed.notify_all()
        return given


def matches(one, label, field):
    """Whether an object fits a selector of labels and one of fields, as they stand in addresses."""
    meta = one["metadata"]
    known = {f"metadata.{name}": meta[name] for name in ("name", "namespace")}
    for selector, values in (label, meta.get("labels", {})), (field, known):
        for name, other, value in TERM.findall(selector):
            if (values.get(name) == value) == bool(other):
                return False
    return True


def _named(path):
    """The kind and the name in an address; of a whole list, None for the name."""
    found = ADDRESS.fullmatch(path)
    if found is None or found[1] not in KINDS:
        raise Refused(404, "NotFound", f"nothing is served at {path}")
    return found[1], found[2]


class Handler(BaseHTTPRequestHandler):
    """Answers one connection; `server.objects` is what it is about."""

    protocol_version = "HTTP/1.1"

    def _answer(self):
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        parts = urlsplit(self.path)
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        try:
            kind, name = _named(parts.path)
            if query.get("watch") == "true":
                self._watch(kind, query)
                return
            given = yaml.safe_load(body) if body else None
            code, reply = 200, self._done(kind, name, query, given)
            if self.command == "POST":
                code = 201
        except Refused as refused:
            code = refused.code
            reply = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code}
            reply |= {"reason": refused.reason, "message": str(refused)}
        self._send(code, json.dumps(reply).encode())

    do_GET = do_POST = do_PATCH = do_DELETE = _answer  # noqa: N815

    def _done(self, kind, name, query, given):
        objects = self.server.objects
        selector = query.get("labelSelector", ""), query.get("fieldSelector", "")
        if self.command == "GET" and name:
            return objects.get(kind, name)
        if self.command == "GET":
            return {
                "kind": f"{KINDS[kind]}List",
                "apiVersion": "v1",
                "metadata": {"resourceVersion": str(objects.version())},
                "items": objects.chosen(kind, *selector),
            }
        if self.command == "POST":
            return objects.create(kind, given)
        if self.command == "PATCH":
            # Spark applies only what it has just named, so there is nothing yet to merge it with.
            if self.headers["Content-Type"] != "application/apply-patch+yaml":
                raise Refused(415, "UnsupportedMediaType", "patches are not served")
            return objects.create(kind, given)
        found = [objects.get(kind, name)] if name else objects.chosen(kind, *selector)
        delete = self.server.stop_pod if kind == "pods" else partial(objects.delete, kind)
        for one in found:
            delete(one["metadata"]["name"])
        return {"kind": "Status", "apiVersion": "v1", "status": "Success"}

    def _watch(self, kind, query):
        """Send what happens, each event in a frame of a web socket."""
        self.close_connection = True
        objects = self.server.objects
        selector = query.get("labelSelector", ""), query.get("fieldSelector", "")
        with objects.changed:
            version = int(query.get("resourceVersion") or 0)
            now = [] if version else objects.chosen(kind, *selector)
            version = version or objects.version()
        self._shake_hands()
        news = objects.events_after(version, kind, self.server.ended)
        with contextlib.suppress(OSError, ValueError):  # the watcher may go
            for what, one in itertools.chain((("ADDED", one) for one in now), news):
                if matches(one, *selector):
                    self._tell(json.dumps({"type": what, "object": one}).encode())

    def _shake_hands(self):
        key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        accepted = base64.b64encode(hashlib.sha1(key.encode(), usedforsecurity=False).digest())
        self.send_header("Sec-WebSocket-Accept", accepted.decode())
        self.end_headers()

    def _tell(self, event):
        size = len(event)
        if size < 126:
            head = bytes([0x81, size])
        elif size < 2**16:
            head = b"\x81\x7e" + size.to_bytes(2, "big")
        else:
            head = b"\x81\x7f" + size.to_bytes(8, "big")
        self.wfile.write(head + event)

    def _send(self, code, body):
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Say nothing on the error stream."""


class Api(ThreadingHTTPServer):
    """The server; ``stop_pod`` is called with the name of each pod that shall go."""

    daemon_threads = True

    def __init__(self, stop_pod):
        super().__init__(("127.0.0.1", 0), Handler)
        self.objects, self.stop_pod = Objects(), stop_pod
        self.ended = threading.Event()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"

    def end(self):
        self.ended.set()
        self.shutdown()
        self.server_close()
