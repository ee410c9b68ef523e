"""`graph.algorithms`: what is asked for and refused, parts of a graph, states of it, progress, results."""

import pickle

import numpy as np
import pandas as pd
import pytest

import omnigraph as og
from omnigraph.algorithms.definitions import DEFINITIONS
from omnigraph.algorithms.node_graph import check_weights
from omnigraph.errors import BadRequest, OmniGraphError, QueryCancelled
from tests.algorithms.random_graphs import values
from tests.graphs import graph_of

SCHEMA = """
node Person { name: String @key  age: I32? }
node Note { text: String }
node Empty { name: String @key }
edge Knows: Person -> Person { w: F64?  n: I32?  since: Date? }
edge Likes: Person -> Person { w: I64? }
edge Wrote: Person -> Note
edge Cites: Note -> Note
edge Loops: Empty -> Empty
"""


def fill(graph):
    people = [
        {"type": "Person", "data": {"name": name, "age": at}} for at, name in enumerate("abcdef")
    ]
    knows = [
        ("a", "b", 1),
        ("b", "c", 2),
        ("c", "a", 3),
        ("c", "d", 4),
        ("d", "d", 5),
        ("a", "b", 6),
    ]
    edges = [
        {"edge": "Knows", "from": a, "to": b, "data": {"w": w, "n": w, "since": "2024-01-01"}}
        for a, b, w in knows
    ]
    likes = [{"edge": "Likes", "from": "e", "to": "a", "data": {"w": 3}}]
    graph.load([*people, *edges, *likes])


graph = graph_of(SCHEMA, fill, scope="module")
NAMES = sorted(DEFINITIONS)


def call(graph, name, *args, **options):
    return getattr(graph.algorithms, name)(*args, **options)


NAMED = "query some() { match { $p: Person } return { $p } } "


def refused(graph, name, *words, **options):
    with pytest.raises(BadRequest) as caught:
        call(graph, name, **{"edges": "Knows", **options})
    for word in words:
        assert word in caught.value.message
    # What is wrong, then what to do about it.
    assert ";" in caught.value.message


class TestRefusals:
    @pytest.mark.parametrize("name", NAMES)
    @pytest.mark.parametrize(
        ("edges", "words"),
        [
            ("Knowz", ("Knowz", "Knows")),
            ("Wrote", ("Wrote", "Person", "Note")),
            (["Knows", "Cites"], ("Knows", "Cites", "Person", "Note")),
            ([], ("edges",)),
            (None, ("edges",)),
            ([3], ("3",)),
        ],
    )
    def test_edges(self, graph, name, edges, words):
        refused(graph, name, *words, edges=edges)

    @pytest.mark.parametrize(
        ("name", "options", "words"),
        [
            ("pagerank", {"damping": 1.5}, ("damping", "1.5")),
            ("pagerank", {"damping": -0.1}, ("damping",)),
            ("pagerank", {"damping": float("nan")}, ("damping",)),
            ("pagerank", {"damping": "high"}, ("damping",)),
            ("pagerank", {"tolerance": -1e-9}, ("tolerance",)),
            ("pagerank", {"tolerance": float("inf")}, ("tolerance",)),
            ("pagerank", {"tolerance": 10**400}, ("tolerance",)),
            ("pagerank", {"max_iterations": 0}, ("max_iterations",)),
            ("pagerank", {"max_iterations": True}, ("max_iterations",)),
            ("pagerank", {"sources": ["a", "zz"]}, ("sources", "zz")),
            ("pagerank", {"sources": "a"}, ("sources",)),
            ("pagerank", {"sources": []}, ("sources",)),
            ("pagerank", {"sources": [1]}, ("sources", "1")),
            ("pagerank", {"weight": "since"}, ("since", "Date")),
            ("pagerank", {"weight": "x"}, ("Knows", "x")),
            ("pagerank", {"weight": 1}, ("weight",)),
            ("label_propagation", {"max_iterations": 0}, ("max_iterations",)),
            ("label_propagation", {"directed": 1}, ("directed",)),
            ("connected_components", {"strong": "yes"}, ("strong",)),
            ("clustering", {"directed": None}, ("directed",)),
            ("degree", {"direction": "up"}, ("direction", "up")),
            ("betweenness", {"direction": None}, ("direction",)),
            ("louvain", {"resolution": 0}, ("resolution",)),
            ("kcore", {"weight": "w"}, ("kcore", "pagerank", "louvain")),
            ("kcore", {"engine": "gpu"}, ("engine", "gpu")),
            ("kcore", {"progress": 3}, ("progress",)),
        ],
    )
    def test_parameters(self, graph, name, options, words):
        refused(graph, name, *words, **options)

    @pytest.mark.parametrize("name", ["kcore", "louvain", "betweenness"])
    def test_what_does_not_run_on_spark(self, graph, name):
        refused(graph, name, name, "spark", "local", engine="spark")

    def test_strong_components_do_not_run_on_spark(self, graph):
        refused(
            graph, "connected_components", "connected_components", "strong", "spark",
            strong=True, engine="spark",
        )  # fmt: skip

    @pytest.mark.parametrize(
        ("nodes", "words"),
        [
            ("Note", ("Note", "Person")),
            ("Persn", ("Persn", "Person")),
            ("match { $n: Note } return { $n }", ("Note", "Person")),
            ("match { $p: Person } return { $p, $p.name }", ("2 columns",)),
            ("match { $p: Person } return { $p.name }", ("name",)),
            (7, ("nodes", "7")),
            (NAMED + NAMED.replace("some", "others"), ("nodes is the text of one query",)),
            ("// nothing", ("nodes is the text of one query",)),
        ],
    )
    def test_nodes(self, graph, nodes, words):
        refused(graph, "degree", *words, nodes=nodes)

    def test_nodes_of_a_mutation(self, graph):
        with pytest.raises(OmniGraphError, match="mutat"):
            graph.algorithms.degree("Knows", nodes='insert Person { name: "z" }')
        assert graph.query('match { $p: Person { name: "z" } } return { $p }').row_count == 0

    def test_parameters_without_a_query(self, graph):
        refused(graph, "degree", "params", params={"x": 1})

    def test_negative_weights(self, tmp_path):
        with og.init(tmp_path / "g", SCHEMA) as graph:
            fill(graph)
            graph.load([{"edge": "Knows", "from": "a", "to": "f", "data": {"w": -1.0}}])
            for name in ("pagerank", "louvain"):
                refused(graph, name, "w", "-1.0", "1 edge", weight="w")
            # Where that edge is no part of the graph, its weight does not matter.
            part = 'match { $p: Person  $p.name < "e" } return { $p }'
            assert len(graph.algorithms.pagerank("Knows", weight="w", nodes=part)) == 4

    @pytest.mark.parametrize("weight", [-1e-300, float("nan"), float("inf")])
    def test_weights_that_cannot_be_added_up(self, graph, weight):
        # Only another program can store some of these.
        with pytest.raises(BadRequest, match="w of 1 edge cannot"):
            check_weights("w", np.array([0.0, 1.0, weight]))

    def test_what_no_algorithm_takes(self, graph):
        with pytest.raises(TypeError, match="samples"):
            graph.algorithms.betweenness("Knows", samples=3)


