"""Random groups on random schemas against a plain model that runs one mutation after the other."""

from __future__ import annotations

import random

import pytest

from omnigraph.clock import new_ulid
from omnigraph.errors import ConstraintError, OmniGraphError
from omnigraph.graph import init
from omnigraph.write.group_commit import preparing
from tests.commit.synthetic import drifted
from tests.sampling import FRESH, runs_all
from tests.write.grouped import Asked, run_together
from tests.write.model import Model, Refused
from tests.write.random_model import Query, make_insert, make_model, make_statements, schema_text
from tests.write.test_model import stored

GROUPS = 30 if runs_all() else 12
MOST = 8
SEEDS = [*range(12 if runs_all() else 1), FRESH]


def visible(model):
    """The model without entities whose ids nobody outside knows yet, to choose statements from."""
    seen = Model(model.nodes, model.edges)
    for name, rows in model.rows.items():
        seen.rows[name] = {key: row for key, row in rows.items() if not key.startswith("?")}
    return seen


class Group:
    """Random members, and what the model says to each of them."""

    def __init__(self, rnd, model, known):
        self.rnd, self.model, self.known = rnd, model, known
        self.inserts = rnd.random() < 0.4
        """Whether all members insert, so that they are prepared in batches."""
        self.asked, self.expected, self.made = [], [], {}

    def add(self):
        if self.known and self.rnd.random() < 0.1:
            self.repeat(*self.rnd.choice(sorted(self.known.items())))
            return
        seen = visible(self.model)
        statements = (
            [make_insert(self.rnd, seen) for _ in range(self.rnd.choice([1, 1, 2]))]
            if self.inserts
            else make_statements(self.rnd, seen)
        )
        query = Query()
        for statement in statements:
            query.add(self.model, statement)
        chosen = new_ulid() if self.rnd.random() < 0.4 else None
        one = Asked(query.text, query.given, self.rnd.choice([None, "ann", "bob"]), chosen)
        self.ask(one, statements)
        while self.rnd.random() < 0.15:
            if chosen in self.made:
                self.repeat(chosen, (one, self.made[chosen]))
            else:
                self.ask(one, statements)

    def ask(self, one, statements):
        self.asked.append(one)
        try:
            counts = self.model.run(statements)
        except Refused as refused:
            self.expected.append(refused)
            return
        self.expected.append(counts)
        if one.operation_id is not None and counts[2]:
            self.made[one.operation_id] = counts

    def repeat(self, chosen, before):
        one, counts = before
        self.asked.append(one)
        self.expected.append(("replayed", *counts))


def check_group(rnd, graph, model, known, about):
    group = Group(rnd, model, known)
    for _ in range(rnd.randint(1, MOST)):
        group.add()
    head = graph.snapshot().commit
    answers = run_together(graph, *group.asked)
    shown = f"{about}: {group.asked}\n{schema_text(model)}"
    changed = []
    for one, answer, expected in zip(group.asked, answers, group.expected, strict=True):
        told = f"{one} got {answer!r}\n{shown}"
        if isinstance(expected, Refused):
            assert isinstance(answer, ConstraintError), told
            assert answer.details["violation"] in expected.kinds, told
            continue
        assert not isinstance(answer, OmniGraphError), told
        replayed = expected[0] == "replayed"
        nodes, edges, commits = expected[1:] if replayed else expected
        assert (answer.affected_nodes, answer.affected_edges) == (nodes, edges), told
        assert (answer.commit is not None) == commits, told
        assert answer.replayed == replayed, told
        assert answer.actor_id == one.actor, told
        if commits and not replayed:
            changed.append((one, answer))
    model.settle(*stored(graph))
    assert stored(graph) == (model.rows, model.links), shown
    check_commit(graph, head, changed, shown)
    for one in group.asked:
        if one.operation_id in group.made:
            known[one.operation_id] = (one, group.made[one.operation_id])


def check_commit(graph, before, changed, shown):
    """All who changed anything share one commit on top of the head, which names each of them."""
    now = graph.snapshot().commit
    if not changed:
        assert now == before, shown
        return
    assert all(answer.commit == now for _, answer in changed), shown
    assert now.parent_commit_id == before.graph_commit_id, shown
    actors = [one.actor for one, _ in changed]
    assert now.actor_id == (actors[0] if len(set(actors)) == 1 else None), shown
    if len(changed) == 1:
        assert not now.members, shown
        return
    assert [one["actor_id"] for one in now.members] == actors, shown
    assert [one.get("operation_id") for one in now.members] == [
        one.operation_id for one, _ in changed
    ], shown


@pytest.mark.parametrize("seed", SEEDS)
def test_a_group_does_what_its_members_do_one_after_the_other(tmp_path, monkeypatch, seed):
    monkeypatch.setattr(preparing, "LONGEST", 600.0)
    rnd = random.Random(seed)
    model = make_model(rnd)
    known = {}
    with init(tmp_path / "g", schema_text(model)) as graph:
        for number in range(GROUPS):
            check_group(rnd, graph, model, known, f"seed {seed}, group {number}")
        assert drifted(graph) == []
