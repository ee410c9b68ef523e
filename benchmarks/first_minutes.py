"""The first five minutes with OmniGraph, Kùzu, LanceDB and sqlite-utils: one task, four programs.

    ./dev bench first_minutes [--place DIR]

Each is installed with plain pip into an environment of its own. Its program makes a small graph of people and notes,
asks for the notes on tides by people whom Ada knows within two steps, and for the note nearest to a vector; tries a
change on a branch, compares and merges it; and reads the notes as they were before. What a product does not offer
is left out of its program. Printed: processor time and megabytes of the install, lines of the program, its
processor time in a new process, the least of several, and which of the answers it gave, each compared with the
right one. The environments stay in DIR, if one is given, and are used again: a second run measures the programs alone.
"""

from __future__ import annotations

import argparse
import ast
import resource
import shutil
import sys
import tempfile
import venv
from dataclasses import dataclass
from pathlib import Path

from benchmarks.wheel import build, run, size

RUNS = 5
BEFORE = ["How tides work", "Tide tables of Oslo"]
AFTER = ["How waves work", "Tide tables of Oslo"]
ANSWERS = {
    "ask": ["n1", "n2"],
    "nearest": "n2",
    "branch": AFTER,
    "difference": ["n2"],
    "now": AFTER,
    "before": BEFORE,
}
OMNIGRAPH = r'''
import omnigraph as og

graph = og.init("notes", """
node Person { handle: String @key }
node Note { slug: String @key  text: String @index  place: Vector(2) }
edge Knows: Person -> Person
edge Wrote: Person -> Note
""")
people = [{"type": "Person", "data": {"handle": who}} for who in ("ada", "bob", "cy")]
notes = [
    {"type": "Note", "data": {"slug": "n1", "text": "Tide tables of Oslo", "place": [0.0, 1.0]}},
    {"type": "Note", "data": {"slug": "n2", "text": "How tides work", "place": [1.0, 0.0]}},
]
edges = [
    {"edge": "Knows", "from": "ada", "to": "bob"},
    {"edge": "Knows", "from": "bob", "to": "cy"},
    {"edge": "Wrote", "from": "bob", "to": "n1"},
    {"edge": "Wrote", "from": "cy", "to": "n2"},
]
loaded = graph.load(people + notes + edges)

source = """
query near($who: String, $words: String) {
  match { $p: Person { handle: $who }  $p knows{1,2} $f  $f wrote $n  search($n.text, $words) }
  return { $n.slug as slug } order { slug }
}
query alike($v: Vector(2)) { match { $n: Note } return { $n.slug as slug } order { nearest($n.place, $v) } limit 1 }
query rename() { update Note set { text: "How waves work" } where slug = "n2" }
query texts() { match { $n: Note } return { $n.text as text } order { text } }
"""
print("ask", [r["slug"] for r in graph.query(source, "near", {"who": "ada", "words": "tides"})])
print("nearest", graph.query(source, "alike", {"v": [0.9, 0.1]}).scalar())
graph.branches.create("trial")
graph.mutate(source, "rename", branch="trial")
print("branch", [r["text"] for r in graph.query(source, "texts", branch="trial")])
print("difference", [change.id for change in graph.diff("main", "trial")])
graph.branches.merge("trial")
print("now", [r["text"] for r in graph.query(source, "texts")])
print("before", [r["text"] for r in graph.query(source, "texts", at=loaded.commit)])
'''
KUZU = r'''
import kuzu

conn = kuzu.Connection(kuzu.Database("notes.kuzu"))
conn.execute("CREATE NODE TABLE Person(handle STRING PRIMARY KEY)")
conn.execute("CREATE NODE TABLE Note(slug STRING PRIMARY KEY, text STRING, place FLOAT[2])")
conn.execute("CREATE REL TABLE Knows(FROM Person TO Person)")
conn.execute("CREATE REL TABLE Wrote(FROM Person TO Note)")
for who in ("ada", "bob", "cy"):
    conn.execute("CREATE (:Person {handle: $who})", {"who": who})
notes = [("n1", "Tide tables of Oslo", [0.0, 1.0]), ("n2", "How tides work", [1.0, 0.0])]
for slug, text, place in notes:
    conn.execute("CREATE (:Note {slug: $s, text: $t, place: $p})", {"s": slug, "t": text, "p": place})
for a, b in (("ada", "bob"), ("bob", "cy")):
    conn.execute(
        "MATCH (a:Person {handle: $a}), (b:Person {handle: $b}) CREATE (a)-[:Knows]->(b)", {"a": a, "b": b}
    )
for a, b in (("bob", "n1"), ("cy", "n2")):
    conn.execute("MATCH (a:Person {handle: $a}), (b:Note {slug: $b}) CREATE (a)-[:Wrote]->(b)", {"a": a, "b": b})
conn.execute("INSTALL fts")
conn.execute("LOAD fts")
conn.execute("CALL CREATE_FTS_INDEX('Note', 'words', ['text'])")
found = conn.execute(
    """CALL QUERY_FTS_INDEX('Note', 'words', $words) WITH node.slug AS slug
    MATCH (:Person {handle: $who})-[:Knows*1..2]->(:Person)-[:Wrote]->(n:Note) WHERE n.slug = slug
    RETURN DISTINCT slug ORDER BY slug""",
    {"who": "ada", "words": "tides"},
)
print("ask", [row[0] for row in found])
near = conn.execute(
    "MATCH (n:Note) RETURN n.slug ORDER BY array_distance(n.place, CAST([0.9, 0.1], 'FLOAT[2]')) LIMIT 1"
)
print("nearest", near.get_next()[0])
conn.execute("MATCH (n:Note {slug: 'n2'}) SET n.text = 'How waves work'")
print("now", [row[0] for row in conn.execute("MATCH (n:Note) RETURN n.text ORDER BY n.text")])
'''
LANCEDB = r"""
import lancedb
from lancedb.index import FTS

db = lancedb.connect("notes.lancedb")
notes = db.create_table(
    "notes",
    [
        {"slug": "n1", "text": "Tide tables of Oslo", "vector": [0.0, 1.0], "author": "bob"},
        {"slug": "n2", "text": "How tides work", "vector": [1.0, 0.0], "author": "cy"},
    ],
)
knows = db.create_table("knows", [{"a": "ada", "b": "bob"}, {"a": "bob", "b": "cy"}])
notes.create_index("text", config=FTS())

reached, front = set(), {"ada"}
for _ in range(2):
    names = ", ".join(f"'{who}'" for who in front)
    front = {row["b"] for row in knows.search().where(f"a IN ({names})").to_list()} - reached
    reached |= front
names = ", ".join(f"'{who}'" for who in reached)
found = notes.search("tides", query_type="fts").where(f"author IN ({names})").to_list()
print("ask", sorted(row["slug"] for row in found))
print("nearest", notes.search([0.9, 0.1]).limit(1).to_list()[0]["slug"])
trial = notes.branches.create("trial")
trial.update(where="slug = 'n2'", values={"text": "How waves work"})
print("branch", sorted(row["text"] for row in trial.search().to_list()))
before = notes.version
notes.update(where="slug = 'n2'", values={"text": "How waves work"})
print("now", sorted(row["text"] for row in notes.search().to_list()))
notes.checkout(before)
print("before", sorted(row["text"] for row in notes.search().to_list()))
"""
SQLITE_UTILS = r'''
import sqlite_utils

db = sqlite_utils.Database("notes.db")
db["person"].insert_all(({"handle": who} for who in ("ada", "bob", "cy")), pk="handle")
db["note"].insert_all(
    [{"slug": "n1", "text": "Tide tables of Oslo"}, {"slug": "n2", "text": "How tides work"}], pk="slug"
)
db["knows"].insert_all([{"a": "ada", "b": "bob"}, {"a": "bob", "b": "cy"}], foreign_keys=[("a", "person"), ("b", "person")])
db["wrote"].insert_all([{"a": "bob", "n": "n1"}, {"a": "cy", "n": "n2"}], foreign_keys=[("a", "person"), ("n", "note")])
db["note"].enable_fts(["text"], tokenize="porter", create_triggers=True)

source = """
WITH RECURSIVE reached(who, far) AS (
  SELECT b, 1 FROM knows WHERE a = :who
  UNION SELECT knows.b, far + 1 FROM knows JOIN reached ON knows.a = reached.who WHERE far < 2
)
SELECT DISTINCT note.slug FROM reached
JOIN wrote ON wrote.a = reached.who JOIN note ON note.slug = wrote.n
JOIN note_fts ON note_fts.rowid = note.rowid
WHERE note_fts MATCH :words ORDER BY 1
"""
print("ask", [row["slug"] for row in db.query(source, {"who": "ada", "words": "tides"})])
db["note"].update("n2", {"text": "How waves work"})
print("now", [row["text"] for row in db.query("SELECT text FROM note ORDER BY text")])
'''


