"""What the skill tells an agent is so: its commands run, and its claims about values and rules hold.

Blocks of other languages are run by ``tests/test_docs.py`` and ``tests/cli/test_manual.py``.
"""

import json
import re
import shlex
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import omnigraph as og
from omnigraph.errors import ConstraintError, InputError, KeyConflict
from omnigraph.skill import page_names, page_text
from omnigraph.types.scalar import Scalar

PERSON = {"tags": [], "joined": "2020-01-01", "role": "member"}
RECORDS = [
    {"type": "Person", "data": {"handle": "ada", "name": "Ada", "age": 36, **PERSON}},
    {"type": "Person", "data": {"handle": "bob", "name": "Bob", "age": 30, **PERSON}},
    {"edge": "Knows", "from": "ada", "to": "bob", "data": {"since": "2019-05-01"}},
]


def blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", page_text(page), re.MULTILINE | re.DOTALL)


def commands():
    """Every command of a block or of the text that names the graph as `GRAPH`, in order of the pages."""
    for page in ["schema", "data", "branches"]:
        for block in blocks(page, "sh"):
            yield from ((page, line) for line in block.splitlines())
    for page in page_names():
        for said in re.findall(r"`(omnigraph [^`]*)`", page_text(page)):
            if "GRAPH" in said and "…" not in said and not re.search(r"\b(ID|FILE)\b", said):
                yield page, said


@pytest.fixture
def graph(tmp_path):
    """The graph of the page about schemas, with files of the names that the pages use."""
    (schema,) = blocks("schema", "pg")
    (tmp_path / "library.pg").write_text(schema, "utf-8")
    with og.init(tmp_path / "library", schema) as made:
        made.load(RECORDS)
    lines = "".join(json.dumps(record) + "\n" for record in RECORDS)
    (tmp_path / "people.jsonl").write_text(lines, "utf-8")
    (tmp_path / "new.jsonl").write_text(lines.replace('"Ada"', '"Ada L"'), "utf-8")
    (tmp_path / "people.csv").write_text(
        "handle,name,age,tags,joined,role\ncy,Cy,20,[],2020-01-01,member\n", "utf-8"
    )
    pq.write_table(pa.table({"from": ["ada"], "to": ["cy"]}), tmp_path / "knows.parquet")
    return tmp_path / "library"


def test_every_command_runs(launcher, graph):
    ran = 0
    for page, line in commands():
        words = shlex.split(line.replace("GRAPH", "library"), comments=True)
        if not words:
            continue
        result = launcher.run(words[1:], graph.parent)
        assert result.exit == 0, (page, line, result.stderr)
        ran += 1
    assert ran > 15


def test_the_scalars_are_those_of_the_language():
    (listed,) = re.findall(r"Scalars: `([\w ]+)`", page_text("schema"))
    assert listed.split() == [scalar.value for scalar in Scalar]


def edges(graph):
    tables = graph.snapshot().to_json()["tables"]
    return next(table["row_count"] for table in tables if table["table_key"] == "edge:Knows")


class TestData:
    @pytest.mark.parametrize(
        ("mode", "kept"),
        [("merge", [("Ada", None)]), ("patch", [("Ada", 36)])],
    )
    def test_a_record_replaces_or_changes(self, graph, mode, kept):
        with og.open(graph) as opened:
            data = {"handle": "ada", "name": "Ada"} | (PERSON if mode == "merge" else {})
            opened.load([{"type": "Person", "data": data}], mode=mode)
            rows = opened.query(
                'query q() { match { $p: Person { handle: "ada" } } return { $p.name as n, $p.age as a } }'
            ).rows
        assert [(row["n"], row["a"]) for row in rows] == kept

    def test_append_refuses_an_id_that_is_there(self, graph):
        with og.open(graph) as opened, pytest.raises(KeyConflict):
            opened.load(RECORDS[:1], mode="append")

    def test_overwrite_empties_what_is_loaded_and_nothing_else(self, graph):
        with og.open(graph) as opened:
            opened.load([{"edge": "Knows", "from": "bob", "to": "ada"}], mode="overwrite")
            rows = opened.query("query q() { match { $p: Person $p knows $q } return { $p.name } }")
            assert rows.rows == [{"p.name": "Bob"}]

    def test_an_edge_without_an_id_is_new_unless_its_ends_are_unique(self, graph, tmp_path):
        with og.open(graph) as opened:
            opened.load(RECORDS[2:])
            assert edges(opened) == 2
        schema = (
            "node Person { name: String @key }\nedge Knows: Person -> Person { @unique(src, dst) }"
        )
        people = [{"type": "Person", "data": {"name": name}} for name in "ab"]
        with og.init(tmp_path / "unique", schema) as unique:
            for _ in range(2):
                unique.load([*people, {"edge": "Knows", "from": "a", "to": "b"}])
            assert edges(unique) == 1

    def test_large_integers_are_texts_in_answers_and_parameters_not_in_records(
        self, launcher, tmp_path
    ):
        large = 2**53 + 1
        with og.init(tmp_path / "g", "node N { k: String @key  n: I64 }") as graph:
            graph.load([{"type": "N", "data": {"k": "a", "n": large}}])
            with pytest.raises(InputError, match="expected an integer"):
                graph.load([{"type": "N", "data": {"k": "b", "n": str(large)}}])
        asked = "query q($n: I64) { match { $x: N { n: $n } } return { $x.n as n } }"
        given = json.dumps({"n": str(large)})
        result = launcher.run(["query", "g", "-e", asked, "--params", given, "--json"], tmp_path)
        assert result.json["rows"] == [{"n": str(large)}]


def test_the_rules_of_a_schema_are_checked_on_every_write(tmp_path):
    schema = 'node P { k: String @key  c: String @unique  n: I32?  e: enum(a, b)  @range(n, 0..9)  @check(c, "^x") }'
    good = {"k": "1", "c": "x", "n": 1, "e": "a"}
    with og.init(tmp_path / "g", schema) as graph:
        graph.load([{"type": "P", "data": good}])
        for wrong in ({"c": "y"}, {"n": 10}, {"e": "z"}, {"k": "2"}):
            with pytest.raises(ConstraintError):
                graph.load([{"type": "P", "data": good | wrong}])


def test_a_schema_changes_as_the_page_says(tmp_path):
    with og.init(tmp_path / "g", "node P { k: String @key  old: String  e: enum(a) }") as graph:
        steps = graph.schema.plan(
            'node P { k: String @key  new: String @rename_from("old") @index  e: enum(a, b)  more: I32? }\n'
            "node Q { k: String @key }"
        )
        assert steps.supported, steps
        dropped = graph.schema.plan("node P { k: String @key  e: enum(a) }")
        assert dropped.supported, dropped
        unsupported = graph.schema.plan(
            "node P { k: String @key  old: String  e: enum(a)  must: I32 }"
        )
        assert not unsupported.supported


def test_pages_are_all_known():
    assert set(page_names()) == {"branches", "data", "python", "queries", "schema"}
    assert (Path(og.__file__).parent / "skill" / "SKILL.md").is_file()
