"""A property graph as plain Arrow columns, and its declaration in every engine's language."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

KEY = "number"
# Ours, Cypher's, SQL's name of an Arrow type.
NAMES = {
    "int64": ("I64", "INT64", "INTEGER"),
    "int32": ("I32", "INT32", "INTEGER"),
    "double": ("F64", "DOUBLE", "DOUBLE"),
    "string": ("String", "STRING", "VARCHAR"),
    "date32[day]": ("Date", "DATE", "DATE"),
}
OURS, CYPHER, SQL = range(3)


@dataclass(frozen=True)
class NodeTable:
    """One node type: an integer key called `number` and further columns."""

    name: str
    columns: dict[str, str]


@dataclass(frozen=True)
class EdgeTable:
    """One edge type; its file has the columns `src` and `dst` with keys of the two ends, then its properties."""

    name: str
    source: str
    target: str
    columns: dict[str, str] = field(default_factory=dict)

    def shown(self, language: int, separator: str, between: str = " ") -> str:
        """The properties with their types in a language."""
        return separator.join(
            f"{column}{between}{NAMES[kind][language]}" for column, kind in self.columns.items()
        )


@dataclass(frozen=True)
class Dataset:
    """Where the Parquet files are, and what is in them."""

    directory: Path
    nodes: tuple[NodeTable, ...]
    edges: tuple[EdgeTable, ...]

    def file(self, name: str) -> Path:
        """The Parquet file of a node or edge type."""
        return self.directory / f"{name}.parquet"

    def names(self) -> list[str]:
        """Every type, nodes first."""
        return [node.name for node in self.nodes] + [edge.name for edge in self.edges]

    def schema(self) -> str:
        """Our schema."""
        lines = []
        for node in self.nodes:
            shown = "  ".join(
                f"{column}: {NAMES[kind][OURS]}{' @key' if column == KEY else ''}"
                for column, kind in node.columns.items()
            )
            lines.append(f"node {node.name} {{ {shown} }}")
        lines += [
            f"edge {edge.name}: {edge.source} -> {edge.target}"
            + (f" {{ {edge.shown(OURS, '  ', ': ')} }}" if edge.columns else "")
            for edge in self.edges
        ]
        return "\n".join(lines)

    def cypher(self) -> list[str]:
        """Statements that declare and copy everything with primary keys, for Kùzu and Ladybug."""
        statements = []
        for node in self.nodes:
            shown = ", ".join(
                f"{column} {NAMES[kind][CYPHER]}" for column, kind in node.columns.items()
            )
            statements.append(f"CREATE NODE TABLE {node.name}({shown}, PRIMARY KEY({KEY}))")
        statements += [
            f"CREATE REL TABLE {edge.name}(FROM {edge.source} TO {edge.target}"
            + (f", {edge.shown(CYPHER, ', ')})" if edge.columns else ")")
            for edge in self.edges
        ]
        statements += [f'COPY {name} FROM "{self.file(name)}"' for name in self.names()]
        return statements

    def sql(self) -> list[str]:
        """Statements that declare and copy everything with 32-bit keys, for DuckDB."""
        statements = []
        for node in self.nodes:
            shown = ", ".join(
                f"{column} {NAMES[kind][SQL]}{' PRIMARY KEY' if column == KEY else ' NOT NULL'}"
                for column, kind in node.columns.items()
            )
            statements.append(f"CREATE TABLE {node.name}({shown})")
        statements += [
            f"CREATE TABLE {edge.name}(src INTEGER NOT NULL, dst INTEGER NOT NULL"
            + (f", {edge.shown(SQL, ', ')})" if edge.columns else ")")
            for edge in self.edges
        ]
        statements += [
            f"INSERT INTO {name} SELECT * FROM '{self.file(name)}'"  # noqa: S608
            for name in self.names()
        ]
        return statements


def write_dataset(
    directory: Path,
    nodes: Mapping[str, pa.Table],
    edges: Mapping[str, tuple[str, str, pa.Table]],
) -> Dataset:
    """Put the tables into a directory. An edge type comes with the types of its ends."""
    node_tables = tuple(
        NodeTable(name, {field.name: str(field.type) for field in table.schema})
        for name, table in nodes.items()
    )
    edge_tables = tuple(
        EdgeTable(
            name,
            source,
            target,
            {one.name: str(one.type) for one in table.schema if one.name not in ("src", "dst")},
        )
        for name, (source, target, table) in edges.items()
    )
    data = Dataset(directory, node_tables, edge_tables)
    for name, table in [*nodes.items(), *((name, edge[2]) for name, edge in edges.items())]:
        pq.write_table(table, data.file(name))
    shown = {"nodes": [asdict(n) for n in node_tables], "edges": [asdict(e) for e in edge_tables]}
    (directory / "dataset.json").write_text(json.dumps(shown), "utf-8")
    return data


def read_dataset(directory: Path) -> Dataset:
    """What `write_dataset` put there."""
    shown = json.loads((directory / "dataset.json").read_text("utf-8"))
    return Dataset(
        directory,
        tuple(NodeTable(**node) for node in shown["nodes"]),
        tuple(EdgeTable(**edge) for edge in shown["edges"]),
    )
