"""`verify`: the document of what is lost, damaged or against the rules in a graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from omnigraph.errors import NewerFormat, NotAGraph, StorageError
from omnigraph.service.documents import Document

if TYPE_CHECKING:
    from omnigraph.graph import Graph


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
