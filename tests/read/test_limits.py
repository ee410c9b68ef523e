"""Limits of an answer: what is cut is counted, what is too much is refused."""

import pytest

import omnigraph as og
from omnigraph.errors import BadRequest, ResourceLimit
from omnigraph.read.thresholds import MatchThresholds, OutputThresholds, Thresholds
from tests.opened import read_with

SCHEMA = """
node Person { name: String @key  age: I64?  bio: String }
edge Knows: Person -> Person
"""
# Batches of a few rows, so that a cut falls within, between and behind them.
PIECES = Thresholds(
    match=MatchThresholds(batch_rows=7, first_batch_rows=3),
    output=OutputThresholds(grouped_rows=5, slack_rows=2),
)
STEPS = (2, 7, 29)
KNOWS = "$a: Person $a knows $b"
QUERIES = {
    "everybody": ("$a: Person", "return { $a.name }"),
    "pairs": (KNOWS, "return { $a.name, $b.name }"),
    "weighted": (KNOWS, "return { $a.name }"),
    "with a limit": (KNOWS, "return { $a.name } limit 20"),
    "ordered": (KNOWS, "return { $a.name, $b.age } order { $b.age desc, $a.name }"),
    "ordered with a limit": (KNOWS, "return { $a.name, $b.age } order { $b.age } limit 20"),
    "grouped": (KNOWS, "return { $a.age, count($b) as n } order { n desc }"),
    "grouped with a limit": (KNOWS, "return { $a.age, count($b) as n } order { n } limit 4"),
    "one group": (KNOWS, "return { count($b) as n }"),
    "ranked": (KNOWS, 'return { $a.name, $b.name } order { bm25($a.bio, "odd") }'),
    "ranked with a limit": (KNOWS, 'return { $a.name } order { bm25($a.bio, "odd") } limit 11'),
    "cyclic": ("$a: Person $a knows $b $b knows $a", "return { $a.name, $b.name }"),
    "nothing": ("$a: Person $a.age > 1000", "return { $a.name }"),
    "having": (KNOWS, "return { $a.name, $b.age as age } having { age > 4 }"),
    "having with an order": (
        KNOWS,
        "return { $a.name, $b.age as age } having { age > 4 } order { age, $a.name } limit 20",
    ),
    "offset": (KNOWS, "return { $a.name, $b.name } order { $a.name desc, $b.name } offset 11"),
    "limit and offset": (KNOWS, "return { $a.name } order { $a.age } limit 30 offset 7"),
    "groups behind others": (
        KNOWS,
        "return { $a.age as age, count($b) as n } having { n > 8 } order { n } limit 5 offset 1",
    ),
    "distinct": (KNOWS, "return distinct { $b.age } order { $b.age desc }"),
    "collected": (KNOWS, "return { $a.age as age, collect($b { name }) as known } order { age }"),
    "ranked and kept": (
        KNOWS,
        'return { $a.name, $b.age as age } having { age < 3 } order { bm25($a.bio, "odd") } limit 6',
    ),
    "limit 0": ("$a: Person", "return { $a.name } limit 0"),
}


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    people = [
        {
            "type": "Person",
            "data": {
                "name": f"p{at:02}",
                "age": at % 9 or None,
                "bio": "odd one" if at % 2 else "even",
            },
        }
        for at in range(30)
    ]
    knows = [
        {"edge": "Knows", "from": f"p{at:02}", "to": f"p{(at * step) % 30:02}"}
        for at in range(30)
        for step in STEPS
    ]
    with og.init(tmp_path_factory.mktemp("limits") / "graph", SCHEMA) as opened:
        opened.load(people + knows, mode="merge")
        read_with(opened, PIECES)
        yield opened


def text(name: str) -> str:
    match, returned = QUERIES[name]
    return f"query q() {{ match {{ {match} }} {returned} }}"


@pytest.mark.parametrize("name", QUERIES)
def test_a_cut_answer_is_the_beginning_of_the_whole_one(graph, name):
    whole = graph.query(text(name))
    assert whole.total_rows is None
    assert not whole.truncated
    for most in (1, 2, 5, 19, whole.row_count or 1, 1000):
        cut = graph.query(text(name), limits=og.ReadLimits(max_rows=most))
        assert cut.total_rows == whole.row_count
        assert cut.row_count == min(most, whole.row_count)
        assert cut.truncated == (most < whole.row_count)
        if "order" in QUERIES[name][1]:
            assert cut.rows == whole.rows[:most]
        else:
            # Without an order any rows may come first, as under a limit.
            left = [
                tuple(row.values()) for row in graph.query(text(name).replace(" limit 20", "")).rows
            ]
            for row in cut.rows:
                left.remove(tuple(row.values()))


@pytest.mark.parametrize("name", QUERIES)
def test_too_many_rows_are_refused(graph, name):
    count = graph.query(text(name)).row_count
    if count:
        assert graph.query(text(name), limits=og.ReadLimits(query_rows=count)).row_count == count
    if count > 1:
        with pytest.raises(ResourceLimit) as refused:
            graph.query(text(name), limits=og.ReadLimits(query_rows=count - 1))
        details = refused.value.details
        assert (details["resource"], details["limit"]) == ("query_rows", count - 1)
        assert details["actual"] == count
        # What is cut is not too much.
        cut = graph.query(text(name), limits=og.ReadLimits(query_rows=count - 1, max_rows=1))
        assert (cut.row_count, cut.total_rows) == (1, count)


@pytest.mark.parametrize("name", ["pairs", "grouped"])
def test_too_many_bytes_are_refused(graph, name):
    size = graph.query(text(name)).table.nbytes
    graph.query(text(name), limits=og.ReadLimits(query_bytes=size))
    with pytest.raises(ResourceLimit) as refused:
        graph.query(text(name), limits=og.ReadLimits(query_bytes=size - 1))
    assert refused.value.details == {"resource": "query_bytes", "limit": size - 1, "actual": size}


def test_what_is_not_shown_is_counted_and_not_listed(graph):
    """The rows beyond the cut are summed, so profile shows one batch of rows and one count."""
    profiled = graph.profile(text("pairs"), limits=og.ReadLimits(max_rows=2))
    (run,) = [phase for phase in profiled.steps if phase.name == "run"]
    phases = {phase.name: phase.rows for phase in run.phases}
    assert phases["match"] < 10
    pairs = {(at, at * step % 30) for at in range(30) for step in STEPS}
    assert phases["count the others"] == profiled.result.total_rows == len(pairs)


@pytest.mark.parametrize("wrong", [0, -1, True, 1.5, "9"])
def test_a_limit_is_a_whole_number(wrong):
    with pytest.raises(BadRequest, match="whole number above 0"):
        og.ReadLimits(max_rows=wrong)


def test_limits_are_limits(graph):
    with pytest.raises(BadRequest, match="ReadLimits"):
        graph.query(text("pairs"), limits=5)
