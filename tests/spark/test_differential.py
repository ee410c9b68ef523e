"""The same input on both engines: equal tables, ids included, or equal refusals."""

from __future__ import annotations

import base64
import json
import random
from functools import partial

import pytest

import omnigraph as og
from omnigraph.errors import OmniGraphError
from omnigraph.pipeline.rows.row_rules import RowRules
from omnigraph.pipeline.sources.splits import plan_splits
from tests.commit.synthetic import drifted
from tests.pipeline.load_helpers import load_gathered
from tests.pipeline.read_helpers import SCHEMA as EVERY_TYPE
from tests.sampling import FRESH, runs_all, seed
from tests.spark.sizes import ON_EXECUTORS
from tests.stored import read_back
from tests.write.random_model import json_record, make_load, make_model, schema_text

STARTED = 1_700_000_000_000


@pytest.fixture
def on_executors(load_with):
    """Nothing is fetched because it is little: executors answer every query."""
    load_with(ON_EXECUTORS)


@pytest.fixture(autouse=True)
def _many_tasks(monkeypatch):
    """Splits of a few hundred bytes: several tasks, some of them without a record."""
    monkeypatch.setattr("omnigraph.pipeline.load_input.plan_splits", partial(plan_splits, size=400))


class Pair:
    """One graph for each engine; both are given the same."""

    def __init__(self, place, schema, spark, monkeypatch):
        self.local = og.init(place / "local", schema)
        self.spark = og.init(place / "spark", schema)
        self.session = spark
        self.loads = 0
        # Ids that a load makes up are the same for the same operation.
        monkeypatch.setattr(
            "omnigraph.pipeline.load.RowRules",
            lambda catalog, _, __, *given, **flags: RowRules(
                catalog, f"load-{self.loads}", STARTED, *given, **flags
            ),
        )

    def load(self, gather, about="", **options):
        """Run a load on both; the answer is what became of it, which must be the same."""
        self.loads += 1
        local = outcome(self.local, gather, engine="local", **options)
        spark = outcome(self.spark, gather, engine="spark", spark=self.session, **options)
        assert spark == local, about
        branch = options.get("branch", "main")
        assert content(self.spark, branch) == content(self.local, branch), about
        return local

    def close(self):
        self.local.close()
        self.spark.close()


@pytest.fixture
def pair(tmp_path, spark, monkeypatch):
    made = []

    def make(schema):
        made.append(Pair(tmp_path, schema, spark, monkeypatch))
        return made[-1]

    yield make
    for one in made:
        assert drifted(one.spark, "main") == []
        one.close()


def outcome(graph, gather, **options):
    head = graph.snapshot().graph_commit_id
    try:
        result = load_gathered(graph, gather, **options)
    except OmniGraphError as error:
        assert graph.snapshot().graph_commit_id == head
        return type(error), str(error), error.details
    assert result.engine == options["engine"]
    return result.tables, result.embeddings_pending


def content(graph, branch):
    if branch not in graph.branches.list():
        return None
    plain = read_back(graph, branch)
    nodes = {name: dict(rows) for name, rows in plain.nodes.items()}
    edges = {name: sorted(rows, key=lambda row: row[0]) for name, rows in plain.edges.items()}
    return nodes, edges


def lines(records):
    """Records as JSON lines, in the order given."""
    data = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records).encode()
    return lambda inputs: inputs.json(data)


# ------------------------------------------------------------------ random schemas and data


def run_seed(pair, seed, loads):
    rnd = random.Random(seed)
    model = make_model(rnd)
    graphs = pair(schema_text(model))
    for number in range(loads):
        mode, records = make_load(rnd, model)
        given = [json_record(model, record) for record in records]
        about = f"seed {seed}, load {number}: {mode} {given}\n{schema_text(model)}"
        found = graphs.load(lines(given), about, mode=mode)
        if len(found) == 2:
            # The next load shall meet the rows of this one.
            plain = read_back(graphs.local)
            model.rows = {name: dict(rows) for name, rows in plain.nodes.items()}
            model.links = {
                name: {row_id: (src, dst, dict(row)) for row_id, src, dst, row in rows}
                for name, rows in plain.edges.items()
            }


