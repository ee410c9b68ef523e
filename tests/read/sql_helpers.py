"""Matches as SQL, and the rows of a graph as tables of DuckDB, to judge the engine by."""

from __future__ import annotations

import duckdb
import pyarrow as pa

from omnigraph.lang.query import ir
from omnigraph.lang.schema.catalog import Catalog
from omnigraph.read.match.pattern import Pattern, Traversal
from omnigraph.types import to_arrow
from tests.oracle.graph import Graph

OPERATORS = {"=": "=", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}


def sql_of(pattern: Pattern, select: str) -> str:
    """The match as one query block."""
    sources = [
        f'"{kind}" AS "{name}"' for name, kind in pattern.nodes.items() if name not in pattern.given
    ]
    conditions = []
    for number, traversal in enumerate(pattern.traversals):
        alias = traversal.edge_var or f"t{number}_{traversal.left}_{traversal.right}"
        sources.append(f'{_pairs(traversal)} AS "{alias}"')
        conditions.append(f'"{alias}".src = "{traversal.left}".id')
        conditions.append(f'"{alias}".dst = "{traversal.right}".id')
    tests = [test for tests in pattern.tests.values() for test in tests]
    for predicate in [*tests, *pattern.joins, *pattern.conditions]:
        assert isinstance(predicate, ir.Compare)
        conditions.append(f"coalesce({compared(predicate)}, false)")
    conditions += [f"NOT EXISTS ({sql_of(one.pattern, '1')})" for one in pattern.negations]
    # A block about nothing but given variables has no sources of its own.
    tables = ", ".join(sources) or "(SELECT 1) AS nothing"
    return f"SELECT {select} FROM {tables} WHERE {' AND '.join(conditions) or 'true'}"


def _pairs(traversal: Traversal) -> str:
    edges = f'"{traversal.edge_name}"'
    along, against = (
        f"SELECT * FROM {edges}",
        f"SELECT * REPLACE (dst AS src, src AS dst) FROM {edges}",
    )
    if traversal.direction is ir.Direction.OUT:
        rows = along
    elif traversal.direction is ir.Direction.IN:
        rows = against
    else:
        rows = f"{along} UNION ALL {against} WHERE src <> dst"
    if traversal.edge_var is not None:
        return f"({rows})"
    return f"(SELECT DISTINCT src, dst FROM ({rows}))"


def compared(predicate: ir.Compare) -> str:
    """One comparison, of variables as tables of that name."""
    left, right = _operand(predicate.left), _operand(predicate.right)
    match predicate.op:
        case "member":
            return f"list_contains({left}, {right})"
        case "substring":
            return f"contains({left}, {right})"
        case "prefix":
            return f"starts_with({left}, {right})"
        case op:
            return f"{left} {OPERATORS[op]} {right}"


def _operand(operand: ir.Operand) -> str:
    match operand:
        case ir.PropertyOf():
            return f'"{operand.var}"."{operand.property}"'
        case ir.Const(str() as text):
            return "'" + text.replace("'", "''") + "'"
        case ir.Const(value, kind) if kind.scalar.value == "Date":
            return f"(DATE '1970-01-01' + {value})"
        case ir.Const(value):
            return str(value).lower()
    raise AssertionError(operand)


def database(catalog: Catalog, plain: Graph) -> duckdb.DuckDBPyConnection:
    """The rows of a graph as tables named by their types."""
    connection = duckdb.connect()
    for name, node in catalog.nodes.items():
        columns = {"id": pa.array(list(plain.nodes[name]), pa.string())}
        for prop in node.properties.values():
            values = [row[prop.name] for row in plain.nodes[name].values()]
            columns[prop.name] = to_arrow(prop.type, values)
        connection.register(f"arrow_{name}", pa.table(columns))
        connection.execute(f'CREATE TABLE "{name}" AS FROM arrow_{name}')
    for name, edge in catalog.edges.items():
        rows = plain.edges[name]
        columns = {
            at: pa.array([row[number] for row in rows], pa.string())
            for number, at in enumerate(["id", "src", "dst"])
        }
        for prop in edge.properties.values():
            columns[prop.name] = to_arrow(prop.type, [row[3][prop.name] for row in rows])
        connection.register(f"arrow_{name}", pa.table(columns))
        connection.execute(f'CREATE TABLE "{name}" AS FROM arrow_{name}')
    return connection
