"""`end` and `assert`: facts end and begin at a moment; batches give what their records give one by one."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise

import pytest

import omnigraph as og
from omnigraph.errors import ConstraintError, MergeConflicts, ParseError, TypeCheckError
from tests.graphs import graph_of
from tests.storage.processes import run_processes
from tests.write.race_workers import succeed

SCHEMA = """
node Person { slug: String @key }
node City { slug: String @key }
node Role {
  person: String  title: String  since: Date  until: Date?
  @key(person, since)  @unique(person)  @valid(since, until)
}
node Desk { code: String @key  since: Date?  until: Date?  @valid(since, until) }
edge LivesIn: Person -> City @card(0..1) {
  since: DateTime?  until: DateTime?  source: String?  @valid(since, until)
}
edge Knows: Person -> Person {
  since: Date?  until: Date?  note: String?  level: I32? @default(1)
  @valid(since, until)  @unique(src, dst)
}
edge Holds: Person -> City @card(0..1) {
  code: I64  since: Date?  until: Date?  @valid(since, until)  @unique(code)
}
edge Had: Person -> City
"""
PEOPLE = ["ann", "ben", "cy", "dee"]
CITIES = ["oslo", "rome", "paris"]

graph = graph_of(SCHEMA)


@pytest.fixture(autouse=True)
def _filled(graph):
    nodes = [("Person", name) for name in PEOPLE] + [("City", name) for name in CITIES]
    graph.load([{"type": kind, "data": {"slug": name}} for kind, name in nodes], mode="append")


def facts(graph, name):
    """The stored rows of a type, without their ids, in an order of their own."""
    table = (graph.edges if name in graph.schema.catalog.edges else graph.nodes)(name)
    rows = [
        {key: one for key, one in row.items() if key != "id"}
        for row in table.to_arrow().to_pylist()
    ]
    return sorted(rows, key=str)


def periods(graph, name, **fixed):
    """Where and when the facts with these values hold."""
    return sorted(
        (
            (row.get("to", row.get("title")), *(shown(row[end]) for end in ("since", "until")))
            for row in facts(graph, name)
            if all(row[key] == value for key, value in fixed.items())
        ),
        key=str,
    )


def shown(moment):
    return None if moment is None else str(moment)[:10]


def counts(result):
    return result.affected_nodes, result.affected_edges


def test_a_successor_ends_what_it_replaces_and_lasts_until_the_next(graph):
    graph.mutate('assert LivesIn { from: "ann", to: "oslo" } at date("2019-01-01")')
    graph.mutate('assert LivesIn { from: "ann", to: "rome" } at date("2021-06-01")')
    late = graph.mutate('assert LivesIn { from: "ann", to: "paris" } at date("2020-01-01")')
    assert counts(late) == (0, 2)
    assert periods(graph, "LivesIn") == [
        ("oslo", "2019-01-01", "2020-01-01"),
        ("paris", "2020-01-01", "2021-06-01"),
        ("rome", "2021-06-01", None),
    ]


def test_what_holds_already_is_named_and_nothing_is_written(graph):
    first = graph.mutate(
        'assert $k: Knows { from: "ann", to: "ben", note: "x" } at date("2020-01-01") '
        "return { $k.since as since, $k.level as level }"
    )
    assert first.rows == [{"since": "2020-01-01", "level": 1}]
    again = graph.mutate(
        'assert $k: Knows { from: "ann", to: "ben", note: "x" } return { $k.since as since }'
    )
    assert (again.commit, counts(again)) == (None, (0, 0))
    assert again.rows == [{"since": "2020-01-01"}]
    other = graph.mutate(
        'assert Knows { from: "ann", to: "ben", note: null } at date("2021-01-01")'
    )
    assert counts(other) == (0, 2)


def test_an_assigned_end_stays_and_has_to_fit(graph):
    graph.mutate(
        'assert Knows { from: "ann", to: "ben", until: date("2020-02-01") } at date("2020-01-01")'
    )
    graph.mutate('assert Knows { from: "ann", to: "ben" } at date("2020-03-01")')
    assert periods(graph, "Knows") == [
        ("ben", "2020-01-01", "2020-02-01"),
        ("ben", "2020-03-01", None),
    ]
    with pytest.raises(ConstraintError, match="@unique"):
        graph.mutate(
            'assert Knows { from: "ann", to: "ben", until: date("2020-04-01") } '
            'at date("2020-02-10")'
        )
    with pytest.raises(ConstraintError, match="@valid of Knows"):
        graph.mutate(
            'assert Knows { from: "ben", to: "ann", until: date("2020-04-01") } at date("2021-01-01")'
        )


def test_a_date_period_gets_the_day_of_a_moment(graph):
    graph.mutate('assert Knows { from: "ann", to: "ben" } at datetime("2024-03-01T23:30:00-02:00")')
    graph.mutate('end Knows where from = "ann" at datetime("2024-03-05T23:59:59Z")')
    assert periods(graph, "Knows") == [("ben", "2024-03-02", "2024-03-05")]


def test_a_node_that_begins_when_its_rival_did_takes_its_place(graph):
    graph.mutate('assert Role { person: "ann", title: "clerk" } at date("2020-01-01")')
    again = graph.mutate('assert Role { person: "ann", title: "guard" } at date("2020-01-01")')
    assert counts(again) == (1, 0)
    assert periods(graph, "Role") == [("guard", "2020-01-01", None)]


def test_one_of_two_rivals_says_the_same(graph):
    graph.mutate('insert Holds { from: "ann", to: "oslo", code: 1, since: date("2020-01-01") }')
    graph.mutate('insert Holds { from: "ben", to: "oslo", code: 2, since: date("2020-01-01") }')
    same = graph.mutate('assert Holds { from: "ann", to: "oslo", code: 1 } at date("2021-01-01")')
    assert same.commit is None
    # It meets one by its source, and the other by its code; both end.
    both = graph.mutate('assert Holds { from: "ann", to: "rome", code: 2 } at date("2021-01-01")')
    assert counts(both) == (0, 3)
    assert periods(graph, "Holds", code=2) == [
        ("oslo", "2020-01-01", "2021-01-01"),
        ("rome", "2021-01-01", None),
    ]


def test_now_is_when_the_commit_was_made(graph):
    done = graph.mutate('assert LivesIn { from: "ann", to: "oslo" }')
    (row,) = facts(graph, "LivesIn")
    since = row["since"].replace(tzinfo=UTC)
    made = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=done.commit.created_us)
    assert since == made.replace(microsecond=made.microsecond // 1000 * 1000)


def test_an_end_leaves_alone_what_does_not_hold(graph):
    graph.mutate(
        'insert Knows { from: "ann", to: "ben", until: date("2020-01-01") } '
        'insert Knows { from: "ann", to: "cy", since: date("2030-01-01") } '
        'insert Knows { from: "ann", to: "dee" }'
    )
    ended = graph.mutate('end Knows where from = "ann" at date("2025-01-01")')
    assert counts(ended) == (0, 1)
    assert periods(graph, "Knows") == [
        ("ben", None, "2020-01-01"),
        ("cy", "2030-01-01", None),
        ("dee", None, "2025-01-01"),
    ]
    nothing = graph.mutate('query q($t: Date?) { end Knows where from = "ann" at $t }')
    assert nothing.commit is None


def test_of_several_ends_the_first_counts_in_any_order(graph):
    graph.mutate('insert Knows { from: "ann", to: "ben", since: date("2020-01-01") }')
    text = 'query q($all: [{ t: Date }]) { for $r in $all end Knows where from = "ann" at $r.t }'
    days = ["2026-01-01", "2024-01-01", "2025-01-01", "2019-01-01"]
    ended = graph.mutate(text, params={"all": [{"t": day} for day in days]})
    assert counts(ended) == (0, 1)
    assert periods(graph, "Knows") == [("ben", "2020-01-01", "2024-01-01")]


def test_an_end_may_look_at_what_earlier_elements_ended(graph):
    graph.mutate('insert Knows { from: "ann", to: "ben" } insert Knows { from: "ann", to: "cy" }')
    text = (
        "query q($all: [{ who: String, t: Date }]) { for $r in $all "
        "end Knows where until is null and to = $r.who at $r.t }"
    )
    given = [{"who": "ben", "t": "2025-01-01"}, {"who": "ben", "t": "2024-01-01"}]
    assert counts(graph.mutate(text, params={"all": given})) == (0, 1)
    assert periods(graph, "Knows", to="ben") == [("ben", None, "2025-01-01")]


def test_an_upsert_of_an_edge_changes_the_one_that_holds_now(graph):
    graph.mutate(
        'insert Knows { from: "ann", to: "ben", note: "then", until: date("2020-01-01") } '
        'insert Knows { from: "ann", to: "ben", note: "now", since: date("2020-01-01") } '
        'insert Knows { from: "ann", to: "cy", note: "then", until: date("2020-01-01") }'
    )
    changed = graph.mutate('upsert Knows { from: "ann", to: "ben", note: "still" }')
    assert counts(changed) == (0, 1)
    assert {row["note"] for row in facts(graph, "Knows")} == {"then", "still"}
    # Nothing between these two holds now, so that another edge begins.
    graph.mutate('upsert Knows { from: "ann", to: "cy", since: date("2021-01-01") }')
    assert len(facts(graph, "Knows")) == 4


def test_a_patch_that_ends_before_its_row_begins(graph):
    known = {"edge": "Knows", "from": "ann", "to": "ben", "data": {"since": "2020-01-01"}}
    graph.load([known], mode="merge")
    early = {**known, "data": {"since": "2020-01-01", "until": "2019-01-01"}}
    with pytest.raises(ConstraintError, match="@valid of Knows: since 2020-01-01 is after until"):
        graph.load([early], mode="patch")
    # Without an id a record means the edge with its ends and its beginning.
    graph.load([{**known, "data": {"since": "2020-01-01", "note": "x"}}], mode="patch")
    assert [row["note"] for row in facts(graph, "Knows")] == ["x"]


def test_a_period_that_a_merge_brings_is_a_rule_for_the_rows_of_the_target(tmp_path):
    free = "node P { slug: String @key  since: Date?  until: Date? }"
    with og.init(tmp_path / "merged", free) as graph:
        graph.branches.create("side")
        graph.schema.apply(free.replace("}", " @valid(since, until) }"), branch="side")
        bad = {"slug": "x", "since": "2020-01-01", "until": "2019-01-01"}
        graph.load([{"type": "P", "data": bad}], mode="append")
        with pytest.raises(MergeConflicts) as refused:
            graph.branches.merge("side")
        (conflict,) = refused.value.details["conflicts"]
        assert (conflict["kind"], conflict["row_id"]) == ("value_constraint_violation", "x")
        assert "@valid of P" in conflict["message"]


REFUSED = {
    "a type without a period": ('assert Had { from: "ann", to: "oslo" }', "T38", "Had"),
    "an end without a period": ('end Person where slug = "ann"', "T38", "Person"),
    "a beginning": ('assert Knows { from: "ann", to: "ben", since: now() }', "T38", "since"),
    "a key without it": ('assert Desk { code: "a" }', "T38", "Desk"),
    "a text": ('end Knows where from = "ann" at "today"', "T38", "String"),
    "a number": ('end Knows where from = "ann" at 5', "T38", "I64"),
    "a list": ('query q($t: [Date]) { end Knows where from = "a" at $t }', "T38", "[Date]"),
    "a bare word": ('end Knows where from = "ann" at tomorrow', "T38", "tomorrow"),
    "null": ('assert Knows { from: "ann", to: "ben" } at null', "T38", "null"),
    "a node": ("match { $p: Person } assert Had { from: $p, to: $p } at $p", "T38", "Had"),
    "a node as a moment": (
        "match { $p: Person } assert Knows { from: $p, to: $p } at $p", "T38", "$p"
    ),
    "a required property": ('assert Role { person: "ann" }', "T12", "title"),
    "an unknown variable": ("end $x", "T36", "$x"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_statements_that_are_refused(graph, name):
    text, code, word = REFUSED[name]
    before = graph.snapshot().graph_commit_id
    with pytest.raises(TypeCheckError) as refused:
        graph.mutate(text, params={"t": ["2020-01-01"]} if "$t" in text else {})
    assert code in str(refused.value)
    assert word in str(refused.value)
    assert graph.snapshot().graph_commit_id == before


def test_moments_that_are_no_dates(graph):
    with pytest.raises(ConstraintError, match="null"):
        graph.mutate('query q($t: Date?) { assert Knows { from: "ann", to: "ben" } at $t }')
    with pytest.raises((ParseError, TypeCheckError)):
        graph.mutate('end Knows where from = "ann" at date("10000-01-01")')
    with pytest.raises(ParseError):
        graph.mutate('end Knows at date("2020-01-01")')
    assert facts(graph, "Knows") == []


def test_words_of_the_statements_are_names_elsewhere(tmp_path):
    with og.init(tmp_path / "words", "node Assert { end: I32?  at: I32?  assert: I32? }") as graph:
        graph.mutate("insert Assert { end: 1, at: 2, assert: 3 }")
        graph.mutate("update Assert set { at: end + at } where assert = 3 and end = 1")
        found = graph.query(
            "match { $end: Assert  $end.at = 3 } return { $end.end as end, $end.at as at }"
        )
        assert found.rows == [{"end": 1, "at": 3}]


# ------------------------------------------------------------------ batches

DAYS = [date(2024, 1, 1) + timedelta(days=number) for number in range(8)]
ASSERT = (
    "query q($all: [{ who: String, other: String, note: String?, t: Date }]) { for $r in $all "
    "assert Knows { from: $r.who, to: $r.other, note: $r.note } at $r.t }"
)
HOLD = (
    "query q($all: [{ who: String, other: String, code: I64, t: Date }]) { for $r in $all "
    "assert Holds { from: $r.who, to: $r.other, code: $r.code } at $r.t }"
)


def holds(fact, moment):
    begun = fact["since"] is None or fact["since"] <= moment
    return begun and (fact["until"] is None or moment < fact["until"])


def asserted(stored, new, moment, is_rival):
    """What memory.md says of one assertion; returns how many entities it writes."""
    rivals = [
        fact for fact in stored if is_rival(fact, new) and fact["since"] != (fact["until"] or 0)
    ]
    now = [fact for fact in rivals if holds(fact, moment)]
    if any(all(fact[key] == value for key, value in new.items()) for fact in now):
        return 0
    for fact in now:
        fact["until"] = moment
    later = [fact["since"] for fact in rivals if fact["since"] and fact["since"] > moment]
    stored.append({**new, "since": moment, "until": min(later, default=None)})
    return 1 + len(now)


def same_ends(one, other):
    return (one["from"], one["to"]) == (other["from"], other["to"])


def same_holder(one, other):
    return one["from"] == other["from"] or one["code"] == other["code"]


@pytest.mark.parametrize("seed", range(6))
def test_a_batch_is_what_its_records_are_one_by_one(graph, seed):
    rng = random.Random(seed)
    known, held = [], []
    for _ in range(4):
        given, wanted = [], 0
        for _ in range(rng.randrange(1, 7)):
            day = rng.choice(DAYS)
            new = {
                "from": rng.choice("ab"),
                "to": rng.choice("ab"),
                "note": rng.choice(["x", None]),
            }
            names = {"a": "ann", "b": "ben"}
            new = {**new, "from": names[new["from"]], "to": names[new["to"]]}
            given.append(
                {"who": new["from"], "other": new["to"], "note": new["note"], "t": str(day)}
            )
            wanted += asserted(known, new, day, same_ends)
        assert graph.mutate(ASSERT, params={"all": given}).affected_edges == wanted
        shown = [{key: row[key] for key in known[0]} for row in facts(graph, "Knows")]
        assert sorted(map(str, shown)) == sorted(map(str, known))
        given, wanted = [], 0
        for _ in range(rng.randrange(1, 6)):
            day = rng.choice(DAYS)
            new = {"from": rng.choice(PEOPLE), "to": rng.choice(CITIES), "code": rng.randrange(3)}
            given.append(
                {"who": new["from"], "other": new["to"], "code": new["code"], "t": str(day)}
            )
            wanted += asserted(held, new, day, same_holder)
        assert graph.mutate(HOLD, params={"all": given}).affected_edges == wanted
        shown = [{key: row[key] for key in held[0]} for row in facts(graph, "Holds")]
        assert sorted(map(str, shown)) == sorted(map(str, held))


# ------------------------------------------------------------------ many writers


def test_successors_that_eight_processes_assert(graph):
    subjects = [f"s{number}" for number in range(20)]
    graph.load([{"type": "Person", "data": {"slug": name}} for name in subjects], mode="append")
    workers = [(graph.uri, subjects, CITIES, 2, worker) for worker in range(8)]
    told = [one for each in run_processes(succeed, workers) for one in each]
    assert len(told) >= len(workers)
    stored = facts(graph, "LivesIn")
    assert {row["source"] for row in stored} == {source for sources in told for source in sources}
    for subject in subjects:
        mine = [row for row in stored if row["from"] == subject and row["since"] != row["until"]]
        mine.sort(key=lambda row: row["since"])
        # One follows the other: none begins before the one before it has ended, and the last is open.
        for one, other in pairwise(mine):
            assert one["until"] is not None
            assert one["until"] <= other["since"]
        assert mine[-1]["until"] is None
