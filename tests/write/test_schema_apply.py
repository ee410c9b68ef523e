"""Schema changes on a graph with rows, indexes and other users."""

from __future__ import annotations

import contextlib
import json
import threading
from dataclasses import replace
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph import failpoints
from omnigraph.clock import new_ulid, stamp_us
from omnigraph.errors import (
    Drift,
    ExpectedVersionMismatch,
    InputError,
    RecoveryRequired,
    SchemaConflict,
    UnsupportedMigration,
)
from omnigraph.graph import Graph
from omnigraph.lang.schema.indexes import IndexKind
from omnigraph.manifest.publisher import Intent, ManifestChanges, publish
from omnigraph.manifest.row_reads import read_table_states
from omnigraph.storage.tables.indexing.table_indexes import Coverage, coverage
from omnigraph.storage.tables.inline_residual import set_field_metadata
from omnigraph.storage.tables.table import open_table
from omnigraph.storage.tables.table_branches import create_branch, list_branches
from tests.commit.synthetic import drifted, dying_at
from tests.opened import table_of, workspace_of
from tests.storage.processes import run_processes
from tests.write.evolving import NEXT, SCHEMA, SECRET, filled, row_ids
from tests.write.schema_workers import attempt, attempt_all, insert_many
from tests.write.writing import ends, nodes, state

ADDED = SCHEMA.replace("age: I32? @index", "age: I32? @index  city: String?")


@pytest.fixture
def graph(tmp_path):
    with filled(tmp_path / "g") as graph:
        yield graph


def holding(graph, text=SECRET):
    """The data files in which a text can be found."""
    root = Path(workspace_of(graph).root.path)
    files = (path for path in root.rglob("*") if path.is_file() and "__manifest" not in path.parts)
    return [path for path in files if text.encode() in path.read_bytes()]


def purges_in_rows(graph):
    """How many rows about tables say that something must be removed; they agree with the head."""
    manifest = workspace_of(graph).manifest
    state = manifest.state("main")
    found = manifest.table_rows(state)
    assert read_table_states(found) == state.head.tables
    return sum("purge" in json.loads(row.metadata) for row in found)


def indexed(graph, key, column):
    return coverage(table_of(graph, key), column, IndexKind.BTREE)


# ------------------------------------------------------------------ what an apply does


def test_many_steps_are_one_commit_that_keeps_rows_indexes_and_identities(graph):
    before, catalog = graph.snapshot(), graph.schema.catalog
    ids = row_ids(graph, "node:Person")
    plan = graph.schema.plan(NEXT)
    done = graph.schema.apply(NEXT, actor="ann")

    assert plan.supported
    assert (done.applied, done.steps) == (True, plan.steps)
    assert {step.kind for step in done.steps} == {
        "add_type", "rename_type", "add_property", "rename_property", "relax_property",
        "relax_cardinality", "extend_enum", "add_constraint", "drop_property", "drop_type",
    }  # fmt: skip
    after = graph.snapshot()
    assert done.commit == after.commit
    assert (done.commit.operation, done.commit.actor_id) == ("schema_apply", "ann")
    assert done.commit.parent_commit_id == before.graph_commit_id
    assert done.commit.facts["schema"] == {
        "from_hash": before.ir_hash,
        "to_hash": after.ir_hash,
        "steps": [step.to_json() for step in done.steps],
    }
    assert set(after.tables) == {
        "node:Human", "node:Team", "node:Place", "edge:BelongsTo", "edge:Visits"
    }  # fmt: skip

    assert row_ids(graph, "node:Human") == ids
    assert nodes(graph, "Human")["ada"] == {
        "name": "ada", "years": 36, "mail": "ada@x", "level": "guest"
    }  # fmt: skip
    assert ends(graph, "BelongsTo") == [("ada", "t")]
    assert indexed(graph, "node:Human", "years") is Coverage.INDEXED
    renamed, moved = before.tables["edge:MemberOf"], after.tables["edge:BelongsTo"]
    assert (moved.location, moved.table_version) == (renamed.location, renamed.table_version)
    human, person = graph.schema.catalog.nodes["Human"], catalog.nodes["Person"]
    assert human.type_id == person.type_id
    assert human.properties["years"].property_id == person.properties["age"].property_id
    assert list(human.properties) == ["nick", "years", "name", "mail", "level"]
    # The order of columns in an old table is its own; rows written now find theirs by name.
    graph.load(
        [
            {"type": "Human", "data": {"name": "new", "nick": "n", "years": 1, "level": "owner"}},
            {"type": "Place", "data": {"code": "p"}},
            {"edge": "BelongsTo", "from": "ada", "to": "t"},
            {"edge": "Visits", "from": "new", "to": "p"},
        ]
    )
    assert nodes(graph, "Human")["new"] == {
        "name": "new",
        "nick": "n",
        "years": 1,
        "level": "owner",
    }
    assert ends(graph, "BelongsTo") == [("ada", "t"), ("ada", "t")]
    assert drifted(graph) == []
    with og.open(graph.uri) as reopened:
        assert reopened.schema.source == NEXT
    assert (Path(workspace_of(graph).root.path) / "_schema.pg").read_text() == NEXT


