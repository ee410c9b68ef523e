"""Every rule of the language is held: an oracle that gets one wrong disagrees with a case or a random query.

The engine agrees with the oracle on every case and on random queries of this kind (``tests/conformance``,
``tests/read/test_extended.py``). So what tells a mutant from the oracle tells an engine with the same fault.
"""

from __future__ import annotations

import functools
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from omnigraph.errors import OmniGraphError
from omnigraph.lang.query import compile_query
from omnigraph.lang.query.ir import ReadPlan
from omnigraph.lang.query.params import bind
from omnigraph.lang.schema import compile_schema
from tests.conformance.case_files import Case, all_cases
from tests.conformance.expectations import same_value
from tests.oracle.graph import Graph
from tests.oracle.interpreter import RefusedError, run, to_json_rows
from tests.oracle.mutants import Mutant, all_mutants
from tests.read import judging_helpers, search_queries
from tests.read.extended_queries import CATALOG, plain_graph
from tests.read.fixed_queries import OUTPUTS, PATHS, SEARCHES, TERMS, many_ways
from tests.read.test_extended import comparable, queries

NOW = 1_700_000_000_000
RANDOM_GRAPHS = 6
RANDOM_QUERIES = 60
MUTANTS = all_mutants()

Answer = list[dict[str, Any]] | None
"""Rows, or None where the question is refused."""


@dataclass(frozen=True)
class Question:
    """A plan on a graph, and its answer by the oracle."""

    name: str
    plan: ReadPlan
    plain: Graph
    params: dict[str, Any]
    answer: Answer

    def tells(self, wrong: Callable[..., Any]) -> bool:
        """Whether the answer of another oracle is another one."""
        try:
            found = answered(wrong, self.plan, self.plain, self.params)
        except Exception:  # noqa: BLE001
            return True  # a mutant that cannot answer
        return not same(self.plan, found, self.answer)


def answered(runner: Callable[..., Any], plan: ReadPlan, plain: Graph, params: Any) -> Answer:
    """The rows of an oracle; None where it refuses."""
    try:
        rows: list[dict[str, Any]] = runner(plan, plain, params, NOW)
    except Exception as error:
        if type(error).__name__ == RefusedError.__name__:
            return None
        raise
    return rows


def same(plan: ReadPlan, one: Answer, other: Answer) -> bool:
    """Equal as far as the language promises: in order, as a bag, or as many."""
    if one is None or other is None:
        return one is other
    if plan.order or plan.ranking or plan.is_aggregate or plan.distinct:
        return [comparable(row) for row in one] == [comparable(row) for row in other]
    if plan.limit is not None or plan.offset is not None:
        return len(one) == len(other)
    return Counter(map(comparable, one)) == Counter(map(comparable, other))


@functools.cache
def cases() -> list[Question]:
    """The reads of the conformance cases that the oracle answers."""
    found = [one for case in all_cases() for one in _of_case(case)]
    assert len(found) > 250
    return found


@functools.cache
def _fixture(schema: str, data: str) -> tuple[Any, Graph]:
    catalog = compile_schema(re.sub(r" @metric\(\w+\)", "", schema)).catalog
    return catalog, Graph.load(catalog, data)


def _of_case(case: Case) -> Iterator[Question]:
    if case.kind != "query":
        return
    fixture = case.fixtures[case.body["fixture"]]
    try:
        catalog, plain = _fixture(fixture["schema"], fixture["data"] or "")
        plan = compile_query(catalog, case.body["query"], case.body.get("name"))
        if not isinstance(plan, ReadPlan):
            return
        params = bind(plan.params, case.body.get("params"))
    except OmniGraphError:
        return  # about what does not compile
    answer = answered(run, plan, plain, params)
    expected = case.body["expect"].get("rows")
    if expected is not None and answer is not None and not plan.limit:
        shown = to_json_rows(plan, answer)
        assert len(shown) == len(expected), case.id
        if case.body["expect"].get("ordered"):
            assert all(map(same_value, shown, expected)), case.id
    yield Question(str(case), plan, plain, params, answer)


@functools.cache
def made_questions() -> list[Question]:
    """Fixed and random queries as those that the engine is asked."""
    found = []
    for seed in range(3):
        plain = many_ways(seed)
        for text in [*TERMS, *OUTPUTS, *PATHS]:
            plan = compile_query(CATALOG, text)
            assert isinstance(plan, ReadPlan)
            found.append(Question(text, plan, plain, {}, answered(run, plan, plain, {})))
    rng = random.Random("mutants")
    for _ in range(RANDOM_GRAPHS):
        plain = search_queries.plain_graph(rng, docs=8, edges=8)
        for text in SEARCHES:
            searched = compile_query(search_queries.CATALOG, text)
            assert isinstance(searched, ReadPlan)
            found.append(Question(text, searched, plain, {}, answered(run, searched, plain, {})))
        for query, plan, params in judging_helpers.queries(rng, RANDOM_QUERIES):
            answer = answered(run, plan, plain, params)
            found.append(Question(query.arranged(query.clauses), plan, plain, params, answer))
        plain = plain_graph(rng)
        for text, plan, params in queries(rng, RANDOM_QUERIES, Counter(), patterns=True):
            answer = answered(run, plan, plain, params)
            found.append(Question(text, plan, plain, params, answer))
    return found


@pytest.mark.sampled(12, every=())
@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_a_wrong_rule_is_found(mutant: Mutant, record_property: Any) -> None:
    wrong = mutant.runner()
    by_case = next((one for one in cases() if one.tells(wrong)), None)
    found = by_case or next((one for one in made_questions() if one.tells(wrong)), None)
    assert found is not None, f"nothing tells: {mutant.old!r} -> {mutant.new!r}"
    record_property("found by", found.name)


def test_the_mutants_are_enough_and_the_modules_in_use_are_untouched() -> None:
    assert len({mutant.rule for mutant in MUTANTS}) == len(MUTANTS) >= 50
    for question in cases()[:20]:
        assert not question.tells(run)
