"""`purge`: remove entities, and the edges of nodes, from every branch, version, index and cache within reach.

Under the locks of all branches:

1. look which files and versions of which tables hold them (``look``)
2. refuse if something must keep such a version (``obstacles``), without any effect
3. remove them from the head of each branch that has them, one commit each (``remove``)
4. finish: the versions that held them go, and files that no version names (``write/purges.py``)
5. verify: read every file that is left and search it (``verify``)

The commits record what is owed. A process that dies before the first of them has changed nothing; after it the
next read-write open, cleanup or purge removes what is left.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

from omnigraph import failpoints
from omnigraph.clock import new_ulid, now_us, stamp_us
from omnigraph.commit.changes import Write
from omnigraph.commit.heal import heal, run_healing
from omnigraph.commit.phases.marking import marked
from omnigraph.commit.protocol import POINTS, commit_under_locks, stage
from omnigraph.errors import OmniGraphError, PurgeBlocked, StorageError
from omnigraph.maintenance.cleanup.keep_set import Policy
from omnigraph.maintenance.cleanup.survey import Survey, survey
from omnigraph.maintenance.purge.asked_entities import Named, seek
from omnigraph.maintenance.purge.file_scan import FileScan
from omnigraph.maintenance.purge.look import Looker, TableLook
from omnigraph.maintenance.purge.obstacles import (
    Obstacle,
    find_obstacles,
    own_pins,
    unreadable_commits,
)
from omnigraph.maintenance.purge.purge_report import PurgeReport, Verified, hashes
from omnigraph.maintenance.purge.purged_ids import Blur, GoneMarks, blur, former_keys_of
from omnigraph.maintenance.purge.remove import TablePurge
from omnigraph.maintenance.purge.verify_gone import verify
from omnigraph.manifest.branch_names import MAIN
from omnigraph.manifest.history.purge_audits import FACT, find_audit
from omnigraph.manifest.publisher import Intent, record_purges, settle_purges
from omnigraph.manifest.rows import GraphCommit, Purge
from omnigraph.manifest.workspace import Workspace
from omnigraph.storage.locks.locks import HeldLocks
from omnigraph.storage.locks.waiting import Purpose
from omnigraph.write.purges import (
    Finished,
    finish,
    finish_run,
    note_purged,
    note_purging,
    purge_all,
    purges_owed,
    remove_orphans,
)

PURPOSE = Purpose("purge", slow=True)
SALT_BYTES = 32
TRIES = 5

BEFORE_BLUR = failpoints.declare("purge.before_blur")
BEFORE_FINISH = failpoints.declare("purge.before_finish")
BEFORE_VERIFY = failpoints.declare("purge.before_verify")
BEFORE_SETTLE = failpoints.declare("purge.before_settle")


@dataclass(frozen=True, slots=True)
class PurgeTask:
    """Entities to purge, who asks, why, and under which id."""

    named: Named
    reason: str | None = None
    dry_run: bool = False
    actor_id: str | None = None
    operation_id: str | None = None


@dataclass(frozen=True, slots=True)
class Looked:
    """The graph as a purge found it."""

    survey: Survey
    tables: tuple[TableLook, ...]
    obstacles: tuple[Obstacle, ...]
    not_found: int

    @property
    def found(self) -> dict[str, set[str]]:
        """The ids of the entities to purge, by type."""
        found: dict[str, set[str]] = {}
        for one in self.tables:
            if one.ids:
                found.setdefault(one.sought.type, set()).update(one.ids)
        return dict(sorted(found.items()))

    @property
    def purged(self) -> dict[str, int]:
        """The number of entities to purge, by type."""
        return {name: len(ids) for name, ids in self.found.items()}


def purge(
    workspace: Workspace, request: PurgeTask, forget: Callable[[Iterable[str]], object]
) -> PurgeReport:
    """Purge entities, or say what a purge would do.

    ``forget`` is told the places of tables of which nothing may stay in caches. A purge that was done under the
    same operation id is answered from its audit.
    """
    if request.dry_run:
        looked = _look(workspace, request.named)
        states = looked.survey.states
        return PurgeReport(
            "",
            looked.purged,
            looked.not_found,
            dry_run=True,
            obstacles=looked.obstacles,
            unreadable=tuple(unreadable_commits(workspace.manifest, states, looked.tables)),
        )
    heal(workspace)
    return run_healing(workspace, lambda: _purge(workspace, request, forget))


def _look(workspace: Workspace, named: Named) -> Looked:
    found = survey(workspace, Policy())
    sought = seek(
        workspace.manifest, found.states.values(), [one.table for one in found.tables], named
    )
    by_number = {one.table.incarnation: one for one in sought}
    marks = GoneMarks(workspace.manifest, found.states.values())
    looker, looks = Looker(FileScan(workspace), marks.may_have), []
    for table in found.tables:
        asked = by_number.get(table.table.incarnation)
        if asked is not None:
            if table.error is not None:
                raise StorageError(f"{table.table.table_key} cannot be searched: {table.error}")
            looks.append(looker.look(table, asked))
    dirty = tuple(one for one in looks if not one.is_clean)
    seen: dict[str, set[str]] = {}
    for one in dirty:
        for name in (one.found.table.table_key, one.sought.type):
            seen.setdefault(name, set()).update(one.ids)
    missing = sum(len(ids - seen.get(name, set())) for name, ids in named.items())
    return Looked(found, dirty, tuple(find_obstacles(found, dirty)), missing)


@contextmanager
def _hold_all(workspace: Workspace) -> Iterator[HeldLocks]:
    """Take the graph lock, and the locks of the heads and tables of all branches."""
    manifest, locks = workspace.manifest, workspace.locks
    for _ in range(TRIES):
        with locks.acquire(_lock_names(workspace), None, PURPOSE) as held:
            if _lock_names(workspace) <= set(held.names):
                yield held
                return
    raise StorageError(f"the branches of {manifest.root.canonical} keep changing; repeat the purge")


def _lock_names(workspace: Workspace) -> set[str]:
    manifest, locks = workspace.manifest, workspace.locks
    names = {locks.graph_lock()}
    for branch in (MAIN, *manifest.branch_names()):
        places = [pin.location for pin in manifest.state(branch).head.tables.values()]
        names |= {locks.head_lock(branch), *(workspace.lock_name(one, branch) for one in places)}
    return names


def _purge(
    workspace: Workspace, request: PurgeTask, forget: Callable[[Iterable[str]], object]
) -> PurgeReport:
    POINTS["purge", "before_locks"].hit()
    with _hold_all(workspace) as held:
        if request.operation_id is not None:
            done = find_audit(workspace.manifest.state(MAIN), request.operation_id)
            if done is not None:
                return _replayed(done)
        looked = _look_freely(workspace, request.named)
        with marked(workspace, "purge"):
            owed = purges_owed(workspace)
            purge_all(workspace, held)
            if owed:
                # They may have removed versions, files and whole tables that were found.
                looked = _look_freely(workspace, request.named)
            return _Purge(workspace, request, looked, held, forget).run()


def _look_freely(workspace: Workspace, named: Named) -> Looked:
    """Look, and refuse if something stands in the way."""
    looked = _look(workspace, named)
    if looked.obstacles:
        raise _blocked(looked.obstacles)
    return looked


_WAY_OUT: Final = {
    "branch": "merge or delete the branch",
    "tag": "delete the tag",
    "lance_tag": "delete the tag",
    "lease": "wait until it is done",
    "sidecar": "reopen the graph read-write, which rolls back what was interrupted",
}


def _blocked(obstacles: Sequence[Obstacle]) -> PurgeBlocked:
    first = obstacles[0]
    others = f" and {len(obstacles) - 1} more" if len(obstacles) > 1 else ""
    return PurgeBlocked(
        f"{first.kind} {first.name} keeps a state of {first.table_key} that holds what shall be "
        f"purged{others}; {_WAY_OUT[first.kind]}, and purge again",
        obstacles=[one.to_json() for one in obstacles],
    )


def _replayed(audit: Mapping[str, Any]) -> PurgeReport:
    """Return the report of a purge that was done before, from its audit: without the salt, which is not stored."""
    verified = audit.get("verified")
    return PurgeReport(
        audit["operation_id"],
        audit["purged"],
        audit["not_found"],
        commits=tuple(audit["commits"]),
        versions_removed=audit.get("versions_removed", 0),
        files_removed=audit.get("files_removed", 0),
        bytes_removed=audit.get("bytes_removed", 0),
        external_blobs=audit.get("external_blobs", 0),
        verified=None if verified is None else Verified(**verified),
    )


class _Purge:
    """One purge under its locks, after nothing was found to stand in its way."""

    def __init__(
        self,
        workspace: Workspace,
        request: PurgeTask,
        looked: Looked,
        held: HeldLocks,
        forget: Callable[[Iterable[str]], object],
    ) -> None:
        self.workspace = workspace
        self.request = request
        self.looked = looked
        self.held = held
        self.forget = forget
        self.at = stamp_us()
        self.operation_id = request.operation_id or new_ulid()
        self.salt = secrets.token_bytes(SALT_BYTES)
        self.commits: list[GraphCommit] = []
        self.external_blobs = 0
        self.done = Finished()

    def run(self) -> PurgeReport:
        """Remove, finish and verify."""
        if self.looked.tables:
            BEFORE_BLUR.hit()
            self._blur()
            note_purging(self.workspace)
            self._remove()
            BEFORE_FINISH.hit()
            left = self._finish()
        else:
            left = []
        BEFORE_VERIFY.hit()
        verified = self._verify(left)
        if self.looked.tables:
            BEFORE_SETTLE.hit()
            self.held.check()
            settle_purges(self.workspace.manifest, self._owed())
            record_purges(self.workspace.manifest, (), self._audit(verified))
            note_purged(self.workspace)
        return PurgeReport(
            self.operation_id,
            self.looked.purged,
            self.looked.not_found,
            commits=tuple(one.graph_commit_id for one in self.commits),
            versions_removed=self.done.versions,
            files_removed=self.done.files,
            bytes_removed=self.done.bytes,
            external_blobs=self.external_blobs,
            verified=verified,
            salt=self.salt.hex(),
        )

    def _audit(self, verified: Verified | None) -> dict[str, Any]:
        return {
            "operation_id": self.operation_id,
            "actor_id": self.request.actor_id,
            "created_at": self.at,
            "reason": self.request.reason,
            "purged": self.looked.purged,
            "not_found": self.looked.not_found,
            "commits": [one.graph_commit_id for one in self.commits],
            "versions_removed": self.done.versions,
            "files_removed": self.done.files,
            "bytes_removed": self.done.bytes,
            "external_blobs": self.external_blobs,
            "verified": None if verified is None else verified.to_json(),
            "entities": hashes(self.salt, self.looked.found),
        }

    def _blur(self) -> None:
        """Take the ids out of the records of all branches. Harmless if the purge ends here."""
        manifest = self.workspace.manifest
        states = [manifest.state(name) for name in self.looked.survey.states]
        found = [(one.found.table, one.ids) for one in self.looked.tables]
        self.held.check()
        blur(self.workspace, Blur.of(found, former_keys_of(manifest, states)))

    def _remove(self) -> None:
        """Commit on every branch whose head has purged entities, and record there what is still to be removed."""
        manifest = self.workspace.manifest
        heads = {
            name: {
                pin.incarnation: (pin, look)
                for pin, look in own_pins(manifest.state(name), self.looked.tables)
            }
            for name in self.looked.survey.states
        }
        heads = {name: pins for name, pins in heads.items() if pins}
        owed = self._runs()
        of_heads = {
            name: [
                purge
                for purge in owed
                if any(purge.removes(pin) for pin, _ in pins.values())
                or self._is_lineage_of(purge, pins)
            ]
            for name, pins in heads.items()
        }
        others = [one for one in owed if not any(one in runs for runs in of_heads.values())]
        for name, pins in heads.items():
            forgotten = (*of_heads[name], *others)
            others = []
            removals = [TablePurge(self.workspace, pin, look) for pin, look in pins.values()]
            self.commits.append(self._commit(name, removals, forgotten))
        if others:
            self.held.check()
            record_purges(manifest, others, self._audit(None))

    def _is_lineage_of(self, purge: Purge, pins: Mapping[int, Any]) -> bool:
        known = pins.get(purge.incarnation)
        return known is not None and known[0].table_branch == purge.table_branch

    def _runs(self) -> list[Purge]:
        """Return the versions to remove; the whole table for a dropped type whose last version is among them."""
        owed: list[Purge] = []
        for one in self.looked.tables:
            table = one.found.table
            newest = max(one.found.versions[None], default=0)
            if table.is_dropped and newest in one.versions.get(None, ()):
                key, number, place = table.table_key, table.incarnation, table.location
                owed.append(Purge(key, number, place, None, at=self.at))
            else:
                owed += one.runs(self.at)
        return owed

    def _commit(
        self, branch: str, removals: Sequence[TablePurge], forgotten: tuple[Purge, ...]
    ) -> GraphCommit:
        state = self.workspace.manifest.state(branch)
        changes = tuple(one.change() for one in removals)
        self.external_blobs += sum(one.external_blobs for one in removals)
        intent = Intent(
            new_ulid(),
            "purge",
            stamp_us(),
            self.request.actor_id,
            facts={FACT: {"operation_id": self.operation_id}},
            operation_id=self.request.operation_id if not self.commits else None,
        )
        write = Write(
            "purge",
            state.pin,
            intent,
            changes,
            exact_head=True,
            takes_graph_lock=True,
            ir_hash=state.head.ir_hash,
            is_large=True,
            forgotten=forgotten,
            audit=self._audit(None),
        )
        staged = stage(self.workspace, write)
        return commit_under_locks(self.workspace, write, staged, self.held)

    def _owed(self) -> list[Purge]:
        return [one for one in self.workspace.manifest.purges_owed() if one.at == self.at]

    def _finish(self) -> list[str]:
        """Remove what was recorded, then the record; return files that a live writer may own."""
        manifest, left = self.workspace.manifest, list[str]()
        live = set(manifest.branch_names())
        for one in self.looked.tables:
            self.held.check()
            remove_orphans(self.workspace.ref(one.found.table.location), live)
        for purge in self._owed():
            self.held.check()
            if purge.below is None:
                finish(self.workspace, purge, self.held)
                continue
            done = finish_run(self.workspace, purge, self.held)
            left += done.left
            self.done = replace(
                self.done,
                versions=self.done.versions + done.versions,
                files=self.done.files + done.files,
                bytes=self.done.bytes + done.bytes,
            )
        self.forget([one.found.table.location for one in self.looked.tables])
        return left

    def _verify(self, left: Sequence[str]) -> Verified:
        """Search all that is left, except files that a write that may be alive owns and that lack the ids."""
        scan = FileScan(self.workspace)
        try:
            for one in self.looked.tables:
                verify(scan, one, left)
        except OmniGraphError as error:
            raise StorageError(
                f"the purge {self.operation_id} is not finished: {error.message}; what is left is removed by "
                "the next read-write open, cleanup or purge once nobody needs it",
                file=error.details.get("file"),
            ) from error
        return Verified(scan.files, scan.bytes, now_us())
