"""The exception tree as its users meet it: in other processes, in logs, under long lines."""

import copy
import importlib
import json
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import omnigraph as og
from omnigraph import errors
from omnigraph.errors import BadRequest, KeyConflict, OmniGraphError, ParseError
from omnigraph.spans import Span

# The classes that narrow these below the public list travel too.
for module in ("storage.objects.store_errors", "storage.tables.table_errors"):
    importlib.import_module(f"omnigraph.{module}")


def every_class(kind=OmniGraphError):
    yield kind
    for child in kind.__subclasses__():
        yield from every_class(child)


def example(kind):
    return kind("what happened", **{name: f"<{name}>" for name in kind.fields})


@pytest.mark.parametrize("kind", sorted(set(every_class()), key=lambda kind: kind.__name__))
@pytest.mark.parametrize("transport", [copy.copy, lambda error: pickle.loads(pickle.dumps(error))])
def test_an_error_survives_a_copy_and_the_way_to_another_process(kind, transport):
    error = example(kind)
    arrived = transport(error)
    assert type(arrived) is kind
    assert str(arrived) == str(error)
    assert arrived.body() == error.body()


def test_a_source_error_keeps_its_place_and_its_snippet_on_the_way():
    error = ParseError(
        "no", span=Span(5, 6, 1, 6), source="node {}", filename="s.pg", hint="name it", extra=1
    )
    arrived = pickle.loads(pickle.dumps(error))
    assert arrived.render() == error.render()
    assert (arrived.span, arrived.hint, arrived.details) == (error.span, "name it", {"extra": 1})
    assert arrived.__notes__ == error.__notes__


def test_an_error_without_its_facts_is_a_mistake_of_the_product():
    with pytest.raises(TypeError, match="table_key"):
        KeyConflict("no", entity_id="1")
    assert BadRequest("no").details == {"reason": "no"}
    assert BadRequest("no", reason="why").details == {"reason": "why"}


