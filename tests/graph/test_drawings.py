"""`graph.neighbors` and `graph.subgraph`: held against a list of nodes and edges, page by page."""

from __future__ import annotations

import random

import pytest

import omnigraph as og
from omnigraph.changes.stats import Meter
from omnigraph.errors import (
    BadRequest,
    BranchNotFound,
    CursorRejected,
    EntityNotFound,
    QueryNotFound,
    ResourceLimit,
)
from omnigraph.graph.graph import state_of
from tests.faults.calls.counting import counting

SCHEMA = """
node Person { name: String @key  title: String?  label: String?  age: I64?  tags: [String]?
  vec: Vector(2)?  photo: Blob? }
node Stone { no: I32 @key  title: String?  name: Date? }
node Plain { text: String? }
edge Knows: Person -> Person { since: I32?  note: String? }
edge Holds: Person -> Stone
edge Breaks: Stone -> Stone
"""
PEOPLE = [f"p{n}" for n in range(12)]
STONES = [str(n) for n in range(6)]


def make_edges(seed=3):
    draw = random.Random(seed)
    made = []
    for n in range(60):
        kind = draw.choice(["Knows", "Knows", "Holds", "Breaks"])
        ends = {"Knows": (PEOPLE, PEOPLE), "Holds": (PEOPLE, STONES), "Breaks": (STONES, STONES)}
        source, target = (draw.choice(one) for one in ends[kind])
        made.append((kind, f"e{n:02}", source, target))
    return [*made, ("Knows", "loop", "p0", "p0"), ("Knows", "there", "p0", "p1")]


EDGES = make_edges()
TYPES = {"Knows": ("Person", "Person"), "Holds": ("Person", "Stone"), "Breaks": ("Stone", "Stone")}


def edge(kind, row_id, source, target, **data):
    return {"edge": kind, "from": source, "to": target, "data": {"id": row_id, **data}}


def records():
    for name in PEOPLE:
        yield {"type": "Person", "data": {"name": name, "age": 2**60 + int(name[1:])}}
    for no in STONES:
        yield {
            "type": "Stone",
            "data": {"no": int(no), "title": f"stone {no}", "name": "2020-01-01"},
        }
    for kind, row_id, source, target in EDGES:
        yield edge(kind, row_id, source, target)


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    with og.init(tmp_path_factory.mktemp("drawings") / "g", SCHEMA) as graph:
        graph.load(list(records()))
        yield graph


def expected(center, direction="both", edges=None):
    """All edges of a node, in order, by a walk over the whole list."""
    found = []
    for kind in sorted(TYPES):
        for way in ("out", "in"):
            if edges is not None and kind not in edges:
                continue
            if direction not in (way, "both"):
                continue
            for name, row_id, source, target in sorted(EDGES, key=lambda edge: edge[1]):
                ends = [(TYPES[kind][0], source), (TYPES[kind][1], target)]
                is_loop = ends[0] == ends[1]
                if name != kind or ends[0 if way == "out" else 1] != center:
                    continue
                if way == "in" and direction == "both" and is_loop:
                    continue
                found.append((kind, way, row_id, *ends))
    return found


def pages(graph, center, **options):
    """The documents of all pages."""
    while True:
        page = graph.neighbors(*center, **options)
        yield page
        if "next" not in page:
            return
        options["after"] = page["next"]


def ends_of(edge):
    return tuple((edge[end]["type"], edge[end]["id"]) for end in ("from", "to"))


CENTERS = [("Person", "p0"), ("Person", "p7"), ("Stone", "3")]


@pytest.mark.parametrize("center", CENTERS)
@pytest.mark.parametrize("direction", ["out", "in", "both"])
@pytest.mark.parametrize("limit", [1, 3, 100])
def test_the_pages_have_every_edge_once_in_order(graph, center, direction, limit):
    wanted = expected(center, direction)
    made = list(pages(graph, center, direction=direction, limit=limit))
    found = [(e["type"], e["id"], *ends_of(e)) for page in made for e in page["edges"]]
    assert found == [(kind, row_id, *ends) for kind, _, row_id, *ends in wanted]
    assert all(0 < len(page["edges"]) <= limit for page in made) or not wanted
    head = graph.snapshot().graph_commit_id
    for page in made:
        assert page["graph_commit_id"] == head
        assert (page["center"]["type"], page["center"]["id"]) == center
        around = {end for edge in page["edges"] for end in ends_of(edge)} - {center}
        assert {(node["type"], node["id"]) for node in page["nodes"]} == around
        assert len(page["nodes"]) == len(around)
        totals = {(one["edge"], one["direction"]): one["total"] for one in page["counts"]}
        assert sum(totals.values()) == len(wanted)
        for kind, way in list(totals):
            assert totals[kind, way] == sum(one[:2] == (kind, way) for one in wanted)