@pytest.mark.parametrize("seed", [3, FRESH])
def test_random_loads_do_the_same(pair, seed):
    run_seed(pair, seed, 4)


@pytest.mark.usefixtures("on_executors")
@pytest.mark.parametrize("seed", [FRESH])
def test_random_loads_do_the_same_when_executors_answer_every_query(pair, seed):
    run_seed(pair, seed, 3)


def every_value(rnd):
    """A record with a random choice of properties of every type."""
    values = {
        "s": rnd.choice(
            ["", "ß日本\U0001f600", "a\x00b", "x" * rnd.choice([100, 100_000]), "'`\"\\"]
        ),
        "kind": rnd.choice(["a", "b"]),
        "b": rnd.random() < 0.5,
        "i32": rnd.choice([-(2**31), 2**31 - 1, 0]),
        "i64": rnd.choice([-(2**63), 2**63 - 1, 0]),
        "u32": rnd.choice([0, 2**32 - 1]),
        "u64": rnd.choice([0, 2**64 - 1]),
        "f32": rnd.choice([0.1, -1.5, 3e38]),
        "f64": rnd.choice([0.1, 5e-324, 1.7e308]),
        "day": rnd.choice(["0001-01-01", "1969-12-31", "9999-12-31"]),
        "at": rnd.choice(["0001-01-01T00:00:00Z", "1969-12-31T23:59:59.999Z"]),
        "file": "base64:" + base64.b64encode(rnd.randbytes(rnd.choice([0, 3, 5000]))).decode(),
        "vec": [rnd.random(), -1, 1e-30],
        "ls": rnd.choice([[], ["ß", ""]]),
        "lb": [True, False],
        "li": [-(2**63)],
        "lu": [2**64 - 1],
        "lf": [0.5],
        "ld": ["2024-02-29"],
        "lt": ["2024-02-29T12:00:00Z"],
    }
    chosen = {name: value for name, value in values.items() if rnd.random() < 0.7}
    return {name: rnd.choice([value, value, value, None]) for name, value in chosen.items()}


def test_every_property_type_is_stored_the_same(pair, monkeypatch):
    monkeypatch.setenv("OMNIGRAPH_EMBEDDINGS_MOCK", "1")
    # A line of a text as long as this one is several splits.
    monkeypatch.setattr(
        "omnigraph.pipeline.load_input.plan_splits", partial(plan_splits, size=60_000)
    )
    rnd = random.Random(1)
    graphs = pair(EVERY_TYPE)
    records = [{"type": "Every", "data": {"id": f"é{n}", **every_value(rnd)}} for n in range(60)]
    records += [{"type": "Every", "data": every_value(rnd)} for _ in range(20)]
    records += [{"type": "Doc", "data": {"body": f"text {n}"}} for n in range(9)]
    records += [
        {"type": "Person", "data": {"name": "a"}},
        {"type": "Person", "data": {"name": "b"}},
    ]
    records += [{"edge": "Knows", "from": "a", "to": "b", "data": {"since": "2020-01-01"}}]
    rnd.shuffle(records)
    tables, _ = graphs.load(lines(records), mode="append")
    assert sum(table["rows_loaded"] for table in tables) == len(records)
    changed = [
        {"type": "Every", "data": {"id": f"é{n}", **every_value(rnd)}} for n in range(30, 70)
    ]
    graphs.load(lines(changed), mode="merge")
    graphs.load(lines(changed[:1]), mode="overwrite")
    counts = {name: len(rows) for name, rows in content(graphs.spark, "main")[0].items()}
    assert {name: count for name, count in counts.items() if count} == {
        "Person": 2,
        "Every": 1,
        "Doc": 9,
    }


