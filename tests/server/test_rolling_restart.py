"""Servers behind a balancer that are restarted one after the other, under load: no request fails.

The balancer asks each for its health again and again, and sends requests to those that are well. What
`--drain-delay` gives it is the time to notice.
"""

from __future__ import annotations

import http.client
import json
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.server.running import LONG
from tests.server.test_workers import ADD, NAMES

DELAY = 5
CLIENTS = 4
TOO_LATE = 599
"""What the balancer answers when it was itself so slow that a server had ended before it noticed."""


class Balancer:
    """Passes requests on to servers that answered their last check, in turn."""

    def __init__(self):
        self.servers, self.healthy, self.checked = [], [], 0.0
        self.guard = threading.Lock()
        self.turn = 0
        self.is_over = threading.Event()

    def add(self, server):
        """Send requests to this server too, when it is well."""
        with self.guard:
            self.servers.append(server)
        while server not in self.healthy:
            time.sleep(0.01)

    def check(self):
        """Ask all servers for their health until the end."""
        while not self.is_over.wait(0.02):
            with self.guard:
                servers, began = list(self.servers), time.monotonic()
            well = [server for server in servers if is_well(server)]
            with self.guard:
                self.healthy, self.checked = well, began

    def pass_on(self, method, path, body, headers):
        with self.guard:
            self.turn += 1
            server, checked = self.healthy[self.turn % len(self.healthy)], self.checked
        connection = http.client.HTTPConnection(server.host, server.port, timeout=LONG)
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        except (OSError, http.client.HTTPException):
            if time.monotonic() < checked + DELAY:
                raise
            return TOO_LATE, b""
        finally:
            connection.close()


def is_well(server):
    connection = http.client.HTTPConnection(server.host, server.port, timeout=LONG)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


@contextmanager
def balancing():
    """A balancer on a port of its own."""
    balancer = Balancer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            passed = {"content-type": "application/json", "host": "localhost"}
            try:
                status, answer = balancer.pass_on("POST", self.path, body, passed)
            except (OSError, http.client.HTTPException, IndexError) as error:
                status, answer = 502, json.dumps({"error": repr(error)}).encode()
            self.send_response_only(status)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threads = [
            threading.Thread(target=target, daemon=True)
            for target in (server.serve_forever, balancer.check)
        ]
        for thread in threads:
            thread.start()
        try:
            yield balancer, server.server_port
        finally:
            balancer.is_over.set()
            server.shutdown()


class Client:
    """Reads and writes over one connection to the balancer, and notes every answer that is no success."""

    def __init__(self, port, number):
        self.port, self.number = port, number
        self.added, self.unknown, self.failed, self.reads = [], [], [], 0
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LONG)
        at = 0
        while not self.is_over.is_set():
            name = f"c{self.number}-{at}"
            at += 1
            status = self.ask(connection, "mutate", {"query": ADD, "params": {"name": name}})
            if status == 200:
                self.added.append(name)
            elif status == TOO_LATE:
                self.unknown.append(name)
            for _ in range(4):
                self.reads += self.ask(connection, "query", {"query": NAMES}) == 200
        connection.close()

    def ask(self, connection, path, body):
        try:
            connection.request("POST", f"/graphs/default/{path}", json.dumps(body))
            answer = connection.getresponse()
            said = answer.read()
        except (OSError, http.client.HTTPException) as error:
            self.failed.append(repr(error))
            connection.close()
            return None
        if answer.status not in {200, TOO_LATE}:
            self.failed.append((answer.status, said))
        return answer.status


def test_no_request_fails(own_people, start):
    flags = ("--store", own_people, "--unauthenticated", "--drain-delay", str(DELAY))
    with balancing() as (balancer, port):
        first, second = start(*flags), start(*flags, "--workers", "2")
        for server in (first, second):
            balancer.add(server)
        clients = [Client(port, number) for number in range(CLIENTS)]
        for server in (first, second):
            wait_for(clients, 20)
            balancer.add(start(*flags))
            assert server.stop() == 0
        wait_for(clients, 20)
        for client in clients:
            client.is_over.set()
            client.thread.join(LONG)
            assert not client.thread.is_alive()
        assert [each for client in clients for each in client.failed] == []
        status, body = balancer.pass_on(
            *("POST", "/graphs/default/query", json.dumps({"query": NAMES})),
            {"content-type": "application/json", "host": "localhost"},
        )
    assert status == 200
    found = {row["name"] for row in json.loads(body)["rows"]}
    found -= {name for client in clients for name in client.unknown}
    assert found == {name for client in clients for name in client.added} | {"ada", "bob", "eve"}


def wait_for(clients, more):
    """Wait until the clients have had so many further answers."""
    wanted, until = sum(client.reads for client in clients) + more, time.monotonic() + LONG
    while sum(client.reads for client in clients) < wanted:
        assert time.monotonic() < until, [client.failed for client in clients]
        time.sleep(0.01)
