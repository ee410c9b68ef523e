"""Trees of conditions in plans: random ones added to random matches, judged row by row by the oracle.

Plans are built by hand here, so that what is judged is the engine alone.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

import omnigraph
from omnigraph.lang.query import ir
from omnigraph.lang.query.ir import NOW_PARAM
from omnigraph.read.execute import run_read
from omnigraph.read.match.pattern import conjuncts, pattern_of, renamed
from omnigraph.read.thresholds import MatchThresholds, Thresholds
from omnigraph.storage.tables.table import Table
from omnigraph.types import TEXT, PropType, Scalar
from tests.opened import fresh_reader, read_with
from tests.read.queries import CATALOG, SCHEMA, WORDS, plain_graph
from tests.read.test_engine import check, queries
from tests.stored import fill

I64, F64, BOOL = PropType(Scalar.I64), PropType(Scalar.F64), PropType(Scalar.BOOL)
QUERIES = 50


class Trees:
    """Random conditions over the variables of a plan."""

    def __init__(self, rng: random.Random, plan: ir.ReadPlan) -> None:
        self.rng = rng
        self.variables = {one.name: one for one in plan.variables}

    def condition(self, depth: int = 0) -> ir.Condition:
        rng, kind = self.rng, self.rng.random()
        if depth < 3 and kind < 0.5:
            parts = tuple(self.condition(depth + 1) for _ in range(rng.randint(1, 3)))
            made: list[ir.Condition] = [ir.And(parts), ir.Or(parts), ir.Not(parts[0])]
            return rng.choice(made)
        return self.leaf()

    def leaf(self) -> ir.Condition:
        rng, kind = self.rng, self.rng.random()
        if kind < 0.1:
            return self.same()
        if kind < 0.2:
            return self.block()
        if kind < 0.3:
            return ir.IsNull(self.number() if rng.random() < 0.5 else self.text())
        if kind < 0.35:
            return ir.IsTrue(ir.Truth(self.condition(2)))
        if kind < 0.45:
            texts = ir.Const(rng.sample(WORDS, 3), PropType(Scalar.STRING, is_list=True))
            return ir.Compare(texts, "member", self.text())
        if kind < 0.7:
            ops: list[Any] = ["=", "!=", "<", ">=", "substring", "prefix", "suffix"]
            return ir.Compare(self.text(), rng.choice(ops), self.text())
        numeric: list[Any] = ["=", "!=", "<", "<=", ">", ">="]
        return ir.Compare(self.number(), rng.choice(numeric), self.number())

    def same(self) -> ir.Condition:
        one = self.rng.choice(list(self.variables.values()))
        alike = [
            other
            for other in self.variables.values()
            if (other.kind, other.type_name) == (one.kind, one.type_name)
        ]
        other = self.rng.choice(alike)
        id_of = ir.NodeId if one.kind == "node" else ir.EdgeId
        return ir.Compare(id_of(one.name), self.rng.choice(["=", "!="]), id_of(other.name))

    def block(self) -> ir.Condition:
        """Whether a node knows, or is known by, somebody who passes a test."""
        persons = [one.name for one in self.variables.values() if one.type_name == "Person"]
        if not persons:
            return ir.Compare(ir.Const(1, I64), "<", ir.Const(self.rng.randint(0, 2), I64))
        name = self.rng.choice(persons)
        age = ir.PropertyOf("#other", "age", CATALOG.nodes["Person"].properties["age"].type)
        tests = (ir.Compare(age, ">", ir.Const(20, I64)),) if self.rng.random() < 0.5 else ()
        step = ir.Expand(
            name,
            "#other",
            "Knows",
            self.rng.choice(list(ir.Direction)),
            "Person",
            "Person",
            dst_filters=tests,
        )
        return ir.Exists((name,), (step,))

    def properties(self, *scalars: Scalar) -> list[ir.PropertyOf]:
        found = []
        for one in self.variables.values():
            types = CATALOG.nodes if one.kind == "node" else CATALOG.edges
            for name, known in types[one.type_name].properties.items():
                if known.type.scalar in scalars and not known.type.is_list:
                    found.append(ir.PropertyOf(one.name, name, known.type))
        return found

    def number(self, depth: int = 0) -> ir.Expr:
        rng = self.rng
        known = self.properties(Scalar.I32, Scalar.I64, Scalar.U64)
        if not known or rng.random() < 0.2:
            return ir.Const(rng.choice([0, 1, 2, 30, -3, 2**62]), I64)
        if depth > 1 or rng.random() < 0.5:
            return rng.choice(known)
        function = rng.choice(["+", "-", "*", "%", "neg", "coalesce", "if"])
        one, other = self.number(depth + 1), self.number(depth + 1)
        match function:
            case "neg":
                return ir.Apply("neg", (one,), I64)
            case "if":
                test = ir.Truth(self.leaf() if depth == 0 else ir.IsNull(one))
                return ir.Apply("if", (test, _whole(one), _whole(other)), I64)
            case "coalesce":
                return ir.Apply("coalesce", (_whole(one), _whole(other)), I64)
        return ir.Apply(function, (one, other), I64)

    def text(self) -> ir.Expr:
        rng = self.rng
        known = self.properties(Scalar.STRING)
        if not known or rng.random() < 0.2:
            return ir.Const(rng.choice(WORDS), TEXT)
        found = rng.choice(known)
        if rng.random() < 0.6:
            return found
        return ir.Apply(rng.choice(["lower", "upper", "trim"]), (found,), TEXT)


def _whole(expr: ir.Expr) -> ir.Expr:
    """The number as I64, which is what the checker makes of arguments that must have one type."""
    return ir.Apply("+", (expr, ir.Const(0, I64)), I64)


def with_conditions(plan: ir.ReadPlan, *conditions: ir.Condition) -> ir.ReadPlan:
    return replace(plan, steps=(*plan.steps, *map(ir.Filter, conditions)))


def judged(graph: omnigraph.Graph, plain: Any, rng: random.Random) -> None:
    for text, plan in queries(rng, QUERIES):
        trees = Trees(rng, plan)
        if not trees.variables:
            continue
        conditions = [trees.condition() for _ in range(rng.randint(1, 2))]
        check(graph, plain, f"{text}\n{conditions}", with_conditions(plan, *conditions))


@pytest.mark.parametrize("seed", range(6))
def test_engine_agrees_with_the_oracle(tmp_path, seed):
    rng = random.Random(f"trees {seed}")
    plain = plain_graph(rng)
    with omnigraph.init(tmp_path / "graph", SCHEMA) as graph:
        fill(graph, plain)
        judged(graph, plain, rng)


@pytest.mark.parametrize(("mode", "few"), [("csr", 0), ("indexed", 0), ("indexed", 1024)])
def test_both_paths_agree_with_the_oracle(tmp_path, monkeypatch, mode, few):
    monkeypatch.setenv("OMNIGRAPH_TRAVERSAL_MODE", mode)
    rng = random.Random(f"{mode} {few}")
    plain = plain_graph(rng)
    with omnigraph.init(tmp_path / "graph", SCHEMA) as graph:
        read_with(graph, Thresholds(match=MatchThresholds(few_rows=few)))
        fill(graph, plain)
        judged(graph, plain, rng)


def test_small_batches_change_nothing(tmp_path):
    rng = random.Random("batches")
    plain = plain_graph(rng)
    with omnigraph.init(tmp_path / "graph", SCHEMA) as graph:
        read_with(graph, Thresholds(match=MatchThresholds(batch_rows=3)))
        fill(graph, plain)
        judged(graph, plain, rng)


# ------------------------------------------------------------------ parts of a tree


def test_what_must_hold_apart_is_tested_apart():
    one, two, three = (ir.IsNull(ir.PropertyOf("x", name, TEXT)) for name in "abc")
    assert list(conjuncts(ir.And((one, ir.And((two, three)))))) == [one, two, three]
    assert list(conjuncts(ir.Not(ir.Or((one, ir.Not(two)))))) == [ir.Not(one), two]
    assert list(conjuncts(ir.Or((one, two)))) == [ir.Or((one, two))]
    assert list(conjuncts(ir.IsTrue(ir.Truth(one)))) == [one]


def test_renaming_reaches_every_part_of_a_tree():
    tree = ir.Or(
        (
            ir.Compare(
                ir.Apply("lower", (ir.PropertyOf("x", "a", TEXT),), TEXT), "=", ir.NodeId("y")
            ),
            ir.Not(ir.IsTrue(ir.Truth(ir.IsNull(ir.EdgeId("x"))))),
        )
    )
    moved = renamed(tree, "x", "z")
    assert "'x'" not in repr(moved)
    assert renamed(moved, "z", "x") == tree


# ------------------------------------------------------------------ where trees go

PEOPLE = """
    node Person { name: String @key  age: I32? @index  bio: String? }
    edge Knows: Person -> Person
