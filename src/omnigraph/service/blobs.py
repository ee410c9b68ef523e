"""`blob get` and `blob stat`: the bytes of one Blob property, and what is known without them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Literal

from omnigraph.service.documents import Document
from omnigraph.service.requests import TargetRequest

if TYPE_CHECKING:
    from omnigraph.graph.session import Session


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


def read_blob(session: Session, request: BlobRequest, out: BinaryIO) -> int:
    """Write the bytes to a file, a piece at a time, and return how many there were."""
    return session.blobs.read(
        *request.selector(),
        offset=request.offset,
        length=request.length,
        out=out,
        **request.target,
    )