# One row per class a user can meet: code, status, wire code, member of the body, exit code, label,
# and the facts it must carry.
TABLE = """
ParseError              parse                     400 bad_request -                    1 parse_error
CatalogError            catalog                   400 bad_request -                    1 catalog_error
IdentityError           identity                  400 bad_request -                    1 identity_error
TypeCheckError          type                      400 bad_request -                    1 type_error
ParamError              param                     400 bad_request -                    1 param_error
InputError              input                     400 bad_request -                    1 input_error
ConstraintError         constraint                400 bad_request -                    1 write_error
UnsupportedMigration    unsupported_migration     400 bad_request -                    1 -
BadRequest              bad_request               400 bad_request -                    1 -
CursorRejected          cursor_rejected           400 bad_request -                    1 change_cursor_rejected
QueryNotFound           query_not_found           400 bad_request -                    1 -
PolicyDenied            policy_denied             403 forbidden   -                    1 - action actor
PolicyFailure           policy_failure            500 internal    -                    1 policy_evaluation_failure
Unauthenticated         unauthenticated           401 unauthorized -                   1 -
Busy                    too_many_requests         429 too_many_requests -              1 -
BranchNotFound          branch_not_found          404 not_found   not_found            1 - branch
TagNotFound             tag_not_found             404 not_found   not_found            1 - tag
CommitNotFound          commit_not_found          404 not_found   not_found            1 - graph_commit_id
VersionNotFound         version_not_found         404 not_found   not_found            1 - branch version
EntityNotFound          entity_not_found          404 not_found   -                    1 -
GraphNotFound           graph_not_found           404 not_found   not_found            1 - graph
StoredQueryNotFound     stored_query_not_found    404 not_found   not_found            1 - stored_query
BranchExists            branch_exists             409 conflict    conflict             1 - branch
TagExists               tag_exists                409 conflict    conflict             1 - tag
BranchNameClash         branch_name_clash         409 conflict    conflict             1 - branch other
BranchInUse             branch_in_use             409 conflict    conflict             1 - branch by
Contention              contention                409 conflict    conflict             1 - attempts
SchemaApplyInProgress   schema_apply_in_progress  409 conflict    conflict             1 -
SchemaConflict          schema_conflict           409 conflict    conflict             1 -
GraphMoved              graph_moved               409 conflict    conflict             1 - recorded actual
GraphReplaced           graph_replaced            409 conflict    -                    1 -
AlreadyInitialised      already_initialised       409 conflict    conflict             1 -
Drift                   drift                     409 conflict    conflict             1 -
ExpectedVersionMismatch expected_version_mismatch 409 conflict    manifest_conflict    1 - table_key expected actual
SchemaViolation         schema_violation          409 conflict    schema_violation     1 - violations
PurgeBlocked            purge_blocked             409 conflict    purge_blocked        1 - obstacles
KeyConflict             key_conflict              409 conflict    key_conflict         1 - table_key entity_id
MergeConflicts          merge_conflicts           409 conflict    merge_conflicts      1 - conflicts
NoParent                no_parent                 409 conflict    change_diff_refusal  1 - graph_commit_id
SchemaBoundary          schema_boundary           409 conflict    change_diff_refusal  1 - graph_commit_id type_name
RecoveryRequired        recovery_required         409 conflict    recovery_required    1 - operation_id
HistoryReclaimed        history_reclaimed         410 -           history_reclaimed    1 - table_key version
ChangeFeedGap           change_feed_gap           410 -           change_feed_gap      1 - cursor first_unreadable_commit_id
PreconditionFailed      precondition_failed       412 -           precondition_failure 4 - branch expected actual
QueryCancelled          query_cancelled           500 internal    -                    130 -
ResourceLimit           resource_limit            413 bad_request resource_limit       1 - resource limit actual
BlobChanged             blob_changed              412 conflict    -                    1 -
BlobRange               blob_range                416 bad_request blob_range           1 - start end length
ExternalBlob            external_blob_source      424 -           external_blob_source 1 - uri reason
ProviderError           provider                  500 internal    -                    1 runtime_error
StorageError            storage                   500 internal    -                    1 runtime_error
CorruptSidecar          corrupt_sidecar           500 internal    -                    1 runtime_error
NewerFormat             newer_format              500 internal    -                    1 runtime_error
NotAGraph               not_a_graph               404 not_found   -                    1 runtime_error
"""
ROWS = [line.split() for line in TABLE.strip().splitlines()]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_every_class_has_its_code_status_and_place_on_the_wire(row):
    name, code, status, wire_code, member, exit_code, label, *fields = row
    error = example(getattr(errors, name))
    assert (error.code, error.http_status, error.exit_code) == (code, int(status), int(exit_code))
    text = "what happened" if label == "-" else f"{label.replace('_', ' ')}: what happened"
    facts = {field: f"<{field}>" for field in fields}
    body = {"error": text, "kind": code}
    if wire_code != "-":
        body["code"] = wire_code
    if member == "conflict":
        body["conflict"] = {"code": code, **facts}
    elif member == "change_diff_refusal":
        body[member] = {"code": code, **facts}
    elif member in ("merge_conflicts", "schema_violation"):
        (body[member],) = facts.values()
    elif member != "-":
        body[member] = facts
    assert error.body() == body
    assert facts.items() <= error.details.items()
    assert sorted(error.fields) == sorted(fields)


def test_the_table_has_every_class_but_the_bases():
    # An `ApiError` has what a server answered; see below.
    bases = {"OmniGraphError", "SourceError", "NotFound", "Conflict", "Gone", "ApiError"}
    own = {kind.__name__ for kind in every_class() if kind.__module__ == errors.__name__}
    assert own - bases == {row[0] for row in ROWS}
    codes = [row[1] for row in ROWS]
    assert len(set(codes)) == len(codes)


