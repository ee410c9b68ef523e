"""Which tables are ahead of their pins without a reason, told from a listing of the store.

No table is opened: a listing says which versions there are, and the manifest of a branch which of them
the graph pins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from omnigraph.commit.drift import covers
from omnigraph.commit.sidecar import Sidecar, list_sidecars
from omnigraph.commit.stage_tables import needs_fork
from omnigraph.errors import BranchNotFound, OmniGraphError
from omnigraph.manifest.branch_names import MAIN
from omnigraph.manifest.rows import TableState
from omnigraph.manifest.workspace import Workspace
from omnigraph.storage import layout
from omnigraph.storage.table_files import LineageFiles, TableFiles


def files_of(files: Mapping[str, TableFiles], pin: TableState) -> LineageFiles:
    """Return what lies on the store for the table of a pin, on the table's branch."""
    return files.get(pin.location, {}).get(pin.table_branch, LineageFiles())


def drifted_tables(
    workspace: Workspace,
    branch: str,
    pins: Sequence[TableState],
    files: Mapping[str, TableFiles],
) -> dict[int, str]:
    """Return the tables of a branch whose newest version nothing explains, by incarnation.

    What explains one is an operation that is pending, of a writer at work or of a dead one. As for a
    preview of ``repair``, a table whose pin has moved meanwhile was written to, so it was at its pin.
    """
    ahead = [
        pin
        for pin in pins
        if not needs_fork(pin, branch) and files_of(files, pin).newest > pin.table_version
    ]
    if not ahead:
        return {}
    try:
        graph_id = workspace.manifest.state(MAIN).head.graph_id
        pending: list[Sidecar] = list_sidecars(workspace, graph_id)
    except OmniGraphError:
        return {}  # which is advice of its own
    now = {pin.incarnation: pin for pin in workspace.manifest.state(branch).head.tables.values()}
    return {
        pin.incarnation: f"is at version {files_of(files, pin).newest}, which another program made"
        for pin in ahead
        if now.get(pin.incarnation) == pin
        and not any(one.branch == branch and covers(one, pin.location) for one in pending)
    }


def with_own_tables(branches: Sequence[str], files: Mapping[str, TableFiles]) -> list[str]:
    """Return those branches other than `main` that have tables of their own."""
    own = {name for place, table in files.items() if place != layout.MANIFEST for name in table}
    return [branch for branch in branches if branch != MAIN and branch in own]


def drifted_on_branches(
    workspace: Workspace, branches: Sequence[str], files: Mapping[str, TableFiles]
) -> list[str]:
    """Return a text for each drifted table of a branch other than `main`.

    Only branches that have tables of their own are looked at.
    """
    found = []
    for branch in with_own_tables(branches, files):
        try:
            pins = list(workspace.manifest.state(branch).head.tables.values())
            drifted = drifted_tables(workspace, branch, pins, files)
        except BranchNotFound:
            continue  # deleted meanwhile
        found += [
            f"{pin.table_key} on branch {branch} {drifted[pin.incarnation]}"
            for pin in pins
            if pin.incarnation in drifted
        ]
    return found