class TestParts:
    def test_a_type_is_all_its_nodes(self, graph):
        assert graph.algorithms.degree("Knows", nodes="Person") == graph.algorithms.degree("Knows")

    def test_edge_types_are_found_as_in_queries(self, graph):
        assert values(graph.algorithms.degree("knows")) == values(graph.algorithms.degree("Knows"))

    def test_a_query_with_parameters(self, graph):
        nodes = "query old($age: I32) { match { $p: Person  $p.age >= $age } return { $p } }"
        found = graph.algorithms.degree("Knows", direction="both", nodes=nodes, params={"age": 2})
        assert values(found) == {"c": 1, "d": 3, "e": 0, "f": 0}

    @pytest.mark.parametrize("name", NAMES)
    def test_nodes_that_come_twice_and_out_of_order_count_once(self, graph, name):
        twice = "match { $p: Person  $q: Person  $p.age < 4 } return { $p } order { $q.age desc }"
        once = "match { $p: Person  $p.age < 4 } return { $p }"
        one, other = (call(graph, name, "Knows", nodes=nodes) for nodes in (twice, once))
        assert one == other
        assert list(values(one)) == ["a", "b", "c", "d"]

    @pytest.mark.parametrize("name", NAMES)
    def test_all_nodes_by_a_query_are_the_graph(self, graph, name):
        weight = {"weight": "w"} if DEFINITIONS[name].takes_weight else {}
        nodes = "match { $p: Person } return { $p }"
        assert call(graph, name, "Knows", nodes=nodes, **weight) == call(
            graph, name, "Knows", **weight
        )

    @pytest.mark.parametrize("name", NAMES)
    def test_no_node(self, graph, name):
        found = call(graph, name, "Knows", nodes='match { $p: Person { name: "?" } } return { $p }')
        assert (len(found), found.converged) == (0, True)
        assert found.columns == ["id", DEFINITIONS[name].column]
        assert found.to_arrow().schema.field(1).type == DEFINITIONS[name].kind.arrow_type()
        assert len(call(graph, name, "Loops")) == 0

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("degree", 1), ("pagerank", 1.0), ("connected_components", "d"), ("clustering", 0.0),
            ("triangle_count", 0), ("label_propagation", "d"), ("kcore", 0), ("louvain", "d"),
            ("betweenness", 0.0),
        ],
    )  # fmt: skip
    def test_one_node_with_a_loop(self, graph, name, value):
        found = call(graph, name, "Knows", nodes='match { $p: Person { name: "d" } } return { $p }')
        assert values(found) == {"d": value}

    def test_several_edge_types_and_their_weights(self, graph):
        both = graph.algorithms.degree(["Knows", "Likes"], direction="in")
        assert values(both)["a"] == 2
        again = graph.algorithms.degree(["Knows", "Likes", "Knows"], direction="in")
        assert again == both
        ranks = values(graph.algorithms.pagerank(["Knows", "Likes"], weight="w", tolerance=1e-12))
        assert ranks["a"] > values(graph.algorithms.pagerank("Knows", weight="w"))["a"]

    def test_integers_weigh_as_floats_do(self, graph):
        one = graph.algorithms.pagerank("Knows", weight="n")
        assert values(one) == values(graph.algorithms.pagerank("Knows", weight="w"))

    def test_sources_outside_the_part(self, graph):
        part = 'match { $p: Person  $p.name < "e" } return { $p }'
        refused(graph, "pagerank", "sources", "f", nodes=part, sources=["f"])
        found = graph.algorithms.pagerank("Knows", nodes=part, sources=["a", "a"])
        assert found == graph.algorithms.pagerank("Knows", nodes=part, sources=["a"])