@dataclass(frozen=True)
class Product:
    """What is installed, and the program that uses it."""

    name: str
    requirement: str
    program: str


def main() -> None:
    """Try each product in turn."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--place", type=Path, help="where the environments are kept")
    kept = parser.parse_args().place
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch) if kept is None else kept.resolve()
        place.mkdir(parents=True, exist_ok=True)
        products = [
            Product("OmniGraph", str(build(place)), OMNIGRAPH),
            Product("Kùzu", "kuzu==0.11.3", KUZU),
            Product("LanceDB", "lancedb==0.40.0", LANCEDB),
            Product("sqlite-utils", "sqlite-utils==4.2.1", SQLITE_UTILS),
        ]
        print("| Product | Install | Size | Lines | Program | Answers |\n|---|---|---|---|---|---|")
        for number, product in enumerate(products):
            print(row(product, place / str(number)), flush=True)


def row(product: Product, place: Path) -> str:
    """Install a product if it is not there yet, run its program, and return its row of the table."""
    env = place / "env"
    inside = str(env / "bin" / "python")
    installed, megabytes = "-", "-"
    if not env.exists():
        venv.create(env, with_pip=True)
        empty = size(env)
        start = processor_time()
        run([inside, "-m", "pip", "install", "-q", product.requirement], place)
        installed = f"{processor_time() - start:.0f} s"
        megabytes = f"{size(env) - empty:.0f} MB"
    (place / "program.py").write_text(product.program, "utf-8")
    seconds, given = [], set()
    for attempt in range(RUNS):
        work = place / f"work{attempt}"
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        start = processor_time()
        printed = run([inside, "../program.py"], work)
        seconds.append(processor_time() - start)
        given = answered(printed)
    lines = sum(bool(line.strip()) for line in product.program.splitlines())
    return (
        f"| {product.name} | {installed} | {megabytes} | {lines} | "
        f"{min(seconds):.2f} s | {', '.join(name for name in ANSWERS if name in given)} |"
    )


def processor_time() -> float:
    """Seconds that the ended processes took."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def answered(printed: str) -> set[str]:
    """The names of the answers that a program printed; a wrong one ends the benchmark."""
    given = set()
    for line in printed.splitlines():
        name, _, text = line.partition(" ")
        value = ast.literal_eval(text) if text.startswith("[") else text
        if ANSWERS[name] != value:
            sys.exit(f"{name} is {ANSWERS[name]}, not {value}")
        given.add(name)
    return given


if __name__ == "__main__":
    main()
