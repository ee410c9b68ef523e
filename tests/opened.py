"""The inside of an open graph, for tests that look behind the public API."""

from omnigraph.graph.graph import Graph, state_of
from omnigraph.lang.schema.catalog import Catalog
from omnigraph.manifest.workspace import Workspace


def workspace_of(graph: Graph) -> Workspace:
    """Root, control objects, locks and manifest of an open graph."""
    return state_of(graph).workspace


def accepted_by(graph: Graph) -> tuple[str, Catalog]:
    """The hash of the accepted schema, and its types."""
    accepted = state_of(graph).schemas.of("main")
    return accepted.ir_hash, accepted.catalog
