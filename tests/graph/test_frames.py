"""`graph.nodes`, `graph.edges`, `graph.to_networkx` and `QueryResult.graph`: data for other libraries."""

import json
import random
import sys

import networkx as nx
import polars as pl
import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.changes import node_link
from omnigraph.changes.stats import Meter
from omnigraph.graph.graph import state_of
from omnigraph.policy.checker import Decision
from omnigraph.storage.tables.table import Table
from tests.graphs import graph_of

SCHEMA = """
node Person { name: String @key  age: I32?  born: Date?  tags: [String]?  face: Vector(2)?  photo: Blob? }
node Firm { title: String }
edge Knows: Person -> Person { since: I32? }
edge WorksAt: Person -> Firm
"""
PEOPLE = ["ada", "bob", "cy", "di"]
KNOWS = [("ada", "bob", 1999), ("bob", "ada", None), ("ada", "bob", 2001), ("cy", "di", None)]


graph = graph_of(
    SCHEMA,
    [
        {
            "type": "Person",
            "data": {
                "name": name,
                "age": None if name == "di" else number,
                "born": "2000-01-02",
                "tags": ["x", name],
                "face": [number, 0.5],
                "photo": "base64:eA==",
            },
        }
        for number, name in enumerate(PEOPLE)
    ],
    [{"type": "Firm", "data": {"id": "f1", "title": "Acme"}}],
    [
        *(
            {"edge": "Knows", "from": source, "to": target, "data": {"since": since}}
            for source, target, since in KNOWS
        ),
        {"edge": "WorksAt", "from": "ada", "to": "f1"},
    ],
    scope="module",
)


