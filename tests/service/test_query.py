"""The document of a query."""

import json
import math

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.errors import BadRequest
from omnigraph.read.output.frames import arrow_pieces
from omnigraph.service.query import QueryRequest, query, query_arrow, query_lines, read_output
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
        ("as_of", None),
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


def test_objects_are_described_with_their_fields(graph):
    """And integers inside them are texts where JavaScript cannot hold them."""
    document = query(graph, QueryRequest(query=KNOWN)).collected()
    assert document["query_name"] is None
    since = {"name": "since", "type": "bigint", "nullable": True}
    name = {"name": "name", "type": "string", "nullable": False}
    age = {"name": "age", "type": "int", "nullable": True}
    assert document["schema"] == [
        {"name": "who", "type": "object", "nullable": False, "fields": [name, age]},
        {
            "name": "since",
            "type": "list",
            "nullable": False,
            "item_kind": "object",
            "fields": [since],
        },
        {"name": "ages", "type": "list", "nullable": False, "item_kind": "int"},
    ]
    [row] = document["rows"]
    assert row == {
        "who": {"name": "ada", "age": 36},
        "since": [{"since": str(2**60)}],
        "ages": [],
    }


# -- the other forms of an answer

KNOWN = """
match { $p: Person  $p $k: knows $q }
return { $p { name, age } as who, collect($k { since }) as since, collect($q.age) as ages }
"""
REQUESTS = {
    "objects": QueryRequest(query=KNOWN),
    "rows": QueryRequest(query=FRIENDS, name="friends"),
    "cut": QueryRequest(query=FRIENDS, name="everyone", max_rows=1),
    "none": QueryRequest(
        query='query q() { match { $p: Person { name: "x" } } return { $p.age } }'
    ),
}


@pytest.mark.parametrize("request_", REQUESTS.values(), ids=REQUESTS)
def test_lines_have_the_document_first_and_then_its_rows(graph, request_):
    document = query(graph, request_).collected()
    answer = query_lines(graph, request_)
    first, *rows = map(json.loads, b"".join(answer).decode().splitlines())
    assert rows == document.pop("rows")
    assert first == {"kind": "metadata", **document}
    assert ("truncated" in first) == (request_.max_rows is not None)


@pytest.mark.parametrize("request_", REQUESTS.values(), ids=REQUESTS)
def test_an_arrow_stream_has_the_rows_as_python_has_them(graph, request_):
    asked = graph.query(request_.query, request_.name)
    document = query(graph, request_).collected()
    answer = query_arrow(graph, request_)
    assert answer.held >= 0
    table = pa.ipc.open_stream(b"".join(answer)).read_all()
    document.pop("rows")
    assert json.loads(table.schema.metadata[b"omnigraph"]) == document
    whole = asked.table.slice(0, document["row_count"])
    assert table.replace_schema_metadata(None).equals(whole.replace_schema_metadata(None))


def test_an_answer_leaves_in_pieces(graph, tmp_path):
    records = [{"type": "Person", "data": {"name": f"n{n:06}", "age": n}} for n in range(20_000)]
    with og.init(tmp_path / "many", SCHEMA) as many:
        many.load(records)
        every = QueryRequest(query=FRIENDS, name="everyone")
        for made in (query_lines(many, every), query_arrow(many, every)):
            sizes = [len(piece) for piece in made]
            assert len(sizes) >= 3
            assert max(sizes) < 1 << 20
            assert made.held > 20_000


def test_wide_rows_are_cut_by_their_bytes():
    table = pa.table({"v": [[0.5] * 10_000] * 100})
    pieces = list(arrow_pieces(table, {"omnigraph": "{}"}))
    assert max(map(len, pieces)) < 2 << 20
    assert len(pieces) > 5
    assert pa.ipc.open_stream(b"".join(pieces)).read_all().num_rows == 100


EVERY = """
node Thing {
  name: String @key
  flag: Bool?  small: I32?  large: I64?  part: F64?  day: Date?  moment: DateTime?
  words: [String]?  numbers: [I64]?  vector: Vector(2)?
}
"""


def test_a_few_rows_are_written_as_many_are(tmp_path):
    """They are written one by one, and many as whole columns."""
    values = {
        "flag": [True, False, None],
        "small": [1, -7, None],
        "large": [2**53, -(2**60), None],
        "part": [0.1, 1e300, None],
        "day": ["2024-02-29", "1969-12-31", None],
        "moment": ["2024-02-29T12:30:00.5Z", "1969-12-31T23:59:59Z", None],
        "words": [['a"b', "\n\u2028é"], [], None],
        "numbers": [[2**60, 1], [], None],
        "vector": [[0.5, -1e-7], [3.0, 0.0], None],
    }
    things = [
        {
            "type": "Thing",
            "data": {
                "name": f"n{at:02} \\é",
                **{name: many[at % 3] for name, many in values.items()},
            },
        }
        for at in range(24)
    ]
    returned = ", ".join(f"$t.{name} as {name}" for name in ("name", *values))
    text = f"query q() {{ match {{ $t: Thing }} return {{ $t, {returned} }} order {{ name }}"
    with og.init(tmp_path / "g.omni", schema=EVERY) as graph:
        graph.load(things)
        many = query(graph, QueryRequest(query=f"{text} }}"))
        few = query(graph, QueryRequest(query=f"{text} limit 3 }}"))
        rows = [text for piece in many.pieces for text in piece]
        assert len(rows) == 24
        assert [text for piece in few.pieces for text in piece] == rows[:3]
