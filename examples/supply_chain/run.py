"""A supply chain: who is hit if a supplier fails, tried on a branch, and prices over time.

    python run.py [--parts N] [--place DIR]

1. Suppliers, parts and products are loaded, then the prices of five later months, a commit each.
2. Questions that follow the bill of materials down to the parts that are bought.
3. What if? A branch on which a supplier fails: the same questions there, and the difference to `main`.
4. The past: the price of a part month by month, read from the commits themselves.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

from chain import chain, new_prices

import omnigraph as og

sys.path.append(str(Path(__file__).resolve().parents[1]))
from charts import bars, lines, network

HERE = Path(__file__).parent
QUERIES = HERE / "queries.gq"
MONTHS = 6


def main() -> None:
    """Run the whole of it in a new directory."""
    parser = argparse.ArgumentParser(description="A supply chain.")
    parser.add_argument("--parts", type=int, default=40)
    parser.add_argument("--place", type=Path, default=Path("supply_chain.out"))
    given = parser.parse_args()
    shutil.rmtree(given.place, ignore_errors=True)
    plots = given.place / "plots"
    plots.mkdir(parents=True)

    graph = og.init(given.place / "chain.omni", HERE / "schema.pg")
    commits = [graph.load(chain(given.parts)).commit]
    commits += [graph.load(new_prices(month, given.parts)).commit for month in range(1, MONTHS)]
    print(graph.snapshot())

    print("\nParts with one supplier only, the least stock first:")
    single = graph.query(QUERIES, "single_source")
    for row in single.rows[:5]:
        print(f"  {row['part']} from {row['supplier']}: {row['stock']} left, {row['days']} days")
    worst = single[0]["supplier"]
    hit = graph.query(QUERIES, "hit_by", {"supplier": worst})
    print(
        f"\nIf {worst} fails, these products are hit: {', '.join(hit.to_arrow()['product'].to_pylist())}"
    )

    graph.branches.create("what-if")
    graph.mutate(QUERIES, "fails", {"supplier": worst}, branch="what-if")
    before = {row["part"] for row in graph.query(QUERIES, "orphans")}
    after = {row["part"] for row in graph.query(QUERIES, "orphans", branch="what-if")}
    print(f"on the branch `what-if` nobody supplies {', '.join(sorted(after - before))} any more")
    stats = graph.diff("main", "what-if", images=False).stats
    print(f"difference to main: {stats.deletes} deleted; main itself is as it was")
    graph.branches.delete("what-if")

    watched = single[0]["part"]
    months = [f"month {number}" for number in range(MONTHS)]
    history = [graph.query(QUERIES, "prices", {"part": watched}, at=commit) for commit in commits]
    price = [result[0]["price"] for result in history]
    print(f"\nThe lowest price of {watched}: {price[0]} then, {price[-1]} now")

    countries = {row["country"]: row["parts"] for row in graph.query(QUERIES, "by_country")}
    (plots / "countries.svg").write_text(bars("Parts by country", countries), "utf-8")
    chart = lines(f"The lowest price of {watched}", months, {watched: price})
    (plots / "prices.svg").write_text(chart, "utf-8")
    links = [(row["supplier"], row["part"]) for row in graph.query(QUERIES, "links")]
    supplied = [(supplier, part) for supplier, part in links if supplier == worst][:12]
    parts = dict.fromkeys((part for _, part in supplied), "part")
    joined = [(row["whole"], row["part"]) for row in graph.query(QUERIES, "built_from")]
    built = [(whole, part) for whole, part in joined if part in parts]
    nodes = dict.fromkeys((whole for whole, _ in built), "built from it")
    nodes |= parts | {worst: "supplier"}
    drawing = network(f"What {worst} supplies, and what it is built into", nodes, supplied + built)
    (plots / "chain.svg").write_text(drawing, "utf-8")
    print(f"\nplots: {plots}")
    graph.close()


if __name__ == "__main__":
    main()
