"""Running an algorithm on one snapshot, with one of its engines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from omnigraph.algorithms.definitions import Definition, check_engine, session_for
from omnigraph.algorithms.local import NodeValues
from omnigraph.algorithms.node_graph import NodeGraph
from omnigraph.algorithms.result import FoundRows, TableRows
from omnigraph.algorithms.rounds import OnRound, Ran
from omnigraph.algorithms.write_back import Storable, Values
from omnigraph.lang.query.ir import EVER
from omnigraph.lang.schema.catalog import EdgeType, Entity
from omnigraph.manifest.rows import TableState
from omnigraph.read.values.periods import Moment
from omnigraph.read.view.view import View

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from omnigraph.algorithms.spark.rounds_on_spark import SparkFound
    from omnigraph.algorithms.spark.spark_graph import SparkGraph


@dataclass(frozen=True, slots=True)
class Run:
    """An algorithm with its parameters: what it does in this process, and on Spark.

    ``only_here`` is an option that was given, with which it runs in this process only.
    """

    here: Callable[[NodeGraph, OnRound], NodeValues]
    on_spark: Callable[[SparkGraph, OnRound], SparkFound] | None = None
    only_here: str | None = None


@dataclass(frozen=True, slots=True)
class AlgorithmRequest:
    """What to run an algorithm on: edge types that join nodes of one type, their weights, and which nodes.

    ``chosen`` are the distinct ids of the nodes; None: all of the type.
    """

    definition: Definition
    edges: Sequence[EdgeType]
    weight: str | None
    chosen: pa.Array | None
    moment: Moment = EVER
    """When nodes and edges must hold."""

    @property
    def type_name(self) -> str:
        """The type of the nodes."""
        return self.edges[0].from_type

    def read(self, view: View) -> list[TableState]:
        """The states of the tables that are read: those of the edges, then that of the nodes."""
        tables: list[Entity] = [*self.edges, view.catalog.nodes[self.type_name]]
        return [view.table(one).state for one in tables]


class AlgorithmOutcome(NamedTuple):
    """The result of an algorithm, how it was computed, and its values in the form that a write needs."""

    rows: FoundRows
    ran: Ran
    stored: Storable
    engine: str
    modularity: float | None = None


def run_asked(
    asked: AlgorithmRequest, view: View, engine: str, run: Run, on_round: OnRound
) -> AlgorithmOutcome:
    """Run an algorithm with the engine that is asked for; ``auto`` chooses one by the size of the graph."""
    *edges, nodes = (one.row_count for one in asked.read(view))
    only_here = run.only_here
    if asked.moment != EVER and any(
        one.period is not None for one in (*asked.edges, view.catalog.nodes[asked.type_name])
    ):
        only_here = only_here or "types that have a period"
        check_engine(asked.definition, engine, only_here)
    session = session_for(asked.definition, engine, nodes, sum(edges), only_here)
    with view.reading():
        if session is None:
            return _run_here(asked, view, run, on_round)
        return _run_on_spark(asked, session, view, run, on_round)


def _run_here(asked: AlgorithmRequest, view: View, run: Run, on_round: OnRound) -> AlgorithmOutcome:
    definition, chosen = asked.definition, None
    if asked.chosen is not None:
        chosen = np.sort(view.nodes(asked.type_name).ordinals_of(asked.chosen))
    graph = NodeGraph(view, [one.name for one in asked.edges], chosen, asked.moment)
    found = run.here(graph, on_round)
    values = pa.array(found.values)
    if definition.kind.is_text:
        values = graph.ids.take(values)
    rows = TableRows(pa.table({"id": graph.ids, definition.column: values}))
    stored = Values(definition, asked.type_name, graph.ordinals, values, asked.read(view))
    return AlgorithmOutcome(rows, found.ran, stored, "local", found.modularity)


def _run_on_spark(
    asked: AlgorithmRequest, session: SparkSession, view: View, run: Run, on_round: OnRound
) -> AlgorithmOutcome:
    from omnigraph.algorithms.spark.frame_rows import FrameRows, FrameValues
    from omnigraph.algorithms.spark.spark_graph import SparkGraph
    from omnigraph.runner.spark_errors import spark_errors

    assert run.on_spark is not None, "an engine that does not run it was refused"
    with (
        spark_errors(),
        SparkGraph(session, view, asked.edges, asked.weight, asked.chosen) as graph,
    ):
        found = run.on_spark(graph, on_round)
        rows = FrameRows.of(graph, found, asked.definition, session)
    stored = FrameValues(asked.definition, asked.type_name, rows, asked.read(view))
    return AlgorithmOutcome(rows, found.ran, stored, "spark")
