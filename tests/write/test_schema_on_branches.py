"""A schema that is applied on a branch is that branch's alone, and so are the tables it makes."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.errors import BranchNotFound, PolicyDenied, SchemaConflict, TypeCheckError
from omnigraph.manifest import refs
from omnigraph.manifest.schema_row import read_accepted
from omnigraph.policy.checker import Action, Decision
from omnigraph.storage.tables.table import open_table
from omnigraph.storage.tables.table_branches import list_branches
from tests.commit.synthetic import dying_at
from tests.opened import workspace_of
from tests.write.writing import state

SHIP = "node Ship { imo: String @key  name: String  flag: String? @index  log: Blob? }"
PORT = "node Port { code: String @key }"
CALLS = "edge CallsAt: Ship -> Port"
SCHEMA = f"{SHIP}\n{PORT}\n{CALLS}"
BUILT = SCHEMA.replace("flag:", "built: I32?  flag:")
CREW = SCHEMA + "\nnode Sailor { nick: String @key }\nedge Sails: Sailor -> Ship"
ROWS = [
    {"type": "Ship", "data": {"imo": "S1", "name": "Aurora", "flag": "PA", "log": "base64:AQID"}},
    {"type": "Ship", "data": {"imo": "S2", "name": "Borealis"}},
    {"type": "Port", "data": {"code": "OSL"}},
    {"edge": "CallsAt", "from": "S1", "to": "OSL"},
]
ONCE = "01JZZZZZZZZZZZZZZZZZZZZZZ1"
NAMES = (
    "query q() { match { $s: Ship } return { $s.imo as imo, $s.name as name } order { $s.imo } }"
)
YEARS = (
    "query q() { match { $s: Ship } return { $s.imo as imo, $s.built as built } order { $s.imo } }"
)


@pytest.fixture
def graph(tmp_path):
    with og.init(tmp_path / "g", SCHEMA) as graph:
        graph.load(ROWS)
        graph.branches.create("feature")
        yield graph


def rows(graph, text, **target):
    return [tuple(row.values()) for row in graph.query(text, **target).rows]


def table_places(graph):
    root = Path(workspace_of(graph).root.path)
    return {
        f"{kind}/{path.name}" for kind in ("nodes", "edges") for path in (root / kind).iterdir()
    }


def set_year(graph, imo, year, branch):
    text = f'query m() {{ update Ship set {{ built: {year} }} where imo = "{imo}" }}'
    return graph.mutate(text, branch=branch)


# ------------------------------------------------------------------ what an apply on a branch does


def test_nobody_else_sees_it(graph):
    before = state(graph)
    plan = graph.schema.plan(BUILT, branch="feature")
    done = graph.schema.apply(BUILT, branch="feature", actor="ann")
    assert done.applied
    assert (
        [step.kind for step in done.steps] == [step.kind for step in plan.steps] == ["add_property"]
    )
    assert done.commit.branch == "feature"
    assert set(done.commit.facts["schema"]) == {"from_hash", "to_hash", "steps"}
    assert state(graph) == before
    assert rows(graph, YEARS, branch="feature") == [("S1", None), ("S2", None)]
    with pytest.raises(TypeCheckError, match="built"):
        graph.query(YEARS)
    set_year(graph, "S1", 1990, "feature")
    assert rows(graph, YEARS, branch="feature") == [("S1", 1990), ("S2", None)]
    assert rows(graph, NAMES) == [("S1", "Aurora"), ("S2", "Borealis")]
    assert graph.blobs.read("node", "Ship", "S1", "log", branch="feature") == b"\x01\x02\x03"


def test_main_changes_while_branches_live(graph):
    graph.schema.apply(BUILT)
    set_year(graph, "S2", 2001, "main")
    assert rows(graph, YEARS) == [("S1", None), ("S2", 2001)]
    with pytest.raises(TypeCheckError, match="built"):
        graph.query(YEARS, branch="feature")
    graph.mutate('query m() { insert Ship { imo: "S3", name: "Corvus" } }', branch="feature")
    assert [row[0] for row in rows(graph, NAMES, branch="feature")] == ["S1", "S2", "S3"]


def test_both_sides_add_a_column_and_read_their_own(graph):
    """Lance gives both columns the same field id."""
    graph.schema.apply(BUILT)
    graph.schema.apply(SCHEMA.replace("flag:", "owner: String?  flag:"), branch="feature")
    set_year(graph, "S1", 1990, "main")
    graph.mutate(
        'query m() { update Ship set { owner: "Ada" } where imo = "S1" }', branch="feature"
    )
    owners = "query q() { match { $s: Ship } return { $s.imo as imo, $s.owner as owner } order { $s.imo } }"
    for _ in range(2):
        assert rows(graph, YEARS) == [("S1", 1990), ("S2", None)]
        assert rows(graph, owners, branch="feature") == [("S1", "Ada"), ("S2", None)]
        graph.optimize()
        graph.optimize(branch="feature")


def test_what_both_sides_added_alike_is_no_difference(graph):
    graph.schema.apply(BUILT)
    graph.schema.apply(BUILT.replace("built", "owner"), branch="feature")
    steps = graph.schema.diff("main", "feature").steps
    assert {step.kind for step in steps} == {"add_property", "drop_property"}
    graph.schema.apply(BUILT.replace("flag:", "owner: I32?  flag:"), branch="feature")
    assert [step.kind for step in graph.schema.diff("main", "feature").steps] == ["add_property"]
    assert graph.schema.diff("main", "main").steps == ()


def test_ids_are_given_once_for_all_branches(graph):
    graph.schema.apply(BUILT, branch="feature")
    graph.schema.apply(SCHEMA.replace("flag:", "owner: String?  flag:"))
    graph.branches.create("other")
    graph.schema.apply(CREW, branch="other")
    given = []
    for branch, type_name, name in (
        ("feature", "Ship", "built"), ("main", "Ship", "owner"), ("other", "Sailor", "nick"),
    ):  # fmt: skip
        catalog = workspace_catalog(graph, branch)
        given.append(catalog.nodes[type_name].properties[name].property_id)
    assert len(set(given)) == 3


def workspace_catalog(graph, branch):
    manifest = workspace_of(graph).manifest
    found = manifest.state(branch)
    return read_accepted(manifest.schema(found), found.head)[1]


def test_a_step_without_columns_forks_nothing(graph):
    described = SCHEMA.replace("node Ship {", 'node Ship @description("a hull") {')
    done = graph.schema.apply(described, branch="feature")
    assert done.applied
    assert all(
        table.table_branch is None for table in graph.snapshot(branch="feature").tables.values()
    )


def test_a_type_of_a_branch_is_a_table_of_its_own(graph):
    before = table_places(graph)
    graph.schema.apply(CREW, branch="feature")
    made = table_places(graph) - before
    assert len(made) == 2
    assert all("-" in place for place in made)
    graph.load([{"type": "Sailor", "data": {"nick": "ann"}}], branch="feature")
    graph.load([{"edge": "Sails", "from": "ann", "to": "S1"}], branch="feature")
    asked = (
        "query q() { match { $p: Sailor  $p sails $s } return { $p.nick as nick, $s.imo as imo } }"
    )
    assert rows(graph, asked, branch="feature") == [("ann", "S1")]
    with pytest.raises(og.errors.OmniGraphError, match="Sailor"):
        graph.load([{"type": "Sailor", "data": {"nick": "bob"}}])


def test_a_dropped_property_stays_elsewhere(graph):
    graph.schema.apply(SCHEMA.replace("flag: String? @index", ""), branch="feature")
    flags = "query q() { match { $s: Ship } return { $s.imo as imo, $s.flag as flag } order { $s.imo } }"
    assert rows(graph, flags) == [("S1", "PA"), ("S2", None)]
    with pytest.raises(TypeCheckError, match="flag"):
        graph.query(flags, branch="feature")


def test_the_files_beside_the_graph_follow_main(graph):
    store = workspace_of(graph).store
    before = store.read_text("_schema.pg")
    graph.schema.apply(BUILT, branch="feature")
    assert store.read_text("_schema.pg") == before
    with og.open(graph.uri) as reopened:
        assert reopened.schema.source == SCHEMA
        assert rows(reopened, YEARS, branch="feature") == [("S1", None), ("S2", None)]


def test_an_operation_id_makes_it_once(graph):
    first = graph.schema.apply(BUILT, branch="feature", operation_id=ONCE)
    again = graph.schema.apply(BUILT, branch="feature", operation_id=ONCE)
    assert again.replayed
    assert again.commit.graph_commit_id == first.commit.graph_commit_id


# ------------------------------------------------------------------ refusals


@pytest.mark.parametrize("call", ["plan", "apply"])
def test_an_unknown_branch_is_said_to_be_unknown(graph, call):
    with pytest.raises(BranchNotFound):
        getattr(graph.schema, call)(BUILT, branch="nope")


def test_a_hard_drop_is_made_on_main_alone(graph):
    before = state(graph, "feature")
    without = SCHEMA.replace("flag: String? @index", "")
    with pytest.raises(SchemaConflict) as refusal:
        graph.schema.apply(without, allow_data_loss=True, branch="feature")
    assert refusal.value.details["branches"] == ["feature"]
    assert refusal.value.details["tags"] == []
    assert state(graph, "feature") == before


def test_a_hard_drop_of_what_a_branch_or_a_tag_keeps_is_refused(graph):
    graph.tags.create("v1")
    graph.branches.create("other")
    without = SCHEMA.replace("flag: String? @index", "")
    with pytest.raises(SchemaConflict) as refusal:
        graph.schema.apply(without, allow_data_loss=True)
    assert refusal.value.details["branches"] == ["feature", "other"]
    assert refusal.value.details["tags"] == ["v1"]
    for name in ("feature", "other"):
        graph.branches.delete(name)
    with pytest.raises(SchemaConflict) as refusal:
        graph.schema.apply(without, allow_data_loss=True)
    assert refusal.value.details["branches"] == []
    graph.tags.delete("v1")
    assert graph.schema.apply(without, allow_data_loss=True).applied


def test_a_hard_drop_of_what_no_branch_has_is_made(graph):
    graph.schema.apply(SCHEMA + "\nnode Crane { code: String @key }")
    assert graph.schema.apply(SCHEMA, allow_data_loss=True).applied


def test_the_policy_is_asked_on_the_branch(tmp_path):
    class OnFeatureAlone:
        def check(self, question):
            wrong = question.action == Action.SCHEMA_APPLY and question.target != "feature"
            return Decision(not wrong, "test", "by the branch of the schema")

    with og.init(tmp_path / "g", SCHEMA) as graph:
        graph.branches.create("feature")
    with og.open(tmp_path / "g", policy=OnFeatureAlone()) as graph:
        session = graph.session("ann")
        assert session.schema.apply(BUILT, branch="feature").applied
        with pytest.raises(PolicyDenied):
            session.schema.apply(BUILT)


# ------------------------------------------------------------------ branches that go


def test_a_deleted_branch_takes_its_tables_along(graph):
    before = table_places(graph)
    graph.schema.apply(CREW, branch="feature")
    graph.load([{"type": "Sailor", "data": {"nick": "ann"}}], branch="feature")
    graph.branches.delete("feature")
    assert table_places(graph) == before


def test_a_table_that_a_child_branch_registers_stays(graph):
    graph.schema.apply(CREW, branch="feature")
    graph.branches.create("child", from_="feature")
    graph.load([{"type": "Sailor", "data": {"nick": "ann"}}], branch="child")
    with pytest.raises(og.errors.BranchInUse):
        graph.branches.delete("feature")
    graph.branches.delete("child")
    people = "query q() { match { $p: Sailor } return { $p.nick } }"
    assert rows(graph, people, branch="feature") == []


def test_cleanup_keeps_what_branches_have_and_removes_what_none_has(graph):
    graph.schema.apply(CREW, branch="feature")
    graph.load([{"type": "Sailor", "data": {"nick": "ann"}}], branch="feature")
    made = table_places(graph)
    graph.cleanup(keep_versions=1)
    people = "query q() { match { $p: Sailor } return { $p.nick as nick } }"
    assert rows(graph, people, branch="feature") == [("ann",)]
    assert table_places(graph) == made
    # The branch is gone, and the process died before it removed the tables.
    with dying_at("branch.after_delete"):
        graph.branches.delete("feature")
    assert table_places(graph) == made
    graph.cleanup(keep_versions=1)
    assert len(table_places(graph)) == 3


def test_cleanup_keeps_the_table_of_a_type_that_its_branch_dropped_and_others_read(graph):
    set_name = 'query m() { update Ship set { name: "New" } where imo = "S1" }'
    graph.mutate(set_name, branch="feature")
    graph.branches.create("child", from_="feature")
    graph.tags.create("reviewed", at=og.at(branch="feature"))
    graph.schema.apply(PORT, branch="feature")
    for preview in (True, False):
        graph.cleanup(keep_versions=1, dry_run=preview)
        assert rows(graph, NAMES, branch="child") == [("S1", "New"), ("S2", "Borealis")]
        out = io.BytesIO()
        graph.export(out, tag="reviewed")
        assert b'"name":"New"' in out.getvalue()
    graph.tags.delete("reviewed")
    graph.branches.delete("child")
    graph.branches.delete("feature")
    graph.cleanup(keep_versions=1)
    workspace = workspace_of(graph)
    ship = workspace.manifest.state("main").head.tables["node:Ship"]
    assert list_branches(workspace.ref(ship.location)) == {}


def test_cleanup_leaves_what_the_graph_did_not_make(graph):
    foreign = Path(workspace_of(graph).root.path) / "nodes" / "0123456789abcdef-999999"
    foreign.mkdir()
    (foreign / "notes.txt").write_text("mine")
    graph.cleanup(keep_versions=1)
    assert (foreign / "notes.txt").read_text() == "mine"


# ------------------------------------------------------------------ crashes


@pytest.mark.parametrize(
    "moment", ["before_phase_b", "after_fork", "after_table_commit", "after_phase_b_before_phase_c"]
)
def test_an_apply_that_dies_is_whole_or_nothing(graph, moment):
    wanted = BUILT + CREW.removeprefix(SCHEMA)
    places, main = table_places(graph), state(graph)
    with dying_at(f"schema_apply.{moment}"):
        graph.schema.apply(wanted, branch="feature")
    with og.open(graph.uri) as reopened:
        assert state(reopened) == main
        done = reopened.schema.plan(wanted, branch="feature").steps == ()
        assert done == (moment in {"after_table_commit", "after_phase_b_before_phase_c"})
        assert done or table_places(reopened) == places
        reopened.schema.apply(wanted, branch="feature")
        set_year(reopened, "S1", 1990, "feature")
        assert rows(reopened, YEARS, branch="feature") == [("S1", 1990), ("S2", None)]


def test_an_apply_that_died_goes_with_its_branch(graph):
    places = table_places(graph)
    with dying_at("schema_apply.after_phase_b_before_phase_c"):
        graph.schema.apply(CREW, branch="feature")
    workspace = workspace_of(graph)
    refs.delete_ref(workspace.manifest, "feature")
    with og.open(graph.uri) as reopened:
        assert table_places(reopened) == places
        reopened.load([{"type": "Port", "data": {"code": "GOT"}}])


def test_a_fork_reads_its_own_rows_after_the_parent_changed(graph):
    """A table of a branch that shares the parent's rows keeps the parent's columns of then."""
    graph.schema.apply(SCHEMA.replace("flag: String? @index", ""))
    graph.optimize()
    graph.cleanup(keep_versions=1)
    flags = "query q() { match { $s: Ship } return { $s.imo as imo, $s.flag as flag } order { $s.imo } }"
    assert rows(graph, flags, branch="feature") == [("S1", "PA"), ("S2", None)]
    pinned = graph.snapshot(branch="feature").tables["node:Ship"]
    assert "flag" in open_table(workspace_of(graph).pinned(pinned)).schema.names


def test_a_merge_that_drops_types_counts_their_rows_as_deleted(graph):
    graph.schema.apply(PORT, branch="feature")
    planned = graph.branches.merge("feature", dry_run=True)
    merged = graph.branches.merge("feature")
    for stats in (planned.stats, merged.stats):
        assert (stats.inserts, stats.updates, stats.deletes) == (0, 0, 3)
    changes = graph.commits.changes(merged.commit.graph_commit_id).changes
    assert [(one.type, one.op) for one in changes] == [
        ("Ship", "delete"),
        ("Ship", "delete"),
        ("CallsAt", "delete"),
    ]
