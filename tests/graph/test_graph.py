"""Making and opening a graph: what is written, what is checked, what is refused."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph import failpoints
from omnigraph.errors import (
    AlreadyInitialised,
    BadRequest,
    CatalogError,
    NewerFormat,
    NotAGraph,
    ParseError,
    SchemaConflict,
    StorageError,
)
from omnigraph.graph.graph import state_of
from omnigraph.manifest.manifest import Manifest
from omnigraph.manifest.migrations import STEPS, migrate, read_internal_version
from omnigraph.manifest.rows import INTERNAL_VERSION_KEY, WRITTEN_BY_KEY
from omnigraph.storage.locks.locks import LockManager
from omnigraph.storage.tables.blobs.blob_columns import blob_columns
from omnigraph.storage.tables.inline_residual import set_schema_metadata
from omnigraph.storage.tables.table import create_table, open_table
from omnigraph.storage.tables.table_commits import merge_insert_exclusive
from omnigraph.storage.tables.table_ref import TableRef
from omnigraph.storage.uris import Root
from omnigraph.version import INTERNAL_SCHEMA_VERSION
from tests.manifest.publishing import PERSON, SCHEMA, advance, new_graph
from tests.opened import workspace_of
from tests.storage.processes import run_processes


def files(root: Path) -> set[str]:
    return {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}


def test_a_new_graph_can_be_opened_and_is_empty(tmp_path):
    with og.init(tmp_path / "g", SCHEMA) as graph:
        assert graph.schema.source == SCHEMA
        assert sorted(graph.schema.catalog.nodes) == ["Person", "Team"]
    with og.open(tmp_path / "g") as graph:
        snapshot = graph.snapshot()
        assert sorted(snapshot.tables) == ["edge:MemberOf", "node:Person", "node:Team"]
        assert {table.row_count for table in snapshot.tables.values()} == {0}
        for table in snapshot.tables.values():
            opened = open_table(TableRef(workspace_of(graph).root.child(table.location)))
            assert opened.version == table.table_version == 1
            assert opened.count_rows() == 0


def test_tables_have_the_declared_columns_and_stable_row_ids(tmp_path):
    with new_graph(tmp_path) as graph:
        table = graph.snapshot().tables[PERSON]
        opened = open_table(TableRef(workspace_of(graph).root.child(table.location)))
        assert opened.schema.names == ["id", "name", "age"]
        field = opened.schema.field("id")
        assert not field.nullable
        assert field.metadata[b"lance-schema:unenforced-primary-key"] == b"true"
        assert opened.dataset.has_stable_row_ids


def test_blob_properties_become_blob_columns(tmp_path):
    with og.init(
        tmp_path / "g", "node Scan { slug: String @key  image: Blob?  raw: Blob }"
    ) as graph:
        table = graph.snapshot().tables["node:Scan"]
        schema = open_table(TableRef(workspace_of(graph).root.child(table.location))).schema
        assert blob_columns(schema) == ["image", "raw"]
        assert [schema.field(name).nullable for name in ("image", "raw")] == [True, False]
        identities = graph.schema.catalog.nodes["Scan"].properties
        for name in ("slug", "image", "raw"):
            stored = schema.field(name).metadata[b"omnigraph.stable_property_id"]
            assert int(stored) == identities[name].property_id


def test_a_schema_file_and_a_path_with_spaces(tmp_path):
    source = tmp_path / "a schema.pg"
    source.write_text(SCHEMA, "utf-8")
    with og.init(tmp_path / "a graph" / "in here", source) as graph:
        advance(workspace_of(graph).manifest, PERSON)
    with og.open(f"{tmp_path}/a graph/./in here/") as graph:
        assert len(graph.commits.list()) == 2


def test_a_rejected_schema_leaves_nothing_behind(tmp_path):
    for bad, error in (("node {", ParseError), ("edge A: X -> Y", CatalogError)):
        with pytest.raises(error):
            og.init(tmp_path / "g", bad)
    assert not (tmp_path / "g").exists()


def test_a_second_init_is_refused_and_changes_nothing(tmp_path):
    new_graph(tmp_path).close()
    before = files(tmp_path)
    with pytest.raises(AlreadyInitialised):
        og.init(tmp_path / "graph", SCHEMA)
    assert files(tmp_path) == before


def test_a_stray_schema_file_blocks_init(tmp_path):
    (tmp_path / "g").mkdir()
    (tmp_path / "g" / "_schema.pg").write_text("", "utf-8")
    with pytest.raises(AlreadyInitialised):
        og.init(tmp_path / "g", SCHEMA)
    assert files(tmp_path / "g") == {"_schema.pg"}


@pytest.mark.parametrize("point", ["init.after_tables", "init.after_manifest"])
def test_an_interrupted_init_can_be_finished(tmp_path, point):
    with failpoints.arm(point, RuntimeError("stop")), pytest.raises(RuntimeError):
        og.init(tmp_path / "g", SCHEMA)
    if point == "init.after_tables":
        with pytest.raises(NotAGraph):
            og.open(tmp_path / "g")
        og.init(tmp_path / "g", SCHEMA).close()
    with og.open(tmp_path / "g") as graph:
        assert graph.schema.source == SCHEMA
        advance(workspace_of(graph).manifest, PERSON)
    assert (tmp_path / "g" / "_schema.pg").read_text("utf-8") == SCHEMA


def test_init_does_not_adopt_foreign_data(tmp_path):
    with failpoints.arm("init.after_tables", RuntimeError("stop")), pytest.raises(RuntimeError):
        og.init(tmp_path / "g", "node Other { x: I32 }")
    root = Root.parse(tmp_path / "g")
    from omnigraph.storage.layout import table_location

    location = table_location("node", "Person", "1", used_before=False)
    create_table(TableRef(root.child(location)), pa.schema([("x", pa.int32())]))
    with pytest.raises(AlreadyInitialised, match="foreign"):
        og.init(tmp_path / "g", SCHEMA)
    with pytest.raises(NotAGraph):
        og.open(tmp_path / "g")


@pytest.mark.parametrize("mode", ["rw", "r"])
def test_a_place_without_a_graph(tmp_path, mode):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("x", "utf-8")
    for place in ("empty", "missing", "file"):
        with pytest.raises(NotAGraph):
            og.open(tmp_path / place, mode=mode)
    assert not (tmp_path / "missing").exists()
    assert list((tmp_path / "empty").iterdir()) == []


def test_a_file_where_the_root_should_be(tmp_path):
    (tmp_path / "file").write_text("x", "utf-8")
    (tmp_path / "loop").symlink_to("loop")
    for place in ("file", "file/below", "loop", "loop/below"):
        with pytest.raises(BadRequest, match="no directory"):
            og.init(tmp_path / place, SCHEMA)
    assert files(tmp_path) == {"file"}


@pytest.mark.parametrize(
    "uri", [None, 3, b"g", [], " ", "ftp://x/y", "http://h/g", "https://h/g", "gs://b/p", ""]
)
def test_unsupported_places(uri):
    with pytest.raises(BadRequest):
        og.open(uri)
    with pytest.raises(BadRequest):
        og.init(uri, SCHEMA)


def test_an_unknown_mode(tmp_path):
    with pytest.raises(BadRequest, match="mode"):
        og.open(tmp_path, mode="w")


def test_a_closed_handle_says_so(tmp_path):
    graph = new_graph(tmp_path)
    graph.close()
    graph.close()
    for call in (
        graph.snapshot, graph.status, graph.refresh, graph.branches.list, graph.commits.list,
        lambda: graph.schema.source, lambda: graph.branches.create("x"),
    ):  # fmt: skip
        with pytest.raises(BadRequest, match="closed"):
            call()


def test_status_names_what_there_is(tmp_path):
    with new_graph(tmp_path) as graph:
        graph.branches.create("x")
        status = graph.status()
    assert status["uri"] == str(tmp_path / "graph")
    assert status["internal_schema_version"] == INTERNAL_SCHEMA_VERSION
    assert status["branches"] == ["main", "x"]
    assert status["pending_recoveries"] == 0
    tables = {table["table_key"]: table for table in status["tables"]}
    assert tables[PERSON]["head_version"] == 1
    assert tables[PERSON]["fragments"] == 0
    assert tables[PERSON]["indexes"] == []
    json.dumps(status.to_json())


# ------------------------------------------------------------------ permissions


NOBODY = 65534


def init_as_nobody(root: str) -> str:
    """What an unprivileged user is told; a privileged one passes every permission."""
    with tempfile.TemporaryDirectory() as elsewhere:
        # Load everything while the interpreter's own files can still be read.
        og.init(f"{elsewhere}/graph", SCHEMA).close()
    if os.getuid() == 0:
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    try:
        og.init(root, SCHEMA)
    except StorageError as error:
        return f"{type(error).__name__}: {error}"
    return "made a graph"


def test_a_root_that_cannot_be_written():
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o555)
        (told,) = run_processes(init_as_nobody, [(f"{name}/graph",)])
        assert "permission denied" in told.lower()
        assert list(Path(name).iterdir()) == []


# ------------------------------------------------------------------ internal schema version


def stamp(graph, value: int) -> None:
    table = workspace_of(graph).manifest.state("main").table
    set_schema_metadata(table, {INTERNAL_VERSION_KEY: str(value)})
    workspace_of(graph).manifest.forget()


def release_that_wrote(table) -> str | None:
    found = (table.schema.metadata or {}).get(WRITTEN_BY_KEY.encode())
    return None if found is None else found.decode()


def test_a_newer_format_is_refused_for_writing_and_nothing_changes(tmp_path):
    with new_graph(tmp_path) as graph:
        table = workspace_of(graph).manifest.state("main").table
        assert release_that_wrote(table) == og.__version__
        set_schema_metadata(table, {WRITTEN_BY_KEY: "47.11"})
        workspace_of(graph).manifest.forget()
        stamp(graph, INTERNAL_SCHEMA_VERSION + 1)
        before = files(tmp_path)
        for call in (
            lambda: advance(workspace_of(graph).manifest, PERSON),
            lambda: graph.branches.create("x"),
            lambda: og.open(graph.uri),
            graph.refresh,
        ):
            with pytest.raises(NewerFormat, match="upgrade omnigraph first") as caught:
                call()
            assert "written by omnigraph 47.11" in str(caught.value)
            assert caught.value.details["written_by"] == "47.11"
        assert {name for name in files(tmp_path) if "__locks" not in name} == {
            name for name in before if "__locks" not in name
        }
        with og.open(graph.uri, mode="r") as reader:
            assert len(reader.commits.list()) == 1


def version_zero(graph) -> None:
    """Write the manifest anew in the shape before version 1: no stamp, no primary key."""
    import pyarrow as pa

    rows = workspace_of(graph).manifest.state("main").table.read()
    shutil.rmtree(workspace_of(graph).manifest.ref.uri)
    plain = pa.schema([field.remove_metadata() for field in rows.schema])
    create_table(
        workspace_of(graph).manifest.ref, plain, pa.Table.from_arrays(rows.columns, schema=plain)
    )
    workspace_of(graph).manifest.forget()
    table = workspace_of(graph).manifest.state("main").table
    assert read_internal_version(table) == 0
    assert not table.schema.field("object_id").metadata


def is_current(table) -> bool:
    key = table.schema.field("object_id").metadata or {}
    return (
        read_internal_version(table) == INTERNAL_SCHEMA_VERSION
        and key.get(b"lance-schema:unenforced-primary-key") == b"true"
        and release_that_wrote(table) == og.__version__
    )


def test_version_0_to_1_adds_the_primary_key(tmp_path):
    with new_graph(tmp_path) as graph:
        version_zero(graph)
        head = workspace_of(graph).manifest.state("main").head
        migrated = migrate(workspace_of(graph).manifest.state("main").table)
        assert is_current(migrated)
        assert workspace_of(graph).manifest.state("main").head == head
        assert migrate(migrated).version == migrated.version


def test_a_migration_that_died_half_way_runs_again(tmp_path):
    with new_graph(tmp_path) as graph:
        version_zero(graph)
        STEPS[0](workspace_of(graph).manifest.state("main").table)
        assert read_internal_version(Manifest(workspace_of(graph).root).state("main").table) == 0
        assert is_current(migrate(Manifest(workspace_of(graph).root).state("main").table))


def test_a_read_write_open_migrates_and_a_read_only_one_does_not(tmp_path):
    with new_graph(tmp_path) as graph:
        version_zero(graph)
    before = files(tmp_path)
    with og.open(graph.uri, mode="r") as reader:
        assert len(reader.commits.list()) == 1
    assert files(tmp_path) == before
    with og.open(graph.uri) as writer:
        assert is_current(workspace_of(writer).manifest.state("main").table)
        advance(workspace_of(writer).manifest, PERSON)


def test_the_first_publish_migrates_too(tmp_path):
    with new_graph(tmp_path) as graph:
        version_zero(graph)
        advance(workspace_of(graph).manifest, PERSON)
        assert is_current(workspace_of(graph).manifest.state("main").table)


def test_a_newer_branch_refuses_writing_and_nothing_changes(tmp_path):
    """A newer product raises one branch at a time, so any of them can be the first."""
    with new_graph(tmp_path) as graph:
        graph.branches.create("x")
        table = workspace_of(graph).manifest.state("x").table
        set_schema_metadata(table, {INTERNAL_VERSION_KEY: str(INTERNAL_SCHEMA_VERSION + 1)})
    before = files(tmp_path)
    with pytest.raises(NewerFormat, match="upgrade"):
        og.open(graph.uri)
    assert files(tmp_path) == before
    with og.open(graph.uri, mode="r") as reader:
        assert len(reader.commits.list("x")) == 1


def test_every_version_has_a_step():
    assert sorted(STEPS) == list(range(INTERNAL_SCHEMA_VERSION))


# ------------------------------------------------------------------ mirrors of the schema


def mirror(graph, name: str) -> Path:
    return Path(graph.uri, name)


def test_the_mirrors_say_what_was_accepted(tmp_path):
    with new_graph(tmp_path) as graph:
        row = state_of(graph).schemas.of("main").row
    assert mirror(graph, "_schema.pg").read_text("utf-8") == SCHEMA
    assert json.loads(mirror(graph, "_schema.ir.json").read_text("utf-8")) == row.ir
    state = json.loads(mirror(graph, "__schema_state.json").read_text("utf-8"))
    assert (state["shape_hash"], state["ir_hash"]) == (row.shape_hash, row.ir_hash)
    assert state["schema_identity_domain"] == row.ir["schema_identity_domain"]


def test_a_comment_in_the_mirror_is_fine_and_stays(tmp_path):
    new_graph(tmp_path).close()
    path = tmp_path / "graph" / "_schema.pg"
    path.write_text("// ours\n" + SCHEMA, "utf-8")
    og.open(tmp_path / "graph").close()
    assert path.read_text("utf-8").startswith("// ours")


@pytest.mark.parametrize("edit", [SCHEMA.encode() + b"node X { x: I32 }", b"node {", b"", b"\xff"])
def test_an_edited_mirror_is_refused_for_writing_only(tmp_path, edit):
    new_graph(tmp_path).close()
    path = tmp_path / "graph" / "_schema.pg"
    path.write_bytes(edit)
    with pytest.raises(SchemaConflict, match=r"_schema\.pg"):
        og.open(tmp_path / "graph")
    with og.open(tmp_path / "graph", mode="r") as reader:
        assert reader.schema.source == SCHEMA
    assert path.read_bytes() == edit


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("_schema.pg", None),  # any other text counts as edited: the test above
        ("_schema.ir.json", None),
        ("_schema.ir.json", b"{"),
        ("_schema.ir.json", b"[]"),
        ("_schema.ir.json", b"\xff"),
        ("_schema.ir.json", b"[" * 99_999),
        ("__schema_state.json", None),
        ("__schema_state.json", b"{"),
        ("__schema_state.json", b"[]"),
        ("__schema_state.json", b"\xff"),
    ],
)
def test_missing_or_damaged_mirrors_are_written_again(tmp_path, name, damage):
    new_graph(tmp_path).close()
    path = tmp_path / "graph" / name
    text = path.read_text("utf-8")
    path.unlink()
    if damage is not None:
        path.write_bytes(damage)
    og.open(tmp_path / "graph").close()
    assert path.read_text("utf-8") == text


def test_stale_mirrors_of_an_earlier_schema_are_brought_up_to_date(tmp_path):
    """As after a crash between the publish of a schema and the writing of its mirrors."""
    with og.init(tmp_path / "other", "node Old { x: I32 }"):
        pass
    new_graph(tmp_path).close()
    for name in ("_schema.pg", "_schema.ir.json", "__schema_state.json"):
        (tmp_path / "graph" / name).write_bytes((tmp_path / "other" / name).read_bytes())
    og.open(tmp_path / "graph").close()
    assert (tmp_path / "graph" / "_schema.pg").read_text("utf-8") == SCHEMA


def test_mirrors_are_left_to_whoever_holds_the_graph_lock(tmp_path):
    """Between the publish of a schema and its mirrors, an open must not call them edited."""
    new_graph(tmp_path).close()
    path = tmp_path / "graph" / "_schema.pg"
    path.write_text("node Later { x: I32 }", "utf-8")
    locks = LockManager(Root.parse(tmp_path / "graph"))
    with locks.acquire(locks.graph_lock()), ThreadPoolExecutor(1) as pool:
        pool.submit(lambda: og.open(tmp_path / "graph").close()).result(timeout=600)
    assert path.read_text("utf-8") == "node Later { x: I32 }"
    with pytest.raises(SchemaConflict):
        og.open(tmp_path / "graph")


# ------------------------------------------------------------------ damage


def damage(graph, object_id: str, metadata: str | None) -> None:
    table = workspace_of(graph).manifest.state("main").table
    row = table.read().to_pylist()
    changed = [{**r, "metadata": metadata} for r in row if r["object_id"].startswith(object_id)]
    assert changed
    merge_insert_exclusive(table, pa.Table.from_pylist(changed, schema=table.schema))


@pytest.mark.parametrize(
    "text", ["{nope", "[]", "null", "{}", "3", '{"tables": 1}', "[" * 9999, None]
)
@pytest.mark.parametrize("row", ["head", "schema", "commit:"])
def test_a_damaged_row_is_an_error_of_ours_with_a_way_out(tmp_path, row, text):
    with new_graph(tmp_path) as graph:
        advance(workspace_of(graph).manifest, PERSON)
        damage(graph, row, text)

    def use(mode: str) -> None:
        with og.open(graph.uri, mode=mode) as opened:
            opened.commits.list()
            assert opened.schema.source

    for mode in ("r", "rw"):
        with pytest.raises(StorageError, match="restore"):
            use(mode)


def test_a_dataset_that_is_no_manifest(tmp_path):
    create_table(TableRef(str(tmp_path / "__manifest")), pa.schema([("x", pa.int32())]))
    for mode in ("r", "rw"):
        with pytest.raises(StorageError, match="no manifest"):
            og.open(tmp_path, mode=mode)
    with pytest.raises(AlreadyInitialised):
        og.init(tmp_path, SCHEMA)
