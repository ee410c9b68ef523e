"""`/metrics`: what is counted, how it is shown, and that nobody is named in it."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from omnigraph.errors import Busy
from omnigraph.server.figures import BUCKETS, NBYTES, Figures, Sums
from omnigraph.server.process.metrics import MetricsServer, metrics_text
from omnigraph.server.process.serving import listen
from tests.server.running import LONG

SCHEMA_WORDS = ("Person", "Knows")
ADD = "query plugh($name: String) { insert Person { name: $name } }"


def samples(text):
    """The samples by name and labels."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(text, name, **labels):
    return samples(text)[f"omnigraph_{name}", tuple(sorted(labels.items()))]


class TestFigures:
    def test_processes_are_added_up(self):
        one, other = Figures(), Figures(memoryview(bytearray(NBYTES)))
        one.answered("query", 200, 0.002)
        one.answered("query", 200, 0.0025)
        other.answered("query", 200, 100)
        other.answered("query", 413, 0.2)
        other.answered(None, 404, 0.001)
        other.answered("export", 0, 1)
        other.answered("export", 299, 1)
        one.set("queries_running", 2)
        other.set("queries_running", 3)
        other.add("commits", 4)
        one.refused(Busy("no", cause="streams"))
        other.refused(Busy("no"))
        text = metrics_text(lambda: [one.numbers(), other.numbers()]).decode()
        assert value(text, "requests_total", route="query", status="200") == 3
        assert value(text, "requests_total", route="query", status="413") == 1
        assert value(text, "requests_total", route="none", status="404") == 1
        assert value(text, "requests_total", route="export", status="none") == 1
        assert value(text, "requests_total", route="export", status="other") == 1
        assert value(text, "request_seconds_bucket", route="query", le="0.001") == 0
        assert value(text, "request_seconds_bucket", route="query", le="0.0025") == 2
        assert value(text, "request_seconds_bucket", route="query", le="60.0") == 3
        assert value(text, "request_seconds_bucket", route="query", le="+Inf") == 4
        assert value(text, "request_seconds_count", route="query") == 4
        assert value(text, "request_seconds_sum", route="query") == pytest.approx(100.2045)
        assert value(text, "queries_running") == 5
        assert value(text, "commits_total") == 4
        assert value(text, "refusals_total", cause="streams") == 1
        assert value(text, "refusals_total", cause="queries") == 0

    def test_what_a_dead_process_counted_stays_and_what_it_held_goes(self):
        buffer = bytearray(NBYTES)
        first = Figures(buffer)
        first.answered("query", 200, BUCKETS[0])
        first.set("answer_bytes", 10)
        second = Figures(buffer)
        second.answered("query", 200, BUCKETS[0])
        sums = Sums([second.numbers()])
        assert (sums.requests("query", "200"), sums.gauge("answer_bytes")) == (2, 0)


def test_the_docs_list_every_name():
    page = (Path(__file__).parents[2] / "docs" / "user" / "server.md").read_text("utf-8")
    section = page.partition("## Metrics")[2].partition("## Ending")[0]
    text = metrics_text(lambda: [Figures().numbers()]).decode()
    shown = {
        f"{family.name}_total" if family.type == "counter" else family.name
        for family in text_string_to_metric_families(text)
    }
    assert len(shown) == 15
    assert set(re.findall(r"`(omnigraph_\w+)`", section)) == shown


class TestServer:
    @pytest.fixture
    def place(self):
        bound = listen("127.0.0.1", 0)
        server = MetricsServer(bound, lambda: [Figures().numbers()])
        yield bound.getsockname()
        server.close()

    def test_it_has_metrics_and_nothing_else(self, place):
        for method, path, status in (
            ("GET", "/metrics", 200),
            ("HEAD", "/metrics", 200),
            ("GET", "/metrics?x=1", 200),
            ("GET", "/", 404),
            ("GET", "/graphs", 404),
            ("POST", "/metrics", 501),
        ):
            connection = http.client.HTTPConnection(*place, timeout=LONG)
            connection.request(method, path)
            answer = connection.getresponse()
            body = answer.read()
            assert (answer.status, answer.getheader("server")) == (status, None) or status == 501
            assert (b"omnigraph_queries_running 0.0" in body) is ((method, status) == ("GET", 200))
            connection.close()

    def test_a_client_that_says_nothing_keeps_nobody_waiting(self, place):
        with socket.create_connection(place):
            self.test_it_has_metrics_and_nothing_else(place)


