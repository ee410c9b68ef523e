"""Graph algorithms on Spark: the rounds and values of the local engine, and the way back into the graph."""

import contextlib
import io
import re
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.algorithms.definitions import DEFINITIONS
from omnigraph.algorithms.spark import frame_rows
from omnigraph.algorithms.spark.spark_graph import Sizes, SparkGraph
from omnigraph.errors import BadRequest, ExpectedVersionMismatch, QueryCancelled
from tests.algorithms import test_against_networkx as judged
from tests.algorithms.random_graphs import NAMES, SCHEMA, TYPES, fill, values
from tests.algorithms.test_graphalytics import SCHEMA as OF_LDBC
from tests.algorithms.test_graphalytics import WAYS, groups, output_of, padded
from tests.algorithms.test_graphalytics import fill as fill_ldbc
from tests.conformance.algorithm_cases import run_algorithm_case
from tests.conformance.case_files import all_cases
from tests.graphs import graph_of
from tests.stored import read_back

pytestmark = pytest.mark.usefixtures("spark")
graph = graph_of(SCHEMA, fill, scope="module", upkeep="off")

CALLS = {
    "degree": ("degree", {"direction": "both"}),
    "pagerank": ("pagerank", {"tolerance": 0, "max_iterations": 2}),
    "pagerank-weights": (
        "pagerank", {"weight": "w", "sources": [NAMES[1], NAMES[30]], "max_iterations": 2},
    ),
    "components": ("connected_components", {}),
    "triangles": ("triangle_count", {}),
    "clustering": ("clustering", {"directed": True}),
    "labels": ("label_propagation", {"max_iterations": 2}),
    "labels-directed": ("label_propagation", {"max_iterations": 2, "directed": True}),
}  # fmt: skip
ON_SPARK = sorted(name for name, one in DEFINITIONS.items() if one.on_spark)
SMALL = Sizes(partition=60, hub=12, broadcast=0)
"""Several partitions, hubs apart, and nothing sent to every executor."""


def on_both(graph, name, *edges, **options):
    """The result on Spark, which is the one of the local engine."""
    here = getattr(graph.algorithms, name)(*edges, engine="local", **options)
    there = getattr(graph.algorithms, name)(*edges, engine="spark", **options)
    assert (there.engine, there.iterations, there.converged) == (
        "spark", here.iterations, here.converged,
    )  # fmt: skip
    assert there.graph_commit_id == here.graph_commit_id
    assert there.to_arrow().schema == here.to_arrow().schema
    one, other = values(here), values(there)
    assert list(one) == list(other)
    if DEFINITIONS[name].column in {"rank", "coefficient"}:
        assert other == pytest.approx(one, abs=1e-9, rel=0)
    else:
        assert other == one
    return there


@pytest.mark.sampled(4, every=())
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("type_name", TYPES)
def test_the_values_of_the_local_engine(graph, call, type_name):
    name, options = CALLS[call]
    on_both(graph, name, type_name, **options)


@pytest.mark.sampled(2, every=())
@pytest.mark.parametrize("call", CALLS)
def test_several_partitions_and_hubs(graph, monkeypatch, call):
    monkeypatch.setattr(SparkGraph, "sizes", SMALL)
    name, options = CALLS[call]
    on_both(graph, name, ["E7", "E8"], **options)


@pytest.mark.sampled(1, every=())
@pytest.mark.parametrize("name", ["pagerank", "label_propagation"])
@pytest.mark.parametrize("rounds", [1, 2, 3, 5, 9])
def test_round_by_round(graph, name, rounds):
    told = []
    found = on_both(
        graph, name, "E6", max_iterations=rounds, progress=lambda *one: told.append(one)
    )
    assert told == 2 * [(done, rounds) for done in range(1, found.iterations + 1)]


class OnSpark:
    """A graph whose algorithms run on Spark, but for what runs in this process only."""

    def __init__(self, graph):
        self.algorithms = self
        self._graph = graph

    def __getattr__(self, name):
        def call(*args, **options):
            engine = "local" if options.get("strong") else "spark"
            return getattr(self._graph.algorithms, name)(*args, engine=engine, **options)

        return call


# The local engine, whose values Spark must have, is judged in every run.
@pytest.mark.thorough
@pytest.mark.parametrize("at", range(len(TYPES)), ids=TYPES)
@pytest.mark.parametrize(
    "judge",
    [judged.test_degree, judged.test_components, judged.test_triangles_and_clustering,
     judged.test_directed_clustering],
)  # fmt: skip
def test_networkx_as_the_judge(graph, at, judge):
    judge(OnSpark(graph), at)


