"""`graph.blobs`: read, open, describe and write single blobs."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, Unpack, overload

from omnigraph.display.panel import Panel, Shown
from omnigraph.display.text import size_text
from omnigraph.errors import BadRequest, BlobRange, ExternalBlob
from omnigraph.graph.facets.facet import Facet
from omnigraph.graph.reads import resolve, retry_if_remade
from omnigraph.graph.unknown_here import reading_of
from omnigraph.manifest.branch_names import MAIN, trim_written_branch
from omnigraph.manifest.snapshot import Target, TargetKeywords
from omnigraph.policy.checker import Action
from omnigraph.storage.tables.blobs.reading import (
    PIECE_BYTES,
    BlobFacts,
    BlobStream,
    find_blob,
    open_blob,
)
from omnigraph.write.blob_selector import BlobSelector, Kind

# Writes import what they need inside their methods, so that a process that only reads stays light.
if TYPE_CHECKING:
    from omnigraph.lang.schema.catalog import Catalog
    from omnigraph.manifest.manifest import BranchState
    from omnigraph.read.view.view import View
    from omnigraph.storage.tables.table import Table
    from omnigraph.write.blobs import BlobSourceLike, BlobWritten

_MAX_OFFSET = 2**63 - 1


@dataclass(frozen=True, slots=True, repr=False)
class BlobStat(Shown):
    """A blob without its bytes. A managed one has ``size`` and ``etag``, an external one ``uri``."""

    selector: BlobSelector
    kind: Literal["managed", "external"]
    size: int | None
    etag: str | None
    uri: str | None
    target: Target
    graph_commit_id: str

    def to_json(self) -> dict[str, Any]:
        """Return the public form; what the blob does not have is left out."""
        known = {"size": self.size, "etag": self.etag, "uri": self.uri}
        named = {name: value for name, value in self.target.to_json().items() if value is not None}
        return {
            "selector": self.selector.to_json(),
            "kind": self.kind,
            **{name: value for name, value in known.items() if value is not None},
            "target": {**named, "resolved_snapshot": self.graph_commit_id},
        }

    def ensure_managed(self) -> None:
        """Refuse an external blob, whose bytes are not kept here."""
        if self.uri is not None:
            raise ExternalBlob(
                f"{self.selector.property} of {self.selector.type} {self.selector.id!r} is kept at "
                f"{self.uri} and is not fetched from there; read it yourself",
                uri=self.uri,
                reason="external blobs are not fetched",
            )

    def _panel(self) -> Panel:
        size = None if self.size is None else size_text(self.size)
        facts = [("size", size), ("etag", self.etag), ("uri", self.uri)]
        known = [(name, value) for name, value in facts if value is not None]
        title = f"{self.kind} blob {self.selector}"
        return Panel(title, [*known, ("commit", self.graph_commit_id)])


class BlobFile(io.BufferedReader):
    """An open blob: a binary file, and ``stat``, what was known of the blob when it was opened."""

    def __init__(self, stream: BlobStream, stat: BlobStat) -> None:
        super().__init__(stream)
        self.stat = stat


@dataclass(frozen=True, slots=True)
class _Found:
    """A blob that is there: its table, column and row."""

    view: View
    table: Table
    column: str
    address: int
    facts: BlobFacts

    def stat(self, selector: BlobSelector, target: Target) -> BlobStat:
        facts = self.facts
        return BlobStat(
            selector,
            "managed" if facts.external_uri is None else "external",
            facts.size,
            facts.etag,
            facts.external_uri,
            target,
            self.view.snapshot.graph_commit_id,
        )


class Blobs(Facet):
    """`graph.blobs`: the bytes of Blob properties, which queries do not return."""

    def stat(
        self,
        kind: Kind,
        type: str,
        id: str,
        property: str,
        **target: Unpack[TargetKeywords],
    ) -> BlobStat:
        """Describe a blob without opening it. A null one is not found."""
        selector, wanted = BlobSelector(kind, type, id, property), self._access.reading(**target)
        return retry_if_remade(wanted, lambda: self._look(selector, wanted).stat(selector, wanted))

    def open(
        self,
        kind: Kind,
        type: str,
        id: str,
        property: str,
        **target: Unpack[TargetKeywords],
    ) -> BlobFile:
        """Open a managed blob as a readable, seekable binary file; only what is asked for is read.

        Its ``stat`` has the size, the ETag and the commit of these very bytes.
        """
        selector, wanted = BlobSelector(kind, type, id, property), self._access.reading(**target)
        return BlobFile(*self._open(selector, wanted))

    @overload
    def read(
        self,
        kind: Kind,
        type: str,
        id: str,
        property: str,
        *,
        offset: int = 0,
        length: int | None = None,
        out: None = None,
        **target: Unpack[TargetKeywords],
    ) -> bytes: ...

    @overload
    def read(
        self,
        kind: Kind,
        type: str,
        id: str,
        property: str,
        *,
        offset: int = 0,
        length: int | None = None,
        out: BinaryIO,
        **target: Unpack[TargetKeywords],
    ) -> int: ...

    def read(
        self,
        kind: Kind,
        type: str,
        id: str,
        property: str,
        *,
        offset: int = 0,
        length: int | None = None,
        out: BinaryIO | None = None,
        **target: Unpack[TargetKeywords],
    ) -> bytes | int:
        """Return the bytes of a managed blob, or of a range of it.

        With ``out``, a binary file, they are written there a piece at a time, and their number is
        returned. A range that reaches beyond the end is cut; one that begins there is ``BlobRange``.
        """
        selector = BlobSelector(kind, type, id, property)
        wanted = self._access.reading(**target)
        _check_range(offset, length)
        if out is not None:
            _check_out(out)

        def read() -> bytes | int:
            stream, _ = self._open(selector, wanted)
            with stream:
                left = _range_length(selector, stream.size, offset, length)
                stream.seek(offset)
                if out is None:
                    return stream.read(left)
                for start in range(0, left, PIECE_BYTES):
                    _write_all(out, stream.read(min(PIECE_BYTES, left - start)))
                return left

        # What went to a file of the caller cannot be taken back.
        return retry_if_remade(wanted, read) if out is None else read()

    def write(
        self,
        kind: Kind,
        type: str,
        id: str,
        property: str,
        source: BlobSourceLike,
        *,
        branch: str = MAIN,
        actor: str | None = None,
        if_commit: str | None = None,
        if_match: str | None = None,
        if_none_match: str | None = None,
        operation_id: str | None = None,
        message: str | None = None,
    ) -> BlobWritten:
        """Replace a blob by the bytes of ``source``, as one commit; other properties stay.

        ``source`` is a path, a binary file, bytes, an iterator of bytes, or None, which clears the
        value. ``if_match``: refuse unless the stored value has that ETag (see ``stat``); `*` fits every
        value, and several are separated by commas. ``if_none_match="*"``: refuse unless there is no value.
        ``if_commit``: refuse unless the branch is at that commit. ``operation_id`` and
        ``message`` as for ``mutate``.
        """
        from omnigraph.commit.replays import WriteRequest
        from omnigraph.write.blobs import BlobWrite, write_blob

        self._state.ensure_writable()
        acting, name = self._access.acting(actor), trim_written_branch(branch)
        acting.ask(Action.CHANGE, name)
        if if_match is not None and not isinstance(if_match, str):
            raise BadRequest("if_match is the ETag of a blob, a text")
        if if_none_match is not None and str(if_none_match).strip() != "*":
            raise BadRequest(
                f"if_none_match is {if_none_match!r}; give `*`, for a blob that has no value yet, or "
                "leave it out"
            )

        def accepted(state: BranchState) -> tuple[str, Catalog]:
            schema = self._state.schemas.at(state)
            return schema.ir_hash, schema.catalog

        request = BlobWrite(
            BlobSelector(kind, type, id, property),
            accepted,
            name,
            acting.actor,
            if_commit,
            if_match,
            WriteRequest.checked("blob_write", operation_id, message),
            must_be_null=if_none_match is not None,
        )
        return write_blob(self._state.workspace, request, source)

    def _open(self, selector: BlobSelector, target: Target) -> tuple[BlobStream, BlobStat]:
        return retry_if_remade(target, lambda: self._open_found(selector, target))

    def _open_found(self, selector: BlobSelector, target: Target) -> tuple[BlobStream, BlobStat]:
        blob = self._look(selector, target)
        stat = blob.stat(selector, target)
        stat.ensure_managed()
        with blob.view.reading():
            return open_blob(blob.table, blob.column, blob.address, blob.view.reading), stat

    def _look(self, selector: BlobSelector, target: Target) -> _Found:
        snapshot, catalog = resolve(self._state, target)
        with reading_of(self._access, target):
            entity = selector.entity(catalog)
        view = self._state.reader.view(snapshot, catalog)
        with view.reading():
            pinned = view.table(entity)
            column = pinned.column_of(selector.property)
            if column is None:
                # The property was added later.
                raise selector.not_found(value=True)
            blob = find_blob(pinned.table, column, selector.id)
        if blob is None:
            raise selector.not_found()
        if blob.facts is None:
            raise selector.not_found(value=True)
        return _Found(view, pinned.table, column, blob.address, blob.facts)


def _check_out(out: object) -> None:
    if isinstance(out, io.TextIOBase) or not callable(getattr(out, "write", None)):
        raise BadRequest(f"out is a file opened for writing in binary mode, not {out!r}")


def _write_all(out: BinaryIO, data: bytes) -> None:
    """Write a piece; an unbuffered file may take it in several parts."""
    while data:
        done: int | None = out.write(data)
        if done is None and isinstance(out, io.RawIOBase):
            raise BadRequest("out takes no bytes now; give a file that waits until it can")
        data = b"" if done is None else data[done:]


def _check_range(offset: object, length: object) -> None:
    """Refuse a range that no blob can have."""
    for name, value, least in (("offset", offset, 0), ("length", length, 1)):
        if value is None and name == "length":
            continue
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise BadRequest(f"the {name} is {value!r}; give a whole number, {least} or more")
    assert isinstance(offset, int)
    end = offset + (length if isinstance(length, int) else 0)
    if end > _MAX_OFFSET:
        raise BadRequest(f"the range ends at byte {end}, and no blob is that large")


def _range_length(selector: BlobSelector, size: int, offset: int, length: int | None) -> int:
    """How many bytes of the range there are."""
    if offset >= size and (offset or size):
        end = None if length is None else offset + length
        raise BlobRange(
            f"{selector.property} of {selector.type} {selector.id!r} has {size} bytes and the range "
            f"begins at {offset}; begin before its end",
            start=offset,
            end=end,
            length=size,
        )
    return size - offset if length is None else min(length, size - offset)
