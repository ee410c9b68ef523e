"""`AlgorithmResult`: a value for every node, as a table, and the way to store it in the graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from omnigraph.display.panel import SHOWN_ROWS, Panel, Shown
from omnigraph.display.text import counted
from omnigraph.errors import BadRequest
from omnigraph.manifest.branch_names import MAIN
from omnigraph.manifest.rows import GraphCommit
from omnigraph.read.output.frames import ArrowRows

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

WriteBack = Callable[[str, str, str | None, str | None], GraphCommit | None]
"""Stores the values: in which property, on which branch, as which actor, if the branch is at which commit."""


class FoundRows(Protocol):
    """The ids and the values, in this process or on executors."""

    @property
    def columns(self) -> Sequence[str]:
        """The names of the columns."""

    @property
    def row_count(self) -> int:
        """How many nodes there are."""

    @property
    def table(self) -> pa.Table:
        """All rows, ordered by id."""

    def first(self, count: int) -> pa.Table:
        """The first of them."""

    def frame(self) -> DataFrame:
        """All rows as a frame of the running Spark session."""


@dataclass(frozen=True, slots=True)
class TableRows:
    """Rows that are in this process."""

    table: pa.Table

    @property
    def columns(self) -> Sequence[str]:
        """The names of the columns."""
        return list(self.table.column_names)

    @property
    def row_count(self) -> int:
        """How many nodes there are."""
        return int(self.table.num_rows)

    def first(self, count: int) -> pa.Table:
        """The first rows."""
        return self.table.slice(0, count)

    def frame(self) -> DataFrame:
        """The rows as a frame of the running Spark session; starts one if there is none."""
        from omnigraph.runner.session import spark_session

        return spark_session().createDataFrame(self.table)


@dataclass(frozen=True, eq=False, repr=False)
class AlgorithmResult(ArrowRows, Shown):
    """What an algorithm found: a row for every node of the graph, ordered by id.

    ``iterations`` says how many rounds were run, and ``converged`` whether they ended because a round changed
    nothing more (or less than the tolerance), rather than because there were as many as allowed.
    ``graph_commit_id`` is the commit that was read, ``modularity`` that of the communities of ``louvain``.
    """

    algorithm: str
    found: FoundRows
    iterations: int
    converged: bool
    engine: str
    graph_commit_id: str
    modularity: float | None = None
    write_back: WriteBack | None = None
    """How the values get into the open graph."""

    @property
    def table(self) -> pa.Table:
        """The ids and the values; those of a run on Spark are brought here when they are first asked for."""
        return self.found.table

    @property
    def column(self) -> str:
        """The name of the column with the values."""
        return self.columns[-1]

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self.found.columns)

    @property
    def row_count(self) -> int:
        """How many nodes there are."""
        return self.found.row_count

    def __len__(self) -> int:
        return self.row_count

    def __eq__(self, other: object) -> bool:
        """Whether the other found the same on the same state of a graph."""
        if not isinstance(other, AlgorithmResult):
            return NotImplemented
        return self._facts() == other._facts() and bool(self.table.equals(other.table))

    def __hash__(self) -> int:
        return hash((self.algorithm, self.graph_commit_id, self.row_count))

    def __getstate__(self) -> dict[str, Any]:
        """The values alone: in another process there is no open graph behind them."""
        return {**self.__dict__, "found": TableRows(self.table), "write_back": None}

    def __copy__(self) -> AlgorithmResult:
        return replace(self)

    def __deepcopy__(self, _memo: object) -> AlgorithmResult:
        return replace(self)

    def _facts(self) -> tuple[object, ...]:
        rounds = self.iterations, self.converged, self.engine, self.modularity
        return self.algorithm, self.graph_commit_id, *rounds

    def frame(self) -> DataFrame:
        """The ids and the values, ordered by id, as a frame of the running Spark session; starts one if there is none.

        The rows of a run on Spark stay on its executors, for as long as this result is there.
        """
        return self.found.frame()

    def write(
        self,
        property: str,
        *,
        branch: str = MAIN,
        actor: str | None = None,
        if_commit: str | None = None,
    ) -> GraphCommit | None:
        """Store the values in a property of the nodes, as one commit, which is returned.

        Only nodes whose stored value differs are written; None if there are none, and then there is no commit.
        The property is declared: F64 or F32, I64 or I32, or String, to fit the values. What was read must be
        unchanged at the head of the branch, or ``ExpectedVersionMismatch`` says so and nothing is written.
        ``if_commit``: refuse unless the branch is at that commit.
        """
        if self.write_back is None:
            raise BadRequest(
                "this result has no open graph behind it, for example because it was pickled; run "
                f"graph.algorithms.{self.algorithm}(…) again"
            )
        return self.write_back(property, branch, actor, if_commit)

    def _panel(self) -> Panel:
        shown = self.found.first(SHOWN_ROWS)
        ended = "converged" if self.converged else "not converged"
        rounds = f"{counted(self.iterations, 'round')}, {ended}"
        facts: list[tuple[str, Any]] = [("rounds", rounds), ("commit", self.graph_commit_id)]
        if self.modularity is not None:
            facts.append(("modularity", f"{self.modularity:.6f}"))
        columns = [
            [_cell(value) for value in shown.column(name).to_pylist()] for name in self.columns
        ]
        return Panel(
            f"{self.algorithm} of {counted(self.row_count, 'node')}",
            facts,
            columns=self.columns,
            rows=list(zip(*columns, strict=True)),
            hidden=max(self.row_count - SHOWN_ROWS, 0),
        )


def _cell(value: object) -> object:
    """A value for a table; ranks of large graphs are small, so floats show their digits, not two places."""
    return f"{value:.6g}" if isinstance(value, float) else value
