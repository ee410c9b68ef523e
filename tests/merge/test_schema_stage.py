"""The stage of a merge that merges schemas, as far as it looks at rows."""

from __future__ import annotations

import pytest

import omnigraph as og
from omnigraph.write.merge import schemas
from tests.opened import workspace_of

BASE = """
node Ship { imo: String @key  flag: String?  log: String? }
node Port { code: String @key }
"""


def test_rows_are_compared_once_although_schemas_are_merged_twice(tmp_path, monkeypatch):
    """Ids that a merge needs are taken before the second time: a table of its own for a type of the source."""
    with og.init(tmp_path / "g", BASE) as graph:
        graph.load([{"type": "Ship", "data": {"imo": "S1", "flag": "PA"}}])
        graph.branches.create("side")
        wider = BASE.replace("flag: String?", "") + "node Crew { nick: String @key }\n"
        graph.schema.apply(wider, branch="side")
        graph.load([{"type": "Crew", "data": {"nick": "ann"}}], branch="side")
        graph.mutate('query q() { update Ship set { log: "x" } where imo = "S1" }')
        asked = []
        compare, merge = schemas.compare, schemas.merge_schemas
        monkeypatch.setattr(
            schemas, "compare", lambda *sides: asked.append("rows") or compare(*sides)
        )
        monkeypatch.setattr(
            schemas, "merge_schemas", lambda *a, **k: asked.append("schemas") or merge(*a, **k)
        )
        merged = graph.branches.merge("side")
        assert merged.outcome == "merged"
        assert (asked.count("schemas"), asked.count("rows")) == (2, 1)


def test_words_are_read_where_there_is_nothing_to_merge(tmp_path):
    with og.init(tmp_path / "g", BASE) as graph:
        graph.branches.create("side")
        for wrong in ("mine", ["ours"], {"node:Ship.flag": "mine"}, {"node:Ship.flag": "ours"}):
            for dry_run in (False, True):
                with pytest.raises(og.errors.BadRequest):
                    graph.branches.merge("side", resolve_schema=wrong, dry_run=dry_run)
        for idle in ("ours", "theirs", {}, None):
            merged = graph.branches.merge("side", resolve_schema=idle)
            assert merged.outcome == "already_up_to_date"


def test_what_both_sides_added_alike_is_no_change_of_the_target(tmp_path):
    """The merged schema says which ids are one; the merge, its commit and its changes show no step."""
    with og.init(tmp_path / "g", BASE) as graph:
        graph.branches.create("side")
        wider = BASE.replace("flag: String?", "flag: String?  built: I32?")
        for branch in ("main", "side"):
            graph.schema.apply(wider, branch=branch)
        merged = graph.branches.merge("side")
        assert merged.schema is None
        assert "schema" not in merged.to_json()
        assert "schema" not in merged.commit.facts
        assert graph.commits.changes(merged.commit.graph_commit_id).schema is None
        assert graph.schema.diff("side", "main").steps == ()
        again = graph.branches.merge("main", "side")
        assert (again.outcome, again.schema) == ("fast_forward", None)


def test_each_schema_conflict_says_itself_what_decides_it(tmp_path):
    """The line that names the conflicts does not repeat it, and refers to the others."""
    names = ["a", "b", "c", "d"]
    with og.init(tmp_path / "g", BASE) as graph:
        graph.branches.create("side")
        for branch, kind in (("main", "I32?"), ("side", "I64?")):
            added = "".join(f"  {name}: {kind}" for name in names)
            graph.schema.apply(BASE.replace("  log:", f"{added}  log:"), branch=branch)
        with pytest.raises(og.errors.MergeConflicts) as refused:
            graph.branches.merge("side")
        way = "rename it on one branch, and try again"
        assert str(refused.value).endswith(f"{way}; and 1 more; each of them says what decides it")
        assert all(one["message"].endswith(way) for one in refused.value.details["conflicts"])


@pytest.mark.parametrize("dry_run", [True, False], ids=["plan", "merge"])
def test_a_base_whose_schema_is_gone_refuses_the_merge(tmp_path, dry_run):
    """What was merged into both is the base; an outside tool removes the version that has its schema."""
    with og.init(tmp_path / "g", BASE) as graph:
        for name in ("side", "other"):
            graph.branches.create(name)
        graph.schema.apply(BASE.replace("log: String?", "log: String?  built: I32?"), branch="side")
        base = graph.snapshot(branch="side").commit
        for name in ("main", "other"):
            graph.mutate(f'insert Port {{ code: "{name}" }}', branch=name)
            assert graph.branches.merge("side", name).outcome == "merged"
        graph.mutate('insert Port { code: "side" }', branch="side")
        table = workspace_of(graph).manifest.state("side").table
        table.dataset.cleanup_old_versions(versions=[base.manifest_version])
        graph.schema.apply(
            graph.schema.source + "node Crew { nick: String @key }\n", branch="other"
        )
        before = graph.snapshot()
        with pytest.raises(og.errors.HistoryReclaimed) as refused:
            graph.branches.merge("other", dry_run=dry_run)
        assert refused.value.details["version"] == base.manifest_version
        assert graph.snapshot() == before


@pytest.mark.parametrize("tightened", ["main", "side"])
@pytest.mark.parametrize(
    ("change", "breaks"),
    [
        ('delete Calls where from = "S1"', ["S1"]),
        ('delete Ship where imo = "S1"', []),
        ('insert Ship { imo: "S3" }', []),
    ],
)
def test_a_node_that_one_side_left_without_edges_breaks_the_fewest_that_the_other_requires(
    tmp_path, tightened, change, breaks
):
    other = "side" if tightened == "main" else "main"
    schema = f"{BASE} edge Calls: Ship -> Port @card(0..3)"
    rows = [
        *({"type": "Ship", "data": {"imo": imo}} for imo in ("S1", "S2")),
        {"type": "Port", "data": {"code": "OSL"}},
        *({"edge": "Calls", "from": imo, "to": "OSL"} for imo in ("S1", "S2")),
    ]
    with og.init(tmp_path / "g", schema) as graph:
        graph.load(rows)
        graph.branches.create("side")
        graph.schema.apply(schema.replace("0..3", "1..3"), branch=tightened)
        graph.mutate(change, branch=other)
        found = graph.branches.merge("side", dry_run=True).conflicts
        assert [(one.kind, one.detail) for one in found] == [
            (
                "cardinality_violation",
                {"source_id": source, "count": 0, "bound": "min", "limit": 1},
            )
            for source in breaks
        ]
