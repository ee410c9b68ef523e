"""Every operation that makes files of tables does so under a write mark (``storage/locks/write_marks.py``).

Operations call each other: a load merges, a write is followed by upkeep. The outermost one of a thread puts the mark.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from omnigraph.errors import Conflict, NewerFormat, OmniGraphError, PurgeBlocked, StorageError
from omnigraph.manifest.workspace import Workspace
from omnigraph.storage.locks.write_marks import WriteMark
from omnigraph.storage.remains import leaving_nothing

_marks: ContextVar[dict[str, WriteMark] | None] = ContextVar("write marks", default=None)


@contextmanager
def marked(workspace: Workspace, operation: str) -> Iterator[WriteMark]:
    """Do something that makes files which no version of a table names yet.

    If it fails in a way that may leave some of them behind, the next cleanup is told. If the graph was deleted
    meanwhile, it fails by ``NotAGraph``, and the files are removed at once.
    """
    under_way = _marks.get() or {}
    known = under_way.get(workspace.root.canonical)
    if known is not None:
        yield known
        return
    with leaving_nothing(workspace.root, workspace.store):
        mark = WriteMark(workspace.root, workspace.store, operation)
        before = _marks.set({**under_way, workspace.root.canonical: mark})
        try:
            yield mark
        except BaseException as error:
            # What is refused for its content removes what it wrote; a newer format and what stands in the way of
            # a purge are found before anything is written; the others may have left files.
            failed = isinstance(error, StorageError | Conflict) and not isinstance(
                error, NewerFormat | PurgeBlocked
            )
            refused = isinstance(error, OmniGraphError) and not failed
            mark.left_files = mark.left_files or not refused
            raise
        finally:
            _marks.reset(before)
            mark.end()


def check_mark(workspace: Workspace) -> None:
    """Raise if a cleanup took the write of this thread for dead; before its files are committed."""
    mark = (_marks.get() or {}).get(workspace.root.canonical)
    if mark is not None:
        mark.check()


def note_left_files(workspace: Workspace) -> None:
    """Say that the write of this thread leaves files behind, although it may still succeed."""
    mark = (_marks.get() or {}).get(workspace.root.canonical)
    if mark is not None:
        mark.left_files = True
