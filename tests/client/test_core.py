"""Requests as they leave, and answers as they are read, without a connection."""

import inspect
import json
import math
from datetime import UTC, date, datetime
from urllib.parse import parse_qsl, urlsplit

import pytest

from omnigraph.client import AsyncClient, Client
from omnigraph.client.core import IF_COMMIT, OPERATION_ID, Core
from omnigraph.client.row_lines import LineSplitter, RowReader
from omnigraph.clock import is_ulid
from omnigraph.errors import (
    ApiError,
    BadRequest,
    BranchNotFound,
    Busy,
    ParamError,
    TypeCheckError,
    Unauthenticated,
)
from omnigraph.service import wire
from omnigraph.service.operations import OPERATIONS

#: Operations that are no method under their own name: a load sends lines, and `ingest` is an older `load`.
OTHERWISE = {"load_ndjson": "load", "ingest": "load", "entity_blame": "blame"}
#: Methods that are no operation of a graph.
BESIDES = {
    *("graphs", "health"),  # of the server
    *("query_rows", "query_arrow", "blob_pieces", "stat_blob"),  # other forms of an operation
    *("question", "loading", "send", "receive", "close", "core"),
}


ANSWER = {
    "query_name": "q",
    "target": {"branch": "main", "snapshot": None},
    "row_count": 0,
    "columns": [],
    "schema": [],
    "rows": [],
    "graph_commit_id": "01J00000000000000000000000",
}


@pytest.fixture
def core():
    return Core("https://graphs.example.org/prefix/", "shop", "s3cret")


def methods(kind):
    return {name for name, _ in inspect.getmembers(kind, callable) if not name.startswith("_")}


class TestMethods:
    @pytest.mark.parametrize("kind", [Client, AsyncClient])
    def test_every_operation_is_a_method_and_every_method_an_operation(self, kind):
        wanted = {OTHERWISE.get(name, name) for name in OPERATIONS}
        assert methods(kind) - BESIDES == wanted

    def test_both_clients_take_the_same(self):
        for name in methods(Client):
            mine, other = (inspect.signature(getattr(kind, name)) for kind in (Client, AsyncClient))
            assert list(mine.parameters.values()) == list(other.parameters.values()), name

    @pytest.mark.parametrize("name", sorted(OPERATIONS))
    def test_every_field_of_a_request_can_be_said(self, name):
        """A new field of the table needs an argument."""
        method = getattr(Client, OTHERWISE.get(name, name))
        said = set()
        for parameter in inspect.signature(method, eval_str=True).parameters.values():
            if parameter.kind is inspect.Parameter.VAR_KEYWORD:
                said |= set(inspect.get_annotations(parameter.annotation.__args__[0]))
                for base in parameter.annotation.__args__[0].__mro__:
                    said |= set(inspect.get_annotations(base))
            else:
                said.add(parameter.name)
        renamed = {"timeout_ms": "timeout", "map": "columns", "data": "source", "checks": "checks"}
        if name == "history":
            renamed["branch"] = "branches"
        if name == "commits":
            # They are short for filters.
            renamed |= dict.fromkeys(("actor", "operation_id", "operation"), "filter")
        fields = OPERATIONS[name].request.__struct_fields__
        assert {renamed.get(field, field) for field in fields} <= said
        assert not OPERATIONS[name].identified or "operation_id" in said
        assert not OPERATIONS[name].conditional or "if_commit" in said