"""
NAME = ir.PropertyOf("p", "name", TEXT)
AGE = ir.PropertyOf("p", "age", PropType(Scalar.I32, nullable=True))
NAMES = PropType(Scalar.STRING, is_list=True)


@pytest.fixture
def people(tmp_path):
    records = [
        {"type": "Person", "data": {"name": f"p{at}", "age": at, "bio": f"likes tea {at}"}}
        for at in range(40)
    ]
    records += [{"edge": "Knows", "from": f"p{at}", "to": f"p{at + 1}"} for at in range(39)]
    with omnigraph.init(tmp_path / "graph", PEOPLE) as graph:
        graph.load(records)
        graph.ensure_indices()
        read_with(graph, Thresholds(match=MatchThresholds(small_seconds=0.0, few_rows=0)))
        yield graph


def plan_over(*conditions: ir.Condition) -> ir.ReadPlan:
    column = ir.Column("name", NAME, TEXT)
    return ir.ReadPlan(
        "q",
        (),
        (ir.NodeScan("p", "Person"), *map(ir.Filter, conditions)),
        (column,),
        (ir.Variable("p", "node", "Person"),),
    )


def found(graph, plan, reads, params=None):
    """The names that are found, and which tables are read on the way."""
    reader = fresh_reader(graph)
    view = reader.view(graph.snapshot(), graph.schema.catalog)
    names = run_read(view, plan, {NOW_PARAM: 0, **(params or {})}).column("name").to_pylist()
    numbered = view.has_nodes("Person")
    return sorted(names), numbered, len(reads)


@pytest.fixture
def reads(monkeypatch):
    seen: list[str] = []
    read = Table.read

    def counted(self, *args, **options):
        seen.append(self.ref.uri)
        return read(self, *args, **options)

    monkeypatch.setattr(Table, "read", counted)
    return seen


def is_name(name: str) -> ir.Condition:
    return ir.Compare(NAME, "=", ir.Const(name, TEXT))


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (ir.Or((is_name("p3"), is_name("p5"), is_name("nobody"))), ["p3", "p5"]),
        (ir.Compare(ir.Const(["p9", "p1"], NAMES), "member", NAME), ["p1", "p9"]),
        (ir.Compare(ir.NodeId("p"), "=", ir.Const("p4", TEXT)), ["p4"]),
        (ir.Compare(ir.Const(["p4", "p6"], NAMES), "member", ir.NodeId("p")), ["p4", "p6"]),
        (
            ir.Or((ir.And((is_name("p3"), ir.Compare(AGE, ">", ir.Const(3, I64)))), is_name("p8"))),
            ["p8"],
        ),
        (ir.Compare(ir.Const([], NAMES), "member", NAME), []),
    ],
    ids=["or", "in", "id", "ids", "more than the key", "nothing"],
)
def test_keys_under_or_and_in_are_looked_up(people, reads, condition, expected):
    names, numbered, count = found(people, plan_over(condition), reads)
    assert names == expected
    assert not numbered
    assert count <= 1, "one read for all keys"


def test_values_under_or_and_in_go_to_an_index(people, reads):
    ages = ir.Compare(ir.Const([3, 4], PropType(Scalar.I64, is_list=True)), "member", AGE)
    condition = ir.Or((ages, ir.Compare(AGE, "=", ir.Const(7, I64)), is_name("p9")))
    by_index = ir.Or((ages, ir.Compare(ir.Const(7, I64), "=", AGE)))
    names, numbered, count = found(people, plan_over(by_index), reads)
    assert (names, numbered, count) == (["p3", "p4", "p7"], False, 2)
    reads.clear()
    assert found(people, plan_over(condition), reads)[0] == ["p3", "p4", "p7", "p9"]


def test_a_million_values_in_a_list(people):
    values = list(range(20, 1_000_020))
    many = ir.ParamRef("l", PropType(Scalar.I32, is_list=True))
    plan = plan_over(ir.Compare(many, "member", AGE))
    names, _, _ = found(people, plan, [], {"l": values})
    assert names == sorted(f"p{at}" for at in range(20, 40))


def test_text_predicates_inside_a_tree(people):
    bio = ir.PropertyOf("p", "bio", PropType(Scalar.STRING, nullable=True))
    search = ir.TextMatch("search", bio, ir.Const("7", TEXT))
    tree = ir.Or((search, is_name("p2")))
    assert found(people, plan_over(tree), [])[0] == ["p2", "p7"]
    assert len(found(people, plan_over(ir.Not(tree)), [])[0]) == 38


def test_conditions_without_a_variable_are_judged_once(people):
    true = ir.Compare(
        ir.Const(1, I64), "<", ir.Apply("+", (ir.Const(1, I64), ir.Const(1, I64)), I64)
    )
    assert len(found(people, plan_over(true), [])[0]) == 40
    assert found(people, plan_over(ir.Not(true)), [])[0] == []
    pattern = pattern_of(plan_over(true).steps)
    assert (pattern.conditions, pattern.tests) == ((true,), {})


def counted(*conditions: ir.Condition) -> ir.ReadPlan:
    """How many pairs of persons there are of whom one knows the other."""
    step = ir.Expand("p", "q", "Knows", ir.Direction.OUT, "Person", "Person")
    return ir.ReadPlan(
        "q",
        (),
        (ir.NodeScan("p", "Person"), step, *map(ir.Filter, conditions)),
        (ir.Column("name", ir.Aggregate("count", ir.NodeId("q"), I64), I64),),
        (ir.Variable("p", "node", "Person"), ir.Variable("q", "node", "Person")),
    )


def test_two_nodes_may_be_one(people):
    people.load([{"edge": "Knows", "from": "p1", "to": "p1"}])
    same = ir.Compare(ir.NodeId("p"), "=", ir.NodeId("q"))
    assert found(people, counted(same), [])[0] == [1]
    assert found(people, counted(ir.Compare(same.left, "!=", same.right)), [])[0] == [39]
    assert found(people, counted(ir.Not(same)), [])[0] == [39]


def test_blocks_of_the_output_are_looked_up_too(people, reads):
    plan = plan_over(ir.Compare(ir.Const(["p3", "p39"], NAMES), "member", NAME))
    step = ir.Expand("p", "#other", "Knows", ir.Direction.OUT, "Person", "Person")
    knows = ir.Column("knows", ir.Truth(ir.Exists(("p",), (step,))), BOOL)
    asked = replace(plan, columns=(*plan.columns, knows))
    view = fresh_reader(people).view(people.snapshot(), people.schema.catalog)
    rows = run_read(view, asked, {NOW_PARAM: 0}).to_pylist()
    assert sorted((row["name"], row["knows"]) for row in rows) == [("p3", True), ("p39", False)]
    assert not view.has_nodes("Person")
    assert not view.has_topology("Knows")
    assert len(reads) == 3, "the nodes, the edges of all of them, and the names of who is there"


def test_a_search_in_the_output(people):
    plan = plan_over(ir.Compare(ir.Const(["p3", "p7"], NAMES), "member", NAME))
    bio = ir.PropertyOf("p", "bio", PropType(Scalar.STRING, nullable=True))
    search = ir.Truth(ir.TextMatch("search", bio, ir.Const("7", TEXT)))
    asked = replace(plan, columns=(*plan.columns, ir.Column("hit", search, BOOL)))
    view = fresh_reader(people).view(people.snapshot(), people.schema.catalog)
    rows = run_read(view, asked, {NOW_PARAM: 0}).to_pylist()
    assert sorted((row["name"], row["hit"]) for row in rows) == [("p3", False), ("p7", True)]


def test_expressions_see_what_changed_after_a_numbering(people):
    """Beside a writer values come from the older numbered state and from the rows that changed since."""
    older = ir.Compare(ir.Apply("+", (AGE, ir.Const(1, I64)), I64), ">", ir.Const(38, I64))
    wide = plan_over(older)
    few = plan_over(ir.Or((is_name("p3"), is_name("p38"), is_name("p99"))), older)
    reader = fresh_reader(people)

    def names(plan):
        view = reader.view(people.snapshot(), people.schema.catalog)
        return sorted(run_read(view, plan, {NOW_PARAM: 0}).column("name").to_pylist())

    assert names(wide) == ["p38", "p39"]
    assert names(few) == ["p38"]
    people.load(
        [
            {"type": "Person", "data": {"name": "p3", "age": 100}},
            {"type": "Person", "data": {"name": "p99", "age": 99}},
            {"type": "Person", "data": {"name": "p38"}},
        ]
    )
    assert names(few) == ["p3", "p99"]
    assert names(wide) == ["p3", "p39", "p99"]
    assert names(plan_over(ir.IsNull(older.left))) == ["p38"]


def test_conditions_and_expressions_as_deep_as_may_be_written(people):
    sum_: ir.Expr = AGE
    deep: ir.Condition = ir.Compare(AGE, "=", ir.Const(7, I64))
    for _ in range(150):
        sum_ = ir.Apply("+", (sum_, ir.Const(1, I64)), I64)
        deep = ir.Or((ir.IsNull(ir.NodeId("p")), deep))
    assert found(people, plan_over(ir.Compare(sum_, "=", ir.Const(155, I64))), [])[0] == ["p5"]
    assert found(people, plan_over(deep), [])[0] == ["p7"]
