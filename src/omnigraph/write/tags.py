"""Create and delete tags, under the graph lock and the head lock of `main`."""

from __future__ import annotations

from collections.abc import Iterable

from omnigraph.clock import stamp_us
from omnigraph.commit.drift import HealFirst
from omnigraph.commit.heal import run_healing
from omnigraph.commit.sidecar import list_sidecars
from omnigraph.errors import HistoryReclaimed
from omnigraph.manifest.branch_names import MAIN, check_tag_name
from omnigraph.manifest.history.beside_commits import hold_main, publish_patiently
from omnigraph.manifest.history.equal_content import read_commit
from omnigraph.manifest.history.resolve import resolve_on
from omnigraph.manifest.history.tags import Tag, drop_tag, find_tag, publish_tag, refuse_taken
from omnigraph.manifest.rows import Purge
from omnigraph.manifest.snapshot import Snapshot, Target
from omnigraph.manifest.workspace import Workspace
from omnigraph.write.purges import purges_owed


def create_tag(workspace: Workspace, name: str, target: Target, actor_id: str | None) -> Tag:
    """Name the commit of a target, whose tables must all be readable; no commit is made."""
    return run_healing(workspace, lambda: _create(workspace, name, target, actor_id))


def _create(workspace: Workspace, name: str, target: Target, actor_id: str | None) -> Tag:
    wanted, manifest = check_tag_name(name), workspace.manifest
    with hold_main(workspace, "tag_create") as held:
        refuse_taken(manifest, wanted)
        # The locks keep cleanup and branch deletes away from what the tag is about to keep.
        snapshot = _readable(workspace, target)
        commit = snapshot.commit
        made_on = manifest.state(commit.branch or MAIN)
        tag = Tag(
            wanted,
            commit.graph_commit_id,
            commit.branch,
            commit.manifest_version,
            stamp_us(),
            actor_id,
            branch_id=made_on.identifier,
            tables=tuple(snapshot.tables.values()),
        )
        publish_patiently(held, lambda: publish_tag(manifest, tag))
    return tag


def delete_tag(workspace: Workspace, name: str, commit_id: str | None = None) -> Tag:
    """Delete a tag and return what it was; its commit stays as long as history is kept.

    If ``commit_id`` is given, a tag that names another commit by now is not deleted.
    """
    wanted, manifest = check_tag_name(name), workspace.manifest
    find_tag(manifest, wanted)
    with hold_main(workspace, "tag_delete") as held:
        return publish_patiently(held, lambda: drop_tag(manifest, wanted, commit_id))


def _readable(workspace: Workspace, target: Target) -> Snapshot:
    """Return the snapshot of a target; raise ``HistoryReclaimed`` if it cannot be kept."""
    state, snapshot = resolve_on(workspace.manifest, target)
    # What a head pins is there: no need to open it.
    pinned = {table.identity for table in state.head.tables.values()}
    read_commit(workspace, snapshot.commit, pinned)
    head = workspace.manifest.state(MAIN).head
    _refuse_purged(snapshot, purges_owed(workspace))
    incarnations = {table.incarnation for table in snapshot.tables.values()}
    for sidecar in list_sidecars(workspace, head.graph_id):
        # A hard drop or a purge whose process died; once it is rolled forward it owes the removal.
        forgotten = {purge.incarnation for purge in sidecar.forgotten}
        if not incarnations.isdisjoint(forgotten.union(sidecar.purged)):
            raise HealFirst(sidecar.operation_id)
    return snapshot


def _refuse_purged(snapshot: Snapshot, purges: Iterable[Purge]) -> None:
    """Refuse a snapshot with a table version that a hard drop or a purge is about to remove from disk."""
    owed = list(purges)
    for table in snapshot.tables.values():
        if any(purge.removes(table) for purge in owed):
            raise HistoryReclaimed(
                f"a hard drop or a purge removes version {table.table_version} of {table.table_key}; choose a "
                "newer commit",
                table_key=table.table_key,
                version=table.table_version,
            )
