"""An agent's memory: every run writes to a branch, which somebody else checks before it is believed.

    python run.py [--place DIR]

1. Each run writes what it heard and concluded to a branch of its own. `assert` ends what is no longer true.
2. An editor looks at the difference and for facts without a source, and merges the branch, or leaves it.
3. An answer is traced back to what was said, and to the agent and the commit that wrote it.
4. The memory is asked what it knew when it decided something: `time` is when, `as_of` about when.
5. A person asks to be forgotten: what is about her is purged.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import zlib
from collections.abc import Sequence
from datetime import datetime
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


def propose(graph: og.Graph, run: str, told: dict[str, list[dict[str, object]]]) -> str:
    """Write what a run heard and concluded to a branch of its own, as the agent; return the branch."""
    branch, agent = f"runs/{run}", f"agent-{run}"
    graph.load(told["heard"], branch=branch, from_branch="main", actor=agent)
    graph.mutate(QUERIES, "concluded", {"facts": told["facts"]}, branch=branch, actor=agent)
    return branch


def review(graph: og.Graph, branch: str) -> None:
    """Look at what a branch would change, and merge it as another actor if every fact has a source."""
    changes = [one for one in graph.diff("main", branch).changes if one.type == "Fact"]
    begun = sum(one.op == "insert" for one in changes)
    ended = sum(one.op == "update" for one in changes)
    unfounded = [row["statement"] for row in graph.query(QUERIES, "unfounded", branch=branch)]
    if unfounded:
        print(f"{branch}: {begun} begin, {ended} end; not merged, nobody said: {unfounded[0]}")
        return
    plan = graph.branches.merge(branch, dry_run=True)
    graph.branches.merge(branch, actor="editor", delete_branch=True)
    print(f"{branch}: {begun} begin, {ended} end; merged ({plan.outcome})")


def forget(graph: og.Graph, name: str) -> None:
    """Purge somebody: all facts about them, and the messages these come from."""
    told = graph.query(QUERIES, "told_of", {"name": name}).rows
    entities = {
        "Entity": [name],
        "Fact": sorted({row["fact"] for row in told}),
        "Message": sorted({row["message"] for row in told}),
    }
    plan = graph.purge(entities, dry_run=True)
    for obstacle in plan.obstacles:
        if obstacle.kind == "branch" and obstacle.name in graph.branches.list():
            print(f"  {obstacle.name} was made from a state with {name} in it: deleted")
            graph.branches.delete(obstacle.name, actor="editor")
    report = graph.purge(entities, reason=f"request of {name[0]}.", actor="editor")
    gone = ", ".join(f"{count} {kind}" for kind, count in report.purged.items())
    print(f"  purged {gone}; {len(plan.unreadable)} old commits cannot be read any more")


def main() -> None:
    """Run the whole of it in a new directory."""
    parser = argparse.ArgumentParser(description="The memory of an agent.")
    parser.add_argument("--place", type=Path, default=Path("agent_memory.out"))
    place = parser.parse_args().place
    shutil.rmtree(place, ignore_errors=True)
    plots = place / "plots"
    plots.mkdir(parents=True)

    graph = og.init(place / "memory.omni", HERE / "schema.pg", embedder=Words())
    after: dict[str, datetime] = {}
    for run, told in json.loads((HERE / "runs.json").read_text("utf-8")).items():
        review(graph, propose(graph, run, told))
        after[run] = graph.commits.list(limit=1)[0].created_at

    print("\nWhen is the review of Tern?")
    question = {"question": "when is the review of project Tern"}
    answer = graph.query(QUERIES, "recall", question)[0]
    print(f"  {'today:':26}", answer["statement"])
    # What it said of 10 March when it had heard only the first run, and what it says of that day now.
    for known, time in (("after run 1:", after["run-1"]), ("now:", None)):
        found = graph.query(QUERIES, "recall", question, time=time, as_of="2026-03-10")
        print(f"  of 10 March, {known:13}", found[0]["statement"])

    print("\nWhy?")
    for row in graph.query(QUERIES, "why", {"topic": "review of Tern"}):
        print(f"  {row['role']} in {row['run']}: {row['text']}")
    source = graph.blame("node", "Fact", answer["fact"]).properties["source"]
    agents = ", ".join(source["via"]["actors"])
    print(f"  {source['value']}, written by {agents}, merged by {source['actor_id']}")
    print("\nNo longer so:")
    for row in graph.query(QUERIES, "past"):
        print(f"  {row['statement']}, until {row['until'][:10]}")

    print("\nInes asks to be forgotten:")
    forget(graph, "Ines")

    counts = {row["entity"]: row["facts"] for row in graph.query(QUERIES, "facts_by_entity")}
    (plots / "facts.svg").write_text(bars("Facts by whom they are about", counts), "utf-8")
    links = [(row["fact"], row["entity"]) for row in graph.query(QUERIES, "links")]
    nodes = {fact: "fact" for fact, _ in links} | {name: "entity" for _, name in links}
    (plots / "memory.svg").write_text(network("What is remembered", nodes, links), "utf-8")
    print(f"\nplots: {plots}")
    graph.close()


if __name__ == "__main__":
    main()
