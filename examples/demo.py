"""One story (`./dev demo`): a network is loaded, questioned, changed and looked back at.

    python -m examples.demo [--records N] [--plots DIR] [--installing SECONDS]

The graph is a made-up social network of the schema `examples/social/schema.pg`, in a directory that is removed
at the end. The plots stay. The last line says what the load took and the whole, with the seconds that installing
took before.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import omnigraph as og
from examples import charts
from examples.demo_load import QUERIES, QUESTIONS, Clock, chosen, edge, network, node

SOCIAL = Path(__file__).parent / "social"
LOST = "query lost() { match { $p: Person  $p.agee = 30 } return { $p.handle } }"
FRIENDS = """
query friends($handle: String) {
  match { $me: Person { handle: $handle }  $me knows $near  $near knows $far }
  return { $near.handle as near, $far.handle as far }
  limit 60
}
"""
PERSON = """
query person($handle: String) {
  match { $p: Person { handle: $handle } }
  return { $p.handle as handle, $p.age as age, $p.level as level }
}
"""
FIX = "query fix($handle: String) { update Person set { age: 40 } where handle = $handle }"
CLUBS = """
node Club {
  slug: String @key
}

edge MemberOf: Person -> Club
"""
MOVE = 'query move() { update Person set { city: "London" } where handle = "p7" }'
CITY = 'query city() { match { $p: Person { handle: "p7" } } return { $p.city as city } }'
COUNT = "query n() { match { $p: Person } return { count($p) as people } }"


def main(
    records: int = 300_000,
    engine: str = "spark",
    plots: Path | None = None,
    installing: float | None = None,
) -> None:
    """Tell the story with about that many records, loaded on that engine."""
    began = time.perf_counter()
    took: dict[str, float] = {} if installing is None else {"installing": installing}
    plots = plots or Path(tempfile.mkdtemp(prefix="omnigraph-demo-"))
    plots.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as place,
        og.init(f"{place}/graph", SOCIAL / "schema.pg", actor="demo") as graph,
    ):
        source = Path(place, "network.jsonl")
        chapters = {
            "1. A schema, and a mistake that is found before anything runs": schema(graph),
            "2. A load into a branch, as one commit": load(graph, source, records, engine, took),
            "3. Questions, asked on the branch": questions(graph, plots),
            "4. The branch becomes main; a change is tried, compared and merged": changes(graph),
            "5. The schema changes under the data": evolving(graph),
            "6. A schema is reviewed on a branch, and merged with its data": review(graph),
            "7. Time travel: the same questions, asked of the past": past(graph, plots),
            "8. Upkeep: small files are merged, old ones removed": upkeep(graph),
        }
        for title, lines in chapters.items():
            print(f"\n{title}\n{'-' * len(title)}")
            for line in lines:
                print(line, flush=True)
    print(f"\nplots: {plots}")
    took["in all"] = time.perf_counter() - began + (installing or 0)
    print(", ".join(f"{what} {seconds:.1f} s" for what, seconds in took.items()))


def schema(graph: og.Graph) -> Iterator[str]:
    """What the graph may hold, and how a wrong query is refused."""
    yield str(graph.schema.catalog)
    try:
        graph.query(LOST)
    except og.errors.SourceError as error:
        yield f"\n{error.render()}"


def load(
    graph: og.Graph, source: Path, records: int, wanted: str, took: dict[str, float]
) -> Iterator[str]:
    """A file of JSON lines becomes a branch; what breaks a rule changes nothing."""
    clock = Clock()
    with source.open("w", encoding="utf-8") as file:
        count = sum(bool(file.write(json.dumps(record) + "\n")) for record in network(records))
    yield clock.told(f"made up {count:,} records, {source.stat().st_size / 1e6:.0f} MB")
    began = time.perf_counter()
    engine, note = chosen(wanted)
    yield from note
    loaded = graph.load(source, mode="append", branch="import", from_branch="main", engine=engine)
    took[f"the load ({loaded.engine} engine)"] = time.perf_counter() - began
    yield clock.told(
        f"loaded {loaded.total_rows:,} rows into the new branch `import` ({loaded.engine} engine), "
        f"{len(loaded.indexes_built)} indexes built on the way"
    )
    try:
        graph.load([edge("Knows", "p1", "p2"), edge("Knows", "p1", "nobody")], branch="import")
    except og.errors.OmniGraphError as error:
        yield f"refused, nothing changed: {error}"


def questions(graph: og.Graph, plots: Path) -> Iterator[str]:
    """Traversal, grouping and full text; two of the answers are drawn."""
    clock = Clock()
    for question, name, given in QUESTIONS:
        answer = graph.query(QUERIES, name, given, branch="import")
        yield clock.told(question)
        yield f"{answer}\n"
        if name == "busiest":
            counts = {row["company"]: row["articles"] for row in answer}
            (plots / "companies.svg").write_text(charts.bars("Articles", counts), "utf-8")
    near = graph.query(FRIENDS, {"handle": "p7"}, branch="import").rows
    pairs = [("p7", row["near"]) for row in near] + [(row["near"], row["far"]) for row in near]
    groups = {far: "two steps away" for _, far in pairs}
    groups |= {near: "known" for start, near in pairs if start == "p7"} | {"p7": "p7"}
    drawn = charts.network("Whom p7 reaches", groups, dict.fromkeys(pairs))
    (plots / "network.svg").write_text(drawn, "utf-8")
    yield "drawn: companies.svg, network.svg"


def changes(graph: og.Graph) -> Iterator[str]:
    """Merge the load; then two people change the same person, and the conflict is shown and resolved."""
    clock = Clock()
    merged = graph.branches.merge("import", delete_branch=True)
    people = graph.query(COUNT).scalar()
    yield clock.told(f"merged `import` ({merged.outcome}): main has {people:,} people now")
    graph.tags.create("imported")
    review = [
        node("Person", handle="p7", age=37),
        node("Person", handle="zoe", name="Zoe", joined="2026-01-01", level="guest"),
        edge("Knows", "zoe", "p7"),
    ]
    graph.load(review, mode="patch", branch="review", from_branch="main")
    yield clock.told("the branch `review`, beside main:")
    yield from (f"  {_shown(change)}" for change in graph.diff("main", "review"))
    graph.mutate(FIX, {"handle": "p7"})
    plan = graph.branches.merge("review", dry_run=True)
    yield f"meanwhile main changed too; a dry run of the merge finds {len(plan.conflicts)} conflict:"
    yield from (f"  {conflict.kind}: {conflict.message}" for conflict in plan.conflicts)
    done = graph.branches.merge("review", resolve="theirs", delete_branch=True)
    yield clock.told(
        f"merged with resolve=theirs: {done.stats.inserts} inserted, {done.stats.updates} updated"
    )


def evolving(graph: og.Graph) -> Iterator[str]:
    """The next schema renames, adds and drops; no row is rewritten."""
    clock = Clock()
    done = graph.schema.apply(SOCIAL / "schema-next.pg")
    yield from (f"{number}. {step.describe()}" for number, step in enumerate(done.steps, 1))
    yield clock.told("applied as one commit")
    graph.mutate(MOVE)
    yield clock.told("and the new property is used: p7 lives in London")


def review(graph: og.Graph) -> Iterator[str]:
    """A property and a type are added on a branch, filled, compared and merged; a drop meets an edit."""
    clock = Clock()
    graph.branches.create("clubs")
    wider = graph.schema.source.replace("  city: String?", "  motto: String?\n  city: String?")
    graph.schema.apply(wider + CLUBS, branch="clubs")
    filled = [
        node("Person", handle="p7", motto="Read the schema first"),
        node("Club", slug="chess"),
        edge("MemberOf", "p7", "chess"),
    ]
    graph.load(filled, mode="patch", branch="clubs")
    graph.mutate(FIX, {"handle": "p7"})
    yield clock.told("`clubs` has a schema of its own; what a reviewer sees beside main:")
    steps = graph.schema.diff("main", "clubs").steps
    yield from (f"  {step.describe()}" for step in steps)
    yield from (f"  {_shown(change)}" for change in graph.diff("main", "clubs"))
    done = graph.branches.merge("clubs", delete_branch=True)
    yield clock.told(
        f"merged beside an edit of p7 on main: {done.stats.inserts} inserted, {done.stats.updates} updated"
    )
    graph.branches.create("slim")
    graph.schema.apply(graph.schema.source.replace("  city: String? @index\n", ""), branch="slim")
    graph.mutate(MOVE.replace("London", "Oslo"))
    try:
        graph.branches.merge("slim")
    except og.errors.MergeConflicts as error:
        yield "`slim` drops a property that main goes on using:"
        yield from (
            f"  {conflict['kind']}: {conflict['message']}"
            for conflict in error.details["conflicts"]
        )
    graph.branches.merge("slim", resolve_schema="ours", delete_branch=True)
    yield clock.told(
        f"merged with resolve_schema=ours: p7 still lives in {graph.query(CITY).scalar()}"
    )


def past(graph: og.Graph, plots: Path) -> Iterator[str]:
    """The same query now and at a tag; how many people there were after each commit."""
    now, then = (graph.query(PERSON, {"handle": "p7"}, tag=tag).rows for tag in (None, "imported"))
    yield f"p7 now:                   {now[0]}"
    yield f"p7 at the tag `imported`: {then[0]}"
    commits = list(graph.commits.list())[::-1]
    counted = [graph.query(COUNT, at=commit).scalar() for commit in commits]
    for commit, people in zip(commits, counted, strict=True):
        yield f"  {commit.operation:<14} {people:>9,} people"
    labels = [commit.operation for commit in commits]
    drawn = charts.lines("People after each commit", labels, {"people": counted})
    (plots / "history.svg").write_text(drawn, "utf-8")
    yield "drawn: history.svg"


def upkeep(graph: og.Graph) -> Iterator[str]:
    """Put the tables in shape, and remove what no branch and no tag needs."""
    clock = Clock()
    yield clock.told(str(graph.optimize()))
    yield clock.told(f"\n{graph.cleanup(keep_versions=1)}")
    yield f"the past that a tag names stays: {graph.query(COUNT, tag='imported').scalar():,} people"


def _shown(change: og.Change) -> str:
    """A change in one line, an update with the properties it changed."""
    told = f"{change.op} {change.type} {change.id}"
    if change.op != "update" or change.before is None or change.after is None:
        return told
    before: dict[str, Any] = change.before["properties"]
    after: dict[str, Any] = change.after["properties"]
    changed = {
        name: [before.get(name), after[name]] for name in after if before.get(name) != after[name]
    }
    return f"{told} {json.dumps(changed)}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=300_000)
    parser.add_argument("--plots", type=Path, help="the folder for plots, a new one by default")
    parser.add_argument("--installing", type=float, help="seconds that it took before")
    given = parser.parse_args()
    main(given.records, plots=given.plots, installing=given.installing)
