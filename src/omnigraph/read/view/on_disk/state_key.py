"""What names a kept state: the table, its version and a fingerprint of its content.

The fingerprint is what the table's own manifest gives. A table of the same name, branch and version
that another graph, a copy or a restored backup has there is another state.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from omnigraph.read.kept.kept_files import KeptName, digest
from omnigraph.read.view.pinned_table import Identity, Lineage, PinnedTable
from omnigraph.storage.tables.transactions import content_fingerprint


class State(NamedTuple):
    """A version of a table, with a fingerprint of its content."""

    identity: Identity
    fingerprint: str

    @staticmethod
    def of(pinned: PinnedTable) -> State:
        """The state that a table is pinned at."""
        return State(pinned.exact, content_fingerprint(pinned.table))


def main_of(lineage: Lineage) -> Lineage:
    """The same table on the main branch."""
    return lineage._replace(branch=None, identifier=None)


def folder_of(lineage: Lineage) -> str:
    """The folder of a table: the same for all its branches and versions."""
    return digest(json.dumps([lineage.graph_id, lineage.location]))


def lineage_digest(lineage: Lineage) -> str:
    """The branch of a table, as the names of its files have it."""
    return digest(json.dumps([lineage.branch, lineage.identifier]))


def key_of(kind: str, *states: State) -> str:
    """What a file says that it holds."""
    listed = [[*one.identity.lineage, one.identity.version, one.fingerprint] for one in states]
    return json.dumps([kind, listed])


def name_of(identity: Identity, part: str, key: str) -> KeptName:
    """The name of the file with this key."""
    return KeptName(identity.version, lineage_digest(identity.lineage), digest(key), part)


def read_states(key: str, kind: str) -> list[State]:
    """The states that the key of a file of this kind names; none where it is of another kind."""
    try:
        found: Any = json.loads(key)
        if found[0] != kind:
            return []
        return [_read_state(*one) for one in found[1]]
    except (ValueError, TypeError, KeyError, IndexError, RecursionError):
        return []


def _read_state(
    graph_id: str,
    location: str,
    branch: str | None,
    identifier: str | None,
    version: int,
    fingerprint: str,
) -> State:
    if not isinstance(version, int):
        raise TypeError(version)
    return State(Identity(Lineage(graph_id, location, branch, identifier), version), fingerprint)