def send(place, method, path, body=None, token=None):
    host, _, port = place.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=LONG)
    try:
        headers = {"content-type": "application/json"}
        if token is not None:
            headers["authorization"] = f"Bearer {token}"
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def test_two_workers_are_summed_and_nobody_is_named(own_people, start, tmp_path):
    """Requests over connections of their own meet both workers; their sums are exact all the same."""
    policy = tmp_path / "p.yaml"
    policy.write_text(
        "version: 1\ngroups: { all: [ada-xyzzy] }\nrules:\n"
        "  - id: r\n    allow: { actors: { group: all }, actions: [read, change] }\n"
        "  - id: b\n    allow: { actors: { group: all }, actions: [branch_create] }\n"
    )
    server = start(
        *("--store", own_people, "--workers", "2", "--policy", policy),
        *("--metrics-bind", "127.0.0.1:0"),
        environ={"OMNIGRAPH_SERVER_BEARER_TOKENS_JSON": '{"ada-xyzzy": "t-s3cr3t"}'},
    )
    place = server.metrics
    main = f"{server.host}:{server.port}"
    assert send(main, "GET", "/metrics")[0] == 404
    graph = "/graphs/default"
    assert send(main, "POST", f"{graph}/branches", {"name": "side-plover"}, "t-s3cr3t")[0] == 200
    for at in range(4):
        body = {"query": ADD, "params": {"name": f"grue-{at}"}, "branch": "side-plover"}
        assert send(main, "POST", f"{graph}/mutate", body, "t-s3cr3t")[0] == 200
    for _ in range(12):
        path = f"{graph}/entity?kind=node&type=Person&id=grue-0&branch=side-plover"
        assert send(main, "GET", path, None, "t-s3cr3t")[0] == 200
    assert send(main, "GET", f"{graph}/branches", None, "t-wrong")[0] == 401

    # A request is counted after its answer, and what workers count is looked at ten times a second.
    answered = (
        1 + 4 + 12 + 1 + 1
    )  # the branch, mutations, entities, the wrong token, no metrics here
    while True:
        text = send(place, "GET", "/metrics")[1]
        found = samples(text)
        counted = [at for (name, _), at in found.items() if name == "omnigraph_requests_total"]
        if sum(counted) >= answered and value(text, "commits_total") >= 4:
            break
    assert value(text, "requests_total", route="mutate", status="200") == 4
    assert value(text, "requests_total", route="entity", status="200") == 12
    assert value(text, "requests_total", route="branches", status="401") == 1
    assert value(text, "requests_total", route="none", status="404") == 1
    assert value(text, "request_seconds_count", route="entity") == 12
    assert value(text, "worker_restarts_total") == 0
    pids = re.findall(r"worker \d+ is ready: process (\d+)", server.log.read_text())
    os.kill(int(pids[0]), signal.SIGKILL)
    while value(text := send(place, "GET", "/metrics")[1], "worker_restarts_total") < 1:
        pass
    # Nothing that was counted is lost with a worker.
    assert value(text, "requests_total", route="entity", status="200") == 12
    assert server.stop() == 0
    for label in {name for _, labels in samples(text) for name, _ in labels}:
        assert label in {"route", "status", "cause", "le"}
    log = server.log.read_text()
    for secret in ("s3cr3t", "grue", "plugh", "xyzzy", "plover", *SCHEMA_WORDS):
        assert secret not in text, secret
        # The log has actors, and branches that a policy decided about; that is all.
        assert secret in log or secret not in {"xyzzy", "plover"}, secret
    for secret in ("s3cr3t", "grue", "plugh", *SCHEMA_WORDS):
        assert secret not in log, secret
