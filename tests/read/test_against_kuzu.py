"""The engine against Kùzu: the same matches in Cypher over the same rows.

Kùzu is no dependency of the project. It is asked where it can be imported, or where the benchmarks
have installed it (`./dev bench social`); elsewhere these tests are skipped. What is compared means
the same in both languages:

* A traversal is a pair of nodes, however many edges join them; a pattern of Cypher is every edge. So
  traversals are asked of tables of distinct pairs, and those with an edge variable of stored edges.
* Kùzu matches walks, as we do: two traversals may use the same edge.
* Bounded hops reach a node once, at its distance: Cypher's shortest paths. They differ at self-loops
  and in whether a walk comes back to its beginning, so both are left out.
* A comparison with null does not hold, and a negation of it does: `NOT EXISTS`, or `IS NULL OR NOT`.
"""

from __future__ import annotations

import importlib.util
import json
import math
import os
import random
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import omnigraph
from benchmarks.contest.peers import peers_place
from omnigraph.lang.query import compile_query, ir
from omnigraph.lang.query.ir import NOW_PARAM, ReadPlan
from omnigraph.lang.schema.catalog import EdgeType, Entity
from omnigraph.read.execute import run_read
from omnigraph.read.match.pattern import Pattern, Traversal, pattern_of
from omnigraph.read.values.expressions import variables_of
from omnigraph.read.view.view import Reader
from omnigraph.types import to_arrow
from tests.opened import workspace_of
from tests.oracle.graph import Graph as PlainGraph
from tests.read.queries import CATALOG, ENDS, SCHEMA, WORDS, matches, plain_graph
from tests.stored import fill

