"""`embed`: fill the vectors that are missing although their text is there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph.manifest.branch_names import MAIN
from omnigraph.service.documents import Document

if TYPE_CHECKING:
    from omnigraph.graph.session import Session


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedRequest:
    """The node types whose vectors are filled, all by default, and at most how many vectors."""

    branch: str | None = None
    types: tuple[str, ...] | None = None
    limit: int | None = None
    operation_id: str | None = None
    message: str | None = None


def embed(
    session: Session,
    request: EmbedRequest,
    uri: str,
    *,
    progress: Callable[[int, int], object] | None = None,
) -> Document:
    """Fill vectors, a commit for every 1,000 rows; ``uri`` is how the caller knows the graph."""
    done = session.embed(
        MAIN if request.branch is None else request.branch,
        request.types,
        request.limit,
        operation_id=request.operation_id,
        message=request.message,
        progress=progress,
    )
    return {"uri": uri, **done.to_json()}