# ------------------------------------------------------------------ refusals

RULES = """
node P { name: String @key  mail: String? @unique  big: U64?  at: DateTime?  n: I32?
  @unique(big, at)  @range(n, 0..9) }
node Q { v: Vector(2) @embed(t)  t: String? }
edge K: P -> P @card(0..2) { since: Date? }
"""


def p(name, **data):
    return {"type": "P", "data": {"name": name, **data}}


def k(src, dst, **data):
    return {"edge": "K", "from": src, "to": dst, "data": data}


AT = "2024-01-01T00:00:00.001Z"
THERE = [p("a", mail="a@x", big=2**64 - 1, at=AT), p("b", mail="ß"), k("a", "b", id="e1")]
REFUSED = {
    "an id twice": ("append", [p("c"), p("d"), p("c"), p("ü"), p("ü")]),
    "an id that is there": ("append", [p("c"), p("b"), p("a")]),
    "a value twice": ("merge", [p("c", mail="m"), p("d", mail="m"), p("e", mail="m")]),
    "a value that is there": ("merge", [p("c", mail="ß"), p("d", mail="a@x")]),
    "a group that is there": ("merge", [p("c", big=2**64 - 1, at=AT)]),
    "a group twice": ("merge", [p("c", big=7, at=AT), p("d", big=7, at=AT), p("e", big=7)]),
    "an end that is missing": ("merge", [p("c"), k("c", "nobody"), k("日本", "c")]),
    "an end that goes": ("overwrite", [p("b"), p("c")]),
    "too many edges": ("merge", [k("a", "a"), k("a", "b"), k("b", "b")]),
}
REFUSED_RECORDS = {
    "a null key": ("append", [p("c"), {"type": "P", "data": {"name": None}}, p("d", n=10)]),
    "no provider": ("append", [p("c"), {"type": "Q", "data": {"t": "text"}}]),
    "many bad records": ("append", [p(f"c{n}", n=n) for n in range(60)]),
}


@pytest.mark.usefixtures("on_executors")
def test_every_broken_rule_between_rows_is_told_in_the_same_words(pair):
    graphs = pair(RULES)
    graphs.load(lines(THERE))
    rules = REFUSED if runs_all() else random.Random(seed()).sample(sorted(REFUSED), 3)
    for about in rules:
        mode, records = REFUSED[about]
        found = graphs.load(lines(records), about, mode=mode)
        assert len(found) == 3, about


def test_every_bad_record_is_told_in_the_same_words(pair, tmp_path):
    graphs = pair(RULES)
    for about, (mode, records) in REFUSED_RECORDS.items():
        found = graphs.load(lines(records), about, mode=mode)
        assert len(found) == 3, about
    odd = b'{"type":"P","data":{"name":"c"}}\n// a remark\n\nno json\n{"type":"X"}\n'
    assert graphs.load(lambda inputs: inputs.json(odd))[2]["bad_records"]["total"] == 2
    rejects = []
    for graph, options in ((graphs.local, {}), (graphs.spark, {"spark": graphs.session})):
        rejects.append(tmp_path / f"bad-{len(rejects)}.jsonl")
        with pytest.raises(OmniGraphError):
            load_gathered(
                graph, lines(REFUSED_RECORDS["many bad records"][1]), rejects=rejects[-1], **options
            )
    assert rejects[0].read_text() == rejects[1].read_text()
    assert len(rejects[0].read_text().splitlines()) == 50


def test_no_records_at_all_are_a_commit_of_nothing(pair):
    graphs = pair(RULES)
    assert graphs.load(lambda inputs: inputs.json(b"")) == ([], 0)
    graphs.load(lines(THERE))
    graphs.load(lines([k("a", "b"), p("a", n=3)]), branch="new", from_branch="main")
    assert content(graphs.spark, "main") != content(graphs.spark, "new")