# -- from a body back to the error

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
SPANS = st.builds(Span, *[st.integers(0, 10_000)] * 4)
OPTIONAL = {
    errors.SourceError: {"span": SPANS, "hint": TEXTS, "rule": TEXTS, "query": TEXTS},
    errors.ParamError: {"param": TEXTS},
    (errors.InputError, errors.ConstraintError): {"bad_records": st.dictionaries(TEXTS, JSON)},
    errors.EntityNotFound: {"entity": st.dictionaries(TEXTS, JSON)},
    errors.ProviderError: {"missing": st.booleans()},
    errors.Drift: {"table_key": TEXTS},
    errors.SchemaConflict: {"branches": st.lists(TEXTS)},
}
TRAVELLING = sorted(
    (k for k in every_class() if k.__module__ == errors.__name__ and k is not errors.ApiError),
    key=lambda kind: kind.__name__,
)


def made(kind):
    """Errors of a class with any message and any facts that it may carry."""
    # Lists that are the whole of a member have something in them, or the error would not be there.
    listed = kind in (errors.MergeConflicts, errors.SchemaViolation)
    required = dict.fromkeys(kind.fields, st.lists(JSON, min_size=1) if listed else JSON)
    more = [members for base, members in OPTIONAL.items() if issubclass(kind, base)]
    optional = {name: values for members in more for name, values in members.items()}
    details = st.fixed_dictionaries(required, optional=optional)
    return st.builds(lambda text, facts: kind(text, **facts), TEXTS, details)


def sent(body):
    return json.loads(json.dumps(body))


@pytest.mark.parametrize("kind", TRAVELLING, ids=lambda kind: kind.__name__)
@settings(max_examples=20)
@given(data=st.data())
def test_an_error_comes_back_from_its_body(kind, data):
    error = data.draw(made(kind))
    body = sent(error.body())
    arrived = OmniGraphError.from_body(body, error.http_status)
    assert type(arrived) is kind
    assert sent(arrived.body()) == body
    assert (str(arrived), arrived.message) == (str(error), error.message)
    assert (arrived.http_status, arrived.exit_code) == (error.http_status, error.exit_code)
    assert arrived.details.items() <= sent(error.details).items()
    assert kind.wire_detail is None or set(kind.fields) <= arrived.details.keys()
    again = pickle.loads(pickle.dumps(arrived))
    assert (type(again), again.body()) == (kind, arrived.body())


@pytest.mark.parametrize("kind", TRAVELLING, ids=lambda kind: kind.__name__)
@settings(max_examples=10)
@given(body=st.dictionaries(TEXTS, JSON), odd=JSON)
def test_details_that_did_not_travel_or_have_another_form_are_absent(kind, body, odd):
    members = ("span", "hint", "rule", "query", "param", "bad_records", kind.wire_detail or "x")
    for told in ({}, body, dict.fromkeys(members, odd)):
        arrived = OmniGraphError.from_body({**told, "error": "no", "kind": kind.code}, 400)
        assert type(arrived) is kind
        assert json.dumps(arrived.body())
        assert "no" in str(arrived)


def test_a_class_that_narrows_another_arrives_as_that_one():
    for kind in set(every_class()) - set(TRAVELLING):
        if kind.__module__.startswith("omnigraph.") and issubclass(kind, tuple(TRAVELLING)):
            body = example(kind).body()
            arrived = OmniGraphError.from_body(body, 500)
            assert issubclass(kind, type(arrived))
            assert arrived.body() == body


def test_a_text_without_the_label_of_its_class_stays_as_it_is():
    body = {"error": "internal error; request 01X", "kind": "storage", "code": "internal"}
    arrived = OmniGraphError.from_body(body, 500)
    assert isinstance(arrived, errors.StorageError)
    assert (str(arrived), arrived.body()) == ("internal error; request 01X", body)


