"""The failpoints at which processes of the model stand; their names are the product's."""

from __future__ import annotations

from collections.abc import Iterator

from tests.faults.model.explorer import Step
from tests.faults.model.states import State

WRITER = "load"
"""All writers run the same protocol; this one's failpoints stand for those of all."""

PINNED = "attempt.pinned"
BEFORE_A = f"{WRITER}.before_phase_a"
BEFORE_B = f"{WRITER}.before_phase_b"
BEFORE_FORK = f"{WRITER}.before_fork"
AFTER_FORK = f"{WRITER}.after_fork"
BEFORE_COMMIT = f"{WRITER}.before_table_commit"
AFTER_COMMIT = f"{WRITER}.after_table_commit"
BEFORE_C = f"{WRITER}.after_phase_b_before_phase_c"
BEFORE_D = f"{WRITER}.after_phase_c_before_phase_d"
BEFORE_WRITE = "publish.before_write"
AFTER_WRITE = "publish.after_write"
BEFORE_COMPACT = "publish.before_compact"
SIDECAR_WRITE = "recovery.sidecar_write"
SIDECAR_DELETE = "recovery.sidecar_delete"
RECORD_AUDIT = "recovery.record_audit"
BEFORE_PUBLISH = "recovery.before_publish"
AFTER_PUBLISH = "recovery.after_publish"
BEFORE_RESTORE = "recovery.before_restore"
AFTER_RESTORE = "recovery.after_restore"
BEFORE_DISCARD = "recovery.before_discard"

LOCKED = "locked"
"""Where a writer stands that has its locks and has not looked at the branch again."""
OPTIONAL = "optional step"
"""Where a writer stands before a best-effort step; its failpoint is that of any table commit."""
PUBLISH = "publish"
"""Where a process stands before it reads the manifest to publish."""
CHECKED = frozenset({BEFORE_A, BEFORE_FORK, BEFORE_COMMIT, OPTIONAL, PUBLISH, BEFORE_RESTORE})
"""Where the locks are checked right before the effect; with leases, time passes in between."""

Steps = Iterator[Step[State]]