def test_what_means_the_accepted_schema_changes_nothing(graph):
    before = state(graph)
    for source in (SCHEMA, "// again\n" + SCHEMA.replace("guest, admin", "admin, guest")):
        done = graph.schema.apply(source)
        assert (done.applied, done.commit, done.steps) == (False, None, ())
        assert done.manifest_version == before[0].manifest_version
    assert state(graph) == before


def test_a_file_is_accepted_byte_for_byte(graph, tmp_path):
    source = ADDED.replace("\n", "\r\n") + "// \u00e9\r\n"
    (tmp_path / "new.pg").write_bytes(source.encode())
    assert graph.schema.apply(tmp_path / "new.pg").applied
    assert graph.schema.source == source
    mirror = Path(workspace_of(graph).root.path, "_schema.pg")
    assert mirror.read_bytes() == source.encode()
    og.open(graph.uri).close()


def test_what_is_added_again_under_an_old_name_is_new_and_empty(graph):
    before, catalog = graph.snapshot().tables["node:Room"], graph.schema.catalog
    without = SCHEMA.replace("node Room { code: String @key }", "").replace("note: String?", "")
    done = graph.schema.apply(without)
    assert done.warnings == (
        "[OG-DS-104] drop Person.note (soft)",
        "[OG-DS-102] drop node Room (soft)",
    )
    assert open_table(workspace_of(graph).pinned(before)).count_rows() == 1
    graph.schema.apply(SCHEMA)
    again = graph.snapshot().tables["node:Room"]
    assert again.location.startswith(f"{before.location}-")
    assert again.row_count == 0
    assert nodes(graph, "Person")["ada"] == {
        "name": "ada",
        "age": 36,
        "mail": "ada@x",
        "level": "guest",
    }
    old, new = catalog.nodes, graph.schema.catalog.nodes
    assert new["Room"].type_id != old["Room"].type_id
    assert (
        new["Person"].properties["note"].property_id != old["Person"].properties["note"].property_id
    )
    # A name that a type had only for a while counts as used too.
    graph.schema.apply(SCHEMA.replace("node Room", 'node Hall @rename_from("Room")'))
    graph.schema.apply(SCHEMA.replace("node Room", 'node Shed @rename_from("Hall")'))
    graph.schema.apply(SCHEMA.replace("node Room", "node Shed") + "node Hall {}")
    assert "-" in graph.snapshot().tables["node:Hall"].location
    assert purges_in_rows(graph) == 0


def test_a_plan_that_moves_no_table_is_its_publish_alone(graph):
    with failpoints.arm("recovery.sidecar_write") as armed:
        done = graph.schema.apply(SCHEMA.replace("guest, admin", "guest, admin, owner"))
    assert armed.fired == 0
    assert done.commit == graph.snapshot().commit


# ------------------------------------------------------------------ hard drops


def test_a_hard_drop_leaves_no_byte_behind(graph):
    before = graph.snapshot()
    assert holding(graph)
    without = SCHEMA.replace("note: String?", "").replace("node Room { code: String @key }", "")
    done = graph.schema.apply(without, allow_data_loss=True)
    assert [step.mode for step in done.steps] == ["hard", "hard"]
    assert holding(graph) == []
    assert graph.status()["purges_owed"] == []
    assert purges_in_rows(graph) == 0
    with pytest.raises(og.errors.OmniGraphError):
        open_table(workspace_of(graph).pinned(before.tables["node:Person"]))
    assert not Path(workspace_of(graph).root.path, before.tables["node:Room"].location).exists()
    assert nodes(graph, "Person")["ada"]["age"] == 36
    assert indexed(graph, "node:Person", "age") is Coverage.INDEXED


