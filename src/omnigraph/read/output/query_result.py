"""`QueryResult`: the rows of one read, as Arrow underneath and as plain values on request."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

from omnigraph.errors import BadRequest
from omnigraph.lang.query.ir import Column
from omnigraph.manifest.snapshot import Target
from omnigraph.types import column_to_json

if TYPE_CHECKING:
    import pyarrow as pa

SHOWN_ROWS = 10


@dataclass(frozen=True, eq=False, repr=False)
class QueryResult:
    """What a read query returned, and which state of the graph it was read from.

    ``table`` has the plan's columns in projection order, with their types also when it has no rows.
    """

    table: pa.Table
    schema: tuple[Column, ...]
    query_name: str
    target: Target
    graph_commit_id: str
    entities: Mapping[str, str] = field(default_factory=dict)
    """The columns that hold ids of nodes, each with the type of those nodes."""

    @property
    def columns(self) -> list[str]:
        """The names of the columns, in projection order."""
        return [column.name for column in self.schema]

    @property
    def row_count(self) -> int:
        """How many rows there are."""
        return int(self.table.num_rows)

    @functools.cached_property
    def rows(self) -> list[dict[str, Any]]:
        """The rows as dicts of plain JSON values, made on first use."""
        return self._rows(js_safe=False)

    def __len__(self) -> int:
        return self.row_count

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows)

    def to_arrow(self) -> pa.Table:
        """The rows as an Arrow table."""
        return self.table

    def to_pandas(self) -> Any:
        """The rows as a pandas frame; integers and booleans keep their type beside missing values."""
        pandas = _library("pandas", "to_pandas")
        kept = {
            "bool": pandas.BooleanDtype(),
            "int32": pandas.Int32Dtype(),
            "int64": pandas.Int64Dtype(),
            "uint32": pandas.UInt32Dtype(),
            "uint64": pandas.UInt64Dtype(),
        }
        return self.table.to_pandas(types_mapper=lambda kind: kept.get(str(kind)))

    def to_polars(self) -> Any:
        """The rows as a polars frame."""
        return _library("polars", "to_polars").from_arrow(self.table)

    def to_json(self, js_safe: bool = False) -> dict[str, Any]:
        """The whole answer as plain data.

        ``js_safe`` writes integers that a JavaScript number cannot hold as text.
        """
        return {
            "query_name": self.query_name,
            "target": self.target.to_json(),
            "row_count": self.row_count,
            "columns": self.columns,
            "rows": self._rows(js_safe=True) if js_safe else self.rows,
            "graph_commit_id": self.graph_commit_id,
        }

    def values(
        self, start: int = 0, length: int | None = None, *, js_safe: bool = False
    ) -> list[Sequence[Any]]:
        """JSON values by column, of all rows or of some of them."""
        part = self.table.slice(start, length)
        return [
            column_to_json(column.type, part.column(at), js_safe)
            for at, column in enumerate(self.schema)
        ]

    def _rows(self, *, js_safe: bool) -> list[dict[str, Any]]:
        names = self.columns
        cells = zip(*self.values(js_safe=js_safe), strict=True)
        return [dict(zip(names, row, strict=True)) for row in cells]

    def __repr__(self) -> str:
        from omnigraph.read.output.render import table_text

        text = table_text(self, limit=SHOWN_ROWS)
        hidden = self.row_count - SHOWN_ROWS
        return f"{text}\n… {hidden} more" if hidden > 0 else text

    def _repr_html_(self) -> str:
        import html

        from omnigraph.read.output.render import cells, summary

        head = "".join(f"<th>{html.escape(name)}</th>" for name in self.columns)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(text)}</td>" for text in row) + "</tr>"
            for row in cells(self, 0, SHOWN_ROWS)
        )
        hidden = self.row_count - SHOWN_ROWS
        more = f", {hidden} not shown" if hidden > 0 else ""
        return (
            f"<table><caption>{html.escape(summary(self) + more)}</caption>"
            f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        )


def _library(name: str, method: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise BadRequest(
            f"{method} needs {name}, which is not installed; install it (pip install {name}), or "
            "use to_arrow or rows"
        ) from None
