"""Graphs whose numbered tables are kept on disk, whatever their size, and readers in another process."""

from __future__ import annotations

from pathlib import Path

from omnigraph.graph import Graph
from omnigraph.read.kept.kept_file import KeptWriter, sizes_of
from omnigraph.read.kept.kept_files import KeptFiles
from omnigraph.read.thresholds import Thresholds, ViewThresholds
from omnigraph.read.view.view import Reader, View
from tests.opened import workspace_of
from tests.read.view_helpers import view_of

KEEP_ALL = Thresholds(view=ViewThresholds(kept_rows=0, derived_rows=0))
KEEP_NONE = Thresholds(view=ViewThresholds(kept_rows=1 << 60))


def another_process(graph: Graph, thresholds: Thresholds = KEEP_ALL) -> Reader:
    """A reader that knows nothing but what is on disk."""
    return Reader(workspace_of(graph), thresholds)


def plain_view(graph: Graph, branch: str = "main") -> View:
    """The graph as it is stored, numbered anew."""
    reader = Reader(workspace_of(graph), KEEP_NONE)
    reader.kept._files = KeptFiles(0, None)
    return view_of(graph, reader, branch)


def use_everything(view: View) -> None:
    """Number every table, in both directions and by stored edge, so that all of it is kept."""
    for name in view.catalog.nodes:
        view.nodes(name)
    for name, edge in view.catalog.edges.items():
        topology = view.topology(name)
        topology.out()
        topology.into()
        topology.edges.ids(topology.out().indices[:0])
        for direction in _directions(edge.from_type == edge.to_type):
            topology.multi(direction)


def _directions(is_same_type: bool):
    from omnigraph.lang.query.ir import Direction

    return list(Direction) if is_same_type else [Direction.OUT, Direction.IN]


def write_kept(path, key, part, facts, arrays):
    """A kept file with these arrays."""
    with KeptWriter(path, key, part, sizes_of(arrays)) as writer:
        for name, array in arrays.items():
            writer.append(name, array)
        writer.finish(facts)


def kept_paths(place: Path) -> list[Path]:
    """Every kept file, drafts too."""
    return sorted(path for path in (place / "topology").rglob("*") if path.is_file())