MOST_ROWS = 20_000
OPERATORS = {"=": "=", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
TYPES = {
    "String": "STRING",
    "I32": "INT32",
    "I64": "INT64",
    "F32": "FLOAT",
    "F64": "DOUBLE",
    "Bool": "BOOL",
    "Date": "DATE",
}
# Columns that no question here looks at.
LEFT_OUT = {"views", "seen"}


PEERS = peers_place()
WORKER = Path(__file__).with_name("kuzu_worker.py")

if importlib.util.find_spec("kuzu") is None and not (PEERS / "kuzu").is_dir():
    pytest.skip(
        "Kùzu is not installed; `./dev bench social --small` installs it beside the benchmarks",
        allow_module_level=True,
    )


class Unlike(Exception):
    """The question has no equal in Cypher."""


# ------------------------------------------------------------------ the rows in Kùzu


class Cypher:
    """A database with the rows of a graph, in a process that is started again when it dies."""

    def __init__(self, plain: PlainGraph, place: Path) -> None:
        place.mkdir()
        self._place = place
        self._process = self._start()
        for name, node in CATALOG.nodes.items():
            rows = plain.nodes[name]
            ids = {"id": pa.array(list(rows), pa.string())}
            self._fill(f"NODE TABLE {name}", "PRIMARY KEY(id)", ids, node, list(rows.values()))
        for name, edge in CATALOG.edges.items():
            along = [(src, dst, values) for _, src, dst, values in plain.edges[name]]
            self._edges(name, edge, along)
            if edge.from_type == edge.to_type:
                against = [(dst, src, values) for src, dst, values in along if src != dst]
                self._edges(f"{name}_either", edge, along + against)

    def _edges(self, table: str, edge: EdgeType, rows: list[Any]) -> None:
        pairs = [(src, dst, {}) for src, dst in dict.fromkeys(row[:2] for row in rows)]
        for name, kind, some in ((table, edge, rows), (f"{table}_pairs", None, pairs)):
            columns = {
                at: pa.array([row[number] for row in some], pa.string())
                for number, at in enumerate(["from", "to"])
            }
            ends = f"FROM {edge.from_type} TO {edge.to_type}"
            self._fill(f"REL TABLE {name}", ends, columns, kind, [row[2] for row in some])

    def _fill(
        self,
        declared: str,
        key: str,
        columns: dict[str, pa.Array],
        kind: Entity | None,
        rows: list[Any],
    ) -> None:
        shown = ["id STRING"] if "id" in columns else []
        for prop in () if kind is None else kind.properties.values():
            if prop.name not in LEFT_OUT:
                columns[prop.name] = to_arrow(prop.type, [row[prop.name] for row in rows])
                suffix = "[]" if prop.type.is_list else ""
                shown.append(f"{prop.name} {TYPES[prop.type.scalar.value]}{suffix}")
        file, name = self._place / f"{declared}.parquet", declared.rsplit(maxsplit=1)[-1]
        pq.write_table(pa.table(columns), file)
        parts = [*shown, key] if "id" in columns else [key, *shown]
        self.ask(f"CREATE {declared}({', '.join(parts)})")
        if rows:
            self.ask(f'COPY {name} FROM "{file}"')

    def ask(self, text: str) -> list[tuple[Any, ...]]:
        """The rows of a query; ``Unlike`` when Kùzu has none to give."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps(text) + "\n")
        stdin.flush()
        line = stdout.readline()
        if not line:
            self.close()
            self._process = self._start()
            raise Unlike(f"Kùzu crashes on {text}")
        answer = json.loads(line)
        if "error" in answer:
            raise Unlike(f"{answer['error']}: {text}")
        return [tuple(row) for row in answer["rows"]]

    def _start(self) -> subprocess.Popen[str]:
        path = os.pathsep.join([str(PEERS), os.environ.get("PYTHONPATH", "")])
        return subprocess.Popen(
            [sys.executable, str(WORKER), str(self._place / "database")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": path},
        )

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


def some_graph(rng: random.Random) -> PlainGraph:
    """A random graph that is not too small."""
    while True:
        plain = plain_graph(rng, persons=80, edges=200)
        if len(plain.nodes["Person"]) >= 20 and all(plain.edges.values()):
            return plain


# ------------------------------------------------------------------ a pattern in Cypher


def cypher_of(pattern: Pattern) -> str:
    """The match of a pattern, negations included."""
    fresh = [name for name in pattern.nodes if name not in pattern.given]
    parts = [f"({_name(name)}:{pattern.nodes[name]})" for name in fresh]
    parts += [_traversal(one) for one in pattern.traversals]
    conditions = [_compare(one) for one in _predicates(pattern)]
    conditions += [_absent(one.pattern) for one in pattern.negations]
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return f"MATCH {', '.join(parts)}{where}"


def _predicates(pattern: Pattern) -> list[ir.Compare]:
    tests = [test for tests in pattern.tests.values() for test in tests]
    found = [*tests, *pattern.joins, *pattern.conditions]
    assert all(isinstance(one, ir.Compare) for one in found)
    return [one for one in found if isinstance(one, ir.Compare)]


def _absent(block: Pattern) -> str:
    """That a block has no match. What it says of outer variables alone is said outside of it.

    Kùzu loses the rows whose property is null when a block compares it, so blocks that compare a
    property inside with one outside are not asked.
    """
    outside, inside = [], []
    for predicate in _predicates(block):
        names = variables_of(predicate)
        if names <= block.given:
            outside.append(predicate)
        elif names & block.given:
            raise Unlike(f"{predicate} compares inside and outside")
        else:
            inside.append(predicate)
    ways = []
    for predicate in outside:
        shown = _compare(predicate)
        ways += [f"{shown} IS NULL", f"NOT {shown}"]
    rest = replace(block, tests={}, joins=tuple(inside), conditions=())
    if rest.traversals or set(rest.nodes) - rest.given:
        ways.append(f"NOT EXISTS {{ {cypher_of(rest)} }}")
    elif rest.negations:
        ways += [f"NOT ({_absent(one.pattern)})" for one in rest.negations]
    return f"({' OR '.join(ways) or 'false'})"


def _traversal(traversal: Traversal) -> str:
    table = traversal.edge_name
    if traversal.direction is ir.Direction.BOTH:
        table += "_either"
    edge = f"[{traversal.edge_var}:{table}]" if traversal.edge_var else f"[:{table}_pairs]"
    left, right = f"({_name(traversal.left)})", f"({_name(traversal.right)})"
    if traversal.direction is ir.Direction.IN:
        return f"{left}<-{edge}-{right}"
    return f"{left}-{edge}->{right}"


def _name(variable: str) -> str:
    return variable.replace("#", "hidden")


def _compare(predicate: ir.Compare) -> str:
    left, right = _operand(predicate.left), _operand(predicate.right)
    match predicate.op:
        case "member":
            return f"list_contains({left}, {right})"
        case "substring" if right != "''":
            return f"contains({left}, {right})"
        case "prefix" if right != "''":
            return f"starts_with({left}, {right})"
        case op if op in OPERATORS:
            return f"({left} {OPERATORS[op]} {right})"
    raise Unlike("the empty text is in no text there, and in every text here")


def _operand(operand: ir.Operand) -> str:
    match operand:
        case ir.PropertyOf():
            return f"{_name(operand.var)}.{operand.property}"
        case ir.Const(str() as text):
            return "'" + text + "'"
        case ir.Const(value, kind) if kind.scalar.value == "Date":
            return f"(date('1970-01-01') + {value})"
        case ir.Const(value):
            return str(value).lower()
    raise AssertionError(operand)


# ------------------------------------------------------------------ random matches of single hops


@pytest.mark.parametrize("seed", range(4))
def test_counts_are_those_of_cypher(tmp_path, seed):
    rng = random.Random(seed)
    plain = some_graph(rng)
    compared, refused = 0, []
    with (
        closing(Cypher(plain, tmp_path / "kuzu")) as other,
        omnigraph.init(tmp_path / "graph", SCHEMA) as graph,
    ):
        fill(graph, plain)
        view = Reader(workspace_of(graph)).view(graph.snapshot(), CATALOG)
        for text, grouped, _ in matches(rng, 60):
            try:
                match = cypher_of(pattern_of(grouped.steps))
                ((size,),) = other.ask(f"{match} RETURN count(*)")
                if size > MOST_ROWS:
                    continue
                names = [column.name for column in grouped.columns[:-1]]
                ids = ", ".join(f"{name}.id" for name in names)
                rows = other.ask(f"{match} RETURN {ids}, count(*)")
            except Unlike as reason:
                refused.append(reason)
                continue
            compared += 1
            answer = run_read(view, grouped, {NOW_PARAM: 0}).to_pylist()
            actual = {tuple(row.values())[:-1]: row["n"] for row in answer}
            assert actual == {row[:-1]: row[-1] for row in rows}, f"{text}\n{match}"
    assert compared > 40, refused


# ------------------------------------------------------------------ hops and aggregates


class Chain:
    """One to three traversals in a row, in both languages."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.types = [rng.choice(["Person", "Person", "City"])]
        self.ours = [f"$v0: {self.types[0]}"]
        self.pattern = f"(v0:{self.types[0]})"
        self.conditions: list[str] = []
        for _ in range(rng.randint(1, 3)):
            if self.types[-1] in STEPS:
                self._step(rng.choice(STEPS[self.types[-1]]))
        for at, kind in enumerate(self.types):
            if rng.random() < 0.4:
                self._test(f"v{at}", kind)

    def _step(self, word: str) -> None:
        rng, at = self._rng, len(self.types)
        left, right = f"v{at - 1}", f"v{at}"
        near, far = ENDS[word]
        table = f"{word[0].upper()}{word[1:]}_pairs"
        self.types.append(far)
        if near != far or rng.random() < 0.3:
            self.ours.append(f"${left} {word} ${right}")
            self.pattern += f"-[:{table}]->({right}:{far})"
            return
        low = rng.randint(1, 3)
        high = rng.randint(low, 4)
        undirected = rng.random() < 0.3
        shown = f"<{word}>" if undirected else word
        self.ours.append(f"${left} {shown}{{{low},{high}}} ${right}")
        arrow = "-" if undirected else "->"
        self.pattern += f"-[h{at}:{table}* SHORTEST 1..{high}]{arrow}({right}:{far})"
        self.conditions += [f"length(h{at}) >= {low}", f"{left}.id <> {right}.id"]

    def _test(self, name: str, kind: str) -> None:
        prop, values = self._rng.choice(TESTED[kind])
        op = self._rng.choice(list(OPERATORS))
        value = self._rng.choice(values)
        shown = f'"{value}"' if isinstance(value, str) else f"{value}"
        self.ours.append(f"${name}.{prop} {op} {shown}")
        self.conditions.append(f"{name}.{prop} {OPERATORS[op]} {shown}")

    def texts(self) -> tuple[str, str]:
        """Rows grouped by a property of one end, and numbers of the other, in both languages."""
        last = len(self.types) - 1
        (key, _), (text, _) = (TESTED[self.types[at]][0] for at in (0, last))
        number = NUMBER[self.types[last]]
        aggregates = ["count({}v0)", f"count({{}}v{last}.{text})"]
        aggregates += [f"{name}({{}}v{last}.{number})" for name in ("sum", "avg", "min", "max")]
        aggregates += [f"{name}({{}}v{last}.{text})" for name in ("min", "max")]
        items = [f"{{}}v0.{key}", *(f"{each} as x{at}" for at, each in enumerate(aggregates))]
        if self._rng.random() < 0.3:
            del items[0]
        mine = ", ".join(items).format(*["$"] * len(items))
        theirs = ", ".join(items).format(*[""] * len(items))
        where = f" WHERE {' AND '.join(self.conditions)}" if self.conditions else ""
        return (
            f"query q() {{ match {{ {'  '.join(self.ours)} }} return {{ {mine} }} }}",
            f"MATCH {self.pattern}{where} RETURN {theirs}",
        )


STEPS = {"Person": ["knows", "knows", "knows", "livesIn", "owns"], "City": ["near"]}
TESTED: dict[str, list[tuple[str, list[Any]]]] = {
    "Person": [("nick", WORDS), ("age", [0, 30, 31]), ("height", [1.5, 1.75]), ("name", WORDS)],
    "City": [("label", WORDS), ("size", [0, 1])],
    "Thing": [("note", WORDS), ("size", [0.5])],
}
NUMBER = {"Person": "age", "City": "size", "Thing": "size"}


def without_loops(plain: PlainGraph) -> PlainGraph:
    """The graph without edges from a node to itself."""
    edges = {
        name: [row for row in rows if row[1] != row[2] or len(set(ENDS[_word(name)])) == 2]
        for name, rows in plain.edges.items()
    }
    return PlainGraph(plain.nodes, edges)


def _word(edge: str) -> str:
    return edge[0].lower() + edge[1:]


def ordered(rows: list[tuple[Any, ...]], keys: int) -> list[tuple[Any, ...]]:
    """The rows in the order of their keys, null first."""
    return sorted(rows, key=lambda row: [(value is not None, value) for value in row[:keys]])


def same(left: Any, right: Any) -> bool:
    """Equal values, floats up to rounding."""
    if isinstance(left, float) and right is not None:
        return math.isclose(left, right, rel_tol=1e-12, abs_tol=1e-12)
    return bool(left == right)


@pytest.mark.parametrize("seed", range(4))
def test_hops_and_aggregates_are_those_of_cypher(tmp_path, seed):
    rng = random.Random(seed)
    plain = without_loops(some_graph(rng))
    compared, refused = 0, []
    with (
        closing(Cypher(plain, tmp_path / "kuzu")) as other,
        omnigraph.init(tmp_path / "graph", SCHEMA) as graph,
    ):
        fill(graph, plain)
        view = Reader(workspace_of(graph)).view(graph.snapshot(), CATALOG)
        for _ in range(60):
            mine, theirs = Chain(rng).texts()
            try:
                expected = other.ask(theirs)
            except Unlike as reason:
                refused.append(reason)
                continue
            plan = compile_query(CATALOG, mine)
            assert isinstance(plan, ReadPlan)
            rows = run_read(view, plan, {NOW_PARAM: 0}).to_pylist()
            actual = [tuple(row.values()) for row in rows]
            compared += 1
            keys = len(plan.columns) - 8
            pairs = zip(ordered(actual, keys), ordered(expected, keys), strict=False)
            assert len(actual) == len(expected), f"{mine}\n{theirs}"
            for left, right in pairs:
                assert all(map(same, left, right)), f"{left}\n{right}\n{mine}\n{theirs}"
    assert compared > 40, refused
