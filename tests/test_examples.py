"""The example graphs run as they are, each in a process of its own, and say what is true.

`daily_orders` needs Spark and has its tests there; `social` is run by the manual's.
"""

import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

import omnigraph as og

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"


@pytest.fixture
def ran(tmp_path):
    """Run an example: what it printed, and its place."""

    def run(name, *arguments):
        env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
        script = EXAMPLES / name / "run.py"
        place = tmp_path / "out"
        done = subprocess.run(
            [sys.executable, str(script), "--place", str(place), *arguments],
            cwd=tmp_path,
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        for plot in (place / "plots").iterdir():
            ET.fromstring(plot.read_text("utf-8"))
        assert f"plots: {place / 'plots'}" in done.stdout
        return done.stdout, place

    return run


class Even:
    """An embedder without a network, to which all texts are the same."""

    model = "even"

    def embed(self, texts, dimension):
        return [[1.0] * dimension for _ in texts]


def draw_every_query(place, name, params):
    """Draw what every read query of an example matches; the rows are those that the picture belongs to."""
    text = (EXAMPLES / name / "queries.gq").read_text("utf-8")
    declared = dict(re.findall(r"^query (\w+)\(([^)]*)\).*?\{\n(?=  match)", text, re.MULTILINE))
    with og.open(place, mode="r", embedder=Even()) as graph:
        for query, declaration in declared.items():
            wanted = {one: params[one] for one in re.findall(r"\$(\w+):", declaration)}
            rows = graph.query(text, query, wanted)
            picture = graph.subgraph(query=text, name=query, params=wanted)
            assert bool(picture["nodes"]) == bool(rows.rows), query
            assert picture["total_nodes"] == len(picture["nodes"]), query
            drawn = {(node["type"], node["id"]) for node in picture["nodes"]}
            for edge in picture["edges"]:
                assert all(tuple(edge[end].values()) in drawn for end in ("from", "to")), query
    return list(declared)


def test_the_memory_takes_in_only_what_has_a_source(ran):
    printed, place = ran("agent_memory")
    assert {path.name for path in (place / "plots").iterdir()} == {"facts.svg", "memory.svg"}
    with og.open(place / "memory.omni", mode="r") as graph:
        facts = "match { $f: Fact } return { $f.topic as topic, $f.source as source } order { topic, source }"
        held = [(row["topic"], row["source"]) for row in graph.query(facts)]
        assert held == [("home of Ada", "m1"), ("how Ada travels", "m2"), ("review of Tern", "m4")]
        ever = [(row["topic"], row["source"]) for row in graph.query(facts, as_of="ever")]
        assert ever == sorted([*held, ("review of Tern", "m3")])
        # The third run, of which nobody heard a source, was not merged, and had to go for the purge.
        assert graph.branches.list() == ["main"]
        assert [commit.operation for commit in graph.commits.list(limit=1)] == ["purge"]
        queries = EXAMPLES / "agent_memory" / "queries.gq"
        assert graph.query(queries, "unfounded").rows == []
    assert not [path for path in (place / "memory.omni").rglob("*") if b"Ines" in _bytes(path)]
    told = dict(re.findall(r"^  (.*?):  +(.*)$", printed, re.MULTILINE))
    assert told["today"] == told["of 10 March, now"] == "The review of project Tern is on 19 March"
    assert told["of 10 March, after run 1"] == "The review of project Tern is on 12 March"
    assert "not merged, nobody said: Ada owns a boat" in printed
    assert "m4, written by agent-run-2, merged by editor" in printed
    params = {"question": "When is the review?", "topic": "review of Tern", "name": "Tern"}
    drawn = draw_every_query(place / "memory.omni", "agent_memory", params)
    assert len(drawn) == 8


def _bytes(path):
    return path.read_bytes() if path.is_file() else b""


def test_the_chain_names_the_products_that_a_supplier_is_built_into(ran):
    printed, place = ran("supply_chain", "--parts", "30")
    with og.open(place / "chain.omni", mode="r") as graph:
        supplies = [(r["from"], r["to"]) for r in graph.edges("Supplies").to_arrow().to_pylist()]
        made_of = [(r["from"], r["to"]) for r in graph.edges("MadeOf").to_arrow().to_pylist()]
        needs = [(r["from"], r["to"]) for r in graph.edges("Needs").to_arrow().to_pylist()]
        queries = EXAMPLES / "supply_chain" / "queries.gq"
        for supplier in {supplier for supplier, _ in supplies}:
            hit = {part for code, part in supplies if code == supplier}
            wholes = set()
            for _ in range(6):
                wholes |= {whole for whole, part in made_of if part in hit | wholes}
            expected = {product for product, part in needs if part in wholes}
            found = graph.query(queries, "hit_by", {"supplier": supplier})
            assert {row["product"] for row in found} == expected
        sources = {part: [s for s, p in supplies if p == part] for _, part in supplies}
        single = graph.query(queries, "single_source").rows
        assert {row["part"] for row in single} == {p for p, of in sources.items() if len(of) == 1}
        assert graph.branches.list() == ["main"]
        assert len(graph.commits.list()) == 7
    assert "nobody supplies" in printed
    params = {"supplier": supplies[0][0], "part": supplies[0][1]}
    assert len(draw_every_query(place / "chain.omni", "supply_chain", params)) == 7


def test_the_library_finds_by_words_and_by_vectors(ran):
    printed, place = ran("research_library", "--papers", "24")
    with og.open(place / "library.omni", mode="r") as graph:
        assert graph.snapshot().tables["node:Paper"].row_count == 24
        vectors = graph.nodes("Paper", columns=["embedding"]).to_arrow()["embedding"]
        assert vectors.null_count == 0
        cites = [(r["from"], r["to"]) for r in graph.edges("Cites").to_arrow().to_pylist()]
        influence = graph.query(EXAMPLES / "research_library" / "queries.gq", "influence")
        for row in influence:
            assert row["citations"] == sum(to == row["paper"] for _, to in cites)
        author, topic = (
            graph.nodes(each).to_arrow()["id"][0].as_py() for each in ("Author", "Topic")
        )
    assert "1 change, update of w0" in printed
    params = {"text": "graph", "author": author, "topic": topic}
    assert len(draw_every_query(place / "library.omni", "research_library", params)) == 9


def test_the_queries_of_the_others_have_pictures_too(tmp_path):
    for name in ("social", "daily_orders"):
        og.init(tmp_path / name, EXAMPLES / name / "schema.pg", embedder=Even()).close()
    with og.open(tmp_path / "social", embedder=Even()) as graph:
        graph.load(EXAMPLES / "social" / "people.jsonl")
    params = {"handle": "ada", "text": "engines", "since": "2020-01-01", "sku": "s1"}
    assert len(draw_every_query(tmp_path / "social", "social", params)) == 4
    assert len(draw_every_query(tmp_path / "daily_orders", "daily_orders", params)) == 5
