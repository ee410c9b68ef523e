"""Recovery in odd company: moved expectations, foreign programs, leftovers, sleepers."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from omnigraph import failpoints
from omnigraph.clock import new_ulid, stamp_us
from omnigraph.commit.audit import Recovery, TableOutcome, read_audit
from omnigraph.commit.changes import InlineStep, NewDataset, StagedStep, TableChange, Write
from omnigraph.commit.heal import heal, sweep
from omnigraph.commit.protocol import commit
from omnigraph.errors import (
    Drift,
    ExpectedVersionMismatch,
    RecoveryRequired,
    StorageError,
)
from omnigraph.graph import open as open_graph
from omnigraph.graph.graph import state_of
from omnigraph.lang.schema import compile_schema
from omnigraph.lang.schema.identities import evolve
from omnigraph.lang.schema.indexes import IndexKind
from omnigraph.lang.schema.read_ir import read_ir
from omnigraph.manifest import refs
from omnigraph.manifest.publisher import Intent
from omnigraph.manifest.rows import SchemaRow, TableState
from omnigraph.manifest.schema_row import ContractBroken
from omnigraph.storage.columns.stage_schema import ColumnChanges, plan_columns
from omnigraph.storage.tables.indexing.table_indexes import stage_create_index
from omnigraph.storage.tables.inline_residual import set_field_metadata
from omnigraph.storage.tables.table import create_table, open_table
from omnigraph.storage.tables.table_branches import create_branch, list_branches
from omnigraph.storage.tables.table_commits import commit_staged
from tests.commit.synthetic import (
    ALL,
    MEMBER_OF,
    PERSON,
    TEAM,
    appending,
    contents,
    drifted,
    dying_at,
    foreign_append,
    prepare,
    write,
)
from tests.graphs import graph_of
from tests.manifest.publishing import SCHEMA, new_graph
from tests.opened import workspace_of

FINISHED = "load.after_phase_b_before_phase_c"


graph = graph_of(SCHEMA)


def intent(operation: str = "load") -> Intent:
    return Intent(new_ulid(), operation, stamp_us())


def sidecars(graph) -> list[str]:
    return workspace_of(graph).store.list("__recovery")


def kinds(graph) -> list[str]:
    return [audit.recovery_kind for audit in read_audit(workspace_of(graph))]


# ------------------------------------------------------------------ expectations


def test_a_finished_write_is_undone_when_what_it_relied_on_has_moved(graph):
    # "Insert an edge" and "delete its endpoint": the second one was validated before the first
    # one's rows can be seen, so the first must not appear after it.
    edge = prepare(workspace_of(graph), {MEMBER_OF: ["m"]}, relying_on=[PERSON])
    node = prepare(workspace_of(graph), {PERSON: ["p"]}, relying_on=[MEMBER_OF])
    with dying_at(FINISHED):
        commit(workspace_of(graph), edge)
    commit(workspace_of(graph), node)
    assert [one.operation_id for one in heal(workspace_of(graph)).deferred] == [edge.operation_id]
    with open_graph(graph.uri) as reopened:
        assert contents(reopened) == {PERSON: ["p"], TEAM: [], MEMBER_OF: []}
        assert drifted(reopened) == []
        assert kinds(reopened) == ["RolledBack"]


def test_a_finished_write_that_rested_on_the_head_is_undone_when_the_head_moved(graph):
    wanted = replace(prepare(workspace_of(graph), {PERSON: ["p"]}), exact_head=True)
    with dying_at(FINISHED):
        commit(workspace_of(graph), wanted)
    commit(workspace_of(graph), prepare(workspace_of(graph), {TEAM: ["t"]}))
    with open_graph(graph.uri) as reopened:
        assert contents(reopened) == {PERSON: [], TEAM: ["t"], MEMBER_OF: []}
        assert drifted(reopened) == []


@pytest.mark.parametrize(("point", "kept"), [(FINISHED, True), ("load.after_table_commit", False)])
def test_a_write_that_is_finished_keeps_the_id_its_caller_chose(graph, point, kept):
    """One that is undone does not: what has that id did not happen."""
    chosen = new_ulid()
    wanted = prepare(workspace_of(graph), {PERSON: ["p"], TEAM: ["t"]})
    wanted = replace(wanted, intent=replace(wanted.intent, operation_id=chosen))
    with dying_at(point):
        commit(workspace_of(graph), wanted)
    with open_graph(graph.uri) as reopened:
        (recovered,) = reopened.commits.list(filter="actor=omnigraph:recovery")
        found = reopened.commits.list(filter=f"operation_id={chosen}")
        assert found == ([recovered] if kept else [])


# ------------------------------------------------------------------ foreign programs


def test_a_foreign_commit_just_before_a_restore_is_not_restored_over(graph):
    with dying_at("load.after_table_commit"):
        write(workspace_of(graph), {PERSON: ["a"], TEAM: ["t"]})
    arrived = []

    def arrive(_: str) -> None:
        arrived.append(foreign_append(graph, PERSON, ["alien"]).version)

    with failpoints.arm("recovery.before_restore", arrive, times=1):
        open_graph(graph.uri).close()
    pin = graph.snapshot().tables[PERSON]
    head = open_table(workspace_of(graph).ref(pin.location))
    assert [head.version] == arrived
    assert sorted(head.read(["id"]).column("id").to_pylist()) == ["a", "alien"]
    assert contents(graph)[PERSON] == []
    assert kinds(graph) == ["RolledBack"]
    with pytest.raises(Drift, match="omnigraph repair"):
        write(workspace_of(graph), {PERSON: ["b"]})


def test_a_foreign_commit_during_a_best_effort_step_is_not_published(graph):
    pin = graph.snapshot().tables[PERSON]

    def disturbed(table):
        foreign_append(graph, PERSON, ["alien"])
        raise StorageError("the index could not be built")

    steps = (*appending(pin, ["a"]).steps, StagedStep(disturbed, best_effort=True))
    with pytest.raises(RecoveryRequired):
        commit(
            workspace_of(graph),
            Write(
                "load",
                workspace_of(graph).manifest.state("main").pin,
                intent(),
                (TableChange(pin, steps),),
            ),
        )
    assert contents(graph)[PERSON] == []
    with open_graph(graph.uri) as reopened:
        assert contents(reopened)[PERSON] == []
        assert drifted(reopened) == [PERSON]


def test_a_best_effort_step_that_fails_is_left_out(graph):
    pin = graph.snapshot().tables[PERSON]

    def failing(table):
        raise StorageError("the index could not be built")

    steps = (*appending(pin, ["a"]).steps, StagedStep(failing, best_effort=True))
    commit(
        workspace_of(graph),
        Write(
            "load",
            workspace_of(graph).manifest.state("main").pin,
            intent(),
            (TableChange(pin, steps),),
        ),
    )
    assert contents(graph)[PERSON] == ["a"]
    assert drifted(graph) == []
    assert sidecars(graph) == []


@pytest.mark.parametrize("point", ["load.before_table_commit", "load.after_table_commit"])
def test_a_write_that_dies_at_its_best_effort_step_keeps_its_rows(graph, point):
    pin = graph.snapshot().tables[PERSON]
    (data,) = appending(pin, ["a"]).steps
    extra = StagedStep(appending(pin, ["x"]).steps[0].stage, best_effort=True)
    wanted = Write(
        "load",
        workspace_of(graph).manifest.state("main").pin,
        intent(),
        (TableChange(pin, (data, extra)),),
    )
    with dying_at(point, skip=1):
        commit(workspace_of(graph), wanted)
    write(workspace_of(graph), {TEAM: ["t"]})
    landed = ["a", "x"] if point.endswith("after_table_commit") else ["a"]
    assert contents(graph)[PERSON] == landed
    assert graph.snapshot(snapshot=wanted.intent.graph_commit_id).graph_commit_id


def test_a_foreign_commit_during_an_inline_step_is_not_published(graph):
    pin = graph.snapshot().tables[PERSON]

    def disturbed(table):
        return set_field_metadata(foreign_append(graph, PERSON, ["alien"]), "id", {"a": "b"})

    change = TableChange(pin, (InlineStep("annotate", disturbed),))
    with pytest.raises(RecoveryRequired, match="another program"):
        commit(
            workspace_of(graph),
            Write("optimize", workspace_of(graph).manifest.state("main").pin, intent(), (change,)),
        )
    with open_graph(graph.uri) as reopened:
        assert contents(reopened)[PERSON] == []
        assert drifted(reopened) == [PERSON]


# ------------------------------------------------------------------ schema apply


def evolved(graph, source: str) -> SchemaRow:
    """The row of a changed source, with the identities of the accepted one."""
    shape = compile_schema(source, None).shape
    ir, _ = evolve(read_ir(state_of(graph).schemas.of("main").row.ir), shape)
    return SchemaRow(source, ir.to_json(), shape.shape_hash, ir.ir_hash)


CROSSING = SCHEMA.replace("age: I32?", "age: I32?  size: I32?")


@pytest.fixture(params=["", "  photo: Blob?"], ids=["plain", "blob"])
def crossing(request, tmp_path):
    """A graph with a person whose age is 1 and whose size is 2, with or without a Blob."""
    source = CROSSING.replace("size: I32?", f"size: I32?{request.param}")
    with new_graph(tmp_path, source) as graph:
        row = {"type": "Person", "data": {"name": "a", "age": 1, "size": 2}}
        graph.load([row], mode="append")
        yield graph


def schema_apply(graph) -> Write:
    """Age and size change names with each other, and a column is added: two transactions."""
    workspace, pin = workspace_of(graph), graph.snapshot().tables[PERSON]
    changes = ColumnChanges(
        added=(pa.field("height", pa.int32()),), renamed={"age": "size", "size": "age"}
    )
    stages = plan_columns(open_table(workspace.pinned(pin)), changes).stages()
    accepted = state_of(graph).schemas.of("main").row.source
    return Write(
        "schema_apply",
        workspace.manifest.state("main").pin,
        intent(),
        (TableChange(pin, tuple(StagedStep(stage) for stage in stages)),),
        schema=evolved(graph, accepted.replace("age: I32?", "age: I32?  height: I32?")),
    )


def people(graph) -> list[dict]:
    table = open_table(workspace_of(graph).pinned(graph.snapshot().tables[PERSON]))
    names = [name for name in ("age", "size", "height") if name in table.schema.names]
    return table.read(names).to_pylist()


def test_a_schema_apply_that_finished_its_tables_is_rolled_forward(crossing):
    wanted = schema_apply(crossing)
    with dying_at("schema_apply.after_phase_b_before_phase_c"):
        commit(workspace_of(crossing), wanted)
    (recovery,) = heal(workspace_of(crossing)).recovered
    assert recovery.recovery_kind == "RolledForward"
    assert state_of(crossing).schemas.of("main").row == wanted.schema
    assert drifted(crossing) == []
    assert people(crossing) == [{"age": 2, "size": 1, "height": None}]


@pytest.mark.parametrize("landed", [0, 1])
def test_a_schema_apply_that_stopped_half_way_is_rolled_back(crossing, landed):
    before = state_of(crossing).schemas.of("main").row
    with dying_at("schema_apply.before_table_commit", skip=landed):
        commit(workspace_of(crossing), schema_apply(crossing))
    assert heal(workspace_of(crossing)).recovered == []
    with open_graph(crossing.uri) as reopened:
        assert drifted(reopened) == []
        assert kinds(reopened) == ["RolledBack"]
        assert state_of(reopened).schemas.of("main").row == before
        assert people(reopened) == [{"age": 1, "size": 2}]
        commit(workspace_of(reopened), schema_apply(reopened))
        assert people(reopened) == [{"age": 2, "size": 1, "height": None}]


def test_a_foreign_change_of_columns_is_not_taken_for_that_of_a_schema_apply(crossing):
    """The same columns, but under a UUID of another program."""
    before = state_of(crossing).schemas.of("main").row
    wanted = schema_apply(crossing)
    with dying_at("schema_apply.before_table_commit"):
        commit(workspace_of(crossing), wanted)
    table = open_table(workspace_of(crossing).pinned(wanted.tables[0].base))
    for step in wanted.tables[0].staged_steps():
        table = commit_staged(step.stage(table))
    with open_graph(crossing.uri) as reopened:
        assert state_of(reopened).schemas.of("main").row == before
        assert drifted(reopened) == [PERSON]
        assert people(reopened) == [{"age": 1, "size": 2}]
    assert open_table(table.ref.at(None)).version == table.version


# ------------------------------------------------------------------ leftovers


def orphan_fork(graph, branch: str, table_key: str) -> None:
    """A fork that outlived its branch, as an interrupted delete leaves it."""
    with dying_at("branch.after_delete"):
        graph.branches.delete(branch)
    location = graph.snapshot().tables[table_key].location
    assert branch in list_branches(workspace_of(graph).ref(location))
    workspace_of(graph).manifest.forget()


def test_an_old_fork_does_not_condemn_a_write_that_died_before_forking(graph):
    graph.branches.create("x")
    write(workspace_of(graph), {PERSON: ["old"]}, branch="x")
    orphan_fork(graph, "x", PERSON)
    for name in "abc":
        write(workspace_of(graph), {PERSON: [name]})
    graph.branches.create("x")
    with dying_at("load.before_phase_b"):
        write(workspace_of(graph), {PERSON: ["d"]}, branch="x")
    with open_graph(graph.uri) as reopened:
        assert contents(reopened, "x")[PERSON] == ["a", "b", "c"]
        write(workspace_of(reopened), {PERSON: ["e"]}, branch="x")
        assert contents(reopened, "x")[PERSON] == ["a", "b", "c", "e"]


def test_a_leftover_fork_that_another_leftover_was_made_from_is_reclaimed(graph):
    graph.branches.create("x")
    write(workspace_of(graph), {PERSON: ["on x"]}, branch="x")
    graph.branches.create("y", from_="x")
    write(workspace_of(graph), {PERSON: ["on y"]}, branch="y")
    orphan_fork(graph, "y", PERSON)
    orphan_fork(graph, "x", PERSON)
    graph.branches.create("x")
    write(workspace_of(graph), {PERSON: ["new"]}, branch="x")
    assert contents(graph, "x")[PERSON] == ["new"]
    graph.branches.create("y")
    write(workspace_of(graph), {PERSON: ["new y"]}, branch="y")
    assert contents(graph, "y")[PERSON] == ["new y"]


def test_leftover_forks_of_nested_names_do_not_get_in_each_others_way(graph):
    """Lance keeps `a/b` inside the directory of `a`."""
    for name in ("a", "a/b", "a", "a/b"):
        graph.branches.create(name)
        write(workspace_of(graph), {PERSON: [f"on {name}"]}, branch=name)
        assert contents(graph, name)[PERSON] == [f"on {name}"]
        orphan_fork(graph, name, PERSON)
    graph.branches.create("a/c")
    write(workspace_of(graph), {PERSON: ["c"]}, branch="a/c")
    assert contents(graph, "a/c")[PERSON] == ["c"]


def test_a_fork_the_manifest_pins_is_never_reclaimed(graph):
    """A fork without a commit has the version number of its parent: the number alone says little."""
    graph.branches.create("x")
    stale = prepare(workspace_of(graph), {PERSON: ["late"]}, branch="x")
    pin = graph.snapshot(branch="x").tables[PERSON]
    nothing = TableChange(pin, (StagedStep(lambda table: None),))
    commit(
        workspace_of(graph),
        Write("ensure_indices", workspace_of(graph).manifest.state("x").pin, intent(), (nothing,)),
    )
    forked = graph.snapshot(branch="x").tables[PERSON]
    assert (forked.table_branch, forked.table_version) == ("x", pin.table_version)
    identifier = list_branches(workspace_of(graph).ref(pin.location))["x"].identifier
    with pytest.raises(ExpectedVersionMismatch):
        commit(workspace_of(graph), stale)
    assert list_branches(workspace_of(graph).ref(pin.location))["x"].identifier == identifier


def test_a_fork_a_pending_write_made_is_not_reclaimed(graph):
    graph.branches.create("x")
    with dying_at("load.after_fork"):
        write(workspace_of(graph), {PERSON: ["a"]}, branch="x")
    with pytest.raises(RecoveryRequired, match="reopen the graph read-write"):
        write(workspace_of(graph), {PERSON: ["b"]}, branch="x")
    write(workspace_of(graph), {PERSON: ["main goes on"]})
    with open_graph(graph.uri) as reopened:
        location = reopened.snapshot().tables[PERSON].location
        assert list_branches(workspace_of(reopened).ref(location)) == {}
        write(workspace_of(reopened), {PERSON: ["c"]}, branch="x")
        assert contents(reopened, "x")[PERSON] == ["c"]


def test_a_dropped_table_does_not_keep_its_pending_write_from_being_settled(graph):
    with dying_at("load.before_table_commit"):
        write(workspace_of(graph), {TEAM: ["t"], PERSON: ["a"]})
    tables = graph.snapshot().tables
    without_team = "\n".join(line for line in SCHEMA.splitlines() if "Team" not in line)
    commit(
        workspace_of(graph),
        Write(
            "schema_apply",
            workspace_of(graph).manifest.state("main").pin,
            intent(),
            dropped=(tables[TEAM], tables["edge:MemberOf"]),
            schema=evolved(graph, without_team),
        ),
    )
    with open_graph(graph.uri) as reopened:
        assert sidecars(reopened) == []
        assert kinds(reopened) == ["RolledBack"]
        assert TEAM not in reopened.snapshot().tables
        write(workspace_of(reopened), {PERSON: ["b"]})


# ------------------------------------------------------------------ new tables


def new_table(graph, location: str = "nodes/fresh", incarnation: int = 9001) -> NewDataset:
    schema = pa.schema([pa.field("id", pa.string(), nullable=False)])
    return NewDataset(
        TableState("node:Fresh", incarnation, location, 1, None, 0),
        lambda: create_table(workspace_of(graph).ref(location), schema),
    )


def creating(graph) -> Write:
    row = evolved(graph, SCHEMA + "\nnode Fresh {}")
    incarnation = read_ir(row.ir).type("node", "Fresh").table_incarnation_id
    return Write(
        "schema_apply",
        workspace_of(graph).manifest.state("main").pin,
        intent(),
        created=(new_table(graph, incarnation=incarnation),),
        schema=row,
    )


def test_a_schema_with_other_tables_than_the_commit_makes_is_refused_before_anything_is_written(
    graph,
):
    wanted = creating(graph)
    before = workspace_of(graph).manifest.state("main").pin
    with pytest.raises(ContractBroken, match="other tables than its schema: node:Fresh; nothing"):
        commit(workspace_of(graph), replace(wanted, created=()))
    assert workspace_of(graph).manifest.state("main").pin == before
    commit(workspace_of(graph), wanted)
    assert "node:Fresh" in graph.snapshot().tables


@pytest.mark.parametrize("moment", ["before_phase_b", "after_phase_b_before_phase_c"])
def test_a_table_being_made_is_registered_or_removed(graph, moment):
    wanted = creating(graph)
    with dying_at(f"schema_apply.{moment}"):
        commit(workspace_of(graph), wanted)
    with open_graph(graph.uri) as reopened:
        finished = moment.startswith("after")
        assert ("node:Fresh" in reopened.snapshot().tables) == finished
        assert drifted(reopened) == []
        if not finished:
            commit(workspace_of(reopened), creating(reopened))
        assert open_table(workspace_of(graph).ref("nodes/fresh")).version == 1


def test_a_table_that_is_there_already_is_neither_used_nor_removed(graph):
    foreign = new_table(graph).create()
    with pytest.raises(Drift, match="nodes/fresh"):
        commit(workspace_of(graph), creating(graph))
    assert sidecars(graph) == []
    open_graph(graph.uri).close()
    assert open_table(foreign.ref.at(None)).version == 1


def test_a_table_somebody_else_registered_is_not_removed_by_an_older_recovery(graph):
    with dying_at("schema_apply.before_phase_b"):
        commit(workspace_of(graph), creating(graph))
    with pytest.raises(RecoveryRequired):
        commit(workspace_of(graph), creating(graph))
    pending = sidecars(graph)
    text = workspace_of(graph).store.read_text(pending[0])
    workspace_of(graph).store.delete(pending[0])
    commit(workspace_of(graph), creating(graph))
    workspace_of(graph).store.write_text(pending[0], text)
    with open_graph(graph.uri) as reopened:
        assert sidecars(reopened) == []
        assert (
            open_table(workspace_of(graph).pinned(reopened.snapshot().tables["node:Fresh"])).version
            == 1
        )


# ------------------------------------------------------------------ sleepers


def test_a_write_without_tables_needs_no_recovery(graph):
    """It holds no lock, so nobody could tell its live writer from a dead one."""
    empty = Write("load", workspace_of(graph).manifest.state("main").pin, intent())
    pause = failpoints.Pause()
    with failpoints.arm("publish.before_write", pause, times=1):
        writer = threading.Thread(target=commit, args=(workspace_of(graph), empty))
        writer.start()
        pause.wait_until_reached()
        assert sidecars(graph) == []
        open_graph(graph.uri).close()
        pause.resume()
        writer.join()
    chain = graph.commits.list()
    assert [one.parent_commit_id for one in chain] == [chain[1].graph_commit_id, None]
    assert chain[0].graph_commit_id == empty.intent.graph_commit_id


def lose_locks(graph) -> None:
    for file in Path(workspace_of(graph).root.path, "__locks").glob("table-*"):
        file.unlink()


def test_a_sleeper_that_commits_after_its_rollback_is_settled_again(graph):
    pin = graph.snapshot().tables[PERSON]

    def sleep_past_the_lock(table):
        lose_locks(graph)
        (recovery,) = sweep(workspace_of(graph)).recovered
        assert recovery.recovery_kind == "RolledBack"
        assert sidecars(graph) == []
        return index(table)

    def index(table):
        return commit_staged(stage_create_index(table, "id", IndexKind.BTREE))

    steps = (InlineStep("index", sleep_past_the_lock), InlineStep("never", index))
    wanted = Write(
        "optimize",
        workspace_of(graph).manifest.state("main").pin,
        intent(),
        (TableChange(pin, steps),),
    )
    with pytest.raises(RecoveryRequired) as caught:
        run_in_thread_that_does_not_hold(graph, wanted)
    assert caught.value.details["operation_id"] != wanted.operation_id
    assert drifted(graph) == [PERSON]
    with open_graph(graph.uri) as reopened:
        assert drifted(reopened) == []
        # Maintenance changes no content, so what is there of it is kept.
        assert kinds(reopened) == ["RolledBack", "RolledForward"]
        write(workspace_of(reopened), {PERSON: ["a"]})


def run_in_thread_that_does_not_hold(graph, wanted: Write) -> None:
    """The sweep inside the step stands for another process: it must not share this thread's turn."""
    from omnigraph.storage.locks import locks

    of = locks._Turn.of
    turns = {}
    try:
        locks._Turn.of = staticmethod(
            lambda realm, name: turns.setdefault(
                (threading.get_ident(), len(turns), name), locks._Turn()
            )
        )
        commit(workspace_of(graph), wanted)
    finally:
        locks._Turn.of = of


