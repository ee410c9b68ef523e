"""The input of one load: any number of JSON sources and frames, numbered in the order they are added."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, Self

from omnigraph.errors import BadRequest
from omnigraph.lang.schema.catalog import Catalog, EdgeType, Entity, NodeType
from omnigraph.pipeline.formats.frame_files import frame_sources, is_csv, is_json
from omnigraph.pipeline.formats.frame_layout import EndColumns, check_ends
from omnigraph.pipeline.formats.plain_rows import PlainRows
from omnigraph.pipeline.formats.typed_batch import MAX_SOURCES, ReadBlock
from omnigraph.pipeline.frame_options import FrameOptions
from omnigraph.pipeline.read_tasks import FileTask, FrameTask, LinesTask, PlainLinesTask, ReadTask
from omnigraph.pipeline.sources.load_scratch import scratch, spool_records
from omnigraph.pipeline.sources.locations import InMemory, LocalFile
from omnigraph.pipeline.sources.sources import InputSource, ReceivedFile, SourceLike, json_sources
from omnigraph.pipeline.sources.splits import plan_splits
from omnigraph.spelling import did_you_mean
from omnigraph.storage.store_kinds.store_kind import StoreOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COPIED_BYTES = 1 << 20
AS_THEY_ARE = FrameOptions()

Part = Callable[[Catalog, bool], Iterator[ReadTask]]
Find = Callable[[Catalog], Entity]


class LoadInput:
    """What a load reads. Each call adds a part; records keep the order in which they were added.

    It owns a directory for what must be put on disk first (streams, records of a program), so it is a
    context manager: ``with LoadInput(catalog) as inputs``, add to it, load it inside the block.

    With a ``catalog``, Python values that JSON cannot express (dates, bytes) are refused where their
    property is of another type. ``store`` are options for sources in a store that win over the environment's.
    """

    def __init__(self, catalog: Catalog | None = None, store: StoreOptions | None = None) -> None:
        self.sources: list[InputSource] = []
        self.store = store
        self._scratch: AbstractContextManager[Path] | None = None
        self._directory: Path | None = None
        self._catalog = catalog
        self._folders = 0
        self._parts: list[Part] = []
        self._named: list[Find] = []
        self._frames: list[Any] = []

    def __enter__(self) -> Self:
        self._scratch = scratch()
        self._directory = self._scratch.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._scratch is not None
        self._directory = None
        self._scratch.__exit__(kind, error, trace)

    def json(self, given: SourceLike | Iterable[SourceLike]) -> LoadInput:
        """Add JSON lines: paths, globs, directories, addresses, bytes, records."""
        return self._lines(json_sources(given, self._folder(), self._catalog, self.store))

    def stream(self, stream: BinaryIO, name: str) -> LoadInput:
        """Add JSON lines that can be read only once; they are copied to disk first."""
        path = self._folder() / "stream.jsonl"
        with path.open("wb") as out:
            shutil.copyfileobj(stream, out, COPIED_BYTES)
        return self.received(path, name)

    def received(self, path: Path, name: str) -> LoadInput:
        """Add JSON lines that somebody sent, and that lie in a file; ``name`` stands for it in messages."""
        location = LocalFile(str(path))
        return self._lines([InputSource(0, name, location, location.size(), handed_over=True)])

    def _folder(self) -> Path:
        """Make a directory for the files of the next part."""
        assert self._directory is not None, "an input is filled inside its `with` block"
        self._folders += 1
        folder = self._directory / str(self._folders)
        folder.mkdir()
        return folder

    def _lines(self, sources: list[InputSource]) -> LoadInput:
        found = [replace(source, index=len(self.sources) + source.index) for source in sources]
        self._add(found)

        def tasks(_: Catalog, patch: bool) -> Iterator[ReadTask]:
            by_index = {source.index: source for source in found}
            for split in plan_splits(found):
                yield LinesTask(by_index[split.source], split, patch)

        self._parts.append(tasks)
        return self

    def nodes(self, type_name: str, frame: Any, options: FrameOptions = AS_THEY_ARE) -> LoadInput:
        """Add a frame (or files of frames) of one node type."""
        return self._frame(lambda catalog: _node(catalog, type_name), frame, "from", "to", options)

    def edges(
        self,
        type_name: str,
        frame: Any,
        from_col: EndColumns = "from",
        to_col: EndColumns = "to",
        options: FrameOptions = AS_THEY_ARE,
    ) -> LoadInput:
        """Add a frame (or files of frames) of one edge type; ``from_col`` and ``to_col`` hold its ends."""
        check_ends(from_col, to_col)
        return self._frame(
            lambda catalog: _edge(catalog, type_name), frame, from_col, to_col, options
        )

    def _frame(
        self,
        find: Find,
        frame: Any,
        from_col: EndColumns,
        to_col: EndColumns,
        options: FrameOptions,
    ) -> LoadInput:
        first = len(self.sources)
        self._named.append(find)
        if _is_rows(frame):
            return self._plain_rows(find, frame, from_col, to_col, options)
        if isinstance(frame, ReceivedFile) or _is_files(frame):
            is_received = isinstance(frame, ReceivedFile)
            files = (
                [frame.source(first)] if is_received else frame_sources(frame, first, self.store)
            )
            self._add(files)
            if not options.shared and not any(map(is_csv, files)):
                _refuse_csv_options(options)

            def file_tasks(catalog: Catalog, patch: bool) -> Iterator[ReadTask]:
                key = find(catalog).table_key
                for one in files:
                    if not is_json(one):
                        yield FileTask(one, key, from_col, to_col, patch=patch, options=options)
                        continue
                    for split in plan_splits([one]):
                        yield PlainLinesTask(one, split, key, from_col, to_col, patch, options)

            self._parts.append(file_tasks)
            return self
        _refuse_csv_options(options)
        source = InputSource(first, "<frame>", InMemory(b""), _size_of(frame), unit="row")
        self._add([source])
        self._frames.append(frame)

        def frame_tasks(catalog: Catalog, patch: bool) -> Iterator[ReadTask]:
            key = find(catalog).table_key
            yield FrameTask(source, key, from_col, to_col, frame, patch, options)

        self._parts.append(frame_tasks)
        return self

    def _plain_rows(
        self,
        find: Find,
        rows: Iterable[Any],
        from_col: EndColumns,
        to_col: EndColumns,
        options: FrameOptions,
    ) -> LoadInput:
        """Add rows that a program gives as dicts: they go to disk as the records that they mean."""
        _refuse_csv_options(options)
        assert self._catalog is not None, "dicts need the schema that they are read with"
        entity = find(self._catalog)
        plain = PlainRows(entity, from_col, to_col, options, self._catalog.nodes)
        plain.check()
        path = self._folder() / "rows.jsonl"
        spool_records(plain.records(rows), path, self._catalog)
        source = InputSource(0, "<rows>", LocalFile(str(path)), path.stat().st_size)
        return self._lines([source])

    def _add(self, sources: Sequence[InputSource]) -> None:
        self.sources += sources
        if len(self.sources) > MAX_SOURCES:
            raise BadRequest(
                f"a load takes at most {MAX_SOURCES} files, and these are {len(self.sources)}; "
                "join some of them, or load them in parts"
            )

    @property
    def size(self) -> int:
        """The number of bytes to read, as far as it is known."""
        return sum(source.size for source in self.sources)

    @property
    def is_repeatable(self) -> bool:
        """Whether all of it can be read again; a stream of batches can be read once."""
        return not any(hasattr(frame, "__next__") for frame in self._frames)

    def spark_session(self) -> SparkSession | None:
        """The session of the first Spark frame; None where there is no such frame."""
        found: SparkSession | None = next(
            (frame.sparkSession for frame in self._frames if is_spark_frame(frame)), None
        )
        return found

    def is_private(self, source: InputSource) -> bool:
        """Whether only this machine can read a source, because the caller handed over its bytes."""
        location = source.location
        if source.handed_over:
            return True
        return isinstance(location, InMemory) or (
            isinstance(location, LocalFile)
            and self._directory is not None
            and Path(location.path).is_relative_to(self._directory)
        )

    def folders(self) -> dict[int, str]:
        """The directories of the sources that are files on this machine, by the index of the source."""
        return {
            source.index: str(Path(source.location.path).parent)
            for source in self.sources
            if isinstance(source.location, LocalFile) and not self.is_private(source)
        }

    def named_types(self, catalog: Catalog) -> list[Entity]:
        """The types of the frames that were added."""
        return [find(catalog) for find in self._named]

    def table_keys(self, catalog: Catalog) -> set[str]:
        """The tables that the input can have rows of: with JSON lines, all of them."""
        if len(self._named) < len(self._parts):
            return {one.table_key for one in catalog.entities()}
        return {entity.table_key for entity in self.named_types(catalog)}

    def tasks(self, catalog: Catalog, *, patch: bool = False) -> Iterator[ReadTask]:
        """The read tasks of the whole input, in its order; refuses a type that the schema lacks.

        The records of a ``patch`` may leave out what they do not change.
        """
        self.named_types(catalog)
        for part in self._parts:
            yield from part(catalog, patch)

    def blocks(self, catalog: Catalog, *, patch: bool = False) -> Iterator[ReadBlock]:
        """All blocks in the order of the input, each as a function that reads it."""
        for task in self.tasks(catalog, patch=patch):
            yield from task.blocks(catalog)


def is_spark_frame(frame: Any) -> bool:
    """Whether a frame is a DataFrame of PySpark."""
    return type(frame).__module__.startswith("pyspark.sql") and hasattr(frame, "mapInArrow")


def _refuse_csv_options(options: FrameOptions) -> None:
    for name in options.csv_only():
        raise BadRequest(f"{name} says how a CSV file is read, and there is none; leave it out")


def _size_of(frame: Any) -> int:
    size = getattr(frame, "nbytes", None)
    return size if isinstance(size, int) else 0


_OF_FRAMES = ("__arrow_c_stream__", "__dataframe__", "schema", "columns", "dtype")
"""What frames and arrays have, and rows of a program have not."""


def _is_rows(frame: Any) -> bool:
    """Whether these are the rows of a program: dicts in a list, or in anything else that gives them."""
    if isinstance(frame, list | tuple):
        return bool(frame) and isinstance(frame[0], Mapping)
    if isinstance(frame, str | bytes | bytearray | memoryview | Path | Mapping):
        return False
    return isinstance(frame, Iterable) and not any(hasattr(frame, name) for name in _OF_FRAMES)


def _is_files(frame: Any) -> bool:
    if isinstance(frame, str | Path):
        return True
    return isinstance(frame, list | tuple) and all(isinstance(one, str | Path) for one in frame)


def _node(catalog: Catalog, name: str) -> NodeType:
    found = catalog.nodes.get(_text(name))
    if found is None:
        hint = did_you_mean(name, catalog.nodes)
        text = f"there is no node type {name}" + (f"; {hint}" if hint else "")
        raise BadRequest(text, unknown=[f"node:{name}"])
    return found


def _edge(catalog: Catalog, name: str) -> EdgeType:
    found = catalog.edge(_text(name))
    if found is None:
        hint = did_you_mean(name, catalog.edges)
        text = f"there is no edge type {name}" + (f"; {hint}" if hint else "")
        raise BadRequest(text, unknown=[f"edge:{name}"])
    return found


def _text(name: object) -> str:
    if not isinstance(name, str):
        raise BadRequest(f"a type is named by a text, not by {type(name).__name__}")
    return name
