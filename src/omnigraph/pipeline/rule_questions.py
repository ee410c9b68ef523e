"""The set rules of a load as questions about values, which either engine answers where its rows are.

Most loads break no rule, and that can be seen from the columns that rules compare: no id or unique
tuple comes twice, none is one of a committed row, every end is a node, and no node has too many edges. These are three
questions about values. Do some repeat? Is one of them among others? Is one missing among others? A
question names where the values are: in pieces that hold incoming rows, or in fragments of a table.

For example, `edge Follows: Person -> Person @card(0..9)` appended with made ids asks two: is an end missing among
the ids of Person, and does a `src` come more than nine times among the new edges and the stored ones?

Executors answer all of them (`spark/rule_proof.py`). This process answers the one about ends, which is all that
most loads of edges ask (`local/local_proof.py`). Whatever looks broken, or is too large, is left to the rules
themselves (`validate/`), which know what to tell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

import pyarrow as pa

from omnigraph.lang.schema.catalog import Catalog, EdgeType
from omnigraph.pipeline.engine import Incoming
from omnigraph.pipeline.load_options import LoadMode
from omnigraph.storage.fragment_groups import fragment_sizes, scan_windows
from omnigraph.storage.tables.loose_files import read_data_file
from omnigraph.storage.tables.table import open_table
from omnigraph.storage.tables.table_ref import TableRef
from omnigraph.types import as_integers
from omnigraph.validate.committed import Committed

PART_ROWS = 1_000_000
"""Tasks that look for repeated values get about this number of values each, as long as there are cores."""


class Piece(Protocol):
    """Rows that lie together."""

    @property
    def rows(self) -> int:
        """How many there are."""
        ...

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Read some columns."""
        ...