def test_a_write_meant_for_a_deleted_branch_does_not_land_on_its_successor(graph):
    write(workspace_of(graph), {PERSON: ["a"]})
    graph.branches.create("x")
    wanted = prepare(workspace_of(graph), {PERSON: ["b"]}, branch="x")

    def replace_branch(_: str) -> None:
        # Below the handle, which makes no branch while a writer of its predecessor is at work.
        refs.delete_ref(workspace_of(graph).manifest, "x")
        refs.create_ref(workspace_of(graph).manifest, "x", "main")

    with (
        failpoints.arm("load.after_phase_b_before_phase_c", replace_branch),
        pytest.raises(RecoveryRequired),
    ):
        commit(workspace_of(graph), wanted)
    assert contents(graph, "x")[PERSON] == ["a"]
    write(workspace_of(graph), {PERSON: ["c"]}, branch="x")
    assert contents(graph, "x")[PERSON] == ["a", "c"]
    assert kinds(graph) == ["OrphanedBranchDiscarded"]


# ------------------------------------------------------------------ in company


def test_two_pending_writes_on_one_table_are_both_settled(graph):
    with dying_at("load.before_table_commit"):
        write(workspace_of(graph), {PERSON: ["never"], TEAM: ["never"]})
    finished = prepare(workspace_of(graph), {PERSON: ["b"]})
    with dying_at(FINISHED):
        commit(workspace_of(graph), finished)
    with open_graph(graph.uri) as reopened:
        assert contents(reopened) == {PERSON: ["b"], TEAM: [], MEMBER_OF: []}
        assert sorted(kinds(reopened)) == ["RolledBack", "RolledForward"]
        assert drifted(reopened) == []


