"""Write one blob: replace or clear the value of one property of one node or edge, as one commit.

1. The source is copied to a temporary file, a piece at a time; it is never read again, however often
   the write has to be tried.
2. Each attempt reads the row anew and writes it with the new value. Lance copies the bytes from the
   temporary file into the table, and the row's other large blobs from the files they lie in.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from omnigraph.clock import new_ulid, stamp_us
from omnigraph.commit.attempts import Attempt, Attempts
from omnigraph.commit.changes import TableChange, Write
from omnigraph.commit.heal import heal
from omnigraph.commit.replays import WriteRequest, kept_answer, run_once, shown_commit
from omnigraph.display.panel import Panel, Shown
from omnigraph.display.text import size_text
from omnigraph.errors import (
    BadRequest,
    BlobChanged,
    InputError,
    OmniGraphError,
    SchemaConflict,
    StorageError,
)
from omnigraph.lang.schema.catalog import Catalog
from omnigraph.manifest.manifest import BranchState
from omnigraph.manifest.publisher import Intent
from omnigraph.manifest.rows import GraphCommit, TableState
from omnigraph.manifest.workspace import Workspace
from omnigraph.storage import full_disk
from omnigraph.storage.filters import Condition
from omnigraph.storage.scratch import scratch_directory
from omnigraph.storage.tables.blobs.reading import PIECE_BYTES, BlobFacts, find_blob
from omnigraph.storage.tables.table import Table, open_table
from omnigraph.types import shown_place
from omnigraph.write.blob_selector import BlobSelector
from omnigraph.write.pending import PendingTable

if TYPE_CHECKING:
    import pyarrow as pa

logger = logging.getLogger(__name__)

BlobSourceLike = str | os.PathLike[str] | BinaryIO | Iterable[bytes] | bytes | None
"""A path, a binary file, bytes or an iterator of them; None clears the value."""


@dataclass(frozen=True, slots=True, repr=False)
class BlobWritten(Shown):
    """What a write of a blob did; ``size`` and ``etag`` are None after it was cleared.

    ``replayed``: it was made before, under the same operation id, and had no effect this time.
    """

    selector: BlobSelector
    branch: str
    size: int | None
    etag: str | None
    actor_id: str | None
    commit: GraphCommit
    replayed: bool = False

    @classmethod
    def replay(cls, commit: GraphCommit) -> BlobWritten:
        """Return the answer that a commit keeps."""
        kept = kept_answer(commit)
        size, etag = kept["size"], kept["etag"]
        selector = BlobSelector(**kept["selector"])
        return cls(selector, kept["branch"], size, etag, kept["actor_id"], commit, replayed=True)

    def to_json(self) -> dict[str, Any]:
        """Return the public form; ``replayed`` appears only if it is true."""
        return {
            "selector": self.selector.to_json(),
            "branch": self.branch,
            "size": self.size,
            "etag": self.etag,
            "actor_id": self.actor_id,
            "commit": self.commit.to_json(),
            **({"replayed": True} if self.replayed else {}),
        }

    def _panel(self) -> Panel:
        done = "cleared" if self.size is None else f"wrote {size_text(self.size)} to"
        commit = shown_commit(self.commit, replayed=self.replayed)
        facts = [("etag", self.etag), ("commit", commit)]
        return Panel(f"{done} {self.selector} on branch {self.branch}", facts)


@dataclass(frozen=True, slots=True)
class BlobWrite:
    """One blob to write. ``accepted`` gives the schema of a state of the branch: its hash and types."""

    selector: BlobSelector
    accepted: Callable[[BranchState], tuple[str, Catalog]]
    branch: str
    actor_id: str | None = None
    if_commit: str | None = None
    if_match: str | None = None
    asked: WriteRequest = field(default_factory=lambda: WriteRequest("blob_write"))
    """What a repetition is recognised by, and what the commit says about itself."""
    must_be_null: bool = False

    def facts(self, value: dict[str, Any] | None, etag: str | None = None) -> dict[str, Any]:
        """Return what the commit keeps, so that a repetition can be answered."""
        answer = {
            "selector": self.selector.to_json(),
            "branch": self.branch,
            "size": _size(value),
            "etag": etag,
            "actor_id": self.actor_id,
        }
        return self.asked.facts(answer)


def write_blob(workspace: Workspace, request: BlobWrite, source: BlobSourceLike) -> BlobWritten:
    """Write the blob, after finishing what dead writers left; one whose id is known is not repeated."""
    heal(workspace)

    def run() -> BlobWritten:
        return _write_blob(workspace, request, source)

    return run_once(workspace, [request.branch], request.asked, run, BlobWritten.replay)


def _write_blob(workspace: Workspace, request: BlobWrite, source: BlobSourceLike) -> BlobWritten:
    state = workspace.manifest.state(request.branch)
    # What can be refused is refused before the source is read.
    _Attempt(workspace, request, state).check(source is None)
    with spooled(source) as value:
        started = stamp_us()
        attempts = Attempts(workspace, request.branch, None, request.if_commit)
        made, etag = attempts.run(lambda attempt: _write(attempt, request, value, started))
    return BlobWritten(request.selector, request.branch, _size(value), etag, request.actor_id, made)


def _size(value: dict[str, Any] | None) -> int | None:
    """The number of bytes of a spooled value."""
    return None if value is None else value.get("size", 0)


def _write(
    attempt: Attempt, request: BlobWrite, value: dict[str, Any] | None, started: int
) -> tuple[GraphCommit, str | None]:
    """Commit the value; return the commit and the ETag that the value has now."""
    state = attempt.state
    work = _Attempt(attempt.workspace, request, state)
    work.check(value is None)
    pending = PendingTable(work.entity, work.pin, work.table)
    rows = pending.candidates([Condition("id", "=", request.selector.id)])
    pending.put(_with_value(rows, request.selector.property, value))
    etag: str | None = None

    def describe(pins: Sequence[TableState]) -> dict[str, Any]:
        # While the table is locked, so that the row cannot have moved or gone since.
        nonlocal etag
        etag = _etag(attempt.workspace, request, pins)
        return request.facts(value, etag)

    write = Write(
        writer="mutation",
        pin=state.pin,
        ir_hash=state.head.ir_hash,
        intent=Intent(
            new_ulid(),
            "mutation",
            started,
            request.actor_id,
            facts=request.facts(value),
            operation_id=request.asked.operation_id,
        ),
        tables=(TableChange(work.pin, pending.write_steps()),),
        late_facts=describe,
    )
    return attempt.commit(write), etag


def _with_value(rows: pa.Table, column: str, value: dict[str, Any] | None) -> pa.Table:
    import pyarrow as pa

    at = rows.schema.get_field_index(column)
    field = rows.schema.field(at)
    return rows.set_column(at, field, pa.array([value] * rows.num_rows, field.type))


class _Attempt:
    """The table of the blob at one state of the branch."""

    def __init__(self, workspace: Workspace, request: BlobWrite, state: BranchState) -> None:
        self.request = request
        ir_hash, catalog = request.accepted(state)
        self.entity = request.selector.entity(catalog)
        pin = state.head.tables.get(self.entity.table_key)
        if (
            ir_hash != state.head.ir_hash
            or pin is None
            or pin.incarnation != self.entity.table_incarnation_id
        ):
            raise SchemaConflict("the schema changed while the blob was written; write it again")
        self.pin = pin
        self.table: Table = open_table(workspace.pinned(pin))

    def check(self, clears: bool) -> None:
        """Refuse a row that is not there, another value than expected, null for a required one."""
        selector = self.request.selector
        found = find_blob(self.table, selector.property, selector.id)
        if found is None:
            raise selector.not_found()
        if clears and not self.entity.properties[selector.property].type.nullable:
            raise InputError(
                f"{selector.type}.{selector.property} is required and cannot be cleared; write other "
                "bytes instead",
                property=selector.property,
            )
        self._check_value(found.facts)

    def _check_value(self, facts: BlobFacts | None) -> None:
        """Refuse another value than the request expects."""
        selector, wanted = self.request.selector, self.request.if_match
        named = f"{selector.property} of {selector.type} {selector.id!r}"
        etag = None if facts is None else facts.etag
        if wanted is not None and not _fits(wanted, facts):
            raise BlobChanged(
                f"{named} is not the value with the ETag that was given; look at it again and decide "
                "anew",
                expected=wanted,
                actual=etag,
            )
        if self.request.must_be_null and facts is not None:
            raise BlobChanged(
                f"{named} has a value already; look at it, and name its ETag to replace it",
                actual=etag,
            )


def _fits(wanted: str, facts: BlobFacts | None) -> bool:
    """Whether one of the ETags is that of a value; `*` stands for every value that there is."""
    tags = [tag.strip().strip('"') for tag in wanted.split(",")]
    return facts is not None and ("*" in tags or (facts.etag is not None and facts.etag in tags))


def _etag(workspace: Workspace, request: BlobWrite, pins: Sequence[TableState]) -> str | None:
    """Return the ETag of the blob in the new version of the table; None if it cannot be read now."""
    (pin,) = pins
    try:
        table = open_table(workspace.pinned(pin))
        found = find_blob(table, request.selector.property, request.selector.id)
    except OmniGraphError as error:
        logger.warning("the blob could not be described while it was written: %s", error)
        return None
    return None if found is None or found.facts is None else found.facts.etag


# ------------------------------------------------------------------ the source


@contextmanager
def spooled(source: BlobSourceLike) -> Iterator[dict[str, Any] | None]:
    """The value of a blob, whose bytes lie in a temporary file as long as the block lasts."""
    if source is None:
        yield None
        return
    try:
        directory = scratch_directory()
    except OSError as error:
        raise _no_room(error) from error
    with directory as name:
        path = Path(name) / "blob"
        size = _copy(source, path)
        if size:
            yield {"uri": path.as_uri(), "position": 0, "size": size}
        else:
            yield {"data": b""}  # Lance takes in no empty range


def _copy(source: Any, path: Path) -> int:
    try:
        # Without a buffer, so that missing room shows in a write and not when the file is closed.
        out = path.open("wb", buffering=0)
    except OSError as error:
        raise _no_room(error) from error
    size = 0
    with out, contextlib.closing(_pieces(source)) as pieces:
        for piece in pieces:
            rest = piece.cast("B")
            try:
                while rest:
                    rest = rest[out.write(rest) :]
            except OSError as error:
                raise _no_room(error) from error
            size += piece.nbytes
    return size


def _no_room(error: OSError) -> StorageError:
    if full_disk.is_full(error):
        return full_disk.scratch_full("writing a blob needs room for a temporary file")
    return StorageError(
        f"writing a blob needs room for a temporary file: {error.strerror or error}; free some, or set "
        "TMPDIR to a directory that has it"
    )


def _pieces(source: Any) -> Generator[memoryview]:
    """The bytes of a source, a piece at a time."""
    if isinstance(source, str | os.PathLike):
        yield from _file_pieces(Path(source))
    elif isinstance(source, bytes | bytearray | memoryview):
        yield _checked(source, "the source")
    elif callable(getattr(source, "read", None)):
        yield from _read_pieces(source, "the file")
    elif isinstance(source, Iterable) and not isinstance(source, Mapping):
        for piece in source:
            yield _checked(piece, "an iterator")
    else:
        raise BadRequest(
            f"a Python {type(source).__name__} has no bytes for a blob; give a path, a binary file, an "
            "iterator of bytes, or None"
        )


def _file_pieces(path: Path) -> Iterator[memoryview]:
    try:
        try:
            file = path.open("rb")
        except ValueError as error:  # a path that no file can have
            raise _unreadable(path, str(error)) from None
        with file:
            yield from _read_pieces(file, str(path))
    except OSError as error:
        raise _unreadable(path, error.strerror or str(error)) from None


def _unreadable(path: Path, reason: str) -> InputError:
    return InputError(f"{shown_place(str(path))} cannot be read: {reason}; check the path")


def _read_pieces(file: Any, name: str) -> Iterator[memoryview]:
    while True:
        piece = _checked(file.read(PIECE_BYTES), name)
        if not piece.nbytes:
            return
        yield piece


def _checked(piece: object, name: str) -> memoryview:
    if piece is None:
        raise BadRequest(f"{name} has no bytes yet; give a file that waits for them")
    if not isinstance(piece, bytes | bytearray | memoryview):
        raise BadRequest(
            f"{name} gave a Python {type(piece).__name__} and not bytes; open the file in binary mode"
        )
    view = memoryview(piece)
    return view if view.c_contiguous else memoryview(view.tobytes())
