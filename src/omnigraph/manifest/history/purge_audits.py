"""The audit of each purge that a graph stores: who, when, why, how many, and a salted hash of each entity.

The row `purge:{operation id}` is written by the first commit of the purge to its branch, and to `main`
once everything is removed and searched (``verified``).
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Final

from omnigraph.errors import BranchNotFound
from omnigraph.manifest.branch_names import MAIN
from omnigraph.manifest.manifest import BranchState, Manifest
from omnigraph.manifest.row_reads import read_metadata
from omnigraph.manifest.rows import PURGE, GraphCommit

FACT: Final = "purge"
"""The fact of a commit that names the purge that made it."""


def find_audit(state: BranchState, operation_id: str) -> dict[str, Any] | None:
    """Return what a branch keeps of a purge, or None if it knows of none with this id."""
    found = read_metadata(state.table, "object_id", f"{PURGE}:{operation_id}")
    audit: dict[str, Any] | None = json.loads(found[0]) if found else None
    return audit


def knows_purges(manifest: Manifest, branch: BranchState) -> bool:
    """Return whether something was ever purged on a branch, or from the whole graph."""
    return branch.head.purged or manifest.state(MAIN).head.purged


def with_audit(manifest: Manifest, commit: GraphCommit) -> GraphCommit:
    """Return the commit of a purge with its audit among the facts; any other one as it is."""
    named = commit.facts.get(FACT)
    if commit.operation != PURGE or not isinstance(named, dict):
        return commit
    for branch in dict.fromkeys((MAIN, commit.branch or MAIN)):
        try:
            audit = find_audit(manifest.state(branch), named["operation_id"])
        except BranchNotFound:
            continue
        if audit is not None:
            return replace(commit, facts={**commit.facts, FACT: audit})
    return commit
