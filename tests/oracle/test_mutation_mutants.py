"""Every rule of mutations is held: an oracle that gets one wrong disagrees with a random mutation.

The product agrees with the oracle on mutations of this kind (``tests/write/test_whole_model.py``), so what tells a
mutant from the oracle tells a product with the same fault.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from omnigraph.errors import OmniGraphError
from omnigraph.lang.query import compile_query
from omnigraph.lang.query.ir import MutationPlan
from omnigraph.lang.query.params import bind
from omnigraph.lang.schema import compile_schema
from omnigraph.lang.schema.catalog import Catalog
from tests.oracle.graph import Graph
from tests.oracle.mutations import Changed, mutate
from tests.write.fixed_mutations import FILL, FIXED, SCHEMA
from tests.write.model import Refused
from tests.write.random_model import make_model, schema_text
from tests.write.random_mutations import WholeMutation
from tests.write.test_whole_model import judged

SEEDS, STEPS = 14, 40
SOURCE = (Path(__file__).parent / "mutations.py").read_text("utf-8")
MUTANTS = [
    ("rows follow the list", "order = ([] if each is None else [each]) + sorted(named)", "order = sorted(named)"),
    ("elements run one after the other", "return bound.position if isinstance(bound, Record) else 0", "return 0"),
    ("rows of one element run at once", "return bound.position if isinstance(bound, Record) else 0", "return item[0]"),
    ("values are those of now", "values = self.living(bound.type_name).get(bound.id)", "values = bound.values or self.living(bound.type_name).get(bound.id)"),
    ("what is gone has its last values", "values = self.last.get((bound.type_name, bound.id), bound.values)", "values = bound.values or self.last[bound.type_name, bound.id]"),
    ("a block looks at the graph before", "return self.first.satisfied(condition, at)", "return super().satisfied(condition, at)"),
    ("zero is told from overflow", '"zero" if expr.function in ("/", "%") and given[1] == 0 else "overflow"', '"overflow"'),
    ("what is undefined is refused", "            self.kinds |= kinds\n", "            pass\n"),
    ("a missing value is not undefined", 'if inside or expr.function == "coalesce" or None in given:', 'if inside or expr.function == "coalesce":'),
    ("`if` is undefined where it chooses", "chosen = values[:1] if self.satisfied(test.condition, at) else values[1:]", "chosen = values"),
    ("what is required is not null", "            if not kind.nullable:", "            if False:"),
    ("an end is not null", '            if value is None:\n                self.kinds.add("null")\n            return value', "            return value"),
    ("an integer fits its type", "if value not in RANGES[kind.scalar]:", "if False:"),
    ("a float is finite", "if not math.isfinite(stored):", "if not stored < 100:"),
    ("every row counts as inserted", "self.affect(statement, len(rows))", "self.affect(statement, 1)"),
    ("rows that mean one new edge make one", "made.setdefault(target, next(self.fresh)) if", "next(self.fresh) if"),
    ("an insert replaces", "replaces = isinstance(statement, ir.Insert) and not statement.is_upsert", "replaces = False"),
    ("an upsert keeps", "replaces = isinstance(statement, ir.Insert) and not statement.is_upsert", "replaces = isinstance(statement, ir.Insert)"),
    ("an upsert finds an edge", "return found[0] if found else wanted", "return wanted"),
    ("parallel edges are ambiguous", "if len(found) > 1:", "if False:"),
    ("an edge is found by its tuple", 'for name in statement.unique or ("src", "dst")', 'for name in ("src", "dst")'),
    ("a key makes the id", "return derive_id(members)", "return next(self.fresh)"),
    ("two rows may not differ", "if one.property in given and not _same(given[one.property], value):", "if False:"),
    ("equal values do not differ", "if one.property in given and not _same(given[one.property], value):", "if one.property in given:"),
    ("null differs from a value", "return bool(one == other) and (one is None) == (other is None)", "return one is None or other is None or bool(one == other)"),
    ("an aggregate is of one entity", "for other, other_id in changes if other_id == row_id]", "for other, other_id in changes]"),
    ("an update counts entities", "self.affect(statement, len(found))", "self.affect(statement, len(rows))"),
    ("a value that never fits is refused", "if not changes and statement.var is None:", "if False:"),
    ("what is gone is not updated", "if isinstance(bound, Entity) and bound.id in living else []", "if isinstance(bound, Entity) else []"),
    ("every row chooses", "for row in rows for row_id in self.chosen", "for row in rows[:1] for row_id in self.chosen"),
    ("edges go with where they begin", "(edge.from_type == entity.name and src in gone)", "False"),
    ("edges go with where they end", "or (edge.to_type == entity.name and dst in gone)", ""),
    ("edges of another type of node stay", "(edge.to_type == entity.name and dst in gone)", "(dst in gone)"),
    ("edges that go are counted", "self.changed.edges += len(cut)", "pass"),
    ("nodes that go are counted", "self.affect(statement, len(gone))", "pass"),
    ("statements in their order", "for statement in self.mutation.statements:\n", "for statement in self.mutation.statements[::-1]:\n"),
    ("rows are returned in their order", "return [self.named(self.shown(row)) for row in rows]", "return [self.named(self.shown(row)) for row in rows[::-1]]"),
    ("groups are returned as groups", "if self.plan.is_aggregate or self.plan.distinct:", "if self.plan.is_aggregate:"),
    ("what is written is committed", "written = any(self.touched[name] & now[name] for name in now)", "written = False"),
    ("what is gone is committed", "return written or any(then[name] - now[name] for name in now)", "return written"),
    ("nothing is not committed", "return written or any(then[name] - now[name] for name in now)", "return True"),
    ("an edge that goes changes its source", "return gone | {src", "return {src"),
    ("an edge that comes changes its source", "if row_id in self.changed.touched[name]}", "if False}"),
    ("only edges that were written changed", "if row_id in self.changed.touched[name]}", "}"),
]  # fmt: skip


@dataclass(frozen=True)
class Question:
    """A mutation of a graph, and what it does by the oracle."""

    text: str
    catalog: Catalog
    plan: MutationPlan
    plain: Graph
    params: dict[str, Any]
    outcome: Any

    def tells(self, wrong: Callable[..., Any]) -> bool:
        """Whether another oracle does something else."""
        try:
            return bool(outcome(wrong, self) != self.outcome)
        except Exception:  # noqa: BLE001
            return True  # a mutant that cannot do it


def outcome(runner: Callable[..., Changed], asked: Question) -> Any:
    """All that a mutation does, or why it does nothing."""
    try:
        done = runner(asked.catalog, asked.plan, asked.plain, asked.params, 0)
    except Exception as error:
        if type(error).__name__ != "WriteRefused":
            raise
        return error.kinds  # type: ignore[attr-defined]
    edges = {name: sorted(rows, key=repr) for name, rows in done.graph.edges.items()}
    sources = {name: set(found) for name, found in done.sources.items()}
    counts = done.nodes, done.edges, done.commits
    return done.graph.nodes, edges, counts, done.rows, done.touched, sources


def settled(graph: Graph, step: int) -> Graph:
    """New ids as old ones, so that the next mutation can make its own."""

    def known(one: str) -> str:
        return f"n{step:03d}{one[1:]}" if one.startswith("~") else one

    nodes = {name: {known(i): row for i, row in rows.items()} for name, rows in graph.nodes.items()}
    edges = {
        name: [(known(one), known(src), known(dst), row) for one, src, dst, row in rows]
        for name, rows in graph.edges.items()
    }
    return Graph(nodes, edges)  # type: ignore[arg-type]


def fixed_questions() -> list[Question]:
    """The mutations that hold a rule each."""
    catalog = compile_schema(SCHEMA).catalog
    empty = Graph({name: {} for name in catalog.nodes}, {name: [] for name in catalog.edges})
    filling = compile_query(catalog, FILL)
    assert isinstance(filling, MutationPlan)
    plain = settled(mutate(catalog, filling, empty, {}, 0).graph, 0)
    found = []
    for text, given in FIXED:
        try:
            plan = compile_query(catalog, text)
        except OmniGraphError:
            continue
        assert isinstance(plan, MutationPlan)
        one = Question(text, catalog, plan, plain, bind(plan.params, given), None)
        found.append(replace(one, outcome=outcome(mutate, one)))
    return found


@functools.cache
def questions() -> list[Question]:
    """Fixed mutations of one graph, and random ones, each on what those before it left."""
    found = fixed_questions()
    for seed in range(SEEDS):
        rnd = random.Random(f"mutants {seed}")
        model = make_model(rnd)
        catalog = compile_schema(schema_text(model)).catalog
        plain = Graph({name: {} for name in catalog.nodes}, {name: [] for name in catalog.edges})
        for step in range(STEPS):
            model.rows = {name: dict(rows) for name, rows in plain.nodes.items()}
            made = WholeMutation(rnd, model)
            text = made.text()
            try:
                plan = compile_query(catalog, text)
            except OmniGraphError:
                continue
            assert isinstance(plan, MutationPlan)
            params = bind(plan.params, made.given)
            one = Question(text, catalog, plan, plain, params, None)
            one = replace(one, outcome=outcome(mutate, one))
            found.append(one)
            if not isinstance(one.outcome, set):
                plain = next_state(model, one, step)
    return found


def next_state(model: Any, one: Question, step: int) -> Graph:
    """The graph after a mutation, if the rules at its end let it pass."""
    done = mutate(one.catalog, one.plan, one.plain, one.params, 0)
    try:
        judged(model, done)
    except Refused:
        return one.plain
    return settled(done.graph, step)


def runner_of(old: str, new: str) -> Callable[..., Changed]:
    """``mutate`` of the oracle with a few other words."""
    assert SOURCE.count(old) == 1, f"{SOURCE.count(old)} places: {old}"
    made = ModuleType("tests.oracle.mutations")
    exec(compile(SOURCE.replace(old, new), "mutant", "exec"), made.__dict__)
    runner: Callable[..., Changed] = made.mutate
    return runner


@pytest.mark.parametrize(("rule", "old", "new"), MUTANTS, ids=[rule for rule, *_ in MUTANTS])
def test_a_wrong_rule_is_found(rule: str, old: str, new: str, record_property: Any) -> None:
    wrong = runner_of(old, new)
    found = next((one for one in questions() if one.tells(wrong)), None)
    assert found is not None, f"nothing tells that {rule}"
    record_property("found by", found.text)


def test_the_questions_do_something() -> None:
    asked = questions()
    assert len(asked) > SEEDS * STEPS // 2
    assert not any(one.tells(mutate) for one in asked)
    assert sum(isinstance(one.outcome, set) for one in asked) > 20
