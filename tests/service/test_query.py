"""The document of a query."""

import math

import pytest

import omnigraph as og
from omnigraph.errors import BadRequest
from omnigraph.service.query import QueryRequest, query, read_output
from omnigraph.types import Scalar
from tests.made_results import one, result, typed

SCHEMA = """
node Person { name: String @key  age: I32?  born: Date? }
edge Knows: Person -> Person { since: I64? }
"""
PEOPLE = [
    {"type": "Person", "data": {"name": "ada", "age": 36}},
    {"type": "Person", "data": {"name": "bob"}},
    {"edge": "Knows", "from": "ada", "to": "bob", "data": {"since": 2**60}},
]
FRIENDS = """
query friends() {
  match { $p: Person  $p $k: knows $q }
  return { $p, $q.name as friend, $k.since as since, $q.born, count($q) as n }
}
query everyone($from: I32?) { match { $p: Person } return { $p.name as name } order { name } }
"""


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    with og.init(tmp_path_factory.mktemp("query") / "g.omni", schema=SCHEMA) as graph:
        graph.load(PEOPLE, mode="append")
        yield graph


def test_the_whole_document_in_its_order(graph):
    request = QueryRequest(query=FRIENDS, name="friends", branch=" main ")
    document = query(graph, request).collected()
    assert list(document.items()) == [
        ("query_name", "friends"),
        ("target", {"branch": "main", "snapshot": None}),
        ("row_count", 1),
        ("columns", ["p", "friend", "since", "q.born", "n"]),
        (
            "schema",
            [
                {
                    "name": "p",
                    "type": "string",
                    "nullable": False,
                    "entity": {"kind": "node", "type": "Person"},
                },
                {"name": "friend", "type": "string", "nullable": False},
                {"name": "since", "type": "bigint", "nullable": True},
                {"name": "q.born", "type": "date", "nullable": True},
                {"name": "n", "type": "bigint", "nullable": False},
            ],
        ),
        ("rows", [{"p": "ada", "friend": "bob", "since": str(2**60), "q.born": None, "n": 1}]),
        ("graph_commit_id", graph.snapshot().graph_commit_id),
    ]


def test_max_rows_cuts_and_says_so(graph):
    def ask(most):
        request = QueryRequest(query=FRIENDS, name="everyone", max_rows=most)
        return query(graph, request).collected()

    cut = ask(1)
    assert cut["rows"] == [{"name": "ada"}]
    assert (cut["row_count"], cut["truncated"], cut["total_rows"]) == (1, True, 2)
    whole = ask(2)
    assert (whole["row_count"], whole["truncated"], whole["total_rows"]) == (2, False, 2)
    assert list(whole)[-3:] == ["graph_commit_id", "truncated", "total_rows"]
    assert "truncated" not in ask(None)


@pytest.mark.parametrize("most", [0, -1, 100_001, True, "5"])
def test_max_rows_has_bounds(graph, most):
    with pytest.raises(BadRequest, match="max_rows"):
        query(graph, QueryRequest(query=FRIENDS, name="everyone", max_rows=most))


@pytest.mark.parametrize(
    "answer",
    [
        one(Scalar.STRING, 'say "hi"\n\\', "日本\x1b", None, ""),
        one(Scalar.I64, 2**53 - 1, 2**53, -(2**53), None),
        one(Scalar.U64, 2**64 - 1, 7),
        one(Scalar.F64, math.nan, -math.inf, 0.1, 1e300, None),
        one(Scalar.DATETIME, 1, None),
        one(Scalar.U64, [2**64 - 1, 1], [], None, is_list=True),
        one(Scalar.F32, [1.0, math.inf], dim=2),
        one(Scalar.I32, *range(20_000)),
        one(Scalar.BLOB, b"x", None),
        result([('a "b"', *typed(Scalar.BOOL, True)), ("é", *typed(Scalar.DATE, 0))]),
        one(Scalar.I32),
    ],
    ids=lambda answer: str(answer.schema[0].type),
)
def test_rows_are_those_of_the_result_with_safe_integers(answer):
    assert read_output(answer).collected()["rows"] == answer.to_json(js_safe=True)["rows"]