def test_a_hard_drop_takes_the_bytes_of_earlier_soft_drops_with_it(graph):
    without = SCHEMA.replace("note: String?", "")
    graph.schema.apply(without)
    graph.schema.apply(SCHEMA)
    assert holding(graph)
    graph.schema.apply(without, allow_data_loss=True)
    assert holding(graph) == []
    assert nodes(graph, "Person")["ada"]["age"] == 36
    assert indexed(graph, "node:Person", "age") is Coverage.INDEXED


def test_a_purge_that_was_interrupted_is_finished_by_the_next_open(graph):
    without = SCHEMA.replace("note: String?", "")
    with dying_at("schema_apply.before_purge"):
        graph.schema.apply(without, allow_data_loss=True)
    (owed,) = graph.status()["purges_owed"]
    assert purges_in_rows(graph) == 1
    pin = graph.snapshot().tables["node:Person"]
    assert owed == {
        "table_key": "node:Person", "table_path": pin.location, "below_version": pin.table_version
    }  # fmt: skip
    og.open(graph.uri, mode="r").close()
    assert holding(graph)
    # Writes go on; what they publish still says what is owed.
    graph.mutate('query q() { update Person set { age: 8 } where name = "bob" }')
    with og.open(graph.uri) as reopened:
        assert reopened.status()["purges_owed"] == []
        assert purges_in_rows(reopened) == 0
        assert holding(reopened) == []
        assert nodes(reopened, "Person")["bob"]["age"] == 8


def test_a_purge_that_fails_is_a_warning(graph):
    with failpoints.arm("purge.before_record", times=1):
        done = graph.schema.apply(SCHEMA.replace("note: String?", ""), allow_data_loss=True)
    assert done.applied
    assert "node:Person" in done.warnings[-1]
    assert len(graph.status()["purges_owed"]) == 1
    og.open(graph.uri).close()
    assert graph.status()["purges_owed"] == []


def test_forks_of_deleted_branches_do_not_keep_old_bytes_alive(graph):
    create_branch(table_of(graph, "node:Person"), "left-behind")
    graph.schema.apply(SCHEMA.replace("note: String?", ""), allow_data_loss=True)
    assert holding(graph) == []
    assert list_branches(table_of(graph, "node:Person").ref) == {}


def test_a_version_that_a_lance_tag_keeps_stays_owed(graph):
    dataset = table_of(graph, "node:Person").dataset
    dataset.tags.create("mine", dataset.version)
    done = graph.schema.apply(SCHEMA.replace("note: String?", ""), allow_data_loss=True)
    assert "Lance tag" in done.warnings[-1]
    assert [owed["table_key"] for owed in graph.status()["purges_owed"]] == ["node:Person"]
    dataset.tags.delete("mine")
    og.open(graph.uri).close()
    assert (graph.status()["purges_owed"], holding(graph)) == ([], [])


def test_a_recovered_hard_drop_is_purged_too(graph):
    with dying_at("schema_apply.after_phase_b_before_phase_c"):
        graph.schema.apply(SCHEMA.replace("note: String?", ""), allow_data_loss=True)
    with og.open(graph.uri) as reopened:
        assert "note" not in reopened.schema.catalog.nodes["Person"].properties
        assert holding(reopened) == []


# ------------------------------------------------------------------ refusals


def test_an_unsupported_plan_is_refused_with_its_first_reason(graph):
    before = state(graph)
    with pytest.raises(UnsupportedMigration, match=r"^\[OG-MF-106\]"):
        graph.schema.apply(ADDED.replace("age: I32?", "age: String?"))
    assert state(graph) == before


def test_foreign_data_where_a_table_would_be_is_never_adopted(graph):
    from omnigraph.storage.layout import table_location

    place = Path(
        workspace_of(graph).root.path, table_location("node", "Port", "", used_before=False)
    )
    place.mkdir(parents=True)
    (place / "mine.txt").write_text("mine")
    before = state(graph)
    with pytest.raises(Drift, match="node:Port"):
        graph.schema.apply(SCHEMA + "node Port {}")
    assert state(graph) == before
    assert (place / "mine.txt").read_text() == "mine"


