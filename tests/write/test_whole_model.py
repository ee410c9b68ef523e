"""Random whole mutations on random schemas against the oracle: same content, counts, rows and refusals."""

from __future__ import annotations

import itertools
import random
import shutil
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from omnigraph import failpoints
from omnigraph.errors import ConstraintError, OmniGraphError
from omnigraph.graph import init
from omnigraph.graph import open as open_graph
from omnigraph.lang.query import compile_query
from omnigraph.lang.query.ir import MutationPlan
from omnigraph.lang.query.params import bind
from omnigraph.write.statements import identity
from tests.commit.synthetic import Died, drifted
from tests.oracle.graph import Graph as PlainGraph
from tests.oracle.mutations import Changed, WriteRefused, ids_of, mutate
from tests.read.test_extended import comparable, stored
from tests.sampling import FRESH, runs_all
from tests.stored import read_back
from tests.write.fixed_mutations import FILL, FIXED, SCHEMA
from tests.write.model import Edge, Model, Node, Prop, Refused
from tests.write.random_model import make_model, schema_text
from tests.write.random_mutations import FORMS, WholeMutation

STEPS = 60
SEEDS = range(24 if runs_all() else 5)
DEATHS = {
    "mutation.before_locks": False,
    "mutation.before_phase_b": False,
    "mutation.before_table_commit": False,
    "mutation.after_table_commit": None,
    "mutation.after_phase_b_before_phase_c": True,
    "mutation.after_phase_c_before_phase_d": True,
}
"""Where a writer dies, and whether its mutation stands afterwards; None: if that was the last step of all."""


@pytest.fixture(autouse=True)
def ascending_ids(monkeypatch):
    """New ids in the order in which they are made: so it can be told which of equal new nodes is which."""
    numbers = itertools.count()
    monkeypatch.setattr(identity, "new_ulid", lambda: f"7Z{next(numbers):024d}")


def plain_model() -> Model:
    """The rules of the graph of the fixed mutations."""
    numbers = [Prop("n", "I64"), Prop("s", "I32"), Prop("f", "F64")]
    nodes = [
        Node("P", [Prop("name", "String", required=True), *numbers], ("name",)),
        Node("Q", [Prop("name", "String", required=True), Prop("n", "I64")], ("name",)),
        Node("R", [Prop("title", "String", required=True)]),
    ]
    edges = [
        Edge("K", "P", "P", [Prop("w", "I64")]),
        Edge("L", "P", "Q", []),
        Edge("C", "P", "P", [Prop("y", "I64"), Prop("w", "I64")], unique=[("src", "dst", "y")]),
        Edge("T", "P", "P", [Prop("w", "I64")], unique=[("src", "dst")]),
    ]
    return Model({one.name: one for one in nodes}, {one.name: one for one in edges})


PLAIN_MODEL = plain_model()


def judged(model: Model, changed: Changed) -> None:
    """Judge the end of a mutation by the rules of the model."""
    model.rows = {name: dict(rows) for name, rows in changed.graph.nodes.items()}
    model.links = {
        name: {row_id: (src, dst, dict(row)) for row_id, src, dst, row in edges}
        for name, edges in changed.graph.edges.items()
    }
    model.touched, model.sources = changed.touched, changed.sources
    model.judge()


