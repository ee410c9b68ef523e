"""The answers on the page of the forty questions are those of the oracle, whatever the engine prints."""

from __future__ import annotations

import ast
import contextlib
import io
import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import omnigraph as og
from omnigraph.lang.query import compile_query
from omnigraph.lang.query.ir import MutationPlan, ReadPlan
from omnigraph.lang.query.params import bind
from omnigraph.lang.schema import compile_schema
from tests.oracle.graph import Graph
from tests.oracle.interpreter import run, to_json_rows
from tests.oracle.mutations import mutate

PAGE = Path(__file__).parents[2] / "docs" / "user" / "questions.md"
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)
TITLE = re.compile(r"^\*\*((?:IS|IC|Films |Shop |Users )\d+)\*\* ", re.MULTILINE)
WAITING = re.compile(r"^\| ((?:Films|Users) \d+): ", re.MULTILINE)


class Answered(NamedTuple):
    """What the page shows of a mutation."""

    affected_nodes: int
    affected_edges: int
    rows: list[dict[str, Any]] | None


class Judged:
    """A graph as the page sees it, answered by the oracle."""

    def __init__(self, _place: str, schema: str) -> None:
        self.catalog = compile_schema(schema).catalog
        self.plain = Graph()

    def load(self, records: list[dict[str, Any]]) -> None:
        """Keep the records as plain rows."""
        self.plain = Graph.load(self.catalog, "\n".join(map(json.dumps, records)))

    def query(self, text: str, params: dict[str, Any] | None = None) -> list[dict[str, Any]]:
        """The oracle's rows as JSON values."""
        plan = compile_query(self.catalog, text)
        assert isinstance(plan, ReadPlan)
        return to_json_rows(plan, run(plan, self.plain, bind(plan.params, params), 0))

    def mutate(self, text: str, params: dict[str, Any]) -> Answered:
        """The oracle's rows and counts; the graph is what it made of it."""
        plan = compile_query(self.catalog, text)
        assert isinstance(plan, MutationPlan)
        done = mutate(self.catalog, plan, self.plain, bind(plan.params, params), 0)
        self.plain = done.graph
        rows = None
        if plan.returned is not None:
            shown = ReadPlan(None, (), (), plan.returned.columns, ())
            rows = to_json_rows(shown, done.rows or [])
        return Answered(done.nodes, done.edges, rows)

    def close(self) -> None:
        """Nothing is open."""


def test_the_oracle_gives_the_answers_of_the_page(monkeypatch):
    monkeypatch.setattr(og, "init", Judged)
    namespace: dict[str, Any] = {}
    asked = 0
    for code, shown in BLOCK.findall(PAGE.read_text("utf-8")):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(code, namespace)
        answer = [ast.literal_eval(line) for line in printed.getvalue().splitlines()]
        assert answer == [ast.literal_eval(line) for line in shown.splitlines()], code
        is_asked = "ask(" in code or ".mutate(" in code
        asked += is_asked and "def ask(" not in code
    assert asked == len(TITLE.findall(PAGE.read_text("utf-8")))


@pytest.mark.parametrize(
    ("kind", "count"), [("IS", 7), ("IC", 14), ("Films ", 7), ("Shop ", 7), ("Users ", 5)]
)
def test_every_question_is_answered_or_says_what_it_needs(kind, count):
    page = PAGE.read_text("utf-8")
    told = [*TITLE.findall(page), *WAITING.findall(page)]
    of_kind = sorted(name for name in told if name.startswith(kind))
    assert of_kind == sorted(f"{kind}{at}" for at in range(1, count + 1))