def test_a_table_that_somebody_moved_is_refused_whatever_the_plan(graph):
    set_field_metadata(table_of(graph, "node:Room"), "code", {"by": "hand"})
    with pytest.raises(Drift, match="node:Room"):
        graph.schema.apply(ADDED)
    assert graph.schema.source == SCHEMA


def test_an_edited_mirror_is_not_overwritten(graph):
    mirror = Path(workspace_of(graph).root.path, "_schema.pg")
    mirror.write_text(ADDED)
    with pytest.raises(SchemaConflict, match=r"_schema\.pg"):
        graph.schema.apply(NEXT)
    assert mirror.read_text() == ADDED
    assert graph.schema.source == SCHEMA


@pytest.mark.parametrize("broken", ["tables", "hash"])
def test_a_schema_that_does_not_fit_its_tables_is_noticed_everywhere(graph, broken):
    manifest = workspace_of(graph).manifest
    tables = graph.snapshot().tables
    changes = ManifestChanges(dropped=(tables["node:Room"].incarnation,))
    if broken == "hash":
        row = manifest.schema(manifest.state("main"))
        changes = ManifestChanges(schema=replace(row, shape_hash="sha256:0"))
    intent = Intent(new_ulid(), "schema_apply", stamp_us())
    publish(manifest, "main", changes, tables.values(), intent)
    with og.open(graph.uri, mode="r") as other:
        for call in (
            lambda: og.open(graph.uri),
            lambda: other.schema.plan(ADDED),
            lambda: other.query("query q() { match { $t: Team } return { $t.code } }"),
            lambda: graph_of(other).mutate('query q() { insert Team { code: "u" } }'),
            lambda: graph_of(other).schema.apply(ADDED),
        ):
            with pytest.raises(SchemaConflict, match="node:Room" if broken == "tables" else "hash"):
                call()


def graph_of(reader):
    """A handle that may write, without the checks of an open."""
    return Graph(workspace_of(reader).root, "rw")


# ------------------------------------------------------------------ others at work


def held_at(point, work):
    """Run the work in a thread until it stands at the point; returns the pause and a way to its end."""
    pause, told = failpoints.Pause(), []

    def run():
        try:
            told.append(work())
        except og.errors.OmniGraphError as error:
            told.append(error)

    failpoints.arm(point, pause, times=1)
    thread = threading.Thread(target=run)
    thread.start()
    pause.wait_until_reached()

    def end():
        pause.resume()
        thread.join()
        failpoints.disarm_all()
        return told[0]

    return end


def test_other_processes_see_the_old_schema_and_wait_for_an_apply(graph, monkeypatch):
    end = held_at("schema_apply.after_phase_b_before_phase_c", lambda: graph.schema.apply(ADDED))
    try:
        monkeypatch.setenv("OMNIGRAPH_LOCK_WAIT_MS", "30")
        calls = [("r", "read"), ("rw", "read"), ("rw", "insert"), ("rw", "branch"), ("rw", "apply")]
        (found,) = run_processes(attempt_all, [(graph.uri, calls)])
        old = ["age", "level", "mail", "name", "note"]
        assert found == [old, old, *["schema_apply_in_progress"] * 3]
    finally:
        done = end()
    assert done.applied
    assert "city" in attempt(graph.uri, "r", "read")
    assert drifted(graph) == []


def test_an_apply_that_waited_while_the_head_moved_is_refused(graph):
    with og.open(graph.uri) as other:
        end = held_at("schema_apply.before_locks", lambda: graph.schema.apply(ADDED))
        other.mutate('query q() { update Person set { age: 8 } where name = "bob" }')
        assert isinstance(end(), ExpectedVersionMismatch)
        # Maintenance changes no content.
        graph.mutate('query q() { insert Person { name: "x", mail: "x", level: "guest" } }')
        missing = ADDED.replace("mail: String\n", "mail: String @index\n")
        assert graph.schema.apply(missing).applied
        end = held_at(
            "schema_apply.before_locks", lambda: graph.schema.apply(missing + "node New {}")
        )
        assert other.ensure_indices().built
        assert end().applied


def test_of_two_applies_at_once_one_wins(graph):
    with og.open(graph.uri) as other:
        end = held_at("schema_apply.before_locks", lambda: graph.schema.apply(ADDED))
        assert other.schema.apply(NEXT).applied
        assert isinstance(end(), SchemaConflict)
        assert graph.schema.source == NEXT


