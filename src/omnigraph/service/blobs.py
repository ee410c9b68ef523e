"""`blob get`, `blob stat` and `blob put`: the bytes of one Blob property."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Literal

from omnigraph.manifest.branch_names import MAIN
from omnigraph.service.documents import Document, TargetRequest

if TYPE_CHECKING:
    from omnigraph.graph.facets.blobs import BlobFile, BlobStat
    from omnigraph.graph.session import Session
    from omnigraph.write.blobs import BlobSourceLike


@dataclass(frozen=True, slots=True, kw_only=True)
class BlobRequest(TargetRequest):
    """One Blob property of a node or edge, and which of its bytes."""

    kind: Literal["node", "edge"]
    type: str
    id: str
    property: str
    offset: int = 0
    length: int | None = None

    def selector(self) -> tuple[Literal["node", "edge"], str, str, str]:
        """The blob, as the methods of ``session.blobs`` take it."""
        return self.kind, self.type, self.id, self.property


def stat_blob(session: Session, request: BlobRequest) -> Document:
    """Describe a blob without opening it."""
    return session.blobs.stat(*request.selector(), **request.target).to_json()


def open_blob(session: Session, request: BlobRequest) -> BlobFile:
    """Open a blob: a binary file, whose ``stat`` has what is known of these very bytes.

    An external one is refused. The offset and the length of the request are left to the caller.
    """
    return session.blobs.open(*request.selector(), **request.target)


def look_at_blob(session: Session, request: BlobRequest) -> BlobStat:
    """Return what ``open_blob`` knows of a blob, and refuse what it refuses, without opening it."""
    stat = session.blobs.stat(*request.selector(), **request.target)
    stat.ensure_managed()
    return stat


def read_blob(session: Session, request: BlobRequest, out: BinaryIO) -> int:
    """Write the bytes to a file, a piece at a time, and return how many there were."""
    return session.blobs.read(
        *request.selector(),
        offset=request.offset,
        length=request.length,
        out=out,
        **request.target,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PutBlobRequest:
    """One Blob property of a node or edge, and the conditions under which it is written."""

    kind: Literal["node", "edge"]
    type: str
    id: str
    property: str
    branch: str | None = None
    if_match: str | None = None
    if_none_match: str | None = None
    if_commit: str | None = None
    operation_id: str | None = None
    message: str | None = None


def put_blob(session: Session, request: PutBlobRequest, source: BlobSourceLike) -> Document:
    """Replace a blob with the bytes of a file or stream, or clear it (None), as one commit."""
    done = session.blobs.write(
        request.kind,
        request.type,
        request.id,
        request.property,
        source,
        branch=MAIN if request.branch is None else request.branch,
        if_commit=request.if_commit,
        if_match=request.if_match,
        if_none_match=request.if_none_match,
        operation_id=request.operation_id,
        message=request.message,
    )
    return done.to_json()
