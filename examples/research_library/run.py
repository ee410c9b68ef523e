"""A research library: words, vectors and citations in one query.

    python run.py [--papers N] [--place DIR]

1. Papers are loaded; an embedder that needs no network makes the vectors of their abstracts.
2. One question asked three ways: by words, by vectors, and fused.
3. Search along edges: what the co-authors of somebody cite.
4. A reading list is made on a branch, and kept as a tag.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

from library import Letters, library

import omnigraph as og

sys.path.append(str(Path(__file__).resolve().parents[1]))
from charts import bars, lines, network

HERE = Path(__file__).parent
QUERIES = HERE / "queries.gq"
QUESTION = {"text": "predicted melting of glaciers"}


def main() -> None:
    """Run the whole of it in a new directory."""
    parser = argparse.ArgumentParser(description="A research library.")
    parser.add_argument("--papers", type=int, default=60)
    parser.add_argument("--place", type=Path, default=Path("research_library.out"))
    given = parser.parse_args()
    shutil.rmtree(given.place, ignore_errors=True)
    plots = given.place / "plots"
    plots.mkdir(parents=True)

    graph = og.init(given.place / "library.omni", HERE / "schema.pg", embedder=Letters())
    loaded = graph.load(library(given.papers))
    print(loaded)
    graph.tags.create("imported")

    print(f"\n{QUESTION['text']}?")
    for way in ("find_by_words", "find_by_meaning", "find"):
        found = graph.query(QUERIES, way, QUESTION)
        print(f"  {way:16} {', '.join(row['paper'] for row in found)}")
    friends = graph.query(QUERIES, "find_among_friends", {"author": "Ada", "text": "glacier ice"})
    print(f"  among what Ada's co-authors cite: {', '.join(row['paper'] for row in friends)}")
    print("\nNobody cites, on tides:")
    for row in graph.query(QUERIES, "unread", {"topic": "tides"}).rows[:3]:
        print(f"  {row['paper']} ({row['year']})")

    cited = graph.query(QUERIES, "influence")
    print("\nCited most:", ", ".join(f"{row['paper']} {row['citations']}x" for row in cited))
    correction = 'query fix() { update Paper set { title: "Corrected" } where slug = "w0" }'
    graph.mutate(correction, branch="main", actor="librarian")
    changes = list(graph.diff(og.at(tag="imported"), "main"))
    print(f"since the tag `imported`: {len(changes)} change, {changes[0].op} of {changes[0].id}")

    counts = {f"{row['title']} ({row['paper']})": row["citations"] for row in cited}
    (plots / "influence.svg").write_text(bars("Cited most", counts, unit="x"), "utf-8")
    years = graph.query(QUERIES, "by_year").rows
    at, papers = [str(row["year"]) for row in years], [row["papers"] for row in years]
    (plots / "years.svg").write_text(lines("Papers by year", at, {"papers": papers}), "utf-8")
    topics = {row["paper"]: row["topic"] for row in graph.query(QUERIES, "topics").rows[:60]}
    pairs = [(row["from"], row["to"]) for row in graph.query(QUERIES, "citations")]
    drawing = network("Citations, coloured by topic", topics, pairs)
    (plots / "citations.svg").write_text(drawing, "utf-8")
    print(f"\nplots: {plots}")
    graph.close()


if __name__ == "__main__":
    main()
