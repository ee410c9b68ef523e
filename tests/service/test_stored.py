"""Stored queries: read from a directory, invoked under a name, judged by the schema of the moment."""

from __future__ import annotations

import pytest

import omnigraph as og
from omnigraph.errors import (
    BadRequest,
    ParamError,
    PolicyDenied,
    SchemaConflict,
    StoredQueryNotFound,
)
from omnigraph.policy import Action, Decision
from omnigraph.service import branches
from omnigraph.service.schema import guarded
from omnigraph.service.stored import (
    InvokeRequest,
    check_fit,
    check_new_schema,
    find_query,
    invoke,
    list_queries,
    read_directory,
)

SCHEMA = "node Author { name: String @key  born: I32? }"
READS = """
query born($n: String) { match { $a: Author { name: $n } } return { $a.born as born } }
query all() { match { $a: Author } return { $a.name as name } order { name } }
"""
WRITES = "query set_born($n: String, $y: I32) { update Author set { born: $y } where name = $n }"


@pytest.fixture
def directory(tmp_path):
    place = tmp_path / "queries"
    place.mkdir()
    (place / "reads.gq").write_text(READS, "utf-8")
    (place / "writes.gq").write_text(WRITES, "utf-8")
    (place / "notes.txt").write_text("query none(", "utf-8")
    return place


@pytest.fixture
def graph(tmp_path):
    with og.init(tmp_path / "g", SCHEMA) as graph:
        graph.load(
            [{"type": "Author", "data": {"name": name, "born": 1921}} for name in ("Lem", "Ann")]
        )
        yield graph


def asked(**values):
    return InvokeRequest(**values)


def test_every_declaration_of_every_file_is_a_query(directory, graph):
    registry = read_directory(directory)
    listed = list_queries(graph, registry)["queries"]
    assert [(entry["name"], entry["mutation"]) for entry in listed] == [
        ("all", False),
        ("born", False),
        ("set_born", True),
    ]
    check_fit(graph, registry)


def test_a_query_is_invoked_by_name(directory, graph):
    registry = read_directory(directory)
    answer = invoke(graph, registry, "born", asked(params={"n": "Lem"})).collected()
    assert (answer["query_name"], answer["rows"]) == ("born", [{"born": 1921}])
    done = invoke(graph, registry, "set_born", asked(params={"n": "Lem", "y": 5}))
    assert done["affected_nodes"] == 1
    again = invoke(graph, registry, "born", asked(params={"n": "Lem"})).collected()
    assert again["rows"] == [{"born": 5}]
    before = done["commit"]["parent_commit_id"]
    past = invoke(graph, registry, "born", asked(params={"n": "Lem"}, snapshot=before)).collected()
    assert past["rows"] == [{"born": 1921}]


def test_rows_may_be_cut(directory, graph):
    answer = invoke(graph, read_directory(directory), "all", asked(max_rows=1)).collected()
    assert (answer["rows"], answer["truncated"], answer["total_rows"]) == (
        [{"name": "Ann"}],
        True,
        2,
    )


@pytest.mark.parametrize(
    ("name", "request_", "message"),
    [
        ("born", asked(params={"n": "x"}, expect_mutation=True), "is a read"),
        ("set_born", asked(params={"n": "x", "y": 1}, expect_mutation=False), "is a mutation"),
        ("set_born", asked(params={"n": "x", "y": 1}, tag="v1"), "takes no tag"),
        ("set_born", asked(params={"n": "x", "y": 1}, max_rows=1), "takes no max_rows"),
        ("born", asked(params={"n": "x"}, if_commit="01" + "A" * 24), "takes no condition"),
    ],
)
def test_what_does_not_fit_the_query_is_refused(directory, graph, name, request_, message):
    with pytest.raises(BadRequest, match=message):
        invoke(graph, read_directory(directory), name, request_)


@pytest.mark.parametrize(
    "params", [{}, {"n": 5}, {"n": "Lem", "m": 1}], ids=["none", "type", "more"]
)
def test_parameters_are_those_of_the_query(directory, graph, params):
    with pytest.raises(ParamError):
        invoke(graph, read_directory(directory), "born", asked(params=params))


class Denying:
    """A policy that forbids some actions."""

    def __init__(self, *denied):
        self.denied = denied

    def check(self, question):
        return Decision(question.action not in self.denied)


def test_denied_and_unknown_are_alike(directory, tmp_path, graph):
    registry = read_directory(directory)
    with og.open(graph.uri, policy=Denying(Action.INVOKE_QUERY), actor="ann") as closed:
        bodies = []
        for name in ("born", "nope"):
            with pytest.raises(StoredQueryNotFound) as raised:
                find_query(closed, registry, name)
            bodies.append(str(raised.value.body()).replace(name, "NAME"))
    assert bodies[0] == bodies[1]
    with pytest.raises(StoredQueryNotFound) as raised:
        find_query(graph, registry, "nope")
    # Who may run stored queries is told the name that does not exist; who may not, no name at all.
    assert raised.value.body()["not_found"] == {"stored_query": "nope"}
    assert bodies[0].count("NAME") == 0