@pytest.mark.parametrize(
    "write",
    [
        lambda graph: graph.mutate('query q() { update Person set { age: 1 } where name = "eve" }'),
        lambda graph: graph.load(
            b'{"type":"Person","data":{"name":"eve","age":1,"mail":"m","level":"guest"}}'
        ),
    ],
    ids=["mutation", "load"],
)
def test_a_write_that_was_checked_under_the_old_schema_is_run_again(graph, write, request):
    with og.open(graph.uri) as other:
        kind = request.node.callspec.id
        end = held_at(f"{kind}.before_locks", lambda: write(graph))
        other.schema.apply(ADDED)
        done = end()
        assert done.commit == other.snapshot().commit
        assert nodes(other, "Person")["eve"]["age"] == 1
        # What no longer fits the schema is refused by it, not half written.
        end = held_at(f"{kind}.before_locks", lambda: write(graph))
        other.schema.apply(ADDED.replace("age: I32?", 'years: I32? @rename_from("age")'))
        assert isinstance(end(), InputError if kind == "load" else og.errors.TypeCheckError)


def test_a_write_whose_rows_a_hard_drop_purged_is_run_again(graph):
    """It pins its snapshot, the drop removes that version from disk, then it reads."""
    with og.open(graph.uri) as other:

        def write():
            return graph.mutate('query q() { update Person set { age: 1 } where name = "eve" }')

        end = held_at("attempt.pinned", write)
        other.schema.apply(SCHEMA.replace("note: String?", ""), allow_data_loss=True)
        assert end().affected_nodes == 1
        assert nodes(other, "Person")["eve"]["age"] == 1


def test_a_writer_in_another_process_loses_nothing_to_schemas_that_change_under_it(graph):
    told = []
    write = threading.Thread(
        target=lambda: told.extend(run_processes(insert_many, [(graph.uri, 16)]))
    )
    write.start()
    applied = 0
    without = SCHEMA.replace("note: String?", "")
    while applied < 4 or (write.is_alive() and applied < 10):
        # Add a property, destroy it, and so on. The writer may come first: then try again.
        wanted = without if applied % 2 else SCHEMA.replace("note:", "extra: I32?  note:")
        with contextlib.suppress(ExpectedVersionMismatch):
            applied += graph.schema.apply(wanted, allow_data_loss=True).applied
    write.join()
    ((made, refused),) = told
    assert set(refused) <= {"schema_apply_in_progress"}
    assert set(nodes(graph, "Person")) == {"ada", "bob", "eve", *made}
    assert drifted(graph) == []
    assert workspace_of(graph).store.list("__recovery") == []
    # The writer may have won against the note that old data is gone: whoever opens the graph next makes it.
    with og.open(graph.uri) as reopened:
        assert reopened.status()["purges_owed"] == []


# ------------------------------------------------------------------ crashes


def test_an_apply_that_failed_to_publish_is_finished_by_the_next_write_under_its_schema(graph):
    with failpoints.arm("publish.before_write", times=1), pytest.raises(RecoveryRequired):
        graph.schema.apply(ADDED)
    assert graph.schema.source == SCHEMA
    graph.mutate('query q() { update Person set { city: "Oslo" } where name = "bob" }')
    assert nodes(graph, "Person")["bob"]["city"] == "Oslo"
    assert graph.commits.list(limit=2)[1].operation == "schema_apply"
    og.open(graph.uri).close()
    assert (Path(workspace_of(graph).root.path) / "_schema.pg").read_text() == ADDED


def test_mirrors_that_were_not_written_are_written_by_the_next_open(graph):
    mirror = Path(workspace_of(graph).root.path, "_schema.pg")
    with dying_at("schema_apply.before_mirrors"):
        graph.schema.apply(ADDED)
    assert (graph.schema.source, mirror.read_text()) == (ADDED, SCHEMA)
    # The next apply settles them as well.
    graph.schema.apply(NEXT)
    assert mirror.read_text() == NEXT
    with dying_at("schema_apply.before_mirrors"):
        graph.schema.apply(NEXT + "node More {}")
    og.open(graph.uri).close()
    assert mirror.read_text() == NEXT + "node More {}"