@pytest.mark.thorough
@pytest.mark.parametrize("at", [0, 3, 6, 9])
def test_networkx_and_the_reference_as_judges_of_rounds(graph, at):
    judged.test_pagerank(OnSpark(graph), at, 0.5)
    for is_directed in (False, True):
        judged.test_label_propagation(OnSpark(graph), at, is_directed)


CASES = [
    case
    for case in all_cases()
    if case.kind == "algorithms"
    and case.body["algorithm"] in ON_SPARK
    and not case.body["args"].get("strong")
]


# What takes tens of rounds.
LONG = [
    case
    for case in CASES
    if case.body["algorithm"] in {"pagerank", "label_propagation"}
    and "max_iterations" not in case.body["args"]
]


@pytest.mark.sampled(2, every=())
@pytest.mark.parametrize(
    "case", [case for case in CASES if case not in LONG], ids=lambda case: case.body["id"]
)
def test_conformance(case):
    run_algorithm_case(case, engine="spark")


@pytest.mark.thorough
@pytest.mark.parametrize("case", LONG, ids=lambda case: case.body["id"])
def test_conformance_of_many_rounds(case):
    run_algorithm_case(case, engine="spark")


ldbc = graph_of(OF_LDBC, fill_ldbc, scope="module", upkeep="off")


class TestGraphalytics:
    @pytest.mark.sampled(1, every=())
    @pytest.mark.parametrize("way", WAYS)
    @pytest.mark.parametrize("folder", ["wcc", "cdlp", "lcc"])
    def test_what_every_implementation_must_give(self, ldbc, folder, way):
        edges, is_directed = f"E_{folder}_{way}", way == "dir"
        wanted = output_of(folder, way)
        if folder == "wcc":
            found = on_both(ldbc, "connected_components", edges)
            assert groups(values(found)) == groups(wanted)
        elif folder == "cdlp":
            options = {"max_iterations": 5, "directed": is_directed}
            found = on_both(ldbc, "label_propagation", edges, **options)
            assert values(found) == {one: padded(value) for one, value in wanted.items()}
        else:
            found = on_both(ldbc, "clustering", edges, directed=is_directed)
            wanted = {one: float(value) for one, value in wanted.items()}
            assert values(found) == pytest.approx(wanted, abs=1e-9)

    @pytest.mark.thorough
    @pytest.mark.parametrize("way", WAYS)
    def test_pagerank(self, ldbc, way):
        rounds = {"dir": 14, "undir": 26}[way]
        found = on_both(ldbc, "pagerank", f"E_pr_{way}", tolerance=0, max_iterations=rounds)
        wanted = {one: float(value) for one, value in output_of("pr", way).items()}
        assert values(found) == pytest.approx(wanted, rel=1e-4)


loops = graph_of(
    "node One { name: String @key }  edge Loop: One -> One { w: F64? }",
    [
        *({"type": "One", "data": {"name": name}} for name in "ab"),
        *({"edge": "Loop", "from": "b", "to": "b", "data": {"w": weight}} for weight in (-1, -3)),
        {"edge": "Loop", "from": "a", "to": "a", "data": {"w": -2}},
    ],
    scope="module",
)


class TestSmallGraphs:
    nobody = 'match { $n: One { name: "?" } } return { $n }'
    alone = 'match { $n: One { name: "a" } } return { $n }'

    @pytest.mark.sampled(3, every=("nodes",))
    @pytest.mark.parametrize("nodes", [nobody, alone, "One"], ids=["none", "one", "loops"])
    @pytest.mark.parametrize("name", ON_SPARK)
    def test_no_node_one_node_and_loops_only(self, loops, name, nodes):
        found = on_both(loops, name, "Loop", nodes=nodes)
        assert len(found) == {self.nobody: 0, self.alone: 1, "One": 2}[nodes]

    def test_bad_input(self, loops):
        for engine in ("local", "spark"):
            with pytest.raises(BadRequest, match=r"w of 3 edges cannot .* -3\.0; "):
                loops.algorithms.pagerank("Loop", weight="w", engine=engine)
        with pytest.raises(BadRequest, match="sources has the id `c` and 1 more"):
            loops.algorithms.pagerank("Loop", sources=["a", "c", "d"], engine="spark")


