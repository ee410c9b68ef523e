"""Recovery sidecars: files that say what an operation is about to do, written before its first effect.

A sidecar names every table the operation moves, the transactions it will commit there, and all its
publish needs. After its process died, any other process can finish or undo the operation from it.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, cast

from omnigraph import failpoints
from omnigraph.commit.changes import RELOCATE, WRITERS, Write, Writer
from omnigraph.errors import CorruptSidecar, NotAGraph, StorageError
from omnigraph.manifest.branch_names import MAIN
from omnigraph.manifest.history.stream_records import StreamBatch, StreamRecord
from omnigraph.manifest.manifest import BranchPin
from omnigraph.manifest.publisher import Intent
from omnigraph.manifest.rows import GraphCommit, Purge, SchemaRow, TableState
from omnigraph.manifest.workspace import Workspace, lance_branch
from omnigraph.storage import layout
from omnigraph.storage.decoded import has_type
from omnigraph.storage.locks.locks import HeldLocks
from omnigraph.storage.objects.store_errors import AlreadyExists, InvalidText, ObjectNotFound

SIDECAR_VERSION = 2

SIDECAR_WRITE = failpoints.declare("recovery.sidecar_write")
SIDECAR_DELETE = failpoints.declare("recovery.sidecar_delete")
SIDECAR_LIST = failpoints.declare("recovery.sidecar_list")


@dataclass(frozen=True, slots=True)
class TableEntry:
    """One table the operation moves. ``base`` is its pin before; commits go to ``table_branch``.

    ``post_commit_version`` is the lowest version the table has when the operation is complete.
    ``optional_uuids`` belong to best-effort steps, which may be left out.
    """

    base: TableState
    table_branch: str | None
    post_commit_version: int
    transaction_uuids: tuple[str, ...]
    optional_uuids: tuple[str, ...] = ()
    created_fork: bool = False
    created_dataset: bool = False

    @property
    def uuids(self) -> frozenset[str]:
        """The UUIDs of all transactions the operation may commit to this table."""
        return frozenset((*self.transaction_uuids, *self.optional_uuids))


@dataclass(frozen=True, slots=True)
class Sidecar:
    """One operation between Phase A and Phase D."""

    operation_id: str
    graph_id: str
    writer: Writer
    pin: BranchPin
    intent: Intent
    tables: tuple[TableEntry, ...]
    expected: tuple[TableState, ...]
    locks: tuple[str, ...]
    owner: Mapping[str, Any]
    registered: tuple[int, ...] = ()
    taken_over: tuple[TableState, ...] = ()
    brought_in: tuple[TableState, ...] = ()
    renamed: Mapping[int, str] = field(default_factory=dict)
    dropped: tuple[int, ...] = ()
    purged: tuple[int, ...] = ()
    schema: SchemaRow | None = None
    adopted: tuple[GraphCommit, ...] = ()
    streams: tuple[StreamRecord, ...] = ()
    exact_head: bool = False
    forgotten: tuple[Purge, ...] = ()
    audit: Mapping[str, Any] | None = None

    @property
    def branch(self) -> str:
        """The name of the branch the operation is meant for."""
        return self.pin.name

    @property
    def head_commit_id(self) -> str | None:
        """The commit that had to be the head, or None if the operation accepts any head."""
        return self.pin.head_commit_id if self.exact_head else None

    @property
    def name(self) -> str:
        """The name of the control object that holds the sidecar."""
        return layout.sidecar_name(self.operation_id)

    def to_text(self) -> str:
        """Return the sidecar as a JSON document."""
        document = {"schema_version": SIDECAR_VERSION, **_members(self)}
        return json.dumps(document, ensure_ascii=False, default=_members)


def _members(part: Any) -> dict[str, Any]:
    """Return the values of a dataclass by name; ``asdict`` would also copy all that is in them."""
    return {one.name: getattr(part, one.name) for one in fields(part)}


def build_sidecar(write: Write, graph_id: str, forks: set[str], held: HeldLocks) -> Sidecar:
    """Return the sidecar of a write; ``forks`` are the locations that get a table branch."""
    target = lance_branch(write.branch)
    entries = [
        TableEntry(
            base=change.base,
            table_branch=target if change.base.location in forks else change.base.table_branch,
            post_commit_version=change.base.table_version + change.required_versions,
            transaction_uuids=tuple(s.uuid for s in change.staged_steps() if not s.best_effort),
            optional_uuids=tuple(s.uuid for s in change.staged_steps() if s.best_effort),
            created_fork=change.base.location in forks,
        )
        for change in write.tables
    ]
    entries += [
        TableEntry(
            new.state,
            new.state.table_branch,
            1 + len(new.steps),
            tuple(step.uuid for step in new.steps),
            created_dataset=True,
        )
        for new in write.created
    ]
    return Sidecar(
        operation_id=write.operation_id,
        graph_id=graph_id,
        writer=write.writer,
        pin=write.pin,
        intent=write.intent,
        tables=tuple(entries),
        expected=write.expected,
        locks=held.names,
        owner={**held.owner.as_json(), "locks": held.name},
        registered=tuple(new.state.incarnation for new in write.created),
        taken_over=write.taken_over,
        brought_in=write.brought_in,
        renamed=dict(write.renamed),
        dropped=tuple(table.incarnation for table in write.dropped),
        purged=write.purged,
        schema=write.schema,
        adopted=write.adopted,
        streams=write.stream_records,
        exact_head=write.exact_head,
        forgotten=write.forgotten,
        audit=write.audit,
    )


# ------------------------------------------------------------------ the store


def write_sidecar(workspace: Workspace, sidecar: Sidecar) -> None:
    """Do Phase A: write the sidecar, after checking that it can be read back.

    A sidecar that cannot be read would stop every later writer.
    """
    text = sidecar.to_text()
    _check_readable(sidecar, text)
    failpoints.hit(SIDECAR_WRITE)
    try:
        workspace.store.write_text_if_absent(sidecar.name, text)
    except AlreadyExists:
        raise
    except StorageError:
        # The put may have succeeded although the store reported an error. No table has moved yet, so
        # deleting the sidecar is safe.
        with contextlib.suppress(StorageError):
            workspace.store.delete(sidecar.name)
        raise


def _check_readable(sidecar: Sidecar, text: str) -> None:
    """Raise if the text does not decode to the same sidecar."""
    try:
        text.encode()
        fits = read_sidecar(sidecar.name, text) == sidecar
    except (CorruptSidecar, UnicodeEncodeError):
        fits = False
    if not fits:
        raise StorageError(
            f"the plan of operation {sidecar.operation_id} cannot be written down for recovery, so "
            "nothing was changed; this is a bug in omnigraph, please report it",
            operation_id=sidecar.operation_id,
        )


def delete_sidecar(workspace: Workspace, sidecar: Sidecar, *, published: bool = False) -> None:
    """Do Phase D: delete the sidecar. It may be gone already.

    ``published``: its commit is there, and recovery would find that out if a loss of power brought the sidecar
    back. So nobody waits until the disk has forgotten it.
    """
    failpoints.hit(SIDECAR_DELETE)
    if published:
        workspace.store.discard(sidecar.name)
    else:
        workspace.store.delete(sidecar.name)


def is_pending(workspace: Workspace, sidecar: Sidecar) -> bool:
    """Return whether the sidecar still exists."""
    return workspace.store.exists(sidecar.name)


def list_sidecars(workspace: Workspace, graph_id: str) -> list[Sidecar]:
    """Return all pending sidecars, oldest first; raise if one is unreadable or of another graph.

    A sidecar that its writer deletes between listing and reading is left out. So are files that are
    not named like sidecars: this product did not write them, so no operation depends on them.
    """
    failpoints.hit(SIDECAR_LIST)
    found = []
    names = _names(workspace)
    if layout.TOMBSTONE in names:
        raise NotAGraph(
            f"the graph at {workspace.root.canonical} is being deleted; check the address",
            root=workspace.root.canonical,
        )
    for name in filter(layout.is_sidecar, names):
        try:
            text = workspace.store.read_text(name)
        except ObjectNotFound:
            continue
        except InvalidText as error:
            raise _corrupt(name, error) from error
        sidecar = read_sidecar(name, text)
        if sidecar.graph_id != graph_id and sidecar.graph_id not in _ids(workspace):
            raise CorruptSidecar(
                f"{name} belongs to another graph ({sidecar.graph_id}); move the file away",
                file=name,
            )
        found.append(sidecar)
    return sorted(found, key=lambda sidecar: sidecar.operation_id)


def _ids(workspace: Workspace) -> tuple[str, ...]:
    """Return the id of the graph, and those of its originals: a sidecar may have come along with a copy."""
    head = workspace.manifest.state(MAIN).head
    return (head.graph_id, *head.former_ids)


def pending_and_strays(workspace: Workspace) -> tuple[list[str], list[str]]:
    """Return the names of the pending sidecars, and the names of other files in their directory."""
    names = _names(workspace)
    return (
        [name for name in names if layout.is_sidecar(name)],
        [name for name in names if not layout.is_sidecar(name) and name != layout.PURGING],
    )


def _names(workspace: Workspace) -> list[str]:
    """Return the names of all files in the directory of the sidecars."""
    names = workspace.store.list(layout.RECOVERY_DIR)
    if (
        not names
        and workspace.root.is_local
        and Path(workspace.root.path, layout.RECOVERY_DIR).is_file()
    ):
        # A disk lists a file as if it were an empty directory.
        raise StorageError(
            f"{layout.RECOVERY_DIR} under {workspace.root.canonical} is a file, so pending recoveries "
            "cannot be listed; put the directory back"
        )
    return names


def read_sidecar(name: str, text: str) -> Sidecar:
    """Decode a sidecar from its JSON document; ``CorruptSidecar`` names the file."""
    try:
        document = json.loads(text)
        version = document.pop("schema_version")
    except (ValueError, AttributeError, KeyError, TypeError, RecursionError) as error:
        raise _corrupt(name, error) from error
    if version != SIDECAR_VERSION:
        older = isinstance(version, int) and version < SIDECAR_VERSION
        way = (
            "open the graph once with the omnigraph that wrote it"
            if older
            else "upgrade omnigraph first"
        )
        raise CorruptSidecar(
            f"{name} has version {version!r} and this omnigraph knows {SIDECAR_VERSION}: {way}",
            file=name,
        )
    try:
        sidecar = _decode(document)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise _corrupt(name, error) from error
    if sidecar.name != name or sidecar.writer not in {*WRITERS, RELOCATE}:
        raise _corrupt(name, "its content does not belong to its name")
    return sidecar


def _corrupt(name: str, why: object) -> CorruptSidecar:
    return CorruptSidecar(
        f"{name} is not a recovery sidecar this omnigraph can read ({why}); it stays where it is: "
        "restore it from a copy, or move it away and look at the tables with omnigraph repair",
        file=name,
    )


def _decode(document: dict[str, Any]) -> Sidecar:
    """Build a sidecar from parsed JSON; raise ``TypeError`` if a value has the wrong type."""
    tables = tuple(
        TableEntry(
            **{
                **entry,
                "base": TableState(**entry["base"]),
                "transaction_uuids": tuple(entry["transaction_uuids"]),
                "optional_uuids": tuple(entry["optional_uuids"]),
            }
        )
        for entry in document["tables"]
    )
    schema = document["schema"]
    sidecar = Sidecar(
        **{
            **document,
            "writer": cast("Writer", document["writer"]),
            "pin": BranchPin(**document["pin"]),
            "intent": Intent(**document["intent"]),
            "expected": tuple(TableState(**state) for state in document["expected"]),
            "tables": tables,
            "locks": tuple(document["locks"]),
            "registered": tuple(document["registered"]),
            "taken_over": tuple(TableState(**s) for s in document.get("taken_over", ())),
            "brought_in": tuple(TableState(**s) for s in document.get("brought_in", ())),
            "renamed": {int(key): value for key, value in document["renamed"].items()},
            "dropped": tuple(document["dropped"]),
            "purged": tuple(document.get("purged", ())),
            "schema": None if schema is None else SchemaRow(**schema),
            "adopted": tuple(GraphCommit(**commit) for commit in document["adopted"]),
            "streams": tuple(
                StreamRecord(StreamBatch(**one["batch"]), one["graph_commit_id"])
                for one in document.get("streams", ())
            ),
            "forgotten": tuple(Purge(**one) for one in document.get("forgotten", ())),
        }
    )
    if not has_type(sidecar, Sidecar):
        raise TypeError("a value has the wrong type")
    return sidecar
