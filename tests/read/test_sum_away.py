"""Which variable is summed into which, where one of the two is looked up: the same counts as by hand."""

from __future__ import annotations

import random
from collections import Counter

import pytest

import omnigraph
from tests.oracle.graph import Graph
from tests.stored import fill

SCHEMA = """
    node Message { name: String @key  size: I32 }
    node Tag { name: String @key }
    edge ReplyOf: Message -> Message
    edge HasTag: Message -> Tag
    edge Starts: Message -> Message
"""
PATTERN = "$m hasTag $s  $r: Message  $r {edge} $m  $r hasTag $t"


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A graph; the tags of each message, the one that some answer, and the one that everyone starts from."""
    rng = random.Random(8)
    names = [f"m{at:03d}" for at in range(200)]
    tags = {one: rng.sample(range(12), rng.choice([0, 0, 1, 2, 5])) for one in names}
    replies = {one: rng.choice(names) for one in names if rng.random() < 0.6}
    starts = {one: rng.choice(names[:20]) for one in names}
    plain = Graph(
        {
            "Message": {one: {"name": one, "size": at} for at, one in enumerate(names)},
            "Tag": {f"t{at}": {"name": f"t{at}"} for at in range(12)},
        },
        {
            "ReplyOf": [(f"r{at}", *pair, {}) for at, pair in enumerate(replies.items())],
            "Starts": [(f"s{at}", *pair, {}) for at, pair in enumerate(starts.items())],
            "HasTag": [
                (f"{one}{tag}", one, f"t{tag}", {}) for one in names for tag in tags[one]
            ],
        },
    )  # fmt: skip
    place = tmp_path_factory.mktemp("sum_away") / "graph"
    with omnigraph.init(place, SCHEMA) as graph:
        fill(graph, plain)
        yield graph, tags, {"replyOf": replies, "starts": starts}


def ask(graph, body, output="count($m) as n"):
    profiled = graph.profile(f"query q() {{ match {{ {body} }} return {{ {output} }} }}")
    return profiled.result.rows, profiled.text


@pytest.mark.parametrize("edge", ["replyOf", "starts"])
@pytest.mark.parametrize(
    ("test", "passes"),
    [
        ("", lambda _r, _m: True),
        ("$m.size < 90", lambda _r, m: m < 90),
        ("$r.size >= 150", lambda r, _m: r >= 150),
        ("$r.size >= 40  $m.size < 12", lambda r, m: r >= 40 and m < 12),
        ("$m.size = 1000", lambda _r, _m: False),
    ],
)
def test_a_count_over_pairs_that_one_end_looks_up(world, edge, test, passes):
    graph, tags, pairs = world
    rows, shown = ask(graph, f"{PATTERN.format(edge=edge)}  {test}")
    found = sum(
        len(tags[m]) * len(tags[r])
        for r, m in pairs[edge].items()
        if passes(int(r[1:]), int(m[1:]))
    )
    assert rows == [{"n": found}]
    if not test:
        assert "sum $m into $r" in shown
        assert found


def test_what_is_asked_for_stays(world):
    graph, tags, pairs = world
    pattern = PATTERN.format(edge="replyOf")
    rows, _ = ask(graph, f"{pattern}  $m.size < 30", "$m.name as m, count($r) as n")
    by_hand: Counter[str] = Counter()
    for r, m in pairs["replyOf"].items():
        if int(m[1:]) < 30:
            by_hand[m] += len(tags[m]) * len(tags[r])
    assert {row["m"]: row["n"] for row in rows} == {m: n for m, n in by_hand.items() if n}
    rows, _ = ask(graph, pattern, "sum($r.size) as total")
    assert rows == [
        {
            "total": sum(
                int(r[1:]) * len(tags[m]) * len(tags[r]) for r, m in pairs["replyOf"].items()
            )
        }
    ]


def test_different_tags_are_all_less_the_same(world):
    graph, tags, pairs = world
    rows, _ = ask(graph, f"{PATTERN.format(edge='replyOf')}  $s.name != $t.name")
    different = sum(
        one != two for r, m in pairs["replyOf"].items() for one in tags[r] for two in tags[m]
    )
    assert rows == [{"n": different}]


@pytest.mark.parametrize("few", [1, 4, 60, 200])
@pytest.mark.parametrize("least", [0, 1])
def test_messages_that_come_from_searches(world, few, least):
    # Few of the threads' messages are listed, of many each has its place.
    graph, tags, ends = world
    replies = ends["replyOf"]
    counts = Counter()
    for at in range(few):
        one = f"m{at:03d}"
        seen = [one]
        while (one := replies.get(one)) is not None and one not in seen:
            seen.append(one)
        looped = replies.get(seen[0]) == seen[0] and least
        for above in seen if looped or not least else seen[1:]:
            counts.update(tags[above])
    rows, _ = ask(
        graph,
        f"$m: Message  $m.size < {few}  $m replyOf{{{least},}} $top  $top hasTag $t",
        "$t.name as t, count($m) as n",
    )
    assert {row["t"]: row["n"] for row in rows} == {f"t{tag}": n for tag, n in counts.items() if n}