def test_auto_is_spark_for_what_does_not_fit_here(graph, monkeypatch):
    assert graph.algorithms.degree("E3").engine == "local"
    monkeypatch.setenv("OMNIGRAPH_CACHE_MB", "0")
    assert graph.algorithms.degree("E3").engine == "spark"
    assert graph.algorithms.kcore("E3").engine == "local"
    assert graph.algorithms.connected_components("E3", strong=True).engine == "local"


def test_cancel_between_rounds(graph):
    cancel, told = og.Cancel(), []

    def progress(done, _):
        told.append(done)
        if done == 2:
            cancel.cancel()

    with pytest.raises(QueryCancelled):
        graph.algorithms.pagerank(
            "E5", tolerance=0, max_iterations=50, progress=progress, cancel=cancel, engine="spark"
        )
    assert told == [1, 2]


def test_a_run_that_ends_while_it_begins_keeps_nothing(graph, spark, monkeypatch):
    def held():
        return spark._jsparkSession.sharedState().cacheManager().numCachedEntries()

    def stopped(*_):
        raise QueryCancelled("stopped")

    before = held()
    monkeypatch.setattr(SparkGraph, "ask", stopped)
    with pytest.raises(QueryCancelled):
        graph.algorithms.degree("E5", engine="spark")
    assert held() == before


def test_the_page_of_the_manual(tmp_path, monkeypatch):
    page = Path(__file__).parents[2] / "docs" / "user" / "citations-on-spark.md"
    monkeypatch.chdir(tmp_path)
    namespace, printed = {}, io.StringIO()
    fence = re.compile(r"^```(py|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    for language, text in fence.findall(page.read_text("utf-8")):
        if language == "py":
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(text, str(page), "exec"), namespace)
        else:
            assert printed.getvalue() == text
    namespace["graph"].close()


people = graph_of(
    """
    node Person { name: String @key  few: I32?  small: F32?  group: String?  core: I64? }
    edge Knows: Person -> Person
    """,
    [
        *({"type": "Person", "data": {"name": name}} for name in "abc"),
        {"edge": "Knows", "from": "a", "to": "b"},
    ],
)


class TestResults:
    def test_frames_of_both_engines(self, people, spark):
        for engine in ("local", "spark"):
            found = people.algorithms.connected_components("Knows", engine=engine)
            frame = found.frame()
            assert frame.sparkSession is spark
            assert frame.dtypes == [("id", "string"), ("component", "string")]
            assert [tuple(row) for row in frame.collect()] == [
                ("a", "a"), ("b", "a"), ("c", "c"),
            ]  # fmt: skip
        assert str(found).splitlines()[0] == "connected_components of 3 nodes"
        assert people.algorithms.degree("Knows").frame().dtypes[1] == ("degree", "bigint")

    def test_one_commit_and_none_when_nothing_differs(self, people):
        before = len(people.commits.list())
        degrees = people.algorithms.degree("Knows", engine="spark")
        assert degrees.write("few", actor="ada").actor_id == "ada"
        assert len(people.commits.list()) == before + 1
        rows = read_back(people).nodes["Person"]
        assert {name: data["few"] for name, data in rows.items()} == {"a": 1, "b": 0, "c": 0}
        again = people.algorithms.degree("Knows", engine="spark")
        assert again.write("few") is None
        with pytest.raises(ExpectedVersionMismatch):
            degrees.write("core")  # the rows it read have other values by now
        with pytest.raises(BadRequest, match="I64"):
            again.write("group")

    @pytest.mark.sampled(1, every=())
    @pytest.mark.parametrize(
        ("name", "prop"),
        [("pagerank", "small"), ("connected_components", "group"), ("triangle_count", "core")],
    )
    def test_many_rows_are_loaded_where_they_are(self, people, monkeypatch, name, prop):
        monkeypatch.setattr(frame_rows, "FETCHED_ROWS", 0)
        before = len(people.commits.list())
        found = getattr(people.algorithms, name)("Knows", engine="spark")
        assert found.write(prop) is not None
        assert len(people.commits.list()) == before + 1
        rows = read_back(people).nodes["Person"]
        stored = {one: data[prop] for one, data in rows.items()}
        assert stored == (
            pytest.approx(values(found), rel=1e-6) if prop == "small" else values(found)
        )
        if prop != "small":
            assert getattr(people.algorithms, name)("Knows", engine="local").write(prop) is None