class TestRequests:
    def test_a_read_has_its_parameters_in_the_address(self, core):
        asked = core.prepare("snapshot", wire.TargetParameters(branch="a b/ü", version=3))
        assert asked.method == "GET"
        parts = urlsplit(asked.url)
        assert parts.path == "/prefix/graphs/shop/snapshot"
        assert dict(parse_qsl(parts.query)) == {"branch": "a b/ü", "version": "3"}
        assert asked.content is None
        assert asked.headers["Authorization"] == "Bearer s3cret"
        assert OPERATION_ID not in asked.headers

    def test_a_comma_in_a_list_that_has_commas_is_refused(self, core):
        """The server would take one name for two."""
        named = wire.TableParameters(kind="node", type="P", format="csv", names=["a,b", "c"])
        with pytest.raises(BadRequest, match="`names` holds a name with a comma"):
            core.prepare("load_table", named)

    def test_lists_repeat_or_have_commas_as_the_interface_says(self, core):
        asked = core.prepare(
            "commit_changes",
            wire.CommitChangesParameters(types=["A", "B"], images=False),
            "01J00000000000000000000000",
        )
        query = parse_qsl(urlsplit(asked.url).query)
        assert ("types", "A,B") in query
        assert ("images", "false") in query
        listed = core.prepare("history", wire.HistoryParameters(branch=["main", "side"]))
        assert parse_qsl(urlsplit(listed.url).query) == [("branch", "main"), ("branch", "side")]

    @pytest.mark.parametrize("name", ["etl/run-1", "a b", "50%", "ü", "?x=1", "#", "a/../b"])
    def test_a_name_is_one_segment(self, core, name):
        from urllib.parse import unquote

        asked = core.prepare("delete_branch", wire.NoParameters(), name)
        segments = urlsplit(asked.url).path.split("/")
        assert unquote(segments[-1]) == name
        assert segments[-2] == "branches"

    @pytest.mark.parametrize("name", ["", " ", ".", "..", "\ud800"])
    def test_a_name_that_no_path_can_hold_is_refused(self, core, name):
        with pytest.raises(BadRequest):
            core.prepare("delete_branch", wire.NoParameters(), name)

    def test_a_body_has_only_what_was_given(self, core):
        asked = core.prepare("diff", wire.DiffBody(from_="main", to=wire.TargetObject(tag="v1")))
        assert json.loads(asked.content) == {"from": "main", "to": {"tag": "v1"}}
        assert asked.headers["Content-Type"] == "application/json"

    def test_a_write_always_has_an_operation_id(self, core):
        body = wire.MutateBody(query="q")
        asked = core.prepare("mutate", body)
        assert is_ulid(asked.operation_id)
        assert core.prepare("mutate", body).operation_id != asked.operation_id
        own = core.prepare("mutate", body, operation_id="01J00000000000000000000000", if_commit="x")
        assert own.operation_id == "01J00000000000000000000000"
        assert own.headers[IF_COMMIT] == "x"

    def test_so_has_one_that_makes_no_commit_though_nothing_is_found_by_it(self, core):
        asked = core.prepare("create_branch", wire.NewBranchBody(name="side"))
        assert is_ulid(asked.headers[OPERATION_ID])
        assert asked.operation_id is None

    @pytest.mark.parametrize("token", ["", "a b", "a\nb", "tökén", "a\x00"])
    def test_what_is_no_token_is_refused_and_not_shown(self, token):
        with pytest.raises(BadRequest) as caught:
            Core("https://h", "g", token)
        assert not token.strip() or token not in str(caught.value)

    def test_a_token_is_shown_nowhere(self, core):
        with Client("https://h", "g", "s3cret") as client:
            shown = [
                repr(client),
                repr(client.core),
                repr(core.prepare("tags", wire.NoParameters())),
            ]
        assert all("s3cret" not in text for text in shown)

    @pytest.mark.parametrize("header", ["a\r\nX: y", "ü", "\x00"])
    def test_a_header_cannot_hold_another_one(self, core, header):
        with pytest.raises(BadRequest):
            core.prepare("mutate", wire.MutateBody(query="q"), if_commit=header)

    @pytest.mark.parametrize(
        "url", ["", "host", "ftp://h", "http://", "http://u:p@h", "http://h?a", "http://h:x"]
    )
    def test_what_is_no_server_is_refused(self, url):
        with pytest.raises(BadRequest):
            Core(url, "g", None)

    def test_python_values_of_parameters_travel_as_json(self, core):
        given = {"d": date(2026, 5, 1), "t": datetime(2026, 5, 1, 12, tzinfo=UTC), "l": (1, 2)}
        with Client("https://h", "g") as client:
            sent = json.loads(client.question("q", params=given).content)["params"]
        assert sent == {"d": "2026-05-01", "t": "2026-05-01T12:00:00+00:00", "l": [1, 2]}

    @pytest.mark.parametrize("value", [math.nan, math.inf, [{"x": -math.inf}], object()])
    def test_what_json_cannot_express_is_refused_not_dropped(self, value):
        with Client("https://h", "g") as client, pytest.raises(BadRequest):
            client.question("q", params={"x": value})

    @pytest.mark.parametrize("name", ["as_of", "version", "max_rows"])
    def test_no_number_is_not_left_out(self, name):
        # As JSON it would be null, and the answer that of another question.
        with Client("https://h", "g") as client, pytest.raises(BadRequest, match=f"{name} is nan"):
            client.question("q", **{name: math.nan})


