"""The input of one load: JSON lines and typed frames in any number, numbered as they were given."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

from omnigraph.errors import BadRequest, did_you_mean
from omnigraph.lang.schema.catalog import Catalog, EdgeType, NodeType
from omnigraph.pipeline.batches import Parsed
from omnigraph.pipeline.frames import frame_sources, read_frame_file, typed_batches
from omnigraph.pipeline.locations import InMemory, LocalFile
from omnigraph.pipeline.records import read_split
from omnigraph.pipeline.sources import Given, Source, json_sources
from omnigraph.pipeline.splits import plan_splits

COPIED_BYTES = 1 << 20

Part = Callable[[Catalog], Iterator[Parsed]]
Find = Callable[[Catalog], NodeType | EdgeType]


class LoadInput:
    """What a load reads. Each call adds; records keep the order in which they were added."""

    def __init__(self, spool: Path) -> None:
        self.sources: list[Source] = []
        self._spool = spool
        self._parts: list[Part] = []
        self._named: list[Find] = []

    def json(self, given: Given | Iterable[Given]) -> LoadInput:
        """Add JSON lines: paths, globs, directories, addresses, bytes, records."""
        return self._lines(json_sources(given, self._folder()))

    def stream(self, stream: BinaryIO, name: str) -> LoadInput:
        """Add JSON lines that can be read only once; they are put on disk first."""
        path = self._folder() / "stream.jsonl"
        with path.open("wb") as out:
            shutil.copyfileobj(stream, out, COPIED_BYTES)
        return self._lines([Source(0, name, LocalFile(str(path)), path.stat().st_size)])

    def _folder(self) -> Path:
        """A directory of its own for each part."""
        folder = self._spool / str(len(self._parts))
        folder.mkdir()
        return folder

    def _lines(self, sources: list[Source]) -> LoadInput:
        found = [replace(source, index=len(self.sources) + source.index) for source in sources]
        self.sources += found

        def read(catalog: Catalog) -> Iterator[Parsed]:
            by_index = {source.index: source for source in found}
            for split in plan_splits(found):
                yield from read_split(catalog, by_index[split.source], split)

        self._parts.append(read)
        return self

    def nodes(self, type_name: str, frame: Any) -> LoadInput:
        """Add a frame (or files of frames) of one node type."""
        return self._frame(lambda catalog: _node(catalog, type_name), frame, "from", "to")

    def edges(
        self, type_name: str, frame: Any, from_col: str = "from", to_col: str = "to"
    ) -> LoadInput:
        """Add a frame (or files of frames) of one edge type."""
        return self._frame(lambda catalog: _edge(catalog, type_name), frame, from_col, to_col)

    def _frame(
        self,
        find: Find,
        frame: Any,
        from_col: str,
        to_col: str,
    ) -> LoadInput:
        first = len(self.sources)
        self._named.append(find)
        if _is_files(frame):
            files = frame_sources(frame, first)
            self.sources += files

            def read_files(catalog: Catalog) -> Iterator[Parsed]:
                for source in files:
                    yield from read_frame_file(find(catalog), source, from_col, to_col)

            self._parts.append(read_files)
            return self
        self.sources.append(Source(first, "<frame>", InMemory(b""), 0, unit="row"))

        def read(catalog: Catalog) -> Iterator[Parsed]:
            return typed_batches(find(catalog), frame, from_col, to_col, source=first)

        self._parts.append(read)
        return self

    def named(self, catalog: Catalog) -> list[NodeType | EdgeType]:
        """The types that frames were given of."""
        return [find(catalog) for find in self._named]

    def read(self, catalog: Catalog) -> Iterator[Parsed]:
        """Everything, part by part; a type that is not there is refused before anything is read."""
        self.named(catalog)
        for part in self._parts:
            yield from part(catalog)


def _is_files(frame: Any) -> bool:
    if isinstance(frame, str | Path):
        return True
    return isinstance(frame, list | tuple) and all(isinstance(one, str | Path) for one in frame)


def _node(catalog: Catalog, name: str) -> NodeType:
    found = catalog.nodes.get(_text(name))
    if found is None:
        hint = did_you_mean(name, catalog.nodes)
        raise BadRequest(f"there is no node type {name}" + (f"; {hint}" if hint else ""))
    return found


def _edge(catalog: Catalog, name: str) -> EdgeType:
    found = catalog.edge(_text(name))
    if found is None:
        hint = did_you_mean(name, catalog.edges)
        raise BadRequest(f"there is no edge type {name}" + (f"; {hint}" if hint else ""))
    return found


def _text(name: object) -> str:
    if not isinstance(name, str):
        raise BadRequest(f"a type is named by a text, not by {type(name).__name__}")
    return name
