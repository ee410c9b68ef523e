"""Queries on Spark answer as the local engine does, or are refused by name."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import ArithmeticException

import omnigraph as og
from omnigraph.errors import BadRequest, OmniGraphError
from omnigraph.spark.queries.refused import REFUSED, REFUSED_MOMENTS
from tests.conformance.executors import environment
from tests.read import period_queries
from tests.read.extended_queries import SCHEMA as EXTENDED
from tests.read.extended_queries import made, plain_graph
from tests.sampling import runs_all, seed
from tests.spark.query_helpers import graph_of, judged, plan_of, read_cases
from tests.stored import fill

pytestmark = pytest.mark.usefixtures("spark")

DOCS = Path(__file__).parents[2] / "docs" / "user" / "spark.md"
EVERY = 1 if runs_all() else 45
"""In the suite one case of so many is asked."""

SCHEMA = """
node Person { name: String @key  city: String?  age: I32?  pay: I64? }
edge Knows: Person -> Person { since: I32? }
"""
PEOPLE = {
    "ann": ("Oslo", 30, 10),
    "bob": ("Rome", 40, None),
    "cy": ("Oslo", None, 30),
    "di": (None, 20, 5),
}
EDGES = [("ann", "bob"), ("ann", "bob"), ("ann", "cy"), ("bob", "cy"), ("cy", "di"), ("di", "di")]


def filled(path):
    graph = og.init(path, SCHEMA)
    graph.load(
        [
            *(
                {"type": "Person", "data": {"name": name, "city": city, "age": age, "pay": pay}}
                for name, (city, age, pay) in PEOPLE.items()
            ),
            *({"edge": "Knows", "from": a, "to": b, "data": {"since": 1}} for a, b in EDGES),
        ]
    )
    return graph


@pytest.fixture(scope="module")
def people(tmp_path_factory, spark):
    with filled(tmp_path_factory.mktemp("people") / "g") as graph:
        yield graph


def rows(frame):
    return [row.asDict(recursive=True) for row in frame.collect()]


# ------------------------------------------------------------------ both engines


def test_the_conformance_cases_of_reads():
    cases = read_cases()
    random.Random(seed()).shuffle(cases)
    found, faults = Counter(), []
    for case in cases[::EVERY]:
        graph, body = graph_of(case), case.body
        if plan_of(graph, body["query"], body.get("name")) is None:
            continue
        with environment(body.get("env") or {}):
            try:
                found[judged(graph, body["query"], body.get("name"), body.get("params"))] += 1
            except AssertionError as fault:
                faults.append(f"{case}: {fault}")
    assert not faults, "\n".join(faults)
    # Of a few cases, chosen at random, several may be refused.
    assert found["equal"] > found["refused"] * (10 if runs_all() else 1)
    assert found["equal"] >= (250 if runs_all() else 1)


@pytest.mark.parametrize("patterns", [False, True])
def test_random_queries(tmp_path, patterns):
    rng = random.Random(f"{seed()} {patterns}")
    forms: Counter[str] = Counter()
    found: Counter[str] = Counter()
    with og.init(tmp_path / "g", EXTENDED) as graph:
        fill(graph, plain_graph(rng))
        wanted = 150 if runs_all() else 5
        while found.total() < wanted:
            text, params = made(rng, forms, patterns=patterns)
            if plan_of(graph, text, None) is not None:
                found[judged(graph, text, None, params)] += 1
    assert found["equal"] > found["refused"]


def test_random_queries_about_what_holds(tmp_path):
    rng = random.Random(f"{seed()} periods")
    forms: Counter[str] = Counter()
    found: Counter[str] = Counter()
    with og.init(tmp_path / "g", period_queries.schema(rng)) as graph:
        fill(graph, period_queries.plain_graph(rng))
        wanted = 150 if runs_all() else 10
        while found.total() < wanted:
            text, params = period_queries.made(rng, forms)
            if plan_of(graph, text, None) is not None:
                as_of = rng.choice(["ever", "1970-01-02", "1997-05-19T12:00:00Z", None])
                found[judged(graph, text, None, params, as_of=as_of)] += 1
    assert found["equal"] > found["refused"]


STOPS = """
node Stop { code: String @key  opened: Date?  closed: Date?  @valid(opened, closed) }
edge Next: Stop -> Stop { since: Date?  until: Date?  @valid(since, until) }
edge Bus: Stop -> Stop { first: DateTime?  last: DateTime?  @valid(first, last) }
edge Walk: Stop -> Stop
"""
LINES = [
    *({"type": "Stop", "data": {"code": code}} for code in "acde"),
    {"type": "Stop", "data": {"code": "b", "opened": "2000-01-01", "closed": "2010-01-01"}},
    *({"edge": "Next", "from": pair[0], "to": pair[1]} for pair in ("ab", "bb", "bc", "ad", "dc")),
    {"edge": "Next", "from": "c", "to": "e", "data": {"until": "2005-01-01"}},
    {"edge": "Bus", "from": "a", "to": "e", "data": {"first": "2004-01-01T12:00:00Z"}},
    {"edge": "Bus", "from": "e", "to": "a", "data": {"last": "2004-01-01T12:00:00Z"}},
    {"edge": "Walk", "from": "e", "to": "d"},
]


@pytest.mark.sampled(3, every=())
@pytest.mark.parametrize(
    "match",
    [
        "$a: Stop ever  $b: Stop ever  $a next{1,3} $b",
        "$a: Stop ever  $b: Stop ever  $a $p:next{2,3} $b",
        "$a: Stop ever  $b: Stop ever  $a next{0,2} $b",
        "$a next{1,4} $b",
        "$a next|bus|walk $b",
        "$a $e:next|bus|walk $b",
        "$a next|bus{1,3} $b",
        "$a: Stop  not { $a bus|walk $_ }  $a next $b",
    ],
)
def test_alternatives_and_nodes_between_that_hold(tmp_path_factory, spark, match):
    with og.init(tmp_path_factory.mktemp("stops") / "g", STOPS) as graph:
        graph.load(LINES)
        text = f"match {{ {match} }} return {{ $a.code as a, $b.code as b }}"
        for as_of in ("2004-01-01", "2006-01-01", "2020-01-01"):
            assert judged(graph, text, as_of=as_of) == "equal"


LINKS = """
node Stop { code: String @key }
edge Next: Stop -> Stop { since: Date?  until: Date?  @valid(since, until)  @unique(src, dst) }
"""


def test_an_edge_that_is_unique_at_each_moment_may_come_twice_in_all_of_time(tmp_path):
    held = [{"until": "2000-01-01"}, {"since": "2010-01-01"}]
    with og.init(tmp_path / "g", LINKS) as graph:
        graph.load(
            [
                *({"type": "Stop", "data": {"code": code}} for code in "ab"),
                *({"edge": "Next", "from": "a", "to": "b", "data": one} for one in held),
            ]
        )
        text = "match { $a next $b } return { count(*) as n }"
        for as_of, pairs in (("ever", 1), ("1999-01-01", 1), ("2005-01-01", 0)):
            assert graph.query(text, engine="spark", as_of=as_of).scalar() == pairs


def test_a_rule_of_today_says_nothing_of_the_past(tmp_path):
    schema = "node Stop { code: String @key } edge Next: Stop -> Stop { no: I32%s }"
    with og.init(tmp_path / "g", schema % "") as graph:
        graph.load(
            [
                *({"type": "Stop", "data": {"code": code}} for code in "ab"),
                *({"edge": "Next", "from": "a", "to": "b", "data": {"no": no}} for no in (1, 2)),
            ]
        )
        graph.tags.create("before")
        graph.mutate("delete Next where no = 2")
        graph.schema.apply(schema % " @unique(src, dst)")
        text = "match { $a next $b } return { count(*) as n }"
        for target in ({"tag": "before"}, {}):
            assert graph.query(text, engine="spark", **target).scalar() == 1


QUESTIONS = [
    "match { $a: Person  $a knows $b  $b knows $c } return { $a.name, count(*) as n } order { n desc }",
    "match { $a: Person  not { $a knows $b } } return { count(*) as n }",
    "match { $a: Person  optional { $a knows $b  $b.age > 30 } } return { $a.name, $b.name } order { $a.name }",
    "match { $a knows{1,3} $b } return { $a.name, $b.name } order { $a.name }",
    "match { $a $p:knows{2,3} $b } return { $a.name as a, $b.name as b, length($p) as n } order { a }",
    "match { $a: Person } return { $a.city, sum($a.pay) as s, collect($a.name) as names } order { $a.city }",
    "match { $a: Person } return { count(*) as n } offset 1",
    "match { $a: Person } return { $a.name as n } order { n } limit 2147483647 offset 1",
    "match { $a: Person  $a $p:knows{1,3} $a } return { $a.name as a, length($p) as n } order { a }",
    "match { $a $e:knows $b } return { $a.name as n, $a { name, pay } as a, collect($e { * }) as e } order { n }",
    (
        "query all() { match { $a: Person } return { count(*) as n } }\n"
        "match { $b: Person  $r: all() } return { $b.name as b, $r.n as n } order { b }"
    ),
    *(
        f"query all() {{ match {{ $a knows $b }} return {{ $a.name as n, collect($b {{ age }}) as k, $a {{ pay }} as w }} }}\n"
        f"match {{ $p: Person  optional {{ $r: all()  $r.n = $p.name  $p.age > 20 }} }} return {{ {shown} }} order {{ {key} }}"
        for shown, key in [
            ("$p.name as p, $r.k as k, $r.w as w", "p"),
            ("$r.k as k, count(*) as n", "n"),
        ]
    ),
]


@pytest.mark.parametrize("text", QUESTIONS)
def test_small_questions(people, text):
    assert judged(people, text) == "equal"


@pytest.mark.parametrize("text", QUESTIONS[:4])
def test_tables_too_large_for_every_executor(people, monkeypatch, text):
    monkeypatch.setattr("omnigraph.spark.queries.rows.SMALL_ROWS", 0)
    monkeypatch.setattr("omnigraph.spark.queries.relations.SMALL_ROWS", 0)
    assert judged(people, text) == "equal"


def test_a_two_hop_count_by_hand(people):
    # ann-bob-cy, ann-cy-di, bob-cy-di, cy-di-di, di-di-di: parallel edges are one pair.
    text = "match { $a knows $b  $b knows $c } return { count(*) as n }"
    assert people.query(text, engine="spark").scalar() == 5


def test_a_sum_beyond_64_bits_is_the_same_error(tmp_path):
    with og.init(tmp_path / "g", "node T { k: String @key  n: I64 }") as graph:
        graph.load([{"type": "T", "data": {"k": k, "n": 2**62}} for k in "abc"])
        text = "match { $t: T } return { sum($t.n) as s }"
        with pytest.raises(BadRequest, match="overflow") as here:
            graph.query(text)
        with pytest.raises(BadRequest) as there:
            graph.query(text, engine="spark")
        assert str(there.value) == str(here.value)


@pytest.mark.parametrize(
    ("variables", "shown"),
    [
        (5, "count(*) as n"),
        (4, "sum($x0.n) as s"),
        (4, "$x0.n as n, count(*) as c, sum($x0.n) as s"),
    ],
)
def test_counts_and_sums_beyond_64_bits_are_the_same_errors(tmp_path, variables, shown):
    names = pa.array([f"{at}" for at in range(2**13)])
    numbers = pa.array([2**20] * 2**13, pa.int32())
    every = "  ".join(f"$x{at}: T" for at in range(variables))
    with og.init(tmp_path / "g", "node T { k: String @key  n: I32 }") as graph:
        graph.load_nodes("T", pa.table({"k": names, "n": numbers}))
        text = f"match {{ {every} }} return {{ {shown} }}"
        with pytest.raises(OmniGraphError) as here:
            graph.query(text)
        with pytest.raises(type(here.value)) as there:
            graph.query(text, engine="spark")
        assert str(there.value) == str(here.value)


# ------------------------------------------------------------------ who answers


class TestAuto:
    text = "match { $a knows $b } return { $a.name as a, count($b) as n } order { a }"

    def test_here_where_the_edges_fit(self, people):
        assert people.explain(self.text).spark_plan is None

    def test_spark_where_they_do_not(self, people, spark, monkeypatch):
        monkeypatch.setenv("OMNIGRAPH_CACHE_MB", "0")
        monkeypatch.setenv("OMNIGRAPH_TRAVERSAL_MODE", "csr")
        before = jobs_run(spark)
        found = people.query(self.text)
        assert jobs_run(spark) > before
        assert found.rows == people.query(self.text, engine="local").rows
        assert people.explain(self.text).spark_plan is not None

    @pytest.mark.parametrize(
        "text",
        [
            "match { $a knows{1,} $b } return { $a.name as a, count($b) as n } order { a }",
            "match { $a $p:knows{1,2} $b } return { nodes($p) as n } limit 1",
            "match { $a: Person } return { count(*) as n }",
        ],
        ids=["an open bound", "a path", "no edges"],
    )
    def test_here_what_spark_refuses_or_needs_no_edges(self, people, spark, monkeypatch, text):
        monkeypatch.setenv("OMNIGRAPH_CACHE_MB", "0")
        monkeypatch.setenv("OMNIGRAPH_TRAVERSAL_MODE", "csr")
        before = jobs_run(spark)
        assert people.query(text).row_count >= 1
        assert jobs_run(spark) == before

    def test_here_what_indexes_find(self, people, spark, monkeypatch):
        monkeypatch.setenv("OMNIGRAPH_CACHE_MB", "0")
        monkeypatch.setenv("OMNIGRAPH_TRAVERSAL_MODE", "indexed")
        before = jobs_run(spark)
        assert people.query(self.text).row_count == 4
        assert jobs_run(spark) == before


def jobs_run(spark):
    """The jobs that the session has run."""
    return len(spark.sparkContext.statusTracker().getJobIdsForGroup(None))


# ------------------------------------------------------------------ counted joins


def test_counted_variables_make_no_rows(people):
    text = "match { $a knows $b  $b knows $c  $c knows $d } return { count(*) as n }"
    told = people.explain(text, engine="spark")
    assert "on Spark:" in told.text
    joins = re.findall(r"Join", told.spark_plan)
    groups = told.spark_plan.count("HashAggregate") + told.spark_plan.count("SortAggregate")
    # Each variable at an end is grouped before it joins: three groupings at least for three traversals.
    assert joins
    assert groups >= 3
    assert people.query(text, engine="spark").scalar() == people.query(text).scalar()


# ------------------------------------------------------------------ frames


def test_a_frame_is_lazy_and_of_the_running_session(people, spark):
    frame = people.frame(
        "match { $a: Person } return { $a.name as name, $a.age as age } order { age desc }"
    )
    assert frame.sparkSession is spark
    assert frame.dtypes == [("name", "string"), ("age", "int")]
    assert [row["name"] for row in rows(frame)] == ["bob", "ann", "di", "cy"]
    assert frame.where("age > 25").count() == 2


def test_a_frame_takes_parameters_and_a_target(people):
    text = "query old($least: I32) { match { $a: Person  $a.age >= $least } return { $a.name as name } }"
    frame = people.frame(text, {"least": 30}, branch="main")
    assert sorted(row["name"] for row in rows(frame)) == ["ann", "bob"]


def test_a_count_beyond_64_bits_ends_the_job_of_a_frame_without_ansi_rules(tmp_path, spark):
    names = pa.array([f"{at}" for at in range(2**13)])
    with og.init(tmp_path / "g", "node T { k: String @key }") as graph:
        graph.load_nodes("T", pa.table({"k": names}))
        before = spark.conf.get("spark.sql.ansi.enabled")
        spark.conf.set("spark.sql.ansi.enabled", "false")
        try:
            one = graph.frame("match { $a: T } return { count(*) as n }")
            many = graph.frame(
                "match { $a: T  $b: T  $c: T  $d: T  $e: T } return { count(*) as n }"
            )
            assert one.sparkSession is spark
            assert rows(one) == [{"n": 2**13}]
            with pytest.raises(ArithmeticException, match="ARITHMETIC_OVERFLOW"):
                many.collect()
        finally:
            spark.conf.set("spark.sql.ansi.enabled", before)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('insert Person { name: "eve" }', "mutation"),
        ("match { $a knows{1,} $b } return { $a }", "an open bound"),
        ("match { $a $p:knows{1,2} $b } return { nodes($p) as n }", "`nodes`"),
        ("match { $a $p:knows{1,2} $b } return { edges($p) as n }", "`edges`"),
        ("match { $a $p:knows{1,2} $b } return { $p }", "a bare path"),
        ("match { $a $p:knows by since $b } return { cost($p) as c }", "`by`"),
    ],
)
def test_what_has_no_frame(people, text, message):
    with pytest.raises(BadRequest, match=re.escape(message)):
        people.frame(text)


def test_the_documents_name_every_refused_form():
    table = DOCS.read_text(encoding="utf-8")
    for one in (*REFUSED, *REFUSED_MOMENTS):
        assert f"`{one.example}`".replace("|", "\\|") in table, one
    # Those that the specification names (query-extensions.md, E46), the path that holds two of
    # them, and plans that are too deep.
    assert {one.form for one in REFUSED} == {
        "an open bound",
        "many hops",
        "`nodes`",
        "`edges`",
        "`by`",
        "a bare path",
    }


def test_hops_of_a_small_graph_are_as_few_as_its_nodes(people):
    text = "match { $a $p:knows{2,99} $b } return { $a, $b, length($p) as n }"
    assert judged(people, text) == "equal"


FIFTY = [f"p{at}" for at in range(50)]
NEAR = "query near() { match { $a knows{1,%d} $b } return { $a as a, $b as b } }\n"
FAR = "match { $r: near()  $a: Person  $a = $r.a  $a knows{1,%d} $c } return { $c.name as c }"


def test_many_hops_are_refused_all_together(tmp_path):
    with og.init(tmp_path / "g", SCHEMA) as graph:
        graph.load_nodes("Person", pa.table({"name": FIFTY}))
        with pytest.raises(BadRequest, match="at most 40"):
            graph.query("match { $a knows{1,41} $b } return { $a }", engine="spark")
        with pytest.raises(BadRequest, match="many hops"):
            graph.frame(NEAR % 2 + FAR % 39)


@pytest.mark.thorough
def test_as_many_hops_as_there_may_be(tmp_path):
    with og.init(tmp_path / "g", SCHEMA) as graph:
        graph.load_nodes("Person", pa.table({"name": FIFTY}))
        pairs = {"from": FIFTY[:-1], "to": FIFTY[1:]}
        graph.load_edges("Knows", pa.table(pairs))
        text = (
            "match { $a $p:knows{1,40} $b } return { length($p) as n, count(*) as c } order { n }"
        )
        assert judged(graph, text) == "equal"
        assert graph.frame(NEAR % 19 + FAR % 21).columns == ["c"]


# ------------------------------------------------------------------ snapshots


def test_a_frame_keeps_its_snapshot(tmp_path):
    with filled(tmp_path / "g") as graph:
        frame = graph.frame("match { $a knows $b } return { $a.name as a, $b.name as b }")
        before = sorted(map(str, rows(frame)))
        graph.mutate('delete Person where name = "ann"')
        graph.optimize()
        graph.cleanup(keep_versions=10)
        assert sorted(map(str, rows(frame))) == before
        left = graph.frame("match { $a knows $b } return { $a.name as a, $b.name as b }")
        assert left.count() == 3


def test_a_read_goes_on_beside_a_writer_and_a_cleanup(tmp_path, monkeypatch):
    monkeypatch.setattr("omnigraph.spark.queries.tables.PARTITION_ROWS", 1)
    with filled(tmp_path / "g") as graph:
        frame = graph.frame("match { $a: Person } return { $a.name as name, $a.age as age }")
        read = frame.toLocalIterator()  # one partition after the other
        found = [next(read)]
        graph.mutate('update Person set { age: 99 } where name != "ann"')
        graph.mutate('delete Person where name = "ann"')
        graph.optimize()
        graph.cleanup(keep_versions=10)
        found += read
        assert {row["name"]: row["age"] for row in found} == {
            name: age for name, (_, age, _) in PEOPLE.items()
        }


def test_a_snapshot_that_is_gone(tmp_path):
    with filled(tmp_path / "g") as graph:
        frame = graph.frame("match { $a: Person } return { $a.name }")
        graph.mutate('update Person set { age: 1 } where name = "ann"')
        graph.optimize()
        graph.cleanup(keep_versions=1)
        with pytest.raises(Exception, match="the pinned version of Person was removed"):
            frame.collect()


WITHOUT_SPARK = """
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "pyspark":
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Hidden())
import importlib.util
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == "pyspark" else find(name, *rest)
import os
import omnigraph as og
from omnigraph.errors import OmniGraphError

# With a master and too little memory, `auto` would rather ask Spark.
os.environ |= {
    "OMNIGRAPH_SPARK_MASTER": "local[1]",
    "OMNIGRAPH_CACHE_MB": "0",
    "OMNIGRAPH_TRAVERSAL_MODE": "csr",
}
with og.open(sys.argv[1], "r") as graph:
    degree = graph.algorithms.degree
    assert degree("Knows").engine == "local"
    assert graph.query("match { $a knows $b } return { count(*) as n }").scalar() == 5
    for ask in (
        lambda text: graph.query(text, engine="spark"),
        graph.frame,
        lambda _: degree("Knows", engine="spark"),
    ):
        try:
            ask("match { $a: Person } return { $a }")
        except OmniGraphError as error:
            print(error.code, error)
"""


def test_without_spark_it_says_what_to_install(people):
    command = [sys.executable, "-c", WITHOUT_SPARK, people.uri]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert len(told) == 3
    assert all(line.startswith("bad_request Spark is not installed") for line in told)


def test_an_engine_that_is_none(people):
    with pytest.raises(BadRequest, match="engine"):
        people.query("match { $a: Person } return { $a }", engine="duck")