@pytest.mark.parametrize(
    ("kind", "code", "status", "expected"),
    [
        ("key_conflict", "conflict", 409, errors.KeyConflict),
        ("key_conflict", None, 200, errors.KeyConflict),
        ("brand_new", "conflict", 409, errors.Conflict),
        ("brand_new", "not_found", 409, errors.NotFound),
        ("brand_new", "unauthorized", 401, errors.Unauthenticated),
        ("brand_new", None, 429, errors.Busy),
        (None, None, 403, errors.PolicyDenied),
        (None, None, 410, errors.Gone),
        (None, "too_many_requests", 500, errors.Busy),
        ("media_type", "bad_request", 415, errors.BadRequest),
        ("method_not_allowed", "method_not_allowed", 405, errors.ApiError),
        ("internal", "internal", 500, errors.ApiError),
        ("brand_new", "brand_new", 409, errors.ApiError),
        ("brand_new", None, 418, errors.ApiError),
    ],
)
def test_the_class_is_chosen_by_kind_then_code_then_status(kind, code, status, expected):
    body = {"error": "no", "kind": kind, "code": code}
    body = {name: value for name, value in body.items() if value is not None}
    error = OmniGraphError.from_body(body, status)
    assert type(error) is expected
    if kind in ("brand_new", "media_type"):
        assert error.body().items() >= body.items()
        assert error.http_status == status


@pytest.mark.parametrize("body", [None, [], "<html>", {}, {"error": 1, "kind": [], "code": {}}])
def test_an_answer_that_is_no_body_of_ours_is_an_api_error(body):
    error = OmniGraphError.from_body(body, 502)
    assert type(error) is errors.ApiError
    assert (error.status, error.kind, str(error)) == (502, None, "the server answered 502")


def test_an_api_error_has_what_the_server_answered():
    body = {"error": "I am a teapot", "kind": "teapot", "code": "kitchen", "pot": {"cups": 3}}
    error = OmniGraphError.from_body(body, 418)
    assert (error.status, error.code, error.kind) == (418, "kitchen", "teapot")
    assert (str(error), error.body()) == ("I am a teapot", body)
    by_hand = errors.ApiError("no", status=418, code="kitchen", kind="teapot")
    assert by_hand.body() == {"error": "no", "kind": "teapot", "code": "kitchen"}
    assert pickle.loads(pickle.dumps(error)).body() == body


def test_an_error_from_a_server_shows_its_place_once_the_text_is_known():
    text = "query q() { match { $p: Nobody } return { $p.x } }"
    there = errors.TypeCheckError(
        "no", span=Span(24, 30, 1, 25), source=text, hint="yes", rule="T1", query="q"
    )
    arrived = OmniGraphError.from_body(sent(there.body()), 400)
    assert "Nobody" not in arrived.render()
    arrived.shown_in(text)
    assert arrived.render() == there.render()
    assert arrived.__notes__ == there.__notes__
    assert arrived.shown_in("other").render() == there.render()


def test_a_missing_provider_is_the_callers_fault_and_stays_so_on_the_way():
    error = pickle.loads(pickle.dumps(errors.ProviderError("no key", missing=True)))
    assert (error.http_status, error.body()) == (
        400,
        {"error": "runtime error: no key", "kind": "provider", "code": "bad_request"},
    )


def test_what_programs_decide_by_is_in_the_body():
    broken = errors.TypeCheckError("no", hint="yes", rule="T1", query="q")
    assert broken.body() == {
        "error": "type error: no",
        "kind": "type",
        "code": "bad_request",
        "hint": "yes",
        "rule": "T1",
        "query": "q",
    }
    assert "rule" not in errors.TypeCheckError("no", rule=None).body()
    assert errors.ParamError("no", param="n", type="I32").body()["param"] == "n"
    missing = errors.EntityNotFound("no", entity={"id": "x"}, snapshot="01X")
    assert missing.body()["not_found"] == {"entity": {"id": "x"}}
    assert "not_found" not in errors.NotFound("no", type="T").body()


def test_a_message_can_always_be_printed():
    error = BadRequest("there is no `x\ud800`")
    assert str(error) == "there is no `x\\ud800`"
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    assert str(BadRequest("größe ☃")) == "größe ☃"


def test_places_and_refused_records_are_in_the_body():
    span = Span(5, 6, 1, 6)
    assert ParseError("no", span=span, source="node {}").body()["span"] == {
        "start": 5, "end": 6, "line": 1, "column": 6,
    }  # fmt: skip
    refused = {"total": 1, "first": [{"line": 1}]}
    assert errors.InputError("no", bad_records=refused).body()["bad_records"] == refused