class Settled:
    """The oracle's new ids as those that the product made."""

    def __init__(self, changed: Changed, found: PlainGraph) -> None:
        self.before, self.now = ids_of(changed.before), ids_of(found)
        self.real: dict[str, str] = {}
        for name, nodes in changed.graph.nodes.items():
            mine = sorted(one for one in nodes if one.startswith("~"))
            real = sorted(self.now[name] - nodes.keys())
            self.real.update(zip(mine, real, strict=True))

    def id(self, one: str) -> str:
        return self.real.get(one, one)

    def graph(self, changed: Changed) -> tuple[Any, Any]:
        """Nodes by id, and edges as a bag: ids of new ones are not told apart."""
        plain = changed.graph
        nodes = {
            name: {self.id(one): dict(row) for one, row in rows.items()}
            for name, rows in plain.nodes.items()
        }
        edges = {
            name: Counter(
                (None if one.startswith("~") else one, self.id(src), self.id(dst), repr(row))
                for one, src, dst, row in rows
            )
            for name, rows in plain.edges.items()
        }
        return nodes, edges

    def found(self, plain: PlainGraph) -> tuple[Any, Any]:
        """The product's content in the same form."""
        nodes = {name: dict(rows) for name, rows in plain.nodes.items()}
        edges = {
            name: Counter(
                (one if one in self.before[name] else None, src, dst, repr(row))
                for one, src, dst, row in rows
            )
            for name, rows in plain.edges.items()
        }
        return nodes, edges


def same_cell(mine: Any, real: Any, settled: Settled) -> bool:
    """Equal values; a new id of the oracle is any new one, or the one that it became."""
    if isinstance(mine, str) and mine.startswith("~"):
        known = set().union(*settled.before.values())
        return isinstance(real, str) and real == settled.real.get(mine, real) and real not in known
    return bool(comparable(mine) == comparable(real))


@dataclass
class History:
    """A graph to which random mutations are made, and what is known of it."""

    place: Path
    seed: int
    forms: Counter[str]
    deaths: float = 0.1
    """How often the writer of a mutation dies."""

    def run(self, steps: int) -> None:
        """Make mutations one after the other, here and there."""
        self.rnd = random.Random(f"whole {self.seed}")
        self.model = make_model(self.rnd)
        self.schema = schema_text(self.model)
        self.graph = init(self.place, self.schema)
        self.plain = read_back(self.graph)
        try:
            for step in range(steps):
                self.step(step)
            assert drifted(self.graph) == []
        finally:
            self.graph.close()

    def step(self, number: int) -> None:
        """One random mutation that compiles."""
        self.model.rows = {name: dict(rows) for name, rows in self.plain.nodes.items()}
        made = WholeMutation(self.rnd, self.model)
        text = made.text()
        if self.perform(text, made.given, f"seed {self.seed}, step {number}"):
            self.forms.update(made.forms)
        else:
            self.forms["(does not compile)"] += 1

    def perform(self, text: str, given: dict[str, Any], about: str) -> bool:
        """Run a mutation here and there; False if it does not compile."""
        catalog = self.graph.schema.catalog
        try:
            plan = compile_query(catalog, text)
        except OmniGraphError:
            return False
        assert isinstance(plan, MutationPlan)
        self.shown = f"{about}: {text} {given}\n{self.plain}\n{self.schema}"
        try:
            changed = mutate(catalog, plan, self.plain, bind(plan.params, given), 0)
            judged(self.model, changed)
        except (WriteRefused, Refused) as refused:
            self.refused(text, given, refused.kinds)
            return True
        if changed.commits and self.rnd.random() < self.deaths:
            self.die(text, given, changed)
        else:
            self.done(text, given, plan, changed)
        return True

    def refused(self, text: str, given: dict[str, Any], kinds: set[str]) -> None:
        """Whatever is refused, for one of these reasons, leaves nothing."""
        head = self.graph.snapshot().graph_commit_id
        try:
            self.graph.mutate(text, params=given)
        except ConstraintError as error:
            assert error.details["violation"] in kinds, f"{error} {self.shown}"
        else:
            raise AssertionError(f"should be refused: {kinds} {self.shown}")
        assert self.graph.snapshot().graph_commit_id == head, self.shown
        assert read_back(self.graph) == self.plain, self.shown
        self.forms["(refused)"] += 1

    def done(self, text: str, given: dict[str, Any], plan: MutationPlan, changed: Changed) -> None:
        """What is done has the counts, the content and the rows that the oracle has."""
        try:
            result = self.graph.mutate(text, params=given)
        except OmniGraphError as error:
            raise AssertionError(f"refused: {error!r} {self.shown}") from error
        counts = (result.affected_nodes, result.affected_edges)
        assert counts == (changed.nodes, changed.edges), self.shown
        assert (result.commit is not None) == changed.commits, self.shown
        settled = self.settle(changed)
        self.forms["(done)" if changed.commits else "(nothing to do)"] += 1
        if plan.returned is None:
            assert result.rows is None, self.shown
            return
        assert changed.rows is not None
        assert result.returned is not None
        table = result.returned.to_arrow()
        columns = [stored(c.type, table.column(at)) for at, c in enumerate(plan.returned.columns)]
        rows = list(zip(*columns, strict=True))
        assert len(rows) == len(changed.rows), self.shown
        for mine, real in zip(changed.rows, rows, strict=True):
            cells = zip(mine.values(), real, strict=True)
            assert all(same_cell(*cell, settled) for cell in cells), f"{mine} {real} {self.shown}"

    def settle(self, changed: Changed) -> Settled:
        """The graph has the content that the oracle has."""
        found = read_back(self.graph)
        settled = Settled(changed, found)
        assert settled.found(found) == settled.graph(changed), self.shown
        self.plain = found
        return settled

    def die(self, text: str, given: dict[str, Any], changed: Changed) -> None:
        """A writer that dies leaves everything or nothing."""
        point, stands = self.rnd.choice(list(DEATHS.items()))
        with failpoints.arm(point, Died(), skip=self.rnd.choice([0, 0, 1, 2])) as armed:
            try:
                self.graph.mutate(text, params=given)
            except Died:
                self.forms["(died)"] += 1
            else:
                stands = True
        assert armed.fired or stands, self.shown
        self.graph.close()
        self.graph = open_graph(self.place)
        found = read_back(self.graph)
        if stands is False or (stands is None and found == self.plain):
            assert found == self.plain, self.shown
        else:
            self.settle(changed)


