"""The inside of an open graph, for tests that look behind the public API."""

from omnigraph.graph.graph import Graph, state_of
from omnigraph.lang.schema.catalog import Catalog
from omnigraph.manifest.workspace import Workspace
from omnigraph.read.thresholds import Thresholds
from omnigraph.read.view.view import Reader
from omnigraph.storage.tables.table import Table, open_table


def workspace_of(graph: Graph) -> Workspace:
    """Root, control objects, locks and manifest of an open graph."""
    return state_of(graph).workspace


def accepted_by(graph: Graph) -> tuple[str, Catalog]:
    """The hash of the accepted schema, and its types."""
    accepted = state_of(graph).schemas.of("main")
    return accepted.ir_hash, accepted.catalog


def read_with(graph: Graph, thresholds: Thresholds) -> None:
    """Have an open graph read with these thresholds from now on; what it had cached is gone."""
    state = state_of(graph)
    state._reader = Reader(state.workspace, thresholds)


def fresh_reader(graph: Graph) -> Reader:
    """A reader that has read nothing yet, with the thresholds of the graph."""
    state = state_of(graph)
    return Reader(state.workspace, state.reader.thresholds)


def table_of(graph: Graph, key: str) -> Table:
    """The table that the head of `main` pins."""
    return open_table(workspace_of(graph).pinned(graph.snapshot().tables[key]))


def row_ids(table: Table) -> dict[str, int]:
    """Id -> stable row id."""
    found = table.read(["id"], with_row_id=True)
    return dict(zip(found["id"].to_pylist(), found["_rowid"].to_pylist(), strict=True))


def lose(graph: Graph, commit_id: str) -> None:
    """Remove the version of the people that a commit pins, as an outside tool would."""
    import lance

    pin = graph.snapshot(snapshot=commit_id).tables["node:Person"]
    ref = workspace_of(graph).pinned(pin)
    lance.dataset(ref.dataset_uri).cleanup_old_versions(versions=[pin.table_version])
