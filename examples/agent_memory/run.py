"""An agent's memory: every run writes to a branch, which is checked before it is believed.

    python run.py [--place DIR]

1. Each run loads what it heard and concluded into a branch of its own.
2. A query looks for facts without a source. Only a branch without any is merged into `main`.
3. A fact is traced back to the messages it came from, and beliefs of the past are asked at a tag.
4. A fact that should not have been believed is forgotten; the commit that did it says who and when.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

import omnigraph as og

sys.path.append(str(Path(__file__).resolve().parents[1]))
from charts import bars, network

HERE = Path(__file__).parent
QUERIES = HERE / "queries.gq"


class Words:
    """Vectors without a model or a network: texts that share words are near each other."""

    model = "words-1"

    def embed(self, texts: Sequence[str], dimension: int) -> npt.NDArray[np.float64]:
        """Return a vector of length 1 for each text."""
        vectors = np.zeros((len(texts), dimension))
        for row, text in enumerate(texts):
            for word in text.lower().split():
                vectors[row, zlib.crc32(word.strip(".,?").encode()) % dimension] += 1
        lengths: npt.NDArray[np.float64] = np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors / lengths


def remember(graph: og.Graph, run: str, records: list[dict[str, object]]) -> None:
    """Load a run into a branch, and merge it if every fact has a source."""
    graph.load(records, branch=run, from_branch="main", actor=run)
    unfounded = [row["fact"] for row in graph.query(QUERIES, "unfounded", branch=run)]
    if unfounded:
        print(f"{run}: stays a branch, nobody said {', '.join(unfounded)}")
        return
    changed = [change for change in graph.diff("main", run) if change.type == "Fact"]
    graph.branches.merge(run, actor="reviewer", delete_branch=True)
    graph.tags.create(f"after-{run}")
    print(f"{run}: merged {', '.join(change.id for change in changed)}")


def main() -> None:
    """Run the whole of it in a new directory."""
    parser = argparse.ArgumentParser(description="The memory of an agent.")
    parser.add_argument("--place", type=Path, default=Path("agent_memory.out"))
    place = parser.parse_args().place
    shutil.rmtree(place, ignore_errors=True)
    plots = place / "plots"
    plots.mkdir(parents=True)

    graph = og.init(place / "memory.omni", HERE / "schema.pg", embedder=Words())
    for run, records in json.loads((HERE / "runs.json").read_text("utf-8")).items():
        remember(graph, run, records)

    print("\nWhen is the review of Tern?")
    question = {"question": "when is the review of project Tern"}
    print("  now:        ", graph.query(QUERIES, "recall", question)[0]["statement"])
    then = graph.query(QUERIES, "recall", question, tag="after-run-1")
    print("  after run 1:", then[0]["statement"])
    print("\nWhy?")
    for row in graph.query(QUERIES, "why", {"fact": "review-19"}):
        print(f"  {row['said']} {row['role']} in {row['run']}: {row['text']}")
    print("\nGiven up:")
    for row in graph.query(QUERIES, "revised"):
        print(f"  {row['old']} -> {row['new']} ({row['reason']})")

    forgotten = graph.mutate(QUERIES, "forget", {"fact": "ines-mornings"}, actor="ines")
    print(f"\nForgotten: {forgotten.affected_nodes} fact, {forgotten.affected_edges} edges")
    for commit in graph.commits.list(limit=3):
        print(f"  {commit.operation} by {commit.actor_id}")

    counts = {row["entity"]: row["facts"] for row in graph.query(QUERIES, "facts_by_entity")}
    (plots / "facts.svg").write_text(bars("Facts by whom they are about", counts), "utf-8")
    links = [(row["fact"], row["entity"]) for row in graph.query(QUERIES, "links")]
    nodes = {fact: "fact" for fact, _ in links} | {name: "entity" for _, name in links}
    (plots / "memory.svg").write_text(network("What is remembered", nodes, links), "utf-8")
    print(f"\nplots: {plots}")
    graph.close()


if __name__ == "__main__":
    main()
