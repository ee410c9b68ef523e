"""Read tasks: parts of the input that can be read independently, in any process that reaches them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from omnigraph.lang.schema.catalog import Catalog
from omnigraph.pipeline.formats.frame_blocks import frame_blocks
from omnigraph.pipeline.formats.frame_files import RowGroups, file_blocks, plan_row_groups
from omnigraph.pipeline.formats.frame_layout import EndColumns, Layout
from omnigraph.pipeline.formats.json_lines import read_split, split_blocks
from omnigraph.pipeline.formats.plain_rows import PlainRows
from omnigraph.pipeline.formats.typed_batch import Parsed, ReadBlock
from omnigraph.pipeline.frame_options import FrameOptions
from omnigraph.pipeline.sources.sources import InputSource
from omnigraph.pipeline.sources.splits import Split

THREAD_BLOCK_BYTES = 2 << 20
"""The size of blocks for threads of one process: small, so that all are busy until the end."""


class ReadTask(Protocol):
    """A part of the input that one task reads.

    The records of a ``patch`` may leave out what they do not change.
    """

    @property
    def source(self) -> InputSource:
        """The source that the part belongs to."""
        ...

    def read(self, catalog: Catalog) -> Iterator[Parsed]:
        """Read the records, block by block."""
        ...

    def blocks(self, catalog: Catalog) -> Iterator[ReadBlock]:
        """The same blocks, each as a function that reads it."""
        ...


@dataclass(frozen=True, slots=True)
class LinesTask:
    """A split of JSON lines."""

    source: InputSource
    split: Split
    patch: bool = False

    def read(self, catalog: Catalog) -> Iterator[Parsed]:
        """The records that begin in the split."""
        return read_split(catalog, self.source, self.split, patch=self.patch)

    def blocks(self, catalog: Catalog) -> Iterator[ReadBlock]:
        """The blocks of the split."""
        return split_blocks(catalog, self.source, self.split, THREAD_BLOCK_BYTES, patch=self.patch)


@dataclass(frozen=True, slots=True)
class PlainLinesTask:
    """A split of JSON lines that only give the values of rows of one type."""

    source: InputSource
    split: Split
    table_key: str
    from_col: EndColumns
    to_col: EndColumns
    patch: bool = False
    options: FrameOptions = field(default_factory=FrameOptions)

    def _rows(self, catalog: Catalog) -> PlainRows:
        entity = catalog.entity(self.table_key)
        rows = PlainRows(entity, self.from_col, self.to_col, self.options, catalog.nodes)
        rows.check()
        return rows

    def read(self, catalog: Catalog) -> Iterator[Parsed]:
        """The rows that begin in the split."""
        plain = self._rows(catalog)
        return read_split(catalog, self.source, self.split, patch=self.patch, plain=plain)

    def blocks(self, catalog: Catalog) -> Iterator[ReadBlock]:
        """The blocks of the split."""
        plain = self._rows(catalog)
        return split_blocks(
            catalog, self.source, self.split, THREAD_BLOCK_BYTES, patch=self.patch, plain=plain
        )


@dataclass(frozen=True, slots=True)
class FileTask:
    """A file of columns, or some row groups of a Parquet file."""

    source: InputSource
    table_key: str
    from_col: EndColumns
    to_col: EndColumns
    groups: RowGroups | None = None
    patch: bool = False
    options: FrameOptions = field(default_factory=FrameOptions)

    def read(self, catalog: Catalog) -> Iterator[Parsed]:
        """The rows of the file, or of the groups."""
        return (read() for read in self.blocks(catalog))

    def blocks(self, catalog: Catalog) -> Iterator[ReadBlock]:
        """The blocks of the file, or of the groups."""
        entity = catalog.entity(self.table_key)
        layout = Layout(
            entity, self.from_col, self.to_col, self.patch, self.options, nodes=catalog.nodes
        )
        return file_blocks(layout, self.source, self.groups)

    def parts(self) -> list[FileTask]:
        """Several tasks for the same rows where the format allows, else this one."""
        return [replace(self, groups=groups) for groups in plan_row_groups(self.source)] or [self]


@dataclass(frozen=True, slots=True)
class FrameTask:
    """A frame of this process; it cannot be sent to another one."""

    source: InputSource
    table_key: str
    from_col: EndColumns
    to_col: EndColumns
    frame: Any = field(repr=False)
    patch: bool = False
    options: FrameOptions = field(default_factory=FrameOptions)

    def layout(self, catalog: Catalog) -> Layout:
        """Which columns of the frame become which columns of the type."""
        entity = catalog.entity(self.table_key)
        return Layout(
            entity, self.from_col, self.to_col, self.patch, self.options, nodes=catalog.nodes
        )

    def read(self, catalog: Catalog) -> Iterator[Parsed]:
        """The rows of the frame."""
        return (read() for read in self.blocks(catalog))

    def blocks(self, catalog: Catalog) -> Iterator[ReadBlock]:
        """The blocks of the frame."""
        return frame_blocks(self.layout(catalog), self.frame, source=self.source.index)
