"""The engines behind one surface: load once, open, ask."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from benchmarks.contest.dataset import Dataset

Row = list[Any]
PATIENCE = 60  # seconds for one answer of an engine that can be interrupted


@dataclass(frozen=True)
class Question:
    """One question in three languages: rows of plain values in the same order from each."""

    name: str
    title: str
    ours: str
    cypher: str
    sql: str
    params: dict[str, Any] = field(default_factory=dict)


class Engine(Protocol):
    """What the contest asks of an engine."""

    def load(self, data: Dataset, place: Path) -> None:
        """Fill a new database; the engine's own bulk load."""

    def open(self, place: Path) -> None:
        """Open what was loaded."""

    def ask(self, question: Question) -> list[Row]:
        """Run the question and fetch every row."""

    def write(self, question: Question) -> None:
        """Run a mutation, which is durable afterwards."""


class Ours:
    """omnigraph through its public interface."""

    def load(self, data: Dataset, place: Path) -> None:
        """Parquet files in, one commit each, then the indexes of small tables."""
        import omnigraph

        with omnigraph.init(place, data.schema()) as graph:
            for node in data.nodes:
                graph.load_nodes(node.name, data.file(node.name), mode="append")
            for edge in data.edges:
                file = data.file(edge.name)
                graph.load_edges(edge.name, file, from_col="src", to_col="dst", mode="append")
            graph.ensure_indices()

    def open(self, place: Path) -> None:
        """A read-only handle."""
        import omnigraph

        self.place = place
        self.graph = omnigraph.open(place, mode="r")

    def ask(self, question: Question) -> list[Row]:
        """Text and parameters in, rows out."""
        result = self.graph.query(question.ours, params=question.params)
        return [list(row.values()) for row in result.rows]

    def write(self, question: Question) -> None:
        """One commit, on a handle that writes."""
        import omnigraph

        if not hasattr(self, "writer"):
            self.writer = omnigraph.open(self.place)
        self.writer.mutate(question.ours, params=question.params)


class Cypher:
    """Kùzu, and Ladybug with the same interface."""

    def __init__(self, package: str) -> None:
        self.package = package
        self.prepared: dict[str, Any] = {}

    def open(self, place: Path) -> None:
        """One connection with the engine's own choice of threads."""
        module = importlib.import_module(self.package)
        self.database = module.Database(str(place))
        self.connection = module.Connection(self.database)
        self.connection.set_query_timeout(PATIENCE * 1000)

    def load(self, data: Dataset, place: Path) -> None:
        """Bulk copies from Parquet."""
        self.open(place)
        for statement in data.cypher():
            self.connection.execute(statement)
        self.connection.close()
        self.database.close()

    def ask(self, question: Question) -> list[Row]:
        """A statement prepared the first time."""
        statement = self.prepared.get(question.name)
        if statement is None:
            statement = self.connection.prepare(question.cypher, question.params)
            self.prepared[question.name] = statement
        result = self.connection.execute(statement, question.params)
        rows = []
        while result.has_next():
            rows.append(list(result.get_next()))
        result.close()
        return rows

    def write(self, question: Question) -> None:
        """One statement, committed by itself."""
        self.ask(question)


class Duck:
    """DuckDB on a file, tables as they were loaded."""

    def __init__(self) -> None:
        self.prepared: dict[str, str] = {}

    def open(self, place: Path) -> None:
        """One connection with the engine's own choice of threads."""
        import duckdb

        self.connection = duckdb.connect(str(place))

    def load(self, data: Dataset, place: Path) -> None:
        """Insert from Parquet, with keys declared."""
        self.open(place)
        for statement in data.sql():
            self.connection.execute(statement)
        self.connection.close()

    def ask(self, question: Question) -> list[Row]:
        """A statement prepared the first time."""
        call = self.prepared.get(question.name)
        if call is None:
            self.connection.execute(f"PREPARE {question.name} AS {question.sql}")
            call = f"EXECUTE {question.name}{arguments(question.params)}"
            self.prepared[question.name] = call
        return [list(row) for row in self.connection.execute(call).fetchall()]

    def write(self, question: Question) -> None:
        """One statement, committed by itself."""
        self.connection.execute(question.sql, question.params)


def arguments(params: Mapping[str, Any]) -> str:
    """The parameters of an EXECUTE; ours hold plain numbers and simple words only."""
    return (
        "(" + ", ".join(f"{name} := {value!r}" for name, value in params.items()) + ")"
        if params
        else ""
    )


def engine(name: str) -> Engine:
    """The engine of that name."""
    if name == "omnigraph":
        return Ours()
    return Duck() if name == "duckdb" else Cypher(name)