class TestAnswers:
    def read(self, core, status, body, **more):
        asked = core.prepare("query", wire.QueryBody(query="query q() { oops }"), **more)
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return core.read(asked, status, {}, data)

    def test_a_document(self, core):
        assert self.read(core, 200, ANSWER) == ANSWER

    def test_a_newer_server_may_say_more(self, core):
        assert self.read(core, 200, {**ANSWER, "colour": "red"})["colour"] == "red"

    @pytest.mark.parametrize(
        ("status", "body", "kind"),
        [
            (404, BranchNotFound("no", branch="b").body(), BranchNotFound),
            (400, ParamError("bad", param="n").body(), ParamError),
            (401, Unauthenticated("missing bearer token").body(), Unauthenticated),
            (429, Busy("later").body(), Busy),
            (418, {"error": "tea", "kind": "teapot", "code": "internal"}, ApiError),
        ],
    )
    def test_errors_are_the_classes_of_the_product(self, core, status, body, kind):
        with pytest.raises(kind) as caught:
            self.read(core, status, body)
        assert type(caught.value) is kind
        assert caught.value.body() == body

    def test_an_error_in_the_source_underlines_it(self, core):
        body = {
            "error": "type error: no such type",
            "kind": "type",
            "code": "bad_request",
            "span": {"start": 12, "end": 16, "line": 1, "column": 13},
        }
        with pytest.raises(TypeCheckError) as caught:
            self.read(core, 400, body, source="query q() { oops }")
        assert "^^^^" in caught.value.render()
        assert "1 | query q() { oops }" in caught.value.render()

    @pytest.mark.parametrize("status", [200, 301, 400, 502])
    @pytest.mark.parametrize(
        "body", [b"", b"<html>Bad gateway</html>", b"[1]", b'"x"', b"\xff\xfe", b"[" * 100_000]
    )
    def test_an_answer_of_something_else_says_so(self, core, status, body):
        with pytest.raises(ApiError, match=rf"answered {status} .*check the URL"):
            self.read(core, status, body)


class TestLines:
    @pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
    def test_lines_come_whole_however_they_are_cut(self, size):
        text = "eins\nzwölf\n\ndrei".encode()
        splitter = LineSplitter()
        pieces = (text[at : at + size] for at in range(0, len(text), size))
        lines = [line for piece in pieces for line in splitter.feed(piece)]
        assert [*lines, *splitter.finish()] == "eins\nzwölf\n\ndrei".encode().split(b"\n")

    def test_rows_have_their_integers_back(self):
        schema = [{"name": "n", "type": "bigint", "nullable": True}]
        head = {**ANSWER, "kind": "metadata", "row_count": 3, "schema": schema}
        rows = [{"n": "9007199254740993", "t": "7"}, {"n": 3, "t": "x"}, {"n": None, "t": None}]
        text = "".join(f"{json.dumps(line)}\n" for line in (head, *rows)).encode()
        reader = RowReader()
        found = [*reader.feed(text[:50]), *reader.feed(text[50:]), *reader.finish()]
        assert found == [{**rows[0], "n": 9007199254740993}, *rows[1:]]
