"""The commit of a maintenance operation: all its tables at once; none if nothing was done."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Literal

from omnigraph.clock import new_ulid, stamp_us
from omnigraph.commit.attempts import Attempt
from omnigraph.commit.changes import NothingToPublish, TableChange, Write
from omnigraph.manifest.publisher import Intent
from omnigraph.manifest.rows import GraphCommit


def commit_changed(
    attempt: Attempt,
    operation: Literal["optimize", "ensure_indices"],
    changes: Sequence[TableChange],
    actor_id: str | None,
) -> GraphCommit | None:
    """Commit the changes; return None if there are none, or if every step of them was left out."""
    if not changes:
        return None
    write = Write(
        operation,
        attempt.state.pin,
        Intent(new_ulid(), operation, stamp_us(), actor_id),
        tuple(changes),
        ir_hash=attempt.state.head.ir_hash,
        only_if_changed=True,
    )
    with contextlib.suppress(NothingToPublish):
        return attempt.commit(write)
    return None
