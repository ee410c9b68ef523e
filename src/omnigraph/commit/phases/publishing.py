"""Phase C, for writers and for recovery: publish under held locks.

While the locks are held the tables cannot move, so only the head row is contended. The publish is
therefore retried for a long time: giving up would turn a finished operation into one that has to be
recovered.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from omnigraph import settings
from omnigraph.errors import Contention
from omnigraph.manifest.publisher import Intent, ManifestChanges, publish
from omnigraph.manifest.rows import GraphCommit, TableState
from omnigraph.manifest.workspace import Workspace
from omnigraph.storage.locks.locks import HeldLocks


def publish_under_locks(
    workspace: Workspace,
    held: HeldLocks,
    branch: str,
    identifier: str | None,
    changes: ManifestChanges,
    expected: Sequence[TableState],
    intent: Intent,
    head_commit_id: str | None = None,
) -> GraphCommit:
    """Publish, and retry for as long as a writer waits for a lock."""
    deadline = time.monotonic() + settings.LOCK_WAIT_MS.get() / 1000
    again = False  # the first try cannot find its own commit, later ones can
    while True:
        held.check()
        try:
            return publish(
                workspace.manifest,
                branch,
                changes,
                expected,
                intent,
                identifier=identifier,
                head_commit_id=head_commit_id,
                unchecked=not expected,
                may_have_landed=again,
            )
        except Contention:
            if time.monotonic() > deadline:
                raise
        again = True