@dataclass(frozen=True, slots=True)
class RowsPiece:
    """Rows of a table: one file that was written, or one fragment of a version of the table."""

    ref: TableRef
    rows: int
    file: str | None = None
    fragment_id: int | None = None

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Read some columns."""
        if self.file is not None:
            return read_data_file(self.ref, self.file, columns)
        assert self.fragment_id is not None
        return scan_windows(open_table(self.ref), columns, [self.fragment_id])


@dataclass(frozen=True, slots=True)
class ColumnValues:
    """The values of columns in a piece, of which rows with a null are left out."""

    piece: Piece
    columns: tuple[str, ...]

    def arrays(self) -> Iterator[list[pa.Array]]:
        """Read the columns of one batch after another, times as integers."""
        for batch in self.piece.batches(self.columns):
            yield [as_integers(batch.column(name)) for name in self.columns]


@dataclass(frozen=True, slots=True)
class ValueQuestion:
    """Asks whether something is wrong with values; all of its columns have the same types.

    ``repeated``: some value comes more than ``most`` times. The answer may be yes although that is not
    so, but never the other way round; ``part`` and ``parts`` say which of the values are compared.
    ``shared``: some value is among the others. ``missing``: some value is not among the others, which are
    the ids of the nodes of type ``among``.
    """

    kind: Literal["repeated", "shared", "missing"]
    values: tuple[ColumnValues, ...]
    others: tuple[ColumnValues, ...] = ()
    most: int = 1
    among: str | None = None
    part: int = 0
    parts: int = 1

    @property
    def rows(self) -> int:
        """How many values there are."""
        return sum(one.piece.rows for one in self.values)

    def swapped(self) -> ValueQuestion:
        """Return the same question about the others, which only ``shared`` has."""
        return replace(self, values=self.others, others=self.values)

    def divided(self, cores: int) -> list[ValueQuestion]:
        """Divide the work among tasks, so that no task does much more than is its own."""
        if self.kind == "repeated":
            parts = max(1, min(cores, self.rows // PART_ROWS))
            return [replace(self, part=part, parts=parts) for part in range(parts)]
        others = sum(one.piece.rows for one in self.others)
        ways = max(1, min(cores, len(self.values), 4 * self.rows // max(1, others)))
        shares: list[list[ColumnValues]] = [[] for _ in range(ways)]
        held = [0] * ways
        for one in sorted(self.values, key=lambda value: -value.piece.rows):
            least = held.index(min(held))
            shares[least].append(one)
            held[least] += one.piece.rows
        return [replace(self, values=tuple(share)) for share in shares if share]


@dataclass(frozen=True, slots=True)
class RuleQuestions:
    """The questions of one load on one state of the branch. ``pieces_of`` gives the incoming rows of a table."""

    catalog: Catalog
    incoming: Mapping[str, Incoming]
    mode: LoadMode
    committed: Committed
    pieces_of: Callable[[str], Sequence[Piece]]

    def any_needs_edges(self) -> bool:
        """Say whether nodes may have too few edges, about which there is no question."""
        return any(self._needs_edges(rows) for rows in self.incoming.values())

    def asked(self) -> Iterator[ValueQuestion]:
        """Yield all questions. The tables of a question are opened when it is reached."""
        for some in (
            self._repeated(),
            self._taken(),
            self._missing(),
            self._stranded(),
            self._crowded(),
        ):
            yield from (question for question in some if question.values)

    # -- where values are

    def _written(self, key: str, *columns: str) -> list[ColumnValues]:
        """The values of incoming rows."""
        return [ColumnValues(piece, columns) for piece in self.pieces_of(key)]

    def _stored(self, key: str, *columns: str) -> list[ColumnValues]:
        """The values of committed rows that stay."""
        self.committed.relied_on.add(key)
        pin = self.committed.pins[key]
        if pin.row_count == 0 or (self.mode == "overwrite" and key in self.incoming):
            return []
        ref = self.committed.locate(pin)
        return [
            ColumnValues(RowsPiece(ref, rows, fragment_id=number), columns)
            for number, rows in fragment_sizes(open_table(ref))
        ]

    def _nodes(self, name: str) -> list[ColumnValues]:
        """The ids of all nodes of a type after the load."""
        key = self.catalog.nodes[name].table_key
        new = self._written(key, "id") if key in self.incoming else []
        return [*new, *self._stored(key, "id")]

    # -- rules

    def _compared(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """The columns of which no two rows may have the same values. Ids that were made are unlike others."""
        for key, rows in self.incoming.items():
            if rows.may_repeat:
                yield key, ("id",)
            yield from ((key, tuple(group)) for group in rows.entity.unique)

    def _compared_with_stored(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """The same against committed rows: an id made of a tuple may be that of an edge that had it once."""
        yield from self._compared()
        for key, rows in self.incoming.items():
            edge = rows.entity
            if isinstance(edge, EdgeType) and edge.identity is not None and not rows.may_repeat:
                yield key, ("id",)

    def _repeated(self) -> Iterator[ValueQuestion]:
        """Ask for ids and unique tuples that two incoming rows have."""
        for key, columns in self._compared():
            yield ValueQuestion("repeated", tuple(self._written(key, *columns)))

    def _taken(self) -> Iterator[ValueQuestion]:
        """Ask for ids and unique tuples that a committed row has."""
        for key, columns in self._compared_with_stored() if self.mode == "append" else ():
            mine, stored = self._written(key, *columns), self._stored(key, *columns)
            if stored:
                yield ValueQuestion("shared", tuple(mine), tuple(stored))

    def _missing(self) -> Iterator[ValueQuestion]:
        """Ask for ends of incoming edges that are no nodes."""
        ends: dict[str, list[ColumnValues]] = {}
        for key, rows in self.incoming.items():
            if isinstance(rows.entity, EdgeType):
                ends.setdefault(rows.entity.from_type, []).extend(self._written(key, "src"))
                ends.setdefault(rows.entity.to_type, []).extend(self._written(key, "dst"))
        for name, values in ends.items():
            yield ValueQuestion("missing", tuple(values), tuple(self._nodes(name)), among=name)

    def _stranded(self) -> Iterator[ValueQuestion]:
        """Ask for committed edges that lose a node because its table is overwritten."""
        for edge in self.catalog.edges.values() if self.mode == "overwrite" else ():
            for side, name in (("src", edge.from_type), ("dst", edge.to_type)):
                is_replaced = self.catalog.nodes[name].table_key in self.incoming
                if is_replaced and edge.table_key not in self.incoming:
                    stored = self._stored(edge.table_key, side)
                    yield ValueQuestion(
                        "missing", tuple(stored), tuple(self._nodes(name)), among=name
                    )

    def _crowded(self) -> Iterator[ValueQuestion]:
        """Ask for nodes with more edges than they may have."""
        for key, rows in self.incoming.items():
            if isinstance(rows.entity, EdgeType) and rows.entity.cardinality.max is not None:
                values = [*self._written(key, "src"), *self._stored(key, "src")]
                yield ValueQuestion("repeated", tuple(values), most=rows.entity.cardinality.max)

    def _needs_edges(self, rows: Incoming) -> bool:
        """Say whether nodes may have too few edges.

        Only nodes that gain or lose edges are looked at, so it needs a bound above 1, or edges that go.
        """
        if not isinstance(rows.entity, EdgeType):
            return False
        low = rows.entity.cardinality.min
        replaces = self.mode == "overwrite" and self.committed.pins[rows.entity.table_key].row_count
        return low > 1 or (low == 1 and bool(replaces))