class TestStreams:
    def test_all_nodes_with_their_types(self, graph):
        found = graph.nodes("Person")
        assert found.columns == ["id", "name", "age", "born", "tags", "face"]
        assert len(found) == found.row_count == 4
        assert found.graph_commit_id == graph.snapshot().graph_commit_id
        table = found.to_arrow()
        assert table.schema == found.schema
        rows = sorted(table.to_pylist(), key=lambda row: row["id"])
        assert [row["id"] for row in rows] == [row["name"] for row in rows] == PEOPLE
        assert [row["age"] for row in rows] == [0, 1, 2, None]
        assert rows[1]["face"] == [1.0, 0.5]
        assert rows[1]["born"].isoformat() == "2000-01-02"
        assert table.schema.field("tags").type == pa.list_(pa.utf8())

    def test_all_edges_with_their_ends(self, graph):
        found = graph.edges("knows")
        assert found.type == "Knows"
        assert found.columns == ["id", "from", "to", "since"]
        rows = {(row["from"], row["to"], row["since"]) for row in found.to_arrow().to_pylist()}
        assert rows == set(KNOWS)
        named = graph.edges("Knows", ["dst", "since"], from_col="src", to_col="dst")
        assert set(map(tuple, named.to_polars().rows())) == {(b, since) for _, b, since in KNOWS}

    def test_columns_come_in_the_order_they_are_named(self, graph):
        assert graph.nodes("Person", ["age", "id"]).to_arrow().column_names == ["age", "id"]
        assert graph.nodes("Person", ("age",)).to_pandas()["age"].dtype == "Int32"

    def test_other_libraries_read_the_stream(self, graph):
        import duckdb

        people = graph.nodes("Person", ["id", "age"])
        assert pa.table(people).num_rows == 4
        assert pl.DataFrame(people).height == 4
        assert duckdb.sql("select sum(age) from people").fetchall() == [(3,)]
        assert pa.RecordBatchReader.from_stream(people).read_all().num_rows == 4

    def test_loads_take_it(self, graph, tmp_path):
        with og.init(tmp_path / "copy", SCHEMA) as copy:
            copy.load_nodes("Person", graph.nodes("Person"))
            copy.load_nodes("Firm", graph.nodes("Firm"))
            copy.load_edges("Knows", graph.edges("Knows"))
            copy.load_edges("WorksAt", graph.edges("WorksAt"))
            assert nx.utils.graphs_equal(_bare(copy), _bare(graph))
            assert (
                copy.nodes("Person")
                .to_arrow()
                .sort_by("id")
                .equals(graph.nodes("Person").to_arrow().sort_by("id"))
            )

    @pytest.mark.parametrize(
        ("asked", "said"),
        [
            (lambda g: g.nodes("Persn"), "no node type `Persn`; did you mean `Person`"),
            (lambda g: g.nodes("Knows"), "no node type `Knows`; its node types are Firm, Person"),
            (
                lambda g: g.edges("Person"),
                "no edge type `Person`; its edge types are Knows, WorksAt",
            ),
            (lambda g: g.nodes(None), "named by a text"),
            (lambda g: g.nodes("Person", ["agee"]), "no column `agee`; did you mean `age`"),
            (
                lambda g: g.nodes("Person", ["photo"]),
                "photo is a Blob; open it with graph.blobs.open",
            ),
            (lambda g: g.nodes("Person", "age"), "give a list of names"),
            (lambda g: g.nodes("Person", []), "names no column"),
            (lambda g: g.nodes("Person", ["id", "id"]), "named twice"),
            (lambda g: g.edges("Knows", from_col="since"), "has a column `since` already"),
            (lambda g: g.to_networkx("Person"), "give a list of names"),
            (lambda g: g.to_networkx(["Nobody"]), "no type `Nobody`; its types are"),
        ],
    )
    def test_what_is_refused_is_refused_at_once(self, graph, asked, said):
        with pytest.raises(og.errors.BadRequest, match=said):
            asked(graph)

    def test_it_stays_at_its_commit_and_can_be_read_again(self, tmp_path):
        with og.init(tmp_path / "g", SCHEMA) as graph:
            graph.load([{"type": "Firm", "data": {"id": "a", "title": "A"}}])
            first = graph.snapshot()
            held = graph.nodes("Firm")
            graph.schema.apply(
                SCHEMA.replace("title: String", 'label: String @rename_from("title")')
            )
            graph.load([{"type": "Firm", "data": {"id": "b", "label": "B"}}])
            assert held.to_arrow().to_pydict() == {"id": ["a"], "title": ["A"]}
            assert held.to_arrow().num_rows == 1
            # A past state has the names of now, and a property that came later is null.
            graph.schema.apply(
                graph.schema.source.replace("node Firm {", "node Firm { size: I32? ")
            )
            past = graph.nodes("Firm", at=first)
            assert past.to_arrow().to_pydict() == {"id": ["a"], "size": [None], "label": ["A"]}
            assert sorted(graph.nodes("Firm").to_arrow().column("id").to_pylist()) == ["a", "b"]
            graph.schema.apply(graph.schema.source + "\nnode Late { name: String @key }")
            assert graph.nodes("Late", at=first).to_arrow().num_rows == 0

    def test_it_says_so_when_its_branch_is_gone(self, graph):
        graph.branches.create("gone")
        graph.load([{"type": "Firm", "data": {"id": "x", "title": "X"}}], branch="gone")
        held = graph.nodes("Firm", branch="gone")
        graph.branches.delete("gone")
        with pytest.raises(og.errors.HistoryReclaimed, match="`gone`"):
            held.to_arrow()

    def test_a_large_type_is_read_as_it_is_asked_for(self, tmp_path, monkeypatch):
        scans = []
        real = Table.scan
        monkeypatch.setattr(Table, "scan", lambda *a, **k: scans.append(a) or real(*a, **k))
        texts = pa.array([random.Random(n).randbytes(4_000).hex() for n in range(5_000)])
        with og.init(tmp_path / "g", "node Page { text: String }") as graph:
            graph.load_nodes("Page", pa.table({"text": texts}), engine="local")
            scans.clear()
            batches = iter(graph.nodes("Page"))
            first = next(batches)
            assert first.nbytes < 4 << 20
            early = len(scans)
            assert 1 + sum(1 for _ in batches) > 5
            assert len(scans) > early