class TestRounds:
    def test_progress_after_each_round(self, graph):
        told = []
        found = graph.algorithms.pagerank(
            "Knows", max_iterations=4, tolerance=0, progress=lambda *one: told.append(one)
        )
        assert told == [(1, 4), (2, 4), (3, 4), (4, 4)]
        assert (found.iterations, found.converged) == (4, False)

    def test_progress_where_the_number_of_rounds_is_open(self, graph):
        told = []
        found = graph.algorithms.louvain("Knows", progress=lambda *one: told.append(one))
        assert told == [(done, 0) for done in range(1, found.iterations + 1)]

    def test_betweenness_counts_nodes(self, graph):
        told = []
        graph.algorithms.betweenness("Knows", progress=lambda *one: told.append(one))
        assert told == [(done, 6) for done in range(1, 7)]

    def test_cancel_between_rounds(self, graph):
        cancel, told = og.Cancel(), []

        def progress(done, _):
            told.append(done)
            if done == 3:
                cancel.cancel()

        with pytest.raises(QueryCancelled):
            graph.algorithms.pagerank(
                "Knows", tolerance=0, max_iterations=1000, progress=progress, cancel=cancel
            )
        assert told == [1, 2, 3]

    @pytest.mark.parametrize("name", NAMES)
    def test_a_token_that_fired(self, graph, name):
        cancel = og.Cancel()
        cancel.cancel()
        with pytest.raises(QueryCancelled):
            call(graph, name, "Knows", cancel=cancel)

    def test_no_damping_is_one_round_to_the_sources(self, graph):
        found = graph.algorithms.pagerank("Knows", damping=0, sources=["b", "c"])
        assert values(found) == {"a": 0, "b": 0.5, "c": 0.5, "d": 0, "e": 0, "f": 0}
        assert (found.iterations, found.converged) == (1, True)


class TestResults:
    def test_columns_in_the_order_of_ids(self, graph):
        found = graph.algorithms.degree("Knows")
        assert found.to_arrow().to_pydict() == {"id": list("abcdef"), "degree": [2, 1, 2, 1, 0, 0]}
        frame = found.to_pandas()
        assert isinstance(frame, pd.DataFrame)
        assert frame["degree"].tolist() == [2, 1, 2, 1, 0, 0]
        assert found.engine == "local"
        assert found.graph_commit_id == graph.snapshot().graph_commit_id
        assert found.modularity is None

    def test_shown_as_a_table(self, graph):
        text = str(graph.algorithms.louvain("Knows"))
        assert text.splitlines()[0] == "louvain of 6 nodes"
        assert "modularity" in text
        assert "id | community" in text

    def test_pickled_results_have_no_graph(self, graph):
        found = graph.algorithms.degree("Knows")
        again = pickle.loads(pickle.dumps(found))
        assert again == found
        with pytest.raises(BadRequest, match="degree"):
            again.write("age")

    def test_states_of_the_past(self, tmp_path):
        with og.init(tmp_path / "g", SCHEMA) as graph:
            fill(graph)
            graph.tags.create("before")
            graph.branches.create("dev")
            graph.load([{"edge": "Knows", "from": "f", "to": "a"}])
            assert values(graph.algorithms.degree("Knows"))["f"] == 1
            for target in ({"tag": "before"}, {"branch": "dev"}, {"at": "dev"}):
                assert values(graph.algorithms.degree("Knows", **target))["f"] == 0
            with pytest.raises(OmniGraphError, match="nowhere"):
                graph.algorithms.degree("Knows", branch="nowhere")