def test_only_the_edges_that_are_named_are_followed(graph):
    for names in (["Holds"], ["holds", "Breaks"], []):
        page = graph.neighbors("Person", "p3", edges=iter(names))
        kinds = {"Holds"} & {name.capitalize() for name in names}
        wanted = expected(("Person", "p3"), edges=kinds)
        assert [edge["id"] for edge in page["edges"]] == [one[2] for one in wanted]
        assert {one["edge"] for one in page["counts"]} == kinds


def test_captions_and_properties(tmp_path):
    long = "ö" * 5_000
    with og.init(tmp_path / "g", SCHEMA) as graph:
        graph.load(
            [
                {"type": "Person", "data": {"name": "ada", "title": long, "age": 2**60}},
                {"type": "Person", "data": {"name": "bob", "age": 7}},
                {"type": "Stone", "data": {"no": 1, "title": "one", "name": "2020-01-01"}},
                {"type": "Stone", "data": {"no": 2}},
                edge("Knows", "k", "ada", "bob", note=long),
                edge("Holds", "h1", "ada", "1"),
                edge("Holds", "h2", "ada", "2"),
            ]
        )
        page = graph.neighbors(
            "Person", "ada", properties={"Person": ["title", "age"], "Knows": ["note", "since"]}
        )
        assert page["center"] == {
            "type": "Person",
            "id": "ada",
            "caption": "ada",
            "properties": {"title": long[:1024], "age": str(2**60)},
        }
        # A date is no caption, and without any text it is the id.
        assert page["nodes"] == [
            {"type": "Stone", "id": "1", "caption": "one"},
            {"type": "Stone", "id": "2", "caption": "2"},
            {
                "type": "Person",
                "id": "bob",
                "caption": "bob",
                "properties": {"title": None, "age": 7},
            },
        ]
        assert page["edges"][2] == {
            "type": "Knows",
            "id": "k",
            "from": {"type": "Person", "id": "ada"},
            "to": {"type": "Person", "id": "bob"},
            "properties": {"note": long[:1024], "since": None},
        }
        assert "properties" not in page["edges"][0]
        assert list(page) == ["center", "nodes", "edges", "counts", "graph_commit_id", "as_of"]