class TestNetworkx:
    def test_the_whole_graph(self, graph):
        found = graph.to_networkx()
        assert isinstance(found, nx.MultiDiGraph)
        assert found.graph == {"graph_commit_id": graph.snapshot().graph_commit_id}
        assert set(found.nodes) == {*(("Person", name) for name in PEOPLE), ("Firm", "f1")}
        assert found.nodes["Person", "ada"] == {
            "name": "ada",
            "age": 0,
            "born": "2000-01-02",
            "tags": ["x", "ada"],
        }
        assert "age" not in found.nodes["Person", "di"]
        between = found["Person", "ada"]["Person", "bob"]
        assert sorted(edge["since"] for edge in between.values()) == [1999, 2001]
        assert {kind for kind, _ in between} == {"Knows"}
        assert found.number_of_edges() == 5
        assert nx.shortest_path(found, ("Person", "bob"), ("Firm", "f1")) == [
            ("Person", "bob"),
            ("Person", "ada"),
            ("Firm", "f1"),
        ]

    def test_some_types_with_the_ends_of_their_edges(self, graph):
        assert {kind for kind, _ in graph.to_networkx(["Firm"])} == {"Firm"}
        known = graph.to_networkx(["Knows"])
        assert {kind for kind, _ in known} == {"Person"}
        assert known.number_of_edges() == 4

    def test_a_deadline_stops_it(self, graph):
        with pytest.raises(og.errors.ResourceLimit) as caught:
            graph.to_networkx(timeout=1e-9)
        assert caught.value.details["resource"] == "query_milliseconds"

    def test_a_past_state(self, graph):
        first = graph.commits.list()[-2]
        assert graph.to_networkx(at=first).number_of_edges() == 0

    def test_a_missing_library_is_named_with_the_way_out(self, graph, monkeypatch):
        monkeypatch.setitem(sys.modules, "networkx", None)
        with pytest.raises(og.errors.BadRequest, match=r"pip install networkx\), or use nodes"):
            graph.to_networkx()


WORKERS = "query w() { match { $p: Person $p worksAt $f } return { $p, $f, $p.age } }"
FRIENDS = "query f() { match { $a: Person $a knows $b } return { $a, $b } }"


