"""What a hard drop on `main` removed from disk is no longer needed by merges, or was not removed."""

from __future__ import annotations

import pytest

import omnigraph as og

SHIP = "node Ship { imo: String @key  tonnage: I32? }\n"
WITH_CREW = SHIP + "node Crew { nick: String @key  rank: I32?  pay: I32? }\n"
WITHOUT_PAY = WITH_CREW.replace("  pay: I32?", "")


def weigh(graph, imo, tonnage, branch):
    query = f'query q() {{ update Ship set {{ tonnage: {tonnage} }} where imo = "{imo}" }}'
    graph.mutate(query, branch=branch)


def weights(graph, branch="main"):
    text = "query q() { match { $s: Ship } return { $s.imo as imo, $s.tonnage as t } }"
    return {row["imo"]: row["t"] for row in graph.query(text, branch=branch).rows}


@pytest.fixture
def graph(tmp_path):
    """A graph whose branch `side` has dropped a type that `main` had when it began."""
    with og.init(tmp_path / "g", WITH_CREW) as graph:
        graph.load(
            [{"type": "Ship", "data": {"imo": each, "tonnage": 1}} for each in ("S1", "S2")]
            + [{"type": "Crew", "data": {"nick": "ann", "rank": 1, "pay": 10}}]
        )
        graph.branches.create("side")
        graph.schema.apply(SHIP, branch="side")
        yield graph


@pytest.mark.parametrize("into", ["main", "side"])
def test_a_type_that_both_sides_dropped_is_not_looked_for(graph, into):
    assert graph.schema.apply(SHIP, allow_data_loss=True).applied
    weigh(graph, "S1", 5, "main")
    weigh(graph, "S2", 6, "side")
    graph.cleanup(keep_versions=1)
    source = "side" if into == "main" else "main"
    assert graph.branches.merge(source, into).outcome == "merged"
    assert weights(graph, into) == {"S1": 5, "S2": 6}


def test_a_branch_with_a_base_of_others_can_go_after_a_hard_drop(graph):
    """What stands in for the base of the two others lacks the dropped type, and that is no reason to stay."""
    weigh(graph, "S1", 5, "side")
    for name in ("one", "two"):
        graph.branches.create(name, from_="main")
        graph.branches.merge("side", name)
    graph.schema.apply(SHIP, allow_data_loss=True)
    weigh(graph, "S2", 6, "one")
    graph.branches.delete("side")
    assert graph.branches.merge("one", "two").outcome in {"fast_forward", "merged"}
    assert weights(graph, "two") == {"S1": 5, "S2": 6}


@pytest.mark.parametrize(
    ("word", "types"), [("ours", {"Ship", "Crew"}), ("theirs", {"Ship"})], ids=["kept", "dropped"]
)
def test_all_rows_count_as_written_where_the_base_is_gone(graph, word, types):
    graph.schema.apply(WITHOUT_PAY, allow_data_loss=True)
    weigh(graph, "S2", 6, "side")
    weigh(graph, "S1", 5, "main")
    with pytest.raises(og.errors.MergeConflicts) as refused:
        graph.branches.merge("side")
    (conflict,) = refused.value.details["conflicts"]
    assert conflict["kind"] == "schema_drop_vs_change"
    told = {name: conflict["detail"][name] for name in ("changed", "rows", "row_ids")}
    assert told == {"changed": ["data"], "rows": 1, "row_ids": ["ann"]}
    graph.branches.merge("side", resolve_schema=word)
    assert graph.schema.catalog.nodes.keys() == types
    assert weights(graph) == {"S1": 5, "S2": 6}


def test_a_table_that_a_merge_joined_with_one_of_a_branch_is_kept(tmp_path):
    """Both sides made the type, so `side` has a table of its own; merges with it start from that of `main`."""
    with og.init(tmp_path / "g", SHIP) as graph:
        graph.branches.create("side")
        for branch in ("main", "side"):
            graph.schema.apply(WITH_CREW, branch=branch)
        graph.load([{"type": "Crew", "data": {"nick": "ann", "pay": 10}}])
        graph.branches.merge("main", "side")
        with pytest.raises(og.errors.SchemaConflict) as refused:
            graph.schema.apply(WITHOUT_PAY, allow_data_loss=True)
        assert refused.value.details == {"branches": ["side"], "tags": []}
        graph.load([{"type": "Crew", "data": {"nick": "bob"}}], branch="side")
        assert graph.branches.merge("side").stats.inserts == 1
        graph.branches.delete("side")
        assert graph.schema.apply(WITHOUT_PAY, allow_data_loss=True).applied
