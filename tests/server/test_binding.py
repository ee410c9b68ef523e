"""From query strings, bodies and headers to requests: nothing unknown, repeated or broken passes."""

import pytest

from omnigraph.errors import BadRequest
from omnigraph.server.handling.binding import (
    bind_parameters,
    check_media_type,
    chosen_form,
    decode_body,
    headers_of,
)
from omnigraph.server.refusals import Refusal
from omnigraph.service import wire
from omnigraph.service.operations import OPERATIONS


def bound(name: str, query_string: bytes) -> wire.Wire:
    return bind_parameters(OPERATIONS[name], query_string)


def decoded(name: str, body: bytes) -> wire.Wire:
    return decode_body(OPERATIONS[name], body)


def test_parameters_become_values_of_their_types():
    assert bound("commits", b"branch=etl%2Frun+1&limit=5&filter=a%3Db,c&filter=d=e") == (
        wire.CommitsParameters(branch="etl/run 1", limit=5, filter=["a=b,c", "d=e"])
    )
    assert bound("entity", b"kind=node&type=T&id=1&full=true").full is True
    assert bound("snapshot", b"") == wire.TargetParameters()
    assert bound("snapshot", b"&branch=main&") == wire.TargetParameters(branch="main")
    assert bound("load_ndjson", b"from=main&check=false").from_ == "main"


def test_values_that_look_like_others_stay_texts():
    for text in ("null", "true", "1", "1e5"):
        assert bound("entity", f"kind=node&type=T&id={text}".encode()).id == text
        assert bound("snapshot", f"branch={text}".encode()).branch == text


def test_lists_have_commas_or_are_repeated():
    for query_string in (b"types=A,B&kinds=node", b"types=A&types=B&kinds=node"):
        assert bound("changes", query_string) == wire.FeedParameters(
            types=["A", "B"], kinds=["node"]
        )
    csv = bound(
        "load_table", b"kind=node&type=T&format=csv&names=a,b&map=x=y&map=u=v,w&null=&null=-"
    )
    assert (csv.names, csv.map, csv.null) == (["a", "b"], ["x=y", "u=v,w"], ["", "-"])


@pytest.mark.parametrize(
    ("name", "query_string", "words"),
    [
        ("commits", b"limt=1", "`limt`; did you mean `limit`?"),
        ("commits", b"zzzzz=1", "there are actor, before, branch"),
        ("commits", b"limit=1&limit=2", "`limit` is given twice"),
        ("commits", b"limit=x", "limit"),
        ("commits", b"limit=0", ">= 1"),
        ("commits", b"limit=1.5", "limit"),
        ("commits", b"branch=%ff", "not UTF-8"),
        ("commits", b"%ff=1", "not UTF-8"),
        ("entity", b"kind=node&type=T", "id"),
        ("entity", b"kind=tree&type=T&id=1", "tree"),
        ("entity", b"kind=node&type=T&id=1&full=maybe", "full"),
        ("branches", b"x=1", "takes none"),
        ("changes", b"from_=1", "`from_`"),
    ],
)
def test_parameters_that_do_not_fit(name, query_string, words):
    with pytest.raises(BadRequest) as refused:
        bound(name, query_string)
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "empty"),
        (b"{", "not JSON"),
        (b"null", "object"),
        (b"[]", "object"),
        (b'{"query": "x"} {}', "not JSON"),
        (b'{"qury": "x"}', "`qury`; did you mean `query`?"),
        (b"{}", "query"),
        (b'{"query": 1}', "query"),
        (b'{"query": "x", "params": []}', "params"),
        (b'{"query": "x", "max_rows": 0}', "max_rows"),
        (b'{"query": "x", "max_rows": 100001}', "max_rows"),
        (b'{"query": "x", "max_rows": "1"}', "max_rows"),
        (b'{"query": "x", "timeout_ms": 1.5}', "timeout_ms"),
        (b'{"query": "x", "params": {"a": 1e400}}', "out of range"),
        (b'{"query": "\\ud800"}', "JSON"),
        (b'{"query": "x", "params": {"\\udc00": 1}}', "JSON"),
        (b'\xef\xbb\xbf{"query": "x"}', "byte order mark"),
        (b'{"query": "\xff"}', "UTF-8"),
        (b'{"query": "x", "params": {"a": NaN}}', "not JSON"),
        (b'{"query": "x", "params": {"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}}", "nested"),
        (b"[" * 500_000, "object"),
        (b'{"query": "x\x00"}', "JSON"),
    ],
)
def test_bodies_that_do_not_fit(body, words):
    with pytest.raises(BadRequest) as refused:
        decoded("query", body)
    assert words in str(refused.value)
    refused.value.body()["error"].encode()


def test_a_field_of_an_inner_object_is_named_with_its_place():
    with pytest.raises(BadRequest) as refused:
        decoded("diff", b'{"from": {"branhc": "main"}, "to": "main"}')
    assert "$.from" in str(refused.value)
    assert "did you mean `branch`?" in str(refused.value)


def test_what_json_allows_is_taken():
    request = decoded(
        "query", b'{"query": "a", "query": "b", "params": {"n": 123456789012345678901234567890}}'
    )
    assert request == wire.QueryBody(query="b", params={"n": 123456789012345678901234567890})
    assert decoded("diff", b'{"from": "a@3", "to": {"tag": "v"}}').to == wire.TargetObject(tag="v")


@pytest.mark.parametrize(
    ("name", "content_type", "encoding", "fits"),
    [
        ("query", "application/json", None, True),
        ("query", "Application/JSON; charset=utf-8", "identity", True),
        ("query", "text/plain", None, False),
        ("query", "application/x-www-form-urlencoded", None, False),
        ("query", None, None, False),
        ("query", "application/json", "gzip", False),
        ("load_ndjson", "application/x-ndjson", "gzip", True),
        ("load_ndjson", "application/x-ndjson", "ZSTD", True),
        ("load_ndjson", "application/x-ndjson", "br", False),
        ("load_ndjson", "application/x-ndjson", "gzip, gzip", False),
        ("load_ndjson", "application/json", None, False),
        ("load_table", "text/csv", None, True),
        ("load_table", "application/x-ndjson", None, False),
        ("put_blob", "anything/at-all", None, True),
        ("put_blob", None, None, True),
        ("put_blob", None, "gzip", False),
        ("branches", "text/plain", None, True),
    ],
)
def test_media_types(name, content_type, encoding, fits):
    given = {b"content-type": content_type, b"content-encoding": encoding}
    headers = {name: value.encode() for name, value in given.items() if value is not None}
    if fits:
        packed = check_media_type(OPERATIONS[name], headers)
        assert packed == (encoding.lower() if encoding and encoding != "identity" else None)
    else:
        with pytest.raises(Refusal) as refused:
            check_media_type(OPERATIONS[name], headers)
        assert (refused.value.status, refused.value.kind) == (415, "media_type")


def test_headers_that_come_twice_are_one_list():
    assert headers_of([(b"a", b"1"), (b"b", b"2"), (b"a", b"3")]) == {b"a": b"1, 3", b"b": b"2"}


def test_an_operation_without_other_forms_has_its_own():
    accept = {b"accept": b"application/x-ndjson"}
    assert chosen_form(OPERATIONS["branches"], accept)[0] == "application/json"
    assert chosen_form(OPERATIONS["export"], {})[0] == "application/x-ndjson"
