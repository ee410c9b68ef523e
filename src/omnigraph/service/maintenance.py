"""`optimize`, `ensure-indices`, `repair`, `cleanup`, `verify` and `purge`: work on storage.

Only `purge` is an operation of a session, which asks the policy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph.errors import NewerFormat, NotAGraph, StorageError
from omnigraph.manifest.branch_names import MAIN, trim_branch_name
from omnigraph.service.documents import Document

if TYPE_CHECKING:
    from omnigraph.graph import Graph
    from omnigraph.graph.session import Session
    from omnigraph.maintenance.ensure_indices import Rebuild


KEEP_VERSIONS = 10
"""How many versions of a table a cleanup keeps by default."""


@dataclass(frozen=True, slots=True)
class Remarks:
    """What a person should read besides the document.

    ``lines`` tell what was done and stands nowhere else; ``commits`` is how many were made.
    """

    warnings: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    commits: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupRequest:
    """What stays besides all that is needed: so many versions, what is younger than so many seconds."""

    keep_versions: int | None = None
    older_than_secs: int | None = None
    confirm: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgeRequest:
    """Entities to remove for good: ids by type."""

    entities: dict[str, list[str]]
    reason: str | None = None
    dry_run: bool = False
    operation_id: str | None = None


def purge(session: Session, request: PurgeRequest) -> Document:
    """Remove nodes with their edges, and edges, for good."""
    return session.purge(
        request.entities,
        reason=request.reason,
        dry_run=request.dry_run,
        operation_id=request.operation_id,
    ).to_json()


def optimize(
    graph: Graph,
    branch: str | None,
    uri: str,
    *,
    progress: Callable[[int, int], object] | None = None,
) -> tuple[Document, Remarks]:
    """Merge small fragments, complete indexes and build missing ones."""
    report = graph.optimize(MAIN if branch is None else branch, progress=progress)
    notes = () if report.note is None else (report.note,)
    remarks = Remarks((*report.warnings, *notes), commits=int(report.commit is not None))
    return {"uri": uri, **report.to_json()}, remarks


def ensure_indices(
    graph: Graph, branch: str | None, uri: str, *, rebuild: Rebuild = False
) -> tuple[Document, Remarks]:
    """Build the declared indexes that are missing, and complete those that do not cover all rows.

    Those of ``rebuild`` are built anew, as ``Graph.ensure_indices`` says.
    """
    name = trim_branch_name(MAIN if branch is None else branch)
    report = graph.ensure_indices(name, rebuild=rebuild)
    answer = report.to_json()
    document = {"uri": uri, "branch": name}
    document |= {key: answer[key] for key in ("built", "failed", "commit")}
    notes = () if report.note is None else (report.note,)
    lines = [f"completed {key} {index}" for key, index in report.extended]
    lines += [f"nothing to build on yet: {key} {index}" for key, index in report.pending]
    return document, Remarks(notes, tuple(lines), int(report.commit is not None))


def repair(
    graph: Graph, *, confirm: bool, force: bool, uri: str, undo: bool = False, moved: bool = False
) -> tuple[Document, Remarks]:
    """Judge tables that another program wrote to, and with ``confirm`` take over what is there, or undo it.

    ``moved``: the original of the graph is gone, so it is no copy and keeps its id.
    """
    report = graph.repair(confirm, force, moved, undo=undo)
    return {"uri": uri, **report.to_json()}, Remarks(commits=len(report.commits))


def cleanup(graph: Graph, request: CleanupRequest, uri: str) -> tuple[Document, Remarks]:
    """Remove versions that nothing needs; without ``confirm``, say what would go."""
    keep = request.keep_versions
    if keep is None and request.older_than_secs is None:
        keep = KEEP_VERSIONS
    report = graph.cleanup(keep, request.older_than_secs, dry_run=not request.confirm)
    return {"uri": uri, **report.to_json()}, Remarks(report.warnings)


def verify(
    opened: Callable[[], Graph],
    uri: str,
    *,
    deep: bool,
    progress: Callable[[int, int], object] | None = None,
) -> Document:
    """Open a graph and read every file that a kept state names.

    A graph that is too damaged to be opened has that as its one problem.
    """
    from omnigraph.maintenance.verify.report import not_opened

    try:
        graph = opened()
    except (NotAGraph, NewerFormat):
        raise
    except StorageError as error:
        return {"uri": uri, **not_opened(error.message, deep=deep).to_json()}
    with graph:
        return {"uri": uri, **graph.verify(deep, progress=progress).to_json()}
