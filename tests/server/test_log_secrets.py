"""The log of a real server under real requests: nothing in it that a client sent as data.

Branches are in it: a decision of a policy says about which one it was.
"""

import json

import omnigraph as og
from omnigraph.client import Client
from omnigraph.errors import OmniGraphError
from tests.client.serving import serving

SCHEMA = "node Person { name: String @key  age: I32? }"
SECRETS = {
    "token": "tok-5f0c",
    "parameter": "param-77aa",
    "query": "query_name_31cc",
    "record": "record-a410",
}


def test_no_line_has_parameters_queries_rows_or_tokens(tmp_path):
    og.init(tmp_path / "g", SCHEMA).close()
    env = {"OMNIGRAPH_SERVER_BEARER_TOKENS_JSON": json.dumps({"ada": SECRETS["token"]})}
    query = f"query {SECRETS['query']}($n: String) {{ match {{ $p: Person {{ name: $n }} }} return {{ $p.name }} }}"
    with serving(["--graph", "g=g"], tmp_path, env) as url:
        with Client(url, "g", SECRETS["token"]) as client:
            assert client.query(query, params={"n": SECRETS["parameter"]})["row_count"] == 0
            for call in (
                lambda: client.query(query, branch="side"),
                lambda: client.query(query.replace("Person", "Persn")),
                lambda: client.snapshot(branch="side"),
                lambda: client.delete_branch("side"),
                lambda: client.load([{"type": "Person", "data": {"name": SECRETS["record"]}}]),
            ):
                try:
                    call()
                except OmniGraphError:
                    continue
                raise AssertionError("a call that should be refused was answered")
        with Client(url, "g", SECRETS["token"] + "x") as client:
            try:
                client.branches()
            except OmniGraphError as error:
                assert error.code == "unauthenticated"
    log = (tmp_path / "server.log").read_text("utf-8")
    requests = [json.loads(line) for line in log.splitlines() if '"request"' in line]
    assert len(requests) >= 7, log
    found = {what for what, text in SECRETS.items() if text in log}
    assert not found, log