def test_two_sweeps_at_once_recover_once(graph):
    with dying_at("load.after_table_commit"):
        write(workspace_of(graph), {key: ["a"] for key in ALL})
    pause = failpoints.Pause()
    with failpoints.arm("recovery.after_restore", pause, times=1):
        first = threading.Thread(target=lambda: open_graph(graph.uri).close())
        first.start()
        pause.wait_until_reached()
        with open_graph(graph.uri) as second:
            assert len(sidecars(second)) == 1
        pause.resume()
        first.join()
    assert sidecars(graph) == []
    assert kinds(graph) == ["RolledBack"]
    assert len(graph.commits.list()) == 2
    assert drifted(graph) == []


def test_a_heal_between_the_delete_of_a_sidecar_and_the_release_of_its_locks(graph):
    pause = failpoints.Pause()
    heard = []
    with failpoints.arm("recovery.sidecar_delete", pause, times=1):
        writer = threading.Thread(
            target=lambda: heard.append(write(workspace_of(graph), {PERSON: ["a"], TEAM: ["t"]}))
        )
        writer.start()
        pause.wait_until_reached()
        healed = heal(workspace_of(graph))
        assert (healed.recovered, len(healed.in_flight)) == ([], 1)
        pause.resume()
        writer.join()
    assert read_audit(workspace_of(graph)) == []
    assert graph.snapshot().commit == heard[0]


