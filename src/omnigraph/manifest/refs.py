"""Graph branches: native Lance branches of `__manifest`, and nothing else."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from omnigraph import failpoints
from omnigraph.errors import BadRequest, BranchExists, BranchInUse, BranchNotFound, OmniGraphError
from omnigraph.manifest.branch_names import MAIN, checked, refuse_clash, trimmed
from omnigraph.manifest.commits import find_commit
from omnigraph.manifest.manifest import Manifest, branch_not_found
from omnigraph.manifest.migrations import refuse_newer
from omnigraph.manifest.publisher import record_place
from omnigraph.manifest.snapshot import Target
from omnigraph.storage.tables.branch_refs import TableBranch
from omnigraph.storage.tables.table_branches import (
    create_branch,
    delete_branch,
    remove_residue,
)
from omnigraph.storage.tables.table_ref import TableRef

BEFORE_CREATE = failpoints.declare("branch.before_create")
AFTER_CREATE = failpoints.declare("branch.after_create")
BEFORE_DELETE = failpoints.declare("branch.before_delete")
AFTER_DELETE = failpoints.declare("branch.after_delete")

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class BranchCreated:
    """The answer of a branch create."""

    name: str
    from_: str
    head_commit_id: str
    version: int
    identifier: str | None = None
    """What tells this branch from any other that is ever called the same."""

    def to_json(self) -> dict[str, Any]:
        """The public form."""
        return {
            "name": self.name,
            "from": self.from_,
            "head_commit_id": self.head_commit_id,
            "version": self.version,
        }


def list_refs(manifest: Manifest) -> list[str]:
    """`main` first, then all other branches in code-point order."""
    return [MAIN, *manifest.branches()]


def create_ref(manifest: Manifest, name: object, source: object) -> BranchCreated:
    """Fork the manifest at the head of `source`. The caller holds the graph lock."""
    new = checked(name)
    origin = _source(manifest, source)
    live = manifest.branches()
    if new in live:
        raise BranchExists(f"there is a branch `{new}` already; choose another name", branch=new)
    refuse_clash(new, live)
    refuse_newer(manifest.state(origin).table)
    record_place(manifest)
    state = manifest.state(origin)
    failpoints.hit(BEFORE_CREATE)
    remove_residue(manifest.ref, new)
    create_branch(state.table, new)
    failpoints.hit(AFTER_CREATE)
    manifest.forget(new)
    created = manifest.state(new)
    commit = created.head.commit
    return BranchCreated(
        new, origin, commit.graph_commit_id, commit.manifest_version, created.identifier
    )


def _source(manifest: Manifest, source: object) -> str:
    if isinstance(source, Target):
        if source.snapshot is not None or source.version is not None:
            raise BadRequest("a branch is made from a branch head, not from a snapshot or version")
        source = source.branch or MAIN
    name = trimmed(source)
    if name == MAIN or name in manifest.branches():
        return name
    try:
        find_commit(manifest, name)
    except OmniGraphError:
        raise branch_not_found(name) from None
    raise BranchNotFound(
        f"there is no branch `{name}`: it is a commit, and a branch is made from a branch head",
        branch=name,
    )


def delete_ref(manifest: Manifest, name: object) -> str:
    """Remove a branch. The caller holds the graph lock; reclaiming its forks is best effort."""
    doomed = checked(name)
    live = manifest.branches()
    if doomed not in live:
        raise branch_not_found(doomed)
    for other in _users(manifest, doomed, live):
        raise BranchInUse(
            f"branch `{doomed}` is still needed by branch `{other}`; delete that one first",
            branch=doomed,
            by=other,
        )
    state = manifest.state(doomed)
    refuse_newer(state.table)
    forked = [table for table in state.head.tables.values() if table.table_branch == doomed]
    failpoints.hit(BEFORE_DELETE)
    delete_branch(manifest.ref, doomed)
    failpoints.hit(AFTER_DELETE)
    manifest.forget(doomed)
    for table in forked:
        ref = TableRef(
            manifest.root.child(table.location), storage_options=manifest.root.lance_options()
        )
        try:
            delete_branch(ref, doomed)
        except OmniGraphError as error:
            logger.warning("the fork of %s stays until cleanup: %s", table.table_key, error)
    return doomed


def _users(manifest: Manifest, name: str, live: Mapping[str, TableBranch]) -> Iterator[str]:
    """Branches made from this one, and branches whose manifest pins one of its table forks."""
    yield from (other for other, branch in live.items() if branch.parent == name)
    for other in (MAIN, *live):
        tables = manifest.state(other).head.tables.values()
        if other != name and any(table.table_branch == name for table in tables):
            yield other
