"""Errors over HTTP: every class, what is told of it, and what never is."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph import errors
from omnigraph.server.handling.error_bodies import Addresses, encode, error_answer, without_address
from omnigraph.server.refusals import Refusal
from tests.server.http import server_state, threaded
from tests.server.small import ADD, make_graph

URL = "http://host/graphs/default"


def classes(kind: type[errors.OmniGraphError] = errors.OmniGraphError) -> list[type]:
    found = [kind]
    for below in kind.__subclasses__():
        if below.__module__.startswith("omnigraph"):
            found += classes(below)
    return found


def made(kind: type[errors.OmniGraphError]) -> errors.OmniGraphError:
    details = {name: f"the {name}" for name in kind.fields}
    return kind("it is wrong at /data/g.omni/__manifest; mend it", **details)


@pytest.mark.parametrize("kind", classes(), ids=lambda kind: kind.__name__)
def test_every_class_has_its_answer(kind):
    error = made(kind)
    status, headers, body = error_answer(error, "r-1", "default")
    text = Addresses("/data/g.omni", Path("/spool")).hidden(encode(body), URL)
    assert b"/data" not in text
    told = json.loads(text)
    if isinstance(error, errors.NotAGraph):
        assert (status, told["kind"], told["code"]) == (404, "graph_not_found", "not_found")
        assert told["not_found"] == {"graph": "default"}
    elif isinstance(error, errors.QueryCancelled):
        assert (status, told["kind"]) == (503, "draining")
    elif error.http_status >= 500 and not isinstance(error, errors.NewerFormat):
        assert told == {
            "error": "internal error; request r-1",
            "kind": error.code,
            "code": "internal",
        }
    else:
        assert status == error.http_status
        whole = json.loads(json.dumps(error.body()).replace("/data/g.omni", URL))
        if isinstance(error, errors.GraphMoved):
            whole["conflict"] = {"code": "graph_moved"}
        assert told == whole
    assert dict(headers)[b"content-type"] == b"application/json"


@pytest.mark.parametrize("name", ["x" * 900_000, "é" * 300_000], ids=["ascii", "wide"])
def test_what_a_client_sends_is_not_sent_back_at_length(name):
    """Of a name that no message needs whole its beginning is told, in the text and in the details."""
    for error in (
        errors.ParamError(f"parameter `{name}` is not declared", param=name),
        errors.BranchNotFound(f"there is no branch `{name}`", branch=name),
        errors.TypeCheckError(f"no query `{name}`", hint=name, query=name),
    ):
        _, _, body = error_answer(error, "r1", "g")
        assert len(json.dumps(body)) < 6_000, type(error)
        assert name[:50] in body["error"]

    cursor = "c" * 4_096
    assert (
        errors.ChangeFeedGap("gone", cursor=cursor, first_unreadable_commit_id="01").details[
            "cursor"
        ]
        == cursor
    )


def test_an_error_of_the_program_tells_nothing():
    status, _, body = error_answer(ZeroDivisionError("at /data"), "r-2", None)
    assert (status, body) == (
        500,
        {"error": "internal error; request r-2", "kind": "internal", "code": "internal"},
    )


def test_paths_among_the_details_are_dropped():
    moved = errors.GraphMoved("it moved", recorded="/old", actual="/new")
    assert error_answer(moved, "r", None)[2]["conflict"] == {"code": "graph_moved"}
    there = errors.AlreadyInitialised("it is there", root="/data", files=["a"], path="/x", kept=1)
    assert error_answer(there, "r", None)[2]["conflict"] == {
        "code": "already_initialised",
        "kept": 1,
    }
    race = errors.ExpectedVersionMismatch("lost", table_key="node:T", expected=1, actual=2)
    assert error_answer(race, "r", None)[2]["manifest_conflict"]["actual"] == 2


@pytest.mark.parametrize(
    ("uri", "text"),
    [
        ("/data/my graphs/g", "at /data/my graphs/g/x"),
        ("/data/my graphs/g", "at file:///data/my%20graphs/g/x"),
        ("/data/my graphs/g", "at file-object-store:///data/my%20graphs/g"),
        ("/data/a/g", "no object data/a/g/_versions"),
        ("/data/ü/g", "at /data/ü/g"),
        ('/data/"q"/g', 'at /data/"q"/g'),
        ("s3://bucket/a b/g", "at s3://bucket/a b/g/x and s3://bucket/a%20b/g/y"),
        ("/data/g", "the file /spool/body-1"),
    ],
)
def test_addresses_are_replaced_however_they_are_written(uri, text):
    hidden = Addresses(uri, Path("/spool")).hidden(encode({"error": text, "n": 1}), URL)
    told = json.loads(hidden)
    assert URL in told["error"]
    for part in ("data/", "/spool", "bucket"):
        assert part not in told["error"].replace(URL, "")


def test_other_texts_stay():
    body = encode({"error": "the key g of data is g"})
    assert Addresses("/g", Path("/spool")).hidden(body, URL) == body


def test_headers_that_tell_what_to_do():
    assert (b"retry-after", b"1") in error_answer(errors.Busy("later"), "r", None)[1]
    unknown = errors.Unauthenticated("missing bearer token")
    assert (b"www-authenticate", b"Bearer") in error_answer(unknown, "r", None)[1]
    refusal = Refusal(405, "method_not_allowed", "no", [(b"allow", b"GET")])
    assert (b"allow", b"GET") in error_answer(refusal, "r", None)[1]


def test_commands_that_are_advised_name_no_server():
    command = f"omnigraph optimize {URL}"
    advice = [{"code": "compact", "message": "m", "command": command}]
    status = {"uri": URL, "advice": advice, "tables": [{"table_key": "t", "advice": advice}]}
    told = without_address(status, URL)
    assert told["uri"] == URL
    assert told["advice"][0]["command"] == "omnigraph optimize URI"
    assert told["tables"][0]["advice"][0]["command"] == "omnigraph optimize URI"
    assert advice[0]["command"] == command


def test_advice_without_a_command_stays_without_one():
    stuck = {"code": "recovery_pending", "message": "it cannot be read", "command": None}
    assert without_address({"advice": [stuck], "tables": []}, URL)["advice"] == [stuck]


def test_a_copy_does_not_tell_where_it_was_made_from(tmp_path):
    """The commit that settles a copy names both places; servers tell neither."""
    make_graph(tmp_path / "original").close()
    copied = tmp_path / "elsewhere" / "copy"
    shutil.copytree(tmp_path / "original", copied)
    graph = og.open(copied, local_files=False)
    with threaded(server_state({"default": graph}, tmp_path / "spool")) as running:
        http = running.http
        http.post("/graphs/default/mutate", {"query": ADD, "params": {"name": "cyd"}})
        commits = http.get("/graphs/default/commits").json()["commits"]
        moved = next(commit for commit in commits if commit["operation"] == "relocate")
        assert {"graph_id", "former_graph_id"} == set(moved["facts"])
        one = http.get(f"/graphs/default/commits/{moved['graph_commit_id']}").json()
        assert one["facts"] == moved["facts"]
        for route in ("commits", "history", "status"):
            assert str(tmp_path) not in http.get(f"/graphs/default/{route}").text
