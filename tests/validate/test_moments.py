"""Rules per moment on random periods, judged by looking at every moment there is."""

from __future__ import annotations

import random
from collections import Counter
from itertools import combinations

import pyarrow as pa
import pytest

from omnigraph.graph import init
from omnigraph.runner.local_runner import LocalRunner
from omnigraph.validate import committed as committed_module
from omnigraph.validate.change_set import ORDER, ChangeSet, TableDelta, needed_columns
from omnigraph.validate.committed import Committed
from omnigraph.validate.evaluate import all_set_violations, first_set_violations
from omnigraph.validate.offenders import offending_records
from tests.opened import workspace_of
from tests.oracle.graph import Graph as PlainGraph
from tests.stored import fill
from tests.validate.schemas import table_of

PERIOD = "since: Date?  until: Date?  @valid(since, until)"
SCHEMA = f"""
node N {{ name: String @key }}
edge One: N -> N {{ {PERIOD}  @unique(src, dst) }}
edge Two: N -> N @card(0..2) {{ {PERIOD} }}
edge Both: N -> N @card(0..1) {{ {PERIOD}  @unique(src, dst) }}
"""
DAYS = range(12)
MOMENTS = range(-1, 13)
"""Every stretch of time between two bounds has one of these."""
MOST = {"One": None, "Two": 2, "Both": 1}
BOUNDS = ("since", "until")
ROUNDS = 12


def day(number):
    return None if number is None else f"2024-01-{number + 1:02}"


def stored_day(number):
    """Days are counted from 1970 on; 19,723 is the first of January 2024."""
    return None if number is None else 19_723 + number


def holds(row, moment):
    after = row["since"] is None or row["since"] <= moment
    return after and (row["until"] is None or moment < row["until"])


def overlap(one, other):
    return any(holds(one, moment) and holds(other, moment) for moment in MOMENTS)


def shared_pairs(rows):
    """The pairs of ids with the same ends that hold at one moment."""
    return {
        frozenset((one["id"], other["id"]))
        for one, other in combinations(rows, 2)
        if (one["src"], one["dst"]) == (other["src"], other["dst"]) and overlap(one, other)
    }


def crowded_sources(rows, most):
    counts = Counter(
        (row["src"], moment) for row in rows for moment in MOMENTS if holds(row, moment)
    )
    return {source for (source, _), count in counts.items() if most is not None and count > most}


def is_fine(name, rows):
    return (name == "Two" or not shared_pairs(rows)) and not crowded_sources(rows, MOST[name])


def random_row(rng, row_id):
    since = rng.choice(DAYS)
    until = min(since + rng.randrange(5), DAYS[-1])
    return {
        "id": row_id,
        "src": rng.choice("abcd"),
        "dst": rng.choice("abcd"),
        "since": rng.choice([since, since, since, None]),
        "until": rng.choice([until, until, until, None]),
    }


def stored_rows(rng, name):
    """Rows that keep all rules."""
    rows = []
    for number in range(14):
        row = random_row(rng, f"s{number}")
        if is_fine(name, [*rows, row]):
            rows.append(row)
    return rows


@pytest.fixture(scope="module")
def stored():
    rng = random.Random(7)
    return {name: stored_rows(rng, name) for name in MOST}


@pytest.fixture(scope="module")
def graph(tmp_path_factory, stored):
    edges = {
        name: [
            (row["id"], row["src"], row["dst"], {end: stored_day(row[end]) for end in BOUNDS})
            for row in rows
        ]
        for name, rows in stored.items()
    }
    with init(tmp_path_factory.mktemp("moments") / "g", SCHEMA) as graph:
        fill(graph, PlainGraph({"N": {name: {"name": name} for name in "abcd"}}, edges))
        yield graph