@pytest.fixture
def small(tmp_path):
    """The graph of the fixed mutations, a copy for each."""
    opened = []
    with init(tmp_path / "filled", SCHEMA) as graph:
        graph.mutate(FILL)
        filled = read_back(graph)

    def make(number: int) -> History:
        history = History(tmp_path / str(number), number, Counter(), deaths=0.0)
        history.rnd, history.schema = random.Random(0), SCHEMA
        history.model = PLAIN_MODEL
        shutil.copytree(tmp_path / "filled", history.place)
        history.graph = open_graph(history.place)
        history.plain = filled
        opened.append(history.graph)
        return history

    yield make
    for graph in opened:
        graph.close()


def test_fixed_mutations_do_what_the_specification_says(small):
    compiled = [small(at).perform(text, given, "fixed") for at, (text, given) in enumerate(FIXED)]
    assert (
        compiled.count(False) == 2
    )  # a number that does not fit its property, and an unknown variable


def told(forms: Counter[str], title: str) -> None:
    """Print how often each form came."""
    table = "\n".join(f"{count:6d} {form}" for form, count in forms.most_common())
    sys.stdout.write(f"{title}:\n{table}\n")


def test_random_whole_mutations_do_what_the_specification_says(tmp_path):
    forms: Counter[str] = Counter()
    for seed in SEEDS:
        History(tmp_path / str(seed), seed, forms).run(STEPS)
    told(forms, f"seeds {SEEDS}, {len(SEEDS) * STEPS} mutations")
    assert not FORMS - forms.keys(), "forms that no mutation had"


@pytest.mark.parametrize("seed", [FRESH])
def test_fresh_whole_mutations_do_what_the_specification_says(tmp_path, seed):
    forms: Counter[str] = Counter()
    History(tmp_path / "g", seed, forms).run(STEPS)
    told(forms, f"seed {seed}, {STEPS} mutations")