def test_a_long_caption_is_cut(tmp_path):
    with og.init(tmp_path / "g", "node P { k: String @key }") as graph:
        graph.load([{"type": "P", "data": {"k": "x" * 3_000}}])
        center = graph.neighbors("P", "x" * 3_000)["center"]
        assert (center["id"], center["caption"]) == ("x" * 3_000, "x" * 1_024)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda g: g.neighbors("Nobody", "x"), BadRequest, "Nobody"),
        (lambda g: g.neighbors("Persn", "x"), BadRequest, "Person"),
        (lambda g: g.neighbors("Knows", "x"), BadRequest, "no node type"),
        (lambda g: g.neighbors("Person", "nobody"), EntityNotFound, "nobody"),
        (lambda g: g.neighbors("Person", "\ud800"), EntityNotFound, "id"),
        (lambda g: g.neighbors("Person", 5), BadRequest, "text"),
        (lambda g: g.neighbors("Person", "p0", "up"), BadRequest, "direction"),
        (lambda g: g.neighbors("Person", "p0", edges=["Know"]), BadRequest, "Knows"),
        (lambda g: g.neighbors("Person", "p0", edges="Knows"), BadRequest, "list"),
        (lambda g: g.neighbors("Person", "p0", properties={"X": ["a"]}), BadRequest, "X"),
        (lambda g: g.neighbors("Person", "p0", properties={"Person": ["ag"]}), BadRequest, "age"),
        (lambda g: g.neighbors("Person", "p0", properties={"Person": "age"}), BadRequest, "list"),
        (lambda g: g.neighbors("Person", "p0", properties={"Person": ["vec"]}), BadRequest, "single"),
        (lambda g: g.neighbors("Person", "p0", properties={"Person": ["tags"]}), BadRequest, "single"),
        (lambda g: g.neighbors("Person", "p0", properties={"Person": ["photo"]}), BadRequest, "single"),
        (lambda g: g.neighbors("Person", "p0", properties=["age"]), BadRequest, "dict"),
        (lambda g: g.neighbors("Person", "p0", limit=0), BadRequest, "limit"),
        (lambda g: g.neighbors("Person", "p0", limit=True), BadRequest, "limit"),
        (lambda g: g.neighbors("Person", "p0", limit=1_001), ResourceLimit, "1,000"),
        (lambda g: g.neighbors("Person", "p0", after="x"), CursorRejected, "damaged"),
        (lambda g: g.neighbors("Person", "p0", after=5), CursorRejected, "text"),
        (lambda g: g.neighbors("Person", "p0", branch="no"), BranchNotFound, "no"),
        (lambda g: g.subgraph(), BadRequest, "one of the two"),
        (lambda g: g.subgraph([("Person", "p0")], query="q"), BadRequest, "one of the two"),
        (lambda g: g.subgraph([("Person", "p0")], name="q"), BadRequest, "name"),
        (lambda g: g.subgraph([("Nobody", "x")]), BadRequest, "Nobody"),
        (lambda g: g.subgraph(["Person"]), BadRequest, "names no node"),
        (lambda g: g.subgraph("Person"), BadRequest, "list"),
        (lambda g: g.subgraph([("Person", 1)]), BadRequest, "texts"),
        (lambda g: g.subgraph([("Person", str(n)) for n in range(5_001)]), ResourceLimit, "5,000"),
        (lambda g: g.subgraph([("Person", "ada")] * 5_001), ResourceLimit, "5,000"),
        (lambda g: g.subgraph([], limit=20_001), ResourceLimit, "20,000"),
        (lambda g: g.subgraph(query=5), BadRequest, "text"),
        (lambda g: g.subgraph(query=MATCH, name="other"), QueryNotFound, "other"),
        (
            lambda g: g.subgraph(query='query q() { insert Person { name: "x" } }'),
            BadRequest,
            "mutat",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(graph, call, error, words):
    with pytest.raises(error, match=words):
        call(graph)


def test_a_token_holds_for_its_graph_commit_and_request(graph, tmp_path):
    first = graph.neighbors("Person", "p0", limit=2)
    token = first["next"]
    assert graph.neighbors("Person", "p0", limit=3, after=token)["edges"]
    for options in (
        {"id": "p1"},
        {"direction": "out"},
        {"edges": ["Knows"]},
        {"properties": {"Person": ["age"]}},
    ):
        asked = {"type": "Person", "id": "p0", **options, "after": token}
        with pytest.raises(CursorRejected, match="another request"):
            graph.neighbors(**asked)
    with og.init(tmp_path / "other", SCHEMA) as other:
        other.load(list(records()))
        with pytest.raises(CursorRejected, match="another graph"):
            other.neighbors("Person", "p0", after=token)
    with pytest.raises(CursorRejected, match="page token of neighbors"):
        graph.commits.changes(graph.snapshot().graph_commit_id, page_token=token)


def test_a_page_is_of_its_commit(tmp_path):
    with og.init(tmp_path / "g", SCHEMA) as graph:
        graph.load(list(records()))
        first = graph.neighbors("Person", "p0", limit=2)
        graph.load([edge("Knows", "a", "p0", "p9")])
        with pytest.raises(CursorRejected, match="another commit"):
            graph.neighbors("Person", "p0", limit=2, after=first["next"])
        commit = first["graph_commit_id"]
        rest = graph.neighbors("Person", "p0", snapshot=commit, after=first["next"])
        wanted = [one[2] for one in expected(("Person", "p0"))]
        assert [edge["id"] for edge in (*first["edges"], *rest["edges"])] == wanted
        assert graph.neighbors("Person", "p0", "out", ["Knows"])["edges"][0]["id"] == "a"


def test_pages_go_on_behind_ids_of_any_length(tmp_path):
    ids = [f"{'x' * 4_000}{n:02}" for n in range(7)]
    with og.init(tmp_path / "g", SCHEMA) as graph:
        graph.load([{"type": "Person", "data": {"name": one}} for one in ("a", "b")])
        graph.load([edge("Knows", one, "a", "b") for one in ids])
        found = [e["id"] for page in pages(graph, ("Person", "a"), limit=2) for e in page["edges"]]
        assert found == ids


def test_targets_are_read_as_by_every_read(tmp_path):
    with og.init(tmp_path / "g", SCHEMA) as graph:
        graph.load(list(records()))
        graph.tags.create("before")
        graph.branches.create("side")
        graph.load([edge("Knows", "new", "p0", "p9")], branch="side")
        graph.mutate('query q() { delete Person where name = "p1" }')

        def ids(**target):
            page = graph.neighbors("Person", "p0", "out", ["Knows"], **target)
            both = graph.subgraph([("Person", name) for name in PEOPLE], edges=["Knows"], **target)
            mine = [e["id"] for e in both["edges"] if e["from"]["id"] == "p0"]
            assert mine == [edge["id"] for edge in page["edges"]]
            return set(mine)

        everything = {one[2] for one in expected(("Person", "p0"), "out", ["Knows"])}
        assert ids(tag="before") == everything
        assert ids(branch="side") == everything | {"new"}
        assert ids() == {one for one in everything if one != "there"} - {
            row_id for kind, row_id, source, target in EDGES if kind == "Knows" and target == "p1"
        }
        assert graph.subgraph([("Person", "p1")])["missing"] == [{"type": "Person", "id": "p1"}]
        assert graph.subgraph([("Person", "p1")], tag="before")["missing"] == []


def test_the_past_is_drawn_under_the_names_of_today(tmp_path):
    old = (
        "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person { since: I32? }"
    )
    new = (
        'node Human @rename_from("Person") { name: String @key  years: I32? @rename_from("age")\n'
        'title: String? }\nedge Meets: Human -> Human @rename_from("Knows") { since: I32? }\n'
        "edge Helps: Human -> Human"
    )
    with og.init(tmp_path / "g", old) as graph:
        graph.load([{"type": "Person", "data": {"name": n, "age": 7}} for n in ("a", "b")])
        graph.load([edge("Knows", "k", "a", "b", since=1)])
        before = graph.snapshot().graph_commit_id
        graph.schema.apply(new)
        graph.load([{"type": "Human", "data": {"name": "a", "years": 8, "title": "t"}}])
        shown = {"Human": ["years", "title"], "Meets": ["since"]}
        for target, years in (({"snapshot": before}, 7), ({}, 8)):
            page = graph.neighbors("Human", "a", properties=shown, **target)
            assert page["center"]["properties"]["years"] == years
            assert page["edges"][0]["properties"] == {"since": 1}
            assert [(one["edge"], one["direction"]) for one in page["counts"]] == [
                ("Helps", "out"),
                ("Helps", "in"),
                ("Meets", "out"),
                ("Meets", "in"),
            ]
            document = graph.subgraph([("Human", "a"), ("Human", "b")], **target)
            assert [one["id"] for one in document["edges"]] == ["k"]
            assert graph.entity("node", "Human", "a", **target)["properties"]["years"] == years


# ------------------------------------------------------------------ subgraphs


def among(names):
    chosen = set(names)
    found = [
        (kind, row_id, (TYPES[kind][0], source), (TYPES[kind][1], target))
        for kind, row_id, source, target in EDGES
    ]
    return sorted(one for one in found if {one[2], one[3]} <= chosen)


@pytest.mark.parametrize("seed", range(4))
def test_the_edges_of_a_subgraph_have_both_ends_in_it(graph, seed):
    draw = random.Random(seed)
    every = [("Person", name) for name in PEOPLE] + [("Stone", no) for no in STONES]
    names = draw.sample(every, 9)
    document = graph.subgraph([*names, names[0], ("Person", "nobody")])
    assert [(node["type"], node["id"]) for node in document["nodes"]] == names
    assert document["missing"] == [{"type": "Person", "id": "nobody"}]
    assert [(e["type"], e["id"], *ends_of(e)) for e in document["edges"]] == among(names)
    assert (document["truncated"], "total_nodes" in document) == (False, False)
    assert list(document) == ["nodes", "missing", "edges", "truncated", "graph_commit_id", "as_of"]


def test_edges_are_cut_at_the_limit(graph):
    names = [{"type": "Person", "id": name} for name in PEOPLE]
    whole = graph.subgraph(names)
    for limit in (1, len(whole["edges"]) - 1):
        part = graph.subgraph(names, limit=limit)
        assert part["edges"] == whole["edges"][:limit]
        assert part["truncated"] is True
    assert graph.subgraph(names, limit=len(whole["edges"]))["truncated"] is False


def test_a_name_that_no_id_can_be_is_missing(graph):
    assert graph.subgraph([("Person", "\ud800")])["missing"] == [{"type": "Person", "id": "\ud800"}]


MATCH = "query q() { match { $a: Person  $a holds $s } return { count($s) as n } }"
PICTURES = {
    "properties": "query q() { match { $a: Person  $a holds $s } return { $s.title } }",
    "an aggregate": MATCH,
    "an aggregate that is cut": MATCH.replace("n }", "n } order { n } limit 1"),
    "a column": "query q() { match { $a: Person  $a holds $s } return { $a } }",
    "an order by an alias": (
        "query q() { match { $a: Person  $a holds $s } return { $s.no as no, $a.name as n } "
        "order { n desc, no } }"
    ),
    "what must not be": (
        "query q() { match { $a: Person  $a holds $s  not { $a knows $b } } return { $a.name } }"
    ),
    "an edge": "query q() { match { $a: Person  $a $h: holds $s } return { $a.age } }",
    "nothing else named": "query q() { match { $a: Person  $a holds $_ } return { $a.age } }",
    "nothing found": 'query q() { match { $a: Person { name: "x" } } return { $a.age } }',
}


def naive_rows():
    return [(s, t) for kind, _, s, t in EDGES if kind == "Holds"]


@pytest.mark.parametrize("text", [PICTURES[n] for n in list(PICTURES)[:5]], ids=list(PICTURES)[:5])
def test_the_picture_of_a_query_is_what_it_matches(graph, text):
    document = graph.subgraph(query=text)
    wanted = {("Person", s) for s, _ in naive_rows()} | {("Stone", t) for _, t in naive_rows()}
    names = [(node["type"], node["id"]) for node in document["nodes"]]
    assert set(names) == wanted
    assert len(names) == len(wanted) == document["total_nodes"]
    assert [(e["type"], e["id"], *ends_of(e)) for e in document["edges"]] == among(names)
    assert document["truncated"] is False


def test_a_picture_keeps_the_order_and_the_limit_of_rows(graph):
    text = PICTURES["an order by an alias"].replace("no }", "no } limit 4")
    names = [(node["type"], node["id"]) for node in graph.subgraph(query=text)["nodes"]]
    rows = graph.query(text).rows
    wanted = dict.fromkeys(
        name for row in rows for name in (("Person", row["n"]), ("Stone", str(row["no"])))
    )
    assert names == list(wanted)


def test_an_aggregate_is_drawn_in_the_order_of_ids(graph):
    names = [(node["type"], node["id"]) for node in graph.subgraph(query=MATCH)["nodes"]]
    wanted = dict.fromkeys(
        name for s, t in sorted(set(naive_rows())) for name in (("Person", s), ("Stone", t))
    )
    assert names == list(wanted)


def test_pictures_leave_out_what_has_no_name_or_must_not_be(graph):
    knows = {source for kind, _, source, _ in EDGES if kind == "Knows"}
    lonely = {("Person", s) for s, _ in naive_rows() if s not in knows}
    document = graph.subgraph(query=PICTURES["what must not be"])
    assert {(n["type"], n["id"]) for n in document["nodes"] if n["type"] == "Person"} == lonely
    document = graph.subgraph(query=PICTURES["nothing else named"])
    named = {("Person", s) for s, _ in naive_rows()}
    assert {(node["type"], node["id"]) for node in document["nodes"]} == named
    document = graph.subgraph(query=PICTURES["nothing found"])
    assert (document["nodes"], document["edges"], document["total_nodes"]) == ([], [], 0)


def test_parameters_reach_the_picture(graph):
    text = "query q($n: String) { match { $a: Person { name: $n } } return { $a.age } }"
    for given in ({"name": {"n": "p4"}}, {"name": "q", "params": {"n": "p4"}}):
        (node,) = graph.subgraph(query=text, **given)["nodes"]
        assert node["id"] == "p4"


def test_a_large_picture_is_cut(graph, monkeypatch):
    from omnigraph.graph import drawings, reads

    monkeypatch.setattr(drawings, "PICTURE_NODES", 4)
    whole = "query q() { match { $a: Person } return { $a.age } }"
    document = graph.subgraph(query=whole)
    assert (len(document["nodes"]), document["total_nodes"]) == (4, len(PEOPLE))
    assert document["truncated"] is True
    monkeypatch.setattr(drawings, "PICTURE_NODES", 100)
    for module in (drawings, reads):
        monkeypatch.setattr(module, "PICTURE_ROWS", 5)
    document = graph.subgraph(query=whole)
    assert (len(document["nodes"]), document["total_nodes"], document["truncated"]) == (5, 5, True)


@pytest.mark.parametrize("name", [name for name in PICTURES if name != "a column"])
def test_a_result_without_nodes_draws_what_the_subgraph_has(graph, name):
    drawn = graph.query(PICTURES[name]).graph()
    document = graph.subgraph(query=PICTURES[name])
    nodes = {(node["type"], node["id"]) for node in document["nodes"]}
    assert {node["id"] for node in drawn["nodes"]} == nodes
    assert len(drawn["nodes"]) == len(nodes)
    assert [(e["type"], e["id"]) for e in drawn["edges"]] == [
        (e["type"], e["id"]) for e in document["edges"]
    ]
    assert drawn["graph"]["graph_commit_id"] == document["graph_commit_id"]


# ------------------------------------------------------------------ what it costs


@pytest.fixture(scope="module")
def sizes(tmp_path_factory):
    """Two graphs that differ in their size alone: around `p0` they are the same."""
    place = tmp_path_factory.mktemp("sizes")
    for size in (50, 40_000):
        schema = "node P { name: String @key  n: I32? }\nedge K: P -> P"
        with og.init(place / str(size), schema) as graph:
            graph.load([{"type": "P", "data": {"name": f"p{n}"}} for n in range(size)])
            ends = [("p0", f"p{n}") for n in range(1, 9)]
            ends += [(f"p{n}", f"p{n + 1}") for n in range(10, size - 1)]
            graph.load([{"edge": "K", "from": s, "to": t} for s, t in ends])
            for name in ("p0", "p5", "p0"):
                text = (
                    "query q($p: String) { update P set { n: 1 + coalesce(n, 0) } where name = $p }"
                )
                graph.mutate(text, params={"p": name})
            graph.ensure_indices()
    return place


CALLS = {
    "entity": lambda graph: {"edges": [graph.entity("node", "P", "p0")]},
    "neighbors": lambda graph: graph.neighbors("P", "p0"),
    "a page": lambda graph: graph.neighbors("P", "p0", limit=3),
    "one direction": lambda graph: graph.neighbors("P", "p0", "in"),
    "subgraph": lambda graph: graph.subgraph([("P", f"p{n}") for n in range(9)]),
    "history": lambda graph: {"edges": graph.history("node", "P", "p0").entries},
    "blame": lambda graph: {"edges": [graph.blame("node", "P", "p0")]},
}
# What each asks of the store once the tables are open: (opens, probes, reads).
GOLDEN = dict.fromkeys(CALLS, (0, 1, 1))
# Of each of the three changes, the manifest and the table before it; the manifest of the newest state; and whether
# something was purged.
GOLDEN |= dict.fromkeys(("history", "blame"), (7, 6, 6))


@pytest.mark.parametrize("name", CALLS)
def test_the_cost_is_that_of_the_node_and_not_of_the_table(sizes, name):
    found = {}
    for size in (50, 40_000):
        with og.open(sizes / str(size), mode="r") as graph:
            CALLS[name](graph)
            with counting(str(sizes / str(size))) as counted:
                document = CALLS[name](graph)
            meter = Meter(state_of(graph).workspace)
            with meter.running():
                CALLS[name](graph)
            found[size] = len(document["edges"]), counted(), meter.stats().bytes_read
            scan = Meter(state_of(graph).workspace)
            with scan.running():
                graph.edges("K").to_arrow()
            whole = scan.stats().bytes_read
    assert found[50][:2] == found[40_000][:2]
    calls = found[50][1]
    assert (calls.opens + calls.newest, calls.probes, calls.reads) == GOLDEN[name]
    assert (calls.lists, calls.writes, calls.locks, calls.versions) == (0, 0, 0, 0)
    assert found[40_000][2] * 4 < whole
