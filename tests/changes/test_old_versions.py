"""States whose versions are kept in groups, because fragments were merged since, compare as others do."""

from __future__ import annotations

import tempfile
from random import Random

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

import omnigraph as og
from omnigraph.changes import may_differ
from omnigraph.storage.lance_format import row_versions
from tests.changes.comparing import check, side_of
from tests.changes.histories import SCHEMA, History


@settings(max_examples=4)
@given(random=st.randoms(use_true_random=False), steps=st.integers(16, 24))
def test_states_compare_as_a_full_scan_does_when_all_but_the_newest_versions_are_in_groups(
    random: Random, steps: int
) -> None:
    grouped = 0
    original = row_versions.in_groups

    def counted(*given):
        nonlocal grouped
        found = original(*given)
        grouped += found is not None
        return found

    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as place:
        patch.setattr(row_versions, "EXACT_VERSIONS", 1)
        patch.setattr(row_versions, "MOST_GROUPS", 1)
        patch.setattr(may_differ, "_FEW_VERSIONS", 0)
        patch.setattr("omnigraph.storage.tables.rewriting.in_groups", counted)
        history = History(og.init(f"{place}/g", SCHEMA, upkeep="off"), random)
        for _ in range(steps):
            branch = random.choice(["main", *history.branches])
            act = random.choice(
                [
                    history.upsert, history.append, history.append, history.append, history.update,
                    history.delete, history.compact, history.compact, history.fork,
                    history.roll_back,
                ]
            )  # fmt: skip
            act(branch)
            if branch in history.branches:
                history.keep(branch)
        with history.graph as graph:
            for _ in range(10):
                before, after = random.choice(history.states), random.choice(history.states)
                for table_key in ("node:Doc", "edge:Cites"):
                    check(*(side_of(graph, state, table_key) for state in (before, after)))
    event("groups" if grouped else "no groups")


def test_a_long_history_of_single_rows_compares_merges_and_reads_as_it_was(
    tmp_path, monkeypatch
) -> None:
    grouped = []

    def noted(*given):
        grouped.append(row_versions.in_groups(*given))
        return grouped[-1]

    monkeypatch.setattr("omnigraph.storage.tables.rewriting.in_groups", noted)
    monkeypatch.setattr(row_versions, "MOST_GROUPS", 4)  # the history has few rows
    random = Random(7)
    graph = og.init(tmp_path / "g", "node Item { key: String @key  n: I64 }")
    upsert = "query q($k: String, $n: I64) { insert Item { key: $k, n: $n } }"
    update = "query q($k: String, $n: I64) { update Item set { n: $n } where key = $k }"
    delete = "query q($k: String) { delete Item where key = $k }"
    content: dict[str, int] = {}
    past: list[tuple[str, dict[str, int]]] = []
    for number in range(3 * row_versions.EXACT_VERSIONS):
        kind = random.choice("iiiud") if len(content) > 5 else "i"
        key = f"k{number:04}" if kind == "i" else random.choice(sorted(content))
        if kind == "d":
            done = graph.mutate(delete, {"k": key})
            del content[key]
        else:
            done = graph.mutate(upsert if kind == "i" else update, {"k": key, "n": number})
            content[key] = number
        past.append((done.commit.graph_commit_id, dict(content)))
        if number % 24 == 23:
            graph.optimize()
    assert any(grouped)
    graph.branches.create("side", from_=og.at(snapshot=past[40][0]))
    graph.mutate(upsert, {"k": "side", "n": 1}, branch="side")
    for _ in range(25):
        (one, old), (other, new) = random.choice(past), random.choice(past)
        found = {
            change.id: (change.before, change.after)
            for change in graph.diff(og.at(snapshot=one), og.at(snapshot=other))
        }
        expected = {
            key: tuple(
                None if key not in state else {"properties": {"key": key, "n": state[key]}}
                for state in (old, new)
            )
            for key in old.keys() | new.keys()
            if old.get(key) != new.get(key)
        }
        assert found == expected
    graph.branches.merge("side")
    rows = graph.query("query q() { match { $i: Item } return { $i.key, $i.n } }").rows
    assert {row["i.key"]: row["i.n"] for row in rows} == content | {"side": 1}
    graph.close()
