"""Whether a graph belongs to a cluster, which makes and changes its graphs itself."""

from __future__ import annotations

import re

_IN_CLUSTER = re.compile(r"(.+)/graphs/[^/]+\.omni")
_LEDGER = "__cluster/state.json"


def cluster_of(uri: str) -> str | None:
    """Return the root of the cluster that a storage address is a place of: `ROOT/graphs/NAME.omni`."""
    from omnigraph.storage.objects.stores import open_store
    from omnigraph.storage.uris import Root

    found = _IN_CLUSTER.fullmatch(Root.parse(uri).canonical)
    if found is None or not open_store(Root.parse(found[1])).exists(_LEDGER):
        return None
    return found[1]
