"""The engine against SQL: the same matches as joins over the same rows, on graphs of some size.

The oracle is for small graphs; here hundreds of nodes go through the compiled kernels, batches and
messages. A traversal is a join with the distinct pairs of its edges, a negation is `NOT EXISTS`.
"""

from __future__ import annotations

import random
from collections import Counter

import duckdb
import pyarrow as pa
import pytest

import omnigraph
from omnigraph.lang.query import ir
from omnigraph.lang.query.ir import NOW_PARAM
from omnigraph.read.execute import run_read
from omnigraph.read.match.pattern import Pattern, Traversal, pattern_of
from omnigraph.read.view.view import Reader
from omnigraph.types import to_arrow
from tests.opened import workspace_of
from tests.read.queries import CATALOG, SCHEMA, matches, plain_graph
from tests.stored import fill

OPERATORS = {"=": "=", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
MOST_ROWS = 200_000


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
        conditions.append(f"coalesce({_compare(predicate)}, false)")
    conditions += [f"NOT EXISTS ({sql_of(one.pattern, '1')})" for one in pattern.negations]
    # A block about nothing but given variables has no sources of its own.
    tables = ", ".join(sources) or "(SELECT 1) AS nothing"
    return f"SELECT {select} FROM {tables} WHERE {' AND '.join(conditions) or 'true'}"


def _pairs(traversal: Traversal) -> str:
    edges = f'"{traversal.edge_type}"'
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


def _compare(predicate: ir.Compare) -> str:
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


def database(plain) -> duckdb.DuckDBPyConnection:
    """The rows of a graph as tables named by their types."""
    connection = duckdb.connect()
    for name, node in CATALOG.nodes.items():
        columns = {"id": pa.array(list(plain.nodes[name]), pa.string())}
        for prop in node.properties.values():
            values = [row[prop.name] for row in plain.nodes[name].values()]
            columns[prop.name] = to_arrow(prop.type, values)
        connection.register(f"arrow_{name}", pa.table(columns))
        connection.execute(f'CREATE TABLE "{name}" AS FROM arrow_{name}')
    for name, edge in CATALOG.edges.items():
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


@pytest.mark.parametrize("seed", range(4))
def test_counts_and_rows_are_those_of_sql(tmp_path, seed):
    rng = random.Random(seed)
    plain = plain_graph(rng, persons=120, edges=400)
    connection = database(plain)
    compared = 0
    with omnigraph.init(tmp_path / "graph", SCHEMA) as graph:
        fill(graph, plain)
        view = Reader(workspace_of(graph)).view(graph.snapshot(), CATALOG)
        for text, grouped, listed in matches(rng, 60):
            names = [column.name for column in listed.columns]
            pattern = pattern_of(grouped.steps)
            ids = ", ".join(f'"{name}".id' for name in names)
            groups = f"{sql_of(pattern, f'{ids}, count(*)')} GROUP BY ALL"
            connection.execute(
                f"SELECT count(*), sum(n) FROM ({groups}) AS g({', '.join(names)}, n)"
            )
            size = connection.fetchone()
            assert size is not None
            if size[0] > MOST_ROWS:
                continue
            compared += 1
            expected = {row[:-1]: row[-1] for row in connection.execute(groups).fetchall()}
            answer = run_read(view, grouped, {NOW_PARAM: 0}).to_pylist()
            actual = {tuple(row.values())[:-1]: row["n"] for row in answer}
            assert actual == expected, text
            if (size[1] or 0) <= MOST_ROWS:
                rows = run_read(view, listed, {NOW_PARAM: 0}).to_pylist()
                assert Counter(tuple(row.values()) for row in rows) == Counter(expected), text
    assert compared > 30
