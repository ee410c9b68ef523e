"""Pieces of input that can be read apart, by any process that reaches them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from omnigraph.lang.schema.catalog import Catalog
from omnigraph.pipeline.formats.frames import (
    RowGroups,
    file_pieces,
    frame_pieces,
    plan_row_groups,
    read_frame_file,
)
from omnigraph.pipeline.formats.json_lines import read_split, split_pieces
from omnigraph.pipeline.formats.typed_batch import Parsed, Piece
from omnigraph.pipeline.sources.sources import Source
from omnigraph.pipeline.sources.splits import Split

PIECE_BYTES = 2 << 20
"""Blocks for threads of one process: small, so that the last ones keep all of them busy."""


class ReadTask(Protocol):
    """A piece of the input."""

    @property
    def source(self) -> Source:
        """The source it is of."""
        ...

    def read(self, catalog: Catalog) -> Iterator[Parsed]:
        """Its records, block by block."""
        ...

    def pieces(self, catalog: Catalog) -> Iterator[Piece]:
        """The same blocks, yet to be read."""
        ...


@dataclass(frozen=True, slots=True)
class LinesTask:
    """A split of JSON lines."""

    source: Source
    split: Split

    def read(self, catalog: Catalog) -> Iterator[Parsed]:
        """The records that begin in the split."""
        return read_split(catalog, self.source, self.split)

    def pieces(self, catalog: Catalog) -> Iterator[Piece]:
        """The blocks of the split."""
        return split_pieces(catalog, self.source, self.split, PIECE_BYTES)


@dataclass(frozen=True, slots=True)
class FileTask:
    """A file of columns, or some row groups of a Parquet file."""

    source: Source
    table_key: str
    from_col: str
    to_col: str
    groups: RowGroups | None = None

    def read(self, catalog: Catalog) -> Iterator[Parsed]:
        """The rows of the file, or of the groups."""
        entity = catalog.entity(self.table_key)
        return read_frame_file(entity, self.source, self.from_col, self.to_col, self.groups)

    def pieces(self, catalog: Catalog) -> Iterator[Piece]:
        """The blocks of the file, or of the groups."""
        entity = catalog.entity(self.table_key)
        return file_pieces(entity, self.source, self.from_col, self.to_col, self.groups)

    def parts(self) -> list[FileTask]:
        """The same rows as several tasks, where the format allows."""
        return [replace(self, groups=groups) for groups in plan_row_groups(self.source)] or [self]


@dataclass(frozen=True, slots=True)
class FrameTask:
    """A frame of this process; it does not travel."""

    source: Source
    table_key: str
    from_col: str
    to_col: str
    frame: Any = field(repr=False)

    def read(self, catalog: Catalog) -> Iterator[Parsed]:
        """The rows of the frame."""
        return (piece() for piece in self.pieces(catalog))

    def pieces(self, catalog: Catalog) -> Iterator[Piece]:
        """The blocks of the frame."""
        entity = catalog.entity(self.table_key)
        index = self.source.index
        return frame_pieces(entity, self.frame, self.from_col, self.to_col, source=index)