class TestGraphOfAResult:
    def test_its_nodes_and_the_edges_among_them(self, graph):
        assert graph.query(WORKERS).graph() == {
            "directed": True,
            "multigraph": True,
            "graph": {"graph_commit_id": graph.snapshot().graph_commit_id},
            "nodes": [
                {
                    "id": ("Person", "ada"),
                    "type": "Person",
                    "caption": "ada",
                    "properties": {
                        "name": "ada",
                        "age": 0,
                        "born": "2000-01-02",
                        "tags": ["x", "ada"],
                    },
                },
                {
                    "id": ("Firm", "f1"),
                    "type": "Firm",
                    "caption": "Acme",
                    "properties": {"title": "Acme"},
                },
            ],
            "edges": [
                {
                    "source": ("Person", "ada"),
                    "target": ("Firm", "f1"),
                    "type": "WorksAt",
                    "id": graph.edges("WorksAt").to_arrow().column("id")[0].as_py(),
                    "properties": {},
                }
            ],
        }

    def test_networkx_reads_it_also_after_json(self, graph):
        found = nx.node_link_graph(
            json.loads(json.dumps(graph.query(FRIENDS).graph())), edges="edges"
        )
        assert set(found.nodes) == {("Person", name) for name in PEOPLE}
        assert found.number_of_edges() == 4
        since = [edge["properties"]["since"] for *_, edge in found.edges(data=True)]
        assert sorted(since, key=str) == [1999, 2001, None, None]

    def test_a_result_without_nodes_has_the_graph_of_its_match(self, graph):
        named = graph.query("query n() { match { $p: Person } return { $p.name } }")
        whole = graph.query("query n() { match { $p: Person } return { $p } }")
        assert {node["id"] for node in named.graph()["nodes"]} == {
            node["id"] for node in whole.graph()["nodes"]
        }
        nobody = graph.query('query n() { match { $p: Person { name: "no" } } return { $p } }')
        assert nobody.graph()["nodes"] == []

    def test_it_stays_at_the_commit_of_the_result(self, tmp_path):
        with og.init(tmp_path / "g", SCHEMA) as graph:
            graph.load([{"type": "Person", "data": {"name": name}} for name in PEOPLE])
            result = graph.query("query p() { match { $p: Person } return { $p } }")
            graph.load([{"edge": "Knows", "from": "ada", "to": "bob"}])
            graph.schema.apply(SCHEMA.replace("age: I32?", 'years: I32? @rename_from("age")'))
            assert result.graph()["edges"] == []
            assert "age" in result.graph()["nodes"][0]["properties"]
            newer = graph.query("query p() { match { $p: Person } return { $p } }")
            assert len(newer.graph()["edges"]) == 1
        with pytest.raises(og.errors.OmniGraphError, match="closed"):
            newer.graph()

    def test_the_policy_is_asked_again(self, graph):
        class Revocable:
            allows = True

            def check(self, question):
                return Decision(self.allows, None, "revoked")

        policy = Revocable()
        with og.open(graph.uri, policy=policy, actor="ada") as guarded:
            result = guarded.query(WORKERS)
            assert len(result.graph()["edges"]) == 1
            policy.allows = False
            with pytest.raises(og.errors.PolicyDenied, match="revoked"):
                result.graph()


def _bare(graph):
    """Ids and ends alone."""
    found = graph.to_networkx()
    return nx.MultiDiGraph(found.edges(keys=True))


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    """Two thousand nodes, ten thousand edges, all of them indexed."""
    chance = random.Random(12)
    names = [f"p{number}" for number in range(2_000)]
    ends = [[chance.choice(names) for _ in range(10_000)] for _ in range(2)]
    with og.init(tmp_path_factory.mktemp("wide") / "g", SCHEMA) as graph:
        graph.load_nodes("Person", pa.table({"name": names}))
        graph.load_edges("Knows", pa.table({"from": ends[0], "to": ends[1]}))
        graph.ensure_indices()
        yield graph


class TestAgainstTheWholeGraph:
    @pytest.mark.parametrize("most", [1, 40, 10_000])
    def test_the_same_edges_by_look_ups_and_by_a_scan(self, wide, monkeypatch, most):
        """Whichever ends are looked up, the edges are those that networkx finds among the nodes."""
        monkeypatch.setattr(node_link, "KEY_LIMIT", most)
        hub = max(wide.to_networkx().degree, key=lambda pair: pair[1])[0][1]
        near = wide.query(
            "query near($n: String) { match { $a: Person { name: $n } $a knows{1,2} $b } return { $a, $b } }",
            {"n": hub},
        )
        document = near.graph()
        nodes = [one["id"] for one in document["nodes"]]
        assert len(nodes) == len(set(nodes)) > 20
        expected = wide.to_networkx().subgraph(nodes)
        assert sorted(
            (one["source"], one["target"], one["id"]) for one in document["edges"]
        ) == sorted((source, target, key) for source, target, (_, key) in expected.edges(keys=True))

    def test_a_few_nodes_cost_a_small_part_of_the_tables(self, wide):
        one = wide.query(
            'query q() { match { $a: Person { name: "p7" } $a knows $b } return { $a, $b } }'
        )
        one.graph()
        costs = []
        for read in (one.graph, lambda: wide.edges("Knows").to_arrow()):
            meter = Meter(state_of(wide).workspace)
            with meter.running():
                read()
            costs.append(meter.stats().bytes_read)
        assert costs[0] * 4 < costs[1]
