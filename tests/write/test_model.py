"""Random mutations and loads on random schemas against a plain model: same content and refusals."""

from __future__ import annotations

import random

import pytest

from omnigraph.errors import ConstraintError, InputError, KeyConflict
from omnigraph.graph import init
from tests.commit.synthetic import drifted
from tests.sampling import FRESH, runs_all
from tests.stored import read_back
from tests.write.model import Refused
from tests.write.random_model import (
    Query,
    json_record,
    kind_of,
    make_load,
    make_model,
    make_statements,
    schema_text,
)

STEPS = 60
LOAD_STEPS = 30
# The fresh one differs in each process that collects: its name must not. A failure shows the seed.
SEEDS = [*range(9 if runs_all() else 2), FRESH]


def check_load(rnd, graph, model, about):
    mode, records = make_load(rnd, model)
    given = [json_record(model, record) for record in records]
    shown = f"{about}: load {mode} {given}\n{schema_text(model)}"
    head = graph.snapshot().graph_commit_id
    try:
        loaded = model.load(records, mode)
    except Refused as refused:
        with pytest.raises((InputError, ConstraintError, KeyConflict)) as caught:
            graph.load(given or b"", mode=mode)
        assert kind_of(caught.value) in refused.kinds, f"{caught.value} {shown}"
        assert graph.snapshot().graph_commit_id == head, shown
    else:
        result = graph.load(given or b"", mode=mode)
        told = {table["table_key"].split(":")[1]: table["rows_loaded"] for table in result.tables}
        assert told == loaded, shown
        assert graph.snapshot().graph_commit_id == result.commit.graph_commit_id != head, shown
        model.settle(*stored(graph))
    assert stored(graph) == (model.rows, model.links), shown


def stored(graph):
    plain = read_back(graph)
    links = {
        name: {row_id: (src, dst, dict(row)) for row_id, src, dst, row in rows}
        for name, rows in plain.edges.items()
    }
    return {name: dict(rows) for name, rows in plain.nodes.items()}, links


def check_mutation(rnd, graph, model, about):
    statements = make_statements(rnd, model)
    query = Query()
    for statement in statements:
        query.add(model, statement)
    shown = f"{about}: {query.text} {query.given}\n{schema_text(model)}"
    head = graph.snapshot().graph_commit_id
    try:
        nodes, edges, commits = model.run(statements)
    except Refused as refused:
        with pytest.raises(ConstraintError) as caught:
            graph.mutate(query.text, params=query.given)
        assert caught.value.details["violation"] in refused.kinds, shown
        assert graph.snapshot().graph_commit_id == head, shown
    else:
        result = graph.mutate(query.text, params=query.given)
        assert (result.affected_nodes, result.affected_edges) == (nodes, edges), shown
        assert (result.commit is not None) == commits, shown
        model.settle(*stored(graph))
    assert stored(graph) == (model.rows, model.links), shown


@pytest.mark.parametrize("seed", SEEDS)
def test_random_mutations_do_what_the_specification_says(tmp_path, seed):
    rnd = random.Random(seed)
    model = make_model(rnd)
    with init(tmp_path / "g", schema_text(model)) as graph:
        for step in range(STEPS):
            check_mutation(rnd, graph, model, f"seed {seed}, step {step}")
        assert drifted(graph) == []


@pytest.mark.parametrize("seed", SEEDS)
def test_random_loads_among_mutations_do_what_the_specification_says(tmp_path, seed):
    rnd = random.Random(seed)
    model = make_model(rnd)
    with init(tmp_path / "g", schema_text(model)) as graph:
        for step in range(LOAD_STEPS):
            check = rnd.choices([check_load, check_mutation], [4, 1])[0]
            check(rnd, graph, model, f"seed {seed}, step {step}")
        assert drifted(graph) == []
