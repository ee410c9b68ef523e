"""Tables that no branch registers: what a deleted branch, or an operation that died, could not remove.

Only a place that this graph can have made itself counts: it ends in a number that the graph has given away.
Anything else is somebody's own, and stays.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from omnigraph.commit.sidecar import list_sidecars
from omnigraph.manifest.branch_names import MAIN
from omnigraph.manifest.history.identity_counter import next_identity
from omnigraph.manifest.history.registrations import all_registrations
from omnigraph.manifest.history.tags import list_tags
from omnigraph.manifest.workspace import Workspace
from omnigraph.storage import layout

_PLACE = re.compile(rf"((?:{'|'.join(layout.TABLE_DIRS)})/[0-9a-f]{{16}}-([1-9][0-9]*))/.+")


def orphaned_tables(workspace: Workspace) -> list[str]:
    """Return the places of tables that no branch, tag or pending operation knows.

    The caller holds the graph lock, without which no table is made.
    """
    lying = dict(_numbered_places(workspace.store.list(place) for place in layout.TABLE_DIRS))
    if not lying:
        return []
    manifest = workspace.manifest
    states = [manifest.state(name) for name in (MAIN, *manifest.branch_names())]
    known = set(all_registrations(manifest, states))
    known |= {table.incarnation for tag in list_tags(manifest) for table in tag.tables}
    pending = list_sidecars(workspace, states[0].head.graph_id)
    known |= {entry.base.incarnation for one in pending for entry in one.tables}
    given = next_identity(manifest)
    return sorted(
        place for place, number in lying.items() if number not in known and number < given
    )


def _numbered_places(listed: Iterable[Iterable[str]]) -> Iterator[tuple[str, int]]:
    for names in listed:
        for name in names:
            found = _PLACE.fullmatch(name)
            if found is not None:
                yield found[1], int(found[2])
