"""Two branches made `U64` and `I64` of one `U32`: a word decides, and values have to fit."""

from __future__ import annotations

import pytest

import omnigraph as og

BASE = "node Ship { imo: String @key  calls: U32? }\n"
SIGNED, UNSIGNED = BASE.replace("U32", "I64"), BASE.replace("U32", "U64")
LISTS = {"U32?": "[U32]?", "U64?": "[U64]?", "I64?": "[I64]?"}


def lists(schema):
    for one, many in LISTS.items():
        schema = schema.replace(one, many)
    return schema


def calls(graph, branch="main"):
    text = "query q() { match { $s: Ship } return { $s.imo as imo, $s.calls as calls } }"
    return {row["imo"]: row["calls"] for row in graph.query(text, branch=branch).rows}


def record(imo, calls):
    return {"type": "Ship", "data": {"imo": imo, "calls": calls}}


def two_widenings(path, ours, theirs, of=lambda schema: schema, value=lambda number: number):
    graph = og.init(path, of(BASE))
    graph.load([record("S1", value(1)), record("S2", value(2))])
    graph.branches.create("side")
    graph.schema.apply(of(ours))
    graph.schema.apply(of(theirs), branch="side")
    return graph


@pytest.mark.parametrize("in_lists", [False, True], ids=["numbers", "lists"])
@pytest.mark.parametrize(
    ("ours", "theirs", "number"), [(SIGNED, UNSIGNED, 2**64 - 1), (UNSIGNED, SIGNED, -1)]
)
def test_a_value_that_does_not_fit_is_a_conflict(tmp_path, ours, theirs, number, in_lists):
    of, value = (lists, lambda one: [7, one]) if in_lists else (lambda one: one, lambda one: one)
    with two_widenings(tmp_path / "g", ours, theirs, of, value) as graph:
        graph.load([record("S1", value(number)), record("S2", value(20))], branch="side")
        planned = graph.branches.merge("side", resolve_schema="ours", dry_run=True)
        with pytest.raises(og.errors.MergeConflicts) as refused:
            graph.branches.merge("side", resolve_schema="ours")
        (conflict,) = refused.value.details["conflicts"]
        assert [one.to_json() for one in planned.conflicts] == [conflict]
        assert conflict["kind"] == "value_constraint_violation"
        assert conflict["row_id"] == "S1"
        assert conflict["detail"] == {"property": "calls"}
        graph.load([record("S1", value(10))], branch="side")
        assert graph.branches.merge("side", resolve_schema="ours").stats.updates == 2
        assert calls(graph) == {"S1": value(10), "S2": value(20)}


def test_the_history_of_an_entity_lacks_a_value_that_the_type_of_today_cannot_hold(tmp_path):
    with two_widenings(tmp_path / "g", SIGNED, UNSIGNED) as graph:
        for number in (2**64 - 1, 7):
            graph.load([record("S1", number)], branch="side")
        graph.branches.merge("side", resolve_schema="ours")
        seen = [
            one.after["properties"]["calls"] for one in graph.history("node", "Ship", "S1").entries
        ]
        assert seen == [7, None, 1]


def test_a_type_that_the_target_cannot_get_is_not_taken(tmp_path):
    with two_widenings(tmp_path / "g", SIGNED, UNSIGNED) as graph:
        before = graph.commits.list(limit=1)
        with pytest.raises(og.errors.MergeConflicts, match='decide "ours"') as refused:
            graph.branches.merge("side", resolve_schema={"node:Ship.calls": "theirs"})
        assert [one["kind"] for one in refused.value.details["conflicts"]] == ["schema_invalid"]
        assert graph.commits.list(limit=1) == before
