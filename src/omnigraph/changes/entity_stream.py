"""`graph.nodes` and `graph.edges`: all entities of a type as a stream of Arrow batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Never

import pyarrow as pa

from omnigraph.cancel import look
from omnigraph.changes.table_side import state_of
from omnigraph.display.panel import Panel, Shown
from omnigraph.display.text import counted
from omnigraph.errors import BadRequest
from omnigraph.lang.schema.catalog import EdgeType, Entity
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.manifest.workspace import Workspace
from omnigraph.read.output.frames import pandas_frame, polars_frame
from omnigraph.read.view.pinned_table import pin_table
from omnigraph.spelling import did_you_mean
from omnigraph.storage.fragment_groups import scan_windows
from omnigraph.types import TEXT, PropType

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl


@dataclass(frozen=True, slots=True)
class StreamColumn:
    """A column of a stream: its name there, the property or stored column it shows, and its type."""

    name: str
    shows: str
    type: PropType


class EntityStream(Shown):
    """All nodes or edges of a type at one commit; they are read anew each time.

    It speaks the Arrow stream protocol: pyarrow, polars, DuckDB and others read it batch by batch, in
    memory that does not grow with the type, and ``load_nodes`` and ``load_edges`` take it. Rows come in
    the order in which they are stored.
    """

    def __init__(
        self,
        workspace: Workspace,
        snapshot: Snapshot,
        entity: Entity,
        columns: Sequence[StreamColumn],
    ) -> None:
        self._workspace = workspace
        self._snapshot = snapshot
        self._entity = entity
        self._columns = tuple(columns)
        self._state = state_of(snapshot, entity)

    @property
    def type(self) -> str:
        """The name of the type."""
        return self._entity.name

    @property
    def graph_commit_id(self) -> str:
        """The commit that is read."""
        return self._snapshot.graph_commit_id

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return [column.name for column in self._columns]

    @property
    def schema(self) -> pa.Schema:
        """The columns with their Arrow types."""
        return pa.schema([(column.name, column.type.arrow_type()) for column in self._columns])

    @property
    def row_count(self) -> int:
        """How many there are; nothing is read to know it."""
        return 0 if self._state is None else self._state.row_count

    def __reduce__(self) -> Never:
        """Refuse to be pickled: a stream reads the graph when it is asked for rows."""
        raise TypeError(
            "an EntityStream reads its graph as it is iterated and cannot be pickled; pickle the rows "
            "that its to_arrow() returns"
        )

    def __len__(self) -> int:
        return self.row_count

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Yield all rows as Arrow batches of a few megabytes."""
        if self._state is None:
            return
        pinned = pin_table(self._workspace, self._snapshot, self._entity, self._state)
        schema = self.schema
        with pinned.reading():
            stored = [pinned.column_of(column.shows) for column in self._columns]
            names = list(dict.fromkeys(name for name in stored if name is not None))
            for batch in scan_windows(pinned.table, names or ["id"]):
                look()
                arrays = [
                    pa.nulls(batch.num_rows, field.type)
                    if name is None
                    else _typed(batch.column(name), field.type)
                    for name, field in zip(stored, schema, strict=True)
                ]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows as an Arrow C stream, by which pyarrow, polars, DuckDB and others read them."""
        reader = pa.RecordBatchReader.from_batches(self.schema, iter(self))
        stream: object = reader.__arrow_c_stream__(requested_schema)
        return stream

    def to_arrow(self) -> pa.Table:
        """All rows as an Arrow table."""
        return pa.Table.from_batches(iter(self), self.schema)

    def to_pandas(self) -> pd.DataFrame:
        """All rows as a pandas frame; integers and booleans keep their type beside missing values."""
        return pandas_frame(self.to_arrow())

    def to_polars(self) -> pl.DataFrame:
        """All rows as a polars frame."""
        return polars_frame(self.to_arrow())

    def _panel(self) -> Panel:
        kind = "edge" if isinstance(self._entity, EdgeType) else "node"
        return Panel.of_rows(
            f"{counted(self.row_count, f'{kind} {self.type}', f'{kind}s {self.type}')} at commit "
            f"{self.graph_commit_id}",
            ("column", "type"),
            [(column.name, str(column.type)) for column in self._columns],
        )


def _typed(values: pa.Array, kind: pa.DataType) -> pa.Array:
    return values if values.type == kind else values.cast(kind)


def stream_columns(
    entity: Entity, ends: Mapping[str, str], wanted: Sequence[str] | None
) -> list[StreamColumn]:
    """Return the columns of a stream: those that are wanted, in that order, or all but blobs.

    ``ends`` are the columns before the properties: their names in the stream and in the table.
    """
    known = {name: StreamColumn(name, stored, TEXT) for name, stored in ends.items()}
    known |= {name: StreamColumn(name, name, prop.type) for name, prop in entity.properties.items()}
    if wanted is None:
        return [column for column in known.values() if not column.type.is_blob]
    for name in wanted:
        if name not in known:
            hint = did_you_mean(name, known) or f"it has {', '.join(known)}"
            unknown = (f"{entity.table_key}.{name}",)
            raise BadRequest(
                f"{entity.name} has no column `{name}`; {hint}", column=name, unknown=unknown
            )
        if known[name].type.is_blob:
            raise BadRequest(
                f"{entity.name}.{name} is a Blob; open it with graph.blobs.open(…), or write "
                "everything with graph.export(…)",
                column=name,
            )
    repeated = next((name for at, name in enumerate(wanted) if name in wanted[:at]), None)
    if repeated is not None:
        raise BadRequest(f"the column `{repeated}` is named twice", column=repeated)
    if not wanted:
        raise BadRequest("columns names no column; name some, or leave it out")
    return [known[name] for name in wanted]
