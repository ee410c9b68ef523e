"""Rules per moment: Spark answers their texts as DuckDB does."""

from __future__ import annotations

import random

import pyarrow as pa

from omnigraph.runner.local_runner import LocalRunner
from omnigraph.runner.spark_runner import SparkRunner
from omnigraph.validate import moments, rules
from omnigraph.validate.change_set import MADE, ORDER

BOUNDS = ("since", "until")
GROUP = ("src", "dst")


def random_edges(rng, count, first):
    """Edges with open, empty and touching periods, of few ends."""
    days = [None, *range(19_000, 19_006)]
    pairs = [sorted((rng.choice(days[1:]), rng.choice(days[1:]))) for _ in range(count)]
    return pa.table(
        {
            "id": [f"{first}{number}" for number in range(count)],
            "src": [rng.choice("ab") for _ in range(count)],
            "dst": [rng.choice(["a", "b", None]) for _ in range(count)],
            "since": pa.array([rng.choice([pair[0], None]) for pair in pairs], pa.int32()).cast(
                pa.date32()
            ),
            "until": pa.array([rng.choice([pair[1], None]) for pair in pairs], pa.int32()).cast(
                pa.date32()
            ),
            ORDER: pa.array(range(count), pa.int64()),
            MADE: [rng.random() < 0.5 for _ in range(count)],
        }
    )


def frames():
    rng = random.Random(11)
    new, old = random_edges(rng, 14, "n"), random_edges(rng, 14, "o")
    changed = old.slice(0, 3).set_column(3, "since", new.column("since").slice(0, 3))
    ids = pa.table({"id": ["o4", "o5"]})
    sources = pa.table({"src": ["a", "b"], "n": pa.array([9, 9], pa.int64())})
    crowded = pa.table(
        {"src": ["a", "b"], "dst": ["a", "b"], "0first": pa.array([0, 1], pa.int64())}
    )
    return {
        "pend": pa.concat_tables([new, changed]),
        "com": old,
        "before": old,
        "ids": old,
        "gone": ids,
        "touched": sources,
        "wrong": sources,
        "crowded": crowded,
        "nodes": ids.slice(0, 0),
        "left_nodes": ids.slice(0, 0),
    }


TEXTS = {
    "crowded tuples": moments.crowded_tuples(GROUP, BOUNDS),
    "rows of tuples": moments.rows_of_tuples(GROUP, BOUNDS),
    "counted": moments.count_crowded_tuples(GROUP, BOUNDS),
    "overlapping": moments.overlapping_rows(GROUP, BOUNDS),
    "against": moments.unique_against(GROUP, BOUNDS, None),
    "cardinality": moments.cardinality(1, 2, BOUNDS, False, None),
    "sources": moments.wrong_sources(1, 2, BOUNDS),
    "edges": moments.edges_of_wrong_sources(BOUNDS, 2),
    "identified": rules.identified_edges(GROUP, "since"),
    "misled": rules.misled_edges(GROUP, "since"),
}


def answers(runner, given):
    named = {name: runner.frame(table) for name, table in given.items()}
    found = {}
    for name, text in TEXTS.items():
        used = {one: frame for one, frame in named.items() if f" {one} " in f" {text} "}
        rows = runner.ask(text, used).to_pylist()
        found[name] = sorted(str(sorted(row.items())) for row in rows)
    return found


def test_both_engines_answer_alike(spark):
    here, there = LocalRunner(), SparkRunner.on(spark)
    try:
        expected, found = answers(here, frames()), answers(there, frames())
    finally:
        here.close()
        there.close()
    assert found == expected
    assert all(expected[name] for name in ("crowded tuples", "overlapping", "against", "edges"))
