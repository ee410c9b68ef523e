"""From a path and a method to an operation."""

import pytest

from omnigraph.errors import BadRequest
from omnigraph.server.handling.routing import ROUTES, Matched, decoded_segment
from omnigraph.server.refusals import Refusal
from omnigraph.service.operations import OPERATIONS
from tests.server.small import path_of


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_operation_has_its_path(name):
    operation = OPERATIONS[name]
    found = ROUTES.match(path_of(operation, "g").encode(), operation.method)
    assert isinstance(found, Matched)
    assert (found.operation.name, found.graph_id) == (name, b"g")
    assert len(found.values) == len(operation.names_in_path)


@pytest.mark.parametrize(
    ("method", "path", "name", "values"),
    [
        ("DELETE", b"/graphs/g/branches/etl%2Frun-1", "delete_branch", (b"etl%2Frun-1",)),
        ("DELETE", b"/graphs/g/branches/merge", "delete_branch", (b"merge",)),
        ("POST", b"/graphs/g/branches/merge", "merge", ()),
        ("GET", b"/graphs/g/commits/X/changes", "commit_changes", (b"X",)),
        ("GET", b"/graphs//branches", "branches", ()),
    ],
)
def test_paths_are_matched_as_they_came(method, path, name, values):
    found = ROUTES.match(path, method)
    assert isinstance(found, Matched)
    assert (found.operation.name, found.values) == (name, values)


def test_only_blobs_have_a_head():
    found = ROUTES.match(b"/graphs/g/blob", "HEAD")
    assert isinstance(found, Matched)
    assert (found.operation.name, found.head) == ("blob", True)
    assert ROUTES.match(b"/healthz", "HEAD") == "healthz"
    for path in (b"/graphs/g/branches", b"/graphs", b"/openapi.json"):
        with pytest.raises(Refusal) as refused:
            ROUTES.match(path, "HEAD")
        assert refused.value.status == 405


@pytest.mark.parametrize(
    "path",
    [
        b"",
        b"/",
        b"/query",
        b"/snapshot",
        b"/graphs/",
        b"/graphs/g",
        b"/graphs/g/",
        b"/graphs/g/query/",
        b"/graphs/g//query",
        b"/graphs/g/%71uery",
        b"/graphs/g/branches/etl/run-1",
        b"/graphs/g/branches/",
        b"/graphs/g/commits//changes",
        b"/graphs/g/runs",
        b"/GRAPHS/g/query",
        b"/metrics",
        b"//graphs/g/query",
        b"*",
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "HEAD"])
def test_there_is_nothing_else(path, method):
    with pytest.raises(Refusal) as refused:
        ROUTES.match(path, method)
    assert (refused.value.status, refused.value.kind) == (404, "route_not_found")


@pytest.mark.parametrize(
    ("path", "method", "allowed"),
    [
        (b"/graphs/g/branches", "PUT", b"GET, POST"),
        (b"/graphs/g/branches/merge", "GET", b"DELETE, POST"),
        (b"/graphs/g/blob", "POST", b"DELETE, GET, HEAD, PUT"),
        (b"/graphs/g/commits/x", "DELETE", b"GET"),
        (b"/healthz", "POST", b"GET, HEAD"),
    ],
)
def test_other_methods_are_refused_with_those_there_are(path, method, allowed):
    with pytest.raises(Refusal) as refused:
        ROUTES.match(path, method)
    assert refused.value.status == 405
    assert refused.value.headers == ((b"allow", allowed),)


def test_segments_are_decoded_after_the_match():
    assert decoded_segment(b"etl%2Frun-1") == "etl/run-1"
    assert decoded_segment("é".encode()) == decoded_segment(b"%C3%A9") == "é"
    assert decoded_segment(b"a+b") == "a+b"
    for broken in (b"%ff", b"a%C3", b"\xff"):
        with pytest.raises(BadRequest):
            decoded_segment(broken)
