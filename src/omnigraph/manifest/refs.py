"""Graph branches, which are native Lance branches of `__manifest`: list, create and delete them."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from omnigraph import failpoints
from omnigraph.display.panel import Panel, Shown
from omnigraph.errors import BranchExists, BranchInUse, OmniGraphError
from omnigraph.manifest.branch_names import MAIN, check_branch_name, refuse_clash
from omnigraph.manifest.history.registrations import registered_alone
from omnigraph.manifest.history.resolve import no_such_branch
from omnigraph.manifest.manifest import BranchState, Manifest
from omnigraph.manifest.migrations import refuse_newer
from omnigraph.storage.tables.inline_residual import purge_table
from omnigraph.storage.tables.table import open_table
from omnigraph.storage.tables.table_branches import create_branch, delete_branch, remove_residue
from omnigraph.storage.tables.table_ref import TableRef

BEFORE_CREATE = failpoints.declare("branch.before_create")
AFTER_CREATE = failpoints.declare("branch.after_create")
BEFORE_DELETE = failpoints.declare("branch.before_delete")
AFTER_DELETE = failpoints.declare("branch.after_delete")

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, repr=False)
class BranchCreated(Shown):
    """The result of creating a branch."""

    name: str
    from_: str
    head_commit_id: str
    version: int
    identifier: str | None = None
    """The Lance identifier, which no later branch of the same name will have."""

    def to_json(self) -> dict[str, Any]:
        """Return the public form."""
        return {
            "name": self.name,
            "from": self.from_,
            "head_commit_id": self.head_commit_id,
            "version": self.version,
        }

    def _panel(self) -> Panel:
        title = f"branch {self.name}, made from {self.from_}"
        return Panel(title, [("head", self.head_commit_id), ("version", self.version)])


def list_refs(manifest: Manifest) -> list[str]:
    """Return `main`, then all other branches in code-point order."""
    return [MAIN, *manifest.branch_names()]


def create_ref(
    manifest: Manifest, name: object, source: str, version: int | None = None
) -> BranchCreated:
    """Fork the manifest at the head of a branch, or at an earlier version of it.

    The caller holds the graph lock.
    """
    new = check_branch_name(name)
    live = manifest.branch_names()
    if source != MAIN and source not in live:
        raise no_such_branch(manifest, source)
    if new in live:
        raise BranchExists(f"there is a branch `{new}` already; choose another name", branch=new)
    refuse_clash(new, live)
    refuse_newer(manifest.state(source).table)
    # Branches hold absolute paths, so they are made where the graph is settled.
    manifest.ensure_settled()
    table = manifest.state(source).table
    if version is not None:
        table = open_table(table.ref.at(version))
    failpoints.hit(BEFORE_CREATE)
    # A deleted branch of that name may have left files, over which Lance cannot create another.
    remove_residue(manifest.ref, new)
    create_branch(table, new)
    failpoints.hit(AFTER_CREATE)
    manifest.forget(new)
    created = manifest.state(new)
    commit = created.head.commit
    return BranchCreated(
        new, source, commit.graph_commit_id, commit.manifest_version, created.identifier
    )


def refuse_dependents(branch: str, others: Sequence[BranchState]) -> None:
    """Refuse to delete a branch that one of the others was made from or has tables of."""
    for other in _dependents(branch, others):
        raise BranchInUse(
            f"branch `{branch}` is still needed by branch `{other}`; delete that one first",
            branch=branch,
            by=other,
        )


def delete_ref(manifest: Manifest, name: object) -> str:
    """Delete a branch that nothing needs. The caller holds the graph lock.

    The table forks of the branch are deleted too, and the tables that only this branch has; what cannot be
    is left for cleanup.
    """
    branch = check_branch_name(name)
    state = manifest.state(branch)
    refuse_newer(state.table)
    forked = [table for table in state.head.tables.values() if table.table_branch == branch]
    # A tag on one of its commits keeps a branch, and those of other branches pin what they register.
    own = registered_alone(manifest, state)
    places = {one.location for one in own}
    failpoints.hit(BEFORE_DELETE)
    delete_branch(manifest.ref, branch)
    failpoints.hit(AFTER_DELETE)
    manifest.forget(branch)
    # Without the manifest branch no reader can reach these, so they are only garbage now.
    for table in forked:
        if table.location not in places:
            _remove(table.table_key, _ref(manifest, table.location), branch)
    for one in own:
        _remove(one.table_key, _ref(manifest, one.location), None)
    return branch


def _ref(manifest: Manifest, location: str) -> TableRef:
    return TableRef(manifest.root.child(location), storage_options=manifest.root.lance_options())


def _remove(table_key: str, ref: TableRef, fork: str | None) -> None:
    """Remove the fork of a table, or the whole table; what stays is left for cleanup."""
    try:
        if fork is None:
            purge_table(ref)
        else:
            delete_branch(ref, fork)
    except OmniGraphError as error:
        logger.warning("what the branch had of %s stays until cleanup: %s", table_key, error)


def _dependents(name: str, others: Sequence[BranchState]) -> Iterator[str]:
    """Yield the branches made from this one, and those whose manifest pins one of its table forks."""
    yield from (other.name for other in others if other.parent == name)
    for other in others:
        if any(table.table_branch == name for table in other.head.tables.values()):
            yield other.name