def test_the_inner_question_is_asked_as_well(directory, graph):
    registry = read_directory(directory)
    with og.open(graph.uri, policy=Denying(Action.READ, Action.CHANGE), actor="ann") as closed:
        with pytest.raises(PolicyDenied):
            invoke(closed, registry, "all", asked())
        with pytest.raises(PolicyDenied):
            invoke(closed, registry, "set_born", asked(params={"n": "Lem", "y": 1}))
        with pytest.raises(PolicyDenied):
            list_queries(closed, registry)


@pytest.mark.parametrize("schema", ["node Author { name: String @key }", "nod Author"])
def test_who_may_not_change_the_schema_learns_nothing_of_the_queries(directory, graph, schema):
    registry = read_directory(directory)
    denying = Denying(Action.SCHEMA_APPLY)
    with (
        og.open(graph.uri, policy=denying, actor="ann") as closed,
        pytest.raises(PolicyDenied),
    ):
        check_new_schema(closed, registry, schema)


def test_a_plan_of_a_merge_is_refused_like_the_merge(directory, graph):
    registry = read_directory(directory)
    graph.branches.create("fewer")
    graph.schema.apply("node Author { name: String @key }", branch="fewer")
    plan = branches.MergeRequest(source="fewer", dry_run=True)
    for request in (plan, branches.MergeRequest(source="fewer")):
        with pytest.raises(BadRequest, match="would break stored queries: `born`"):
            branches.merge(guarded(graph, registry), request)
    # Whoever may not change the schema sees the plan, but no query.
    with og.open(graph.uri, policy=Denying(Action.SCHEMA_APPLY), actor="ann") as closed:
        with pytest.raises(BadRequest, match="would break stored queries") as refused:
            branches.merge(guarded(closed, registry), plan)
        assert "born" not in str(refused.value.body())
        with pytest.raises(PolicyDenied):
            branches.merge(guarded(closed, registry), branches.MergeRequest(source="fewer"))
        assert branches.merge(guarded(closed, None), plan)["conflicts"] == []
    assert graph.schema.source == SCHEMA


def test_a_query_that_no_longer_fits_says_so_and_comes_back(directory, graph):
    registry = read_directory(directory)
    graph.schema.apply("node Author { name: String @key }", allow_data_loss=True)
    with pytest.raises(SchemaConflict, match=r"`born` does not fit the schema any more.*line 2"):
        invoke(graph, registry, "born", asked(params={"n": "Lem"}))
    assert invoke(graph, registry, "all", asked()).collected()["row_count"] == 2
    with pytest.raises(BadRequest, match=r"`born`.*`set_born`") as raised:
        check_fit(graph, registry)
    assert raised.value.details["queries"] == ["born", "set_born"]
    graph.schema.apply(SCHEMA)
    again = invoke(graph, registry, "born", asked(params={"n": "Lem"})).collected()
    assert again["rows"] == [{"born": None}]


def test_everything_wrong_with_a_directory_is_said_at_once(directory):
    (directory / "a.gq").write_text("query broken( {", "utf-8")
    (directory / "b.gq").write_bytes(b"query \xff")
    (directory / "z.gq").write_text(
        "query all() { match { $a: Author } return { $a.name } }", "utf-8"
    )
    with pytest.raises(BadRequest) as raised:
        read_directory(directory, reserved={"born"})
    problems = raised.value.details["problems"]
    assert [problem.split(":")[0] for problem in problems[:2]] == ["a.gq", "b.gq"]
    assert "a tool of omnigraph" in problems[2]
    assert "`all` is given twice, in reads.gq and z.gq" in problems[3]
    assert len(problems) == 4


def test_a_place_without_queries_is_said_to_be_one(tmp_path):
    with pytest.raises(BadRequest, match="no directory"):
        read_directory(tmp_path / "none")


def test_a_file_with_a_query_without_a_name_is_told_once(tmp_path):
    (tmp_path / "mixed.gq").write_text(
        "query a() { match { $t: Team } return { $t } }\n"
        "query b() { match { $t: Team } return { $t } }\n"
        "match { $r: a() } return { count(*) as n }\n"
    )
    with pytest.raises(BadRequest) as caught:
        read_directory(tmp_path)
    assert caught.value.details["problems"] == [
        "mixed.gq: a query without a name cannot be stored; write it as `query name(…) { … }`"
    ]