def test_a_refused_recovery_keeps_the_sidecar_and_says_so(graph):
    write(workspace_of(graph), {PERSON: ["a"]})
    with dying_at("load.before_table_commit"):
        write(workspace_of(graph), {PERSON: ["b"]})
    (name,) = sidecars(graph)
    pin = graph.snapshot().tables[PERSON]
    versions = Path(workspace_of(graph).root.path, pin.location, "_versions")
    versions.joinpath(f"{2**64 - 1 - pin.table_version}.manifest").unlink()
    versions.joinpath("latest_version_hint.json").unlink(missing_ok=True)
    with pytest.raises(StorageError, match="behind its pin"):
        open_graph(graph.uri)
    assert sidecars(graph) == [name]
    open_graph(graph.uri, mode="r").close()


def test_a_branch_fork_made_by_another_program_is_left_to_the_next_write(graph):
    graph.branches.create("x")
    pin = graph.snapshot().tables[PERSON]
    create_branch(open_table(workspace_of(graph).pinned(pin)), "x")
    write(workspace_of(graph), {PERSON: ["a"]}, branch="x")
    assert contents(graph, "x")[PERSON] == ["a"]


def test_the_facts_of_a_recovery_are_the_same_when_they_are_read_again():
    """A merge writes the records it takes over into its sidecar, also those that are still in memory."""
    outcome = TableOutcome("node:Person", "rolled_past_expected", 1, 2)
    facts = Recovery("01", "RolledForward", "02", "ann", 3, (outcome,)).facts()
    assert json.loads(json.dumps(facts)) == facts
