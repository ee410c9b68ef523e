"""What the methods of a graph return are values: pickled, copied and compared by what is in them."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from collections.abc import Callable

import pytest

import omnigraph as og
from omnigraph.errors import BadRequest, MergeConflicts, OmniGraphError, ParseError
from omnigraph.types import Scalar
from tests.graphs import person
from tests.made_results import one

SCHEMA = """
node Person { name: String @key  age: I32?  mark: F64?  v: Vector(2)? }
edge Knows: Person -> Person { since: Date? }
"""
PEOPLE = "query q() { match { $p: Person } return { $p, $p.name, $p.age, $p.mark, $p.v } }"
MORE = SCHEMA + "node City { name: String @key }"


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    with og.init(tmp_path_factory.mktemp("values") / "g", SCHEMA) as graph:
        graph.load([person("ada", age=36, v=[1, 2]), person("bob", mark=0.5)])
        graph.load([{"edge": "Knows", "from": "ada", "to": "bob"}])
        graph.branches.create("side")
        many = [person(f"p{at:03d}", age=at) for at in range(30)]
        graph.load([*many, person("ada", age=37)], branch="side")
        graph.tags.create("start")
        yield graph


VALUES: dict[str, Callable[[og.Graph], object]] = {
    "query": lambda g: g.query(PEOPLE),
    "algorithm": lambda g: g.algorithms.louvain("Knows"),
    "profile": lambda g: g.profile(PEOPLE),
    "explain": lambda g: g.explain(PEOPLE),
    "diff": lambda g: g.diff("main", "side"),
    "diff, read": lambda g: _read(g.diff("main", "side")),
    "page of a diff": lambda g: g.diff("main", "side").page(limit=3),
    "stats": lambda g: g.diff("main", "side").stats,
    "change": lambda g: g.diff("main", "side").changes[0],
    "status": lambda g: g.status(),
    "snapshot": lambda g: g.snapshot(),
    "history": lambda g: g.commits.history(),
    "commits": lambda g: g.commits.list("side"),
    "changes of a commit": lambda g: g.commits.changes(g.snapshot().graph_commit_id),
    "feed": lambda g: g.changes.poll(start="beginning"),
    "tags": lambda g: g.tags.list(),
    "plan": lambda g: g.schema.plan(MORE),
    "merge": lambda g: g.branches.merge("side", dry_run=True),
    "check": lambda g: g.load([person("x")], check=True),
    "catalog": lambda g: g.schema.catalog,
    "schema": lambda g: og.parse_schema(SCHEMA),
    "lint": lambda g: og.lint(SCHEMA, PEOPLE),
    "target": lambda g: og.at(tag="start"),
    "limits": lambda g: og.ReadLimits(max_rows=3),
}


def _read(diff: og.DiffResult) -> og.DiffResult:
    assert diff.changes
    return diff


@pytest.mark.parametrize("name", VALUES)
def test_a_value_is_the_same_after_a_journey(graph, name):
    value = VALUES[name](graph)
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        again = pickle.loads(pickle.dumps(value, protocol))
        assert type(again) is type(value)
        assert again == value
        assert str(again) == str(value)
        if hasattr(value, "to_json"):
            assert again.to_json() == value.to_json()
    for copied in (copy.copy(value), copy.deepcopy(value)):
        assert copied == value
    assert value != object()


TIMED = {
    "merge",
    "profile",
    "check",
    "stats",
    "lint",
    "diff, read",
    "page of a diff",
    "schema",
    "catalog",
}
"""Some hold how long they took; others are of classes that the languages compare by identity."""


@pytest.mark.parametrize("name", sorted(VALUES.keys() - TIMED))
def test_asked_twice_a_value_is_the_same(graph, name):
    assert VALUES[name](graph) == VALUES[name](graph)


def test_results_of_other_rows_or_states_differ(graph):
    main, side = graph.query(PEOPLE), graph.query(PEOPLE, branch="side")
    assert main != side
    assert main != graph.query(PEOPLE.replace("query q", "query other"))
    assert main != graph.query(PEOPLE, limits=og.ReadLimits(max_rows=1))
    assert graph.diff("main", "side") != graph.diff("side", "main")
    assert graph.diff("main", "side") != graph.diff("main", "side", ops=["insert"])
    assert len({main, graph.query(PEOPLE), side}) == 2
    assert len({graph.diff("main", "side"), graph.diff("main", "side")}) == 1


def test_numbers_that_are_none_compare_too():
    nan = float("nan")
    assert one(Scalar.F64, nan, 1.0, None) == one(Scalar.F64, nan, 1.0, None)
    assert one(Scalar.F64, nan, 1.0) != one(Scalar.F64, nan, 2.0)
    assert one(Scalar.F64, nan) != one(Scalar.F64, None)
    assert one(Scalar.F64, 1.0) != one(Scalar.F32, 1.0)


def test_a_diff_from_another_process_gives_pages_and_needs_no_graph(graph):
    diff = graph.diff("main", "side")
    far = pickle.loads(pickle.dumps(diff))
    pages, token = [], None
    while True:
        page = far.page(limit=7, page_token=token)
        assert page.changes == diff.page(limit=7, page_token=token).changes
        pages += page.changes
        token = page.next_page_token
        if token is None:
            break
    assert tuple(pages) == diff.changes == tuple(far)
    assert far.stats.inserts == 30


def test_a_result_in_another_process(graph, tmp_path):
    (tmp_path / "r").write_bytes(pickle.dumps((graph.query(PEOPLE), graph.diff("main", "side"))))
    program = (
        "import pickle, sys\n"
        "result, diff = pickle.load(open(sys.argv[1], 'rb'))\n"
        "print(len(result.rows), len(result.to_arrow()), len(list(diff)))\n"
    )
    run = [sys.executable, "-c", program, str(tmp_path / "r")]
    assert subprocess.run(run, capture_output=True, text=True, check=True).stdout == "2 2 31\n"


def test_what_needs_its_graph_says_so(graph):
    far = pickle.loads(pickle.dumps(graph.query(PEOPLE)))
    with pytest.raises(BadRequest, match="no open graph behind it"):
        far.graph()
    assert copy.copy(graph.query(PEOPLE)).graph()["nodes"]
    with pytest.raises(TypeError, match="pickle the rows"):
        pickle.dumps(graph.nodes("Person"))


def test_errors_travel_whole(graph):
    with pytest.raises(ParseError) as caught:
        graph.query("query q( {")
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.render(), again.body()) == (caught.value.render(), caught.value.body())
    conflict = MergeConflicts("no", conflicts=[{"kind": "x"}])
    assert pickle.loads(pickle.dumps(conflict)).details == conflict.details
    assert isinstance(again, OmniGraphError)
