"""`QueryResult`: the rows of one read, as Arrow underneath and as plain values on request."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, overload

from omnigraph.display.panel import CELL_CHARACTERS, SHOWN_ROWS, Panel, Shown
from omnigraph.display.text import cell_text, counted, query_text, shortened
from omnigraph.errors import BadRequest
from omnigraph.lang.query.ir import Column
from omnigraph.manifest.snapshot import Target
from omnigraph.read.output.frames import ArrowRows
from omnigraph.types import column_to_json

if TYPE_CHECKING:
    import pyarrow as pa

Nodes = Mapping[str, "pa.Array"]
"""Ids of nodes by the name of their type."""


@dataclass(frozen=True, eq=False, repr=False)
class QueryResult(ArrowRows, Shown):
    """What a read query returned, and which state of the graph it was read from.

    ``table`` has the plan's columns in projection order, with their types also when it has no rows.
    ``node_types`` has the type of each column that is a node, by the name of the column.
    ``total_rows`` says how many rows there are in all, if the answer was to be cut.
    """

    table: pa.Table
    schema: tuple[Column, ...]
    query_name: str | None
    target: Target
    graph_commit_id: str
    node_types: Mapping[str, str] = field(default_factory=dict)
    total_rows: int | None = None
    as_of: str | None = None
    """The moment at which it sees what holds where its text does not say, or "ever"; None if no type that it reads has
    a period."""
    find_graph: Callable[[Nodes | None], dict[str, Any]] | None = None
    """Reads nodes and the edges among them at the same state of the graph; for None, those of the match."""

    @property
    def truncated(self) -> bool:
        """Whether there are more rows than these."""
        return self.total_rows is not None and self.total_rows > self.row_count

    @property
    def columns(self) -> list[str]:
        """The names of the columns, in projection order."""
        return [column.name for column in self.schema]

    @property
    def row_count(self) -> int:
        """How many rows there are."""
        return int(self.table.num_rows)

    @property
    def summary(self) -> str:
        """How many rows came from where, in words."""
        return (
            f"{counted(self.row_count, 'row')} from {self.target} via {query_text(self.query_name)}"
        )

    @property
    def _named(self) -> str:
        return "the query" if self.query_name is None else f"query `{self.query_name}`"

    @functools.cached_property
    def rows(self) -> list[dict[str, Any]]:
        """The rows as dicts of plain JSON values, made on first use."""
        return self._rows()

    def __eq__(self, other: object) -> bool:
        """Whether the other is the same answer: the same rows, columns and state of the graph."""
        if not isinstance(other, QueryResult):
            return NotImplemented
        return self._facts() == other._facts() and _same_rows(self, other)

    def __hash__(self) -> int:
        return hash((self.query_name, self.graph_commit_id, self.row_count))

    def __getstate__(self) -> dict[str, Any]:
        """The values alone: in another process there is no open graph behind them."""
        left_out = {"rows": None, "find_graph": None}
        kept = {name: value for name, value in self.__dict__.items() if name not in left_out}
        return {**kept, "find_graph": None}

    def __copy__(self) -> QueryResult:
        return replace(self)

    def __deepcopy__(self, _memo: object) -> QueryResult:
        return replace(self)

    def _facts(self) -> tuple[object, ...]:
        facts = self.schema, self.query_name, self.target, self.graph_commit_id
        return *facts, dict(self.node_types), self.total_rows, self.as_of

    def __len__(self) -> int:
        return self.row_count

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows)

    @overload
    def __getitem__(self, at: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, at: slice) -> list[dict[str, Any]]: ...
    def __getitem__(self, at: int | slice) -> dict[str, Any] | list[dict[str, Any]]:
        """Return a row by its number, from the end if it is negative, or the rows of a slice."""
        if isinstance(at, slice):
            places = range(self.row_count)[at]
            if places.step == 1:
                return self._rows(places.start, len(places))
            return self.rows[at]
        if isinstance(at, bool) or not isinstance(at, int):
            raise BadRequest(f"{at!r} is no number of a row; a column is `result.to_arrow()[name]`")
        place = at + self.row_count if at < 0 else at
        if not 0 <= place < self.row_count:
            raise IndexError(f"there is no row {at}; the result has {self._size()}")
        return self._rows(place, 1)[0]

    def one(self) -> dict[str, Any]:
        """The only row; a result of no rows, or of several, is refused."""
        if self.row_count != 1:
            raise BadRequest(
                f"one() is for a result of exactly one row, and {self._named} returned "
                f"{self._size()}",
                row_count=self.row_count,
            )
        return self[0]

    def scalar(self) -> Any:
        """The only value: that of one row with one column; anything else is refused."""
        if self.row_count != 1 or len(self.schema) != 1:
            raise BadRequest(
                "scalar() is for a result of one row with one column, and "
                f"{self._named} returned {self._size()} with "
                f"{counted(len(self.schema), 'column')}",
                row_count=self.row_count,
            )
        (value,) = self[0].values()
        return value

    def graph(self) -> dict[str, Any]:
        """The nodes of the result and the stored edges among them, as a node-link document.

        Its nodes are those of all columns that are nodes. Without such a column they are those that the match
        found, in the order of its rows, 5,000 at most. It has the form that
        ``networkx.node_link_graph`` and drawing libraries read: `nodes` with an `id` (type and id of the
        node), a `caption` and `properties`; `edges` with `source`, `target`, `type`, `id` and
        `properties`. It is read from the same commit as the result.
        """
        import pyarrow as pa

        if self.find_graph is None:
            raise BadRequest(
                "this result has no open graph behind it, for example because it was pickled; call "
                "graph.query(…)"
            )
        if not self.node_types:
            return self.find_graph(None)
        found: dict[str, list[pa.ChunkedArray]] = {}
        for column, type_name in self.node_types.items():
            found.setdefault(type_name, []).append(self.table.column(column))
        return self.find_graph(
            {
                name: pa.chunked_array(
                    [chunk for column in columns for chunk in column.chunks], pa.utf8()
                )
                .drop_null()
                .unique()
                for name, columns in found.items()
            }
        )

    def to_json(self, js_safe: bool = False) -> dict[str, Any]:
        """The whole answer as plain data, the document that the command line and the server give.

        ``js_safe`` writes integers that a JavaScript number cannot hold as text.
        """
        rows = self._rows(js_safe=True) if js_safe else self.rows
        return {**self.document_head, "rows": rows, **self.document_tail}

    @property
    def document_head(self) -> dict[str, Any]:
        """What the document of the answer has before its rows."""
        return {
            "query_name": self.query_name,
            "target": self.target.to_json(),
            "as_of": self.as_of,
            "row_count": self.row_count,
            "columns": self.columns,
            "schema": [self._described(column) for column in self.schema],
        }

    @property
    def document_tail(self) -> dict[str, Any]:
        """What the document of the answer has behind its rows."""
        tail: dict[str, Any] = {"graph_commit_id": self.graph_commit_id}
        if self.total_rows is not None:
            tail |= {"truncated": self.truncated, "total_rows": self.total_rows}
        return tail

    def _described(self, column: Column) -> dict[str, Any]:
        """A column's name and kind, and which nodes a column of ids names."""
        from omnigraph.lang.query.describe import describe_value

        shown = _without_size(describe_value(column.name, column.type))
        if column.name in self.node_types:
            shown["entity"] = {"kind": "node", "type": self.node_types[column.name]}
        return shown

    def values(
        self, start: int = 0, length: int | None = None, *, js_safe: bool = False
    ) -> list[Sequence[Any]]:
        """JSON values by column, of all rows or of some of them."""
        part = self.table.slice(start, length)
        return [
            column_to_json(column.type, part.column(at), js_safe)
            for at, column in enumerate(self.schema)
        ]

    def _rows(
        self, start: int = 0, length: int | None = None, *, js_safe: bool = False
    ) -> list[dict[str, Any]]:
        names = self.columns
        cells = zip(*self.values(start, length, js_safe=js_safe), strict=True)
        return [dict(zip(names, row, strict=True)) for row in cells]

    def _size(self) -> str:
        return counted(self.row_count, "row") if self.row_count else "no rows"

    def _panel(self) -> Panel:
        shown = zip(*self.values(0, SHOWN_ROWS), strict=True)
        return Panel(
            self.summary,
            columns=self.columns,
            rows=[[shortened(cell_text(value), CELL_CHARACTERS) for value in row] for row in shown],
            hidden=max(self.row_count - SHOWN_ROWS, 0),
            notes=[f"cut, of {self.total_rows:,} rows in all"] if self.truncated else [],
            numeric=[column.type.is_numeric for column in self.schema],
        )


def _without_size(value: dict[str, Any]) -> dict[str, Any]:
    """The description of a column, or of a field of its objects, as answers have it: no length of vectors."""
    shown = {"name": value["name"], "type": value["kind"], "nullable": value["nullable"]}
    if "item_kind" in value:
        shown["item_kind"] = value["item_kind"]
    if "fields" in value:
        shown["fields"] = [_without_size(field) for field in value["fields"]]
    return shown


def _same_rows(one: QueryResult, other: QueryResult) -> bool:
    if one.table.equals(other.table):
        return True
    if one.table.schema != other.table.schema or one.row_count != other.row_count:
        return False
    # For Arrow a NaN differs from itself. Texts of numbers are exact.
    kinds = (str(field.type) for field in one.table.schema)
    floats = [at for at, kind in enumerate(kinds) if "float" in kind or "double" in kind]
    rest = [at for at in range(one.table.num_columns) if at not in floats]
    if not floats or not one.table.select(rest).equals(other.table.select(rest)):
        return False
    return repr(one.table.select(floats).to_pydict()) == repr(
        other.table.select(floats).to_pydict()
    )
