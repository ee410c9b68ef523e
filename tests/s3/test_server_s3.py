"""A server whose store hangs: reads end by their deadline, and everything else goes on."""

from __future__ import annotations

import http.client
import json
from contextlib import ExitStack

import pytest

import omnigraph as og
from tests.s3_proxy import Fault, FaultProxy
from tests.server.running import LONG, start_server
from tests.server.small import ADD, ONE, PEOPLE, SCHEMA


@pytest.fixture
def served(s3, s3_root, tmp_path):
    """A server of a graph on S3, behind a proxy that may hang."""
    with og.init(s3_root.canonical, SCHEMA) as graph:
        graph.load(PEOPLE)
    with ExitStack() as ending:
        proxy = ending.enter_context(FaultProxy(s3.endpoint))
        server = ending.enter_context(
            start_server(
                *("--store", s3_root.canonical, "--unauthenticated", "--drain-timeout", "0"),
                log=tmp_path / "server.log",
                environ={**s3.environment(), "AWS_ENDPOINT_URL": proxy.endpoint},
            )
        )
        yield server, proxy


def ask(server, method, path, body=None):
    connection = http.client.HTTPConnection(server.host, server.port, timeout=LONG)
    try:
        data = None if body is None else json.dumps(body)
        connection.request(method, path, data, {"content-type": "application/json"})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def test_reads_end_by_their_deadline_and_health_is_answered(served):
    server, proxy = served
    query = {"query": ONE, "params": {"name": "ada"}}
    assert ask(server, "POST", "/graphs/default/query", query)[0] == 200
    proxy.choose = lambda _: Fault.HANG
    status, document = ask(server, "POST", "/graphs/default/query", {**query, "timeout_ms": 1000})
    assert (status, document["kind"]) == (413, "resource_limit"), document
    assert document["resource_limit"]["resource"] == "query_milliseconds"
    assert ask(server, "GET", "/healthz")[0] == 200
    proxy.choose = None
    status, document = ask(server, "POST", "/graphs/default/query", query)
    assert (status, document.get("row_count")) == (200, 1), document
    status, document = ask(
        server, "POST", "/graphs/default/mutate", {"query": ADD, "params": {"name": "zoe"}}
    )
    assert status == 200, document
    assert server.stop() == 0