@pytest.fixture(params=["memory", "engine", "scan"])
def changed(request, graph, monkeypatch):
    """The change set of rows and removed ids, and what it is judged against."""
    if request.param == "scan":
        monkeypatch.setattr(committed_module, "KEY_LIMIT", 0)
    runner = LocalRunner()

    def frame(table):
        if request.param != "memory":
            return runner.frame(pa.RecordBatchReader.from_batches(table.schema, table.to_batches()))
        return runner.frame(table)

    def change(name, rows, removed=(), **options):
        catalog = graph.schema.catalog
        edge = catalog.edges[name]
        shown = [{**row, "since": day(row["since"]), "until": day(row["until"])} for row in rows]
        pending = table_of(edge, shown, ["id", *needed_columns(edge)])
        pending = pending.append_column(ORDER, pa.array(range(len(rows)), pa.int64()))
        gone = frame(pa.table({"id": pa.array(removed, pa.utf8())})) if removed else None
        delta = TableDelta(edge, frame(pending), gone, **options)
        against = Committed(runner, graph.snapshot().tables, workspace_of(graph).pinned)
        return ChangeSet(catalog, {edge.table_key: delta}), against

    yield change
    runner.close()


def random_change(rng, stored):
    """Some new rows, some stored ones with another period, and some that go."""
    rows = [random_row(rng, f"n{number}") for number in range(rng.randrange(1, 3))]
    some = rng.sample(stored, rng.randrange(min(4, len(stored))))
    for row in some[:2]:
        fresh = random_row(rng, row["id"])
        rows.append({**row, "since": fresh["since"], "until": fresh["until"]})
    rng.shuffle(rows)
    return rows, [row["id"] for row in some[2:]]


def after(stored, rows, removed):
    """All rows after a change."""
    changed = {row["id"] for row in rows} | set(removed)
    return [row for row in stored if row["id"] not in changed] + rows


@pytest.mark.parametrize("name", MOST)
def test_what_is_broken_is_broken_at_some_moment(name, changed, stored, request):
    rng = random.Random(name + request.node.name)
    broken = 0
    rounds = ROUNDS if "memory" in request.node.name else ROUNDS // 3
    for _ in range(rounds):
        rows, removed = random_change(rng, stored[name])
        final = after(stored[name], rows, removed)
        found = first_set_violations(*changed(name, rows, removed))
        pairs = set() if name == "Two" else shared_pairs(final)
        crowded = crowded_sources(final, MOST[name])
        broken += bool(found)
        if pairs:
            assert {one.kind for one in found} == {"unique"}
            named = {frozenset((one.row_id, str(one.detail["other_id"]))) for one in found}
            assert named <= pairs
            assert all("at one moment" in one.message for one in found)
        else:
            assert {one.detail["source_id"] for one in found} == crowded
            assert {one.kind for one in found} <= {"cardinality"}
        every = all_set_violations(*changed(name, rows, removed))
        assert bool(every) == bool(pairs or crowded)
        # Every row that shares a moment with an earlier one, or with a stored one, is named or stays alone.
        left = {one.row_id for one in every if one.kind == "unique"}
        assert not any(pair.isdisjoint(left) for pair in pairs)
    assert broken < rounds


@pytest.mark.parametrize("name", ["One", "Two"])
def test_only_records_that_have_no_place_are_left_out(name, changed, stored, request):
    rng = random.Random(name + request.node.name)
    for _ in range(ROUNDS // 3):
        rows = [random_row(rng, f"n{number}") for number in range(rng.randrange(2, 8))]
        kept = rows
        while found := first_set_violations(*changed(name, kept)):
            gone = {one.record for one in offending_records(*changed(name, kept), found[0])}
            assert gone
            kept = [row for place, row in enumerate(kept) if place not in gone]
        assert is_fine(name, [*stored[name], *kept])
        for row in rows:
            assert row in kept or not is_fine(name, [*stored[name], *kept, row])


@pytest.mark.parametrize("name", MOST)
def test_an_overwritten_table_is_judged_alone(name, changed, request):
    rng = random.Random(name)
    for _ in range(6 if "memory" in request.node.name else 2):
        rows = [random_row(rng, f"n{number}") for number in range(5)]
        found = first_set_violations(*changed(name, rows, replaced=True))
        assert bool(found) != is_fine(name, rows)
