"""`export`: every node and edge of one state of the graph, as JSON lines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph.service.documents import Document
from omnigraph.service.requests import TargetRequest

if TYPE_CHECKING:
    from omnigraph.changes.export.column_files import ExportFormat
    from omnigraph.changes.export.output import Out
    from omnigraph.graph.session import Session
    from omnigraph.runner.executors import EngineName


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportRequest(TargetRequest):
    """What to write: the types that are named, or all of them, as JSON lines or files of columns."""

    type_names: tuple[str, ...] | None = None
    format: ExportFormat | None = None
    engine: EngineName = "auto"


def export(
    session: Session,
    request: ExportRequest,
    out: Out,
    progress: Callable[[int, int], object] | None = None,
) -> Document:
    """Write the lines, and return what was written; whatever is refused is refused before the first.

    ``out`` is the path of a file, or a file that is open for writing.
    """
    from omnigraph.graph.arguments import check_types
    from omnigraph.graph.history import exports
    from omnigraph.graph.session import access_of
    from omnigraph.manifest.snapshot import Target

    done = exports.export(
        access_of(session),
        out,
        Target.of(**request.target),
        check_types(request.type_names),
        request.engine,
        progress,
        format=request.format,
        # A handle that only reads has to be told: cleanup must know about the export.
        lease=True,
    )
    return done.to_json()