def place(text, start, end):
    """The error at a stretch of one line, as a person sees it: the line and the underline."""
    error = errors.ParseError("no", span=Span(start, end, 1, start + 1), source=text)
    *_, line, underline = error.render().split("\n")
    return line.removeprefix("1 | "), underline.removeprefix("  | ")


def test_a_long_line_is_cut_around_the_fault():
    text = "a" * 10_000 + "!!" + "b" * 10_000
    line, underline = place(text, 10_000, 10_002)
    assert len(line) < 210
    assert line.startswith("…a")
    assert line.endswith("b…")
    assert line[underline.index("^") : underline.index("^") + 2] == "!!"
    assert underline.count("^") == 2


def test_a_fault_longer_than_what_is_shown_is_underlined_to_the_cut():
    line, underline = place("x" * 10_000, 0, 10_000)
    assert len(line) == len(underline) < 210
    assert set(underline) == {"^"}


def test_a_short_line_is_shown_whole_and_tabs_stay_under_tabs():
    assert place("\tab\tc", 4, 5) == ("\tab\tc", "\t  \t^")
    assert place("ab", 0, 2) == ("ab", "^^")


LONG = "z" * 1_000_000
"""A name or a value that no message should repeat."""
SPACED = "so much text " * 80_000


@pytest.fixture(scope="module")
def small_graph(tmp_path_factory):
    schema = (
        "node P { k: String @key  a: I32?  e: enum(x, y)?  c: String?  u: String? @unique\n"
        '@check(c, "^a") }\nedge K: P -> P'
    )
    with og.init(tmp_path_factory.mktemp("quotes") / "graph", schema) as graph:
        yield graph


def _load(*records, **options):
    return lambda graph: graph.load(list(records), **options)


def _row(**data):
    return {"type": "P", "data": {"k": "1", **data}}


QUOTING = {
    "type": _load({"type": LONG, "data": {}}),
    "property": _load(_row(**{LONG: 1})),
    "enum": _load(_row(e=LONG)),
    "check": _load(_row(c=LONG)),
    "check of words": _load(_row(c=SPACED)),
    "unique": _load(_row(u=LONG), _row(k="2", u=LONG)),
    "key": _load(_row(k=LONG), _row(k=LONG), mode="append"),
    "end": _load({"edge": "K", "from": LONG, "to": LONG}),
    "mode": _load(mode=LONG),
    "path": lambda graph: graph.load(LONG),
    "node type": lambda graph: graph.load_nodes(LONG, [{"k": "1"}]),
    "query property": lambda graph: graph.query(
        f"query q() {{ match {{ $p: P }} return {{ $p.{LONG} }} }}"
    ),
    "query text": lambda graph: graph.query(
        f"query q() {{ match {{ $p: P }} return {{ $p.a {LONG} }} }}"
    ),
    "query name": lambda graph: graph.query("query q() { match { $p: P } return { $p } }", LONG),
    "branch": lambda graph: graph.query("query q() { match { $p: P } return { $p } }", branch=LONG),
    "insert": lambda graph: graph.mutate(f'query q() {{ insert P {{ k: "1", e: "{LONG}" }} }}'),
}


@pytest.mark.parametrize("case", QUOTING)
def test_messages_cut_what_they_quote(small_graph, case):
    with pytest.raises(og.errors.OmniGraphError) as caught:
        QUOTING[case](small_graph)
    assert len(str(caught.value)) < 5_000
    first = caught.value.details.get("bad_records", {}).get("first", [])
    assert all(len(str(value)) < 5_000 for entry in first for value in entry.values())


def test_a_cut_message_keeps_its_beginning_and_its_end():
    error = BadRequest(f"no {LONG} here; do this")
    assert str(error) == f"no {'z' * 200}… here; do this"
    error = BadRequest(f"no {SPACED}; do this")
    assert str(error).startswith("no so much")
    assert str(error).endswith("; do this")
    path = "/" + "d/" * 400
    assert str(BadRequest(f"{path} is no file")) == f"{path} is no file"
