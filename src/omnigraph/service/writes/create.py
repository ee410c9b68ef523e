"""`init`: create a graph."""

from __future__ import annotations

import re
from dataclasses import dataclass

from omnigraph.errors import BadRequest
from omnigraph.service.documents import Document

_IN_CLUSTER = re.compile(r"(.+)/graphs/[^/]+\.omni")
_LEDGER = "__cluster/state.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class InitRequest:
    """The schema of a new graph. ``force`` replaces schema files that lie there without a graph."""

    schema_source: str
    force: bool = False


def init(request: InitRequest, uri: str) -> Document:
    """Create a graph at a storage address and return its first commit.

    ``warnings`` are there if the schema declares no types, so that nothing can be loaded.
    """
    import omnigraph

    _refuse_place_of_cluster(uri)
    with omnigraph.init(uri, request.schema_source, force=request.force) as graph:
        document: Document = {
            "uri": uri,
            "graph_commit_id": graph.snapshot().graph_commit_id,
            "internal_schema_version": graph.internal_schema_version,
        }
        if not graph.schema.catalog.nodes:
            document["warnings"] = ["the schema declares no types: nothing can be loaded"]
        return document


def _refuse_place_of_cluster(uri: str) -> None:
    """Refuse `<root>/graphs/<id>.omni` of a cluster, which makes its graphs from its own files."""
    from omnigraph.storage.objects.stores import open_store
    from omnigraph.storage.uris import Root

    found = _IN_CLUSTER.fullmatch(Root.parse(uri).canonical)
    if found is not None and open_store(Root.parse(found[1])).exists(_LEDGER):
        raise BadRequest(
            f"{uri} is a place in the cluster at {found[1]}, which makes its own graphs; declare the "
            "graph in its cluster.yaml and apply that, or choose another place",
            root=found[1],
        )
