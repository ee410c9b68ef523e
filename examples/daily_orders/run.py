"""Keep a graph of orders up to date, day by day, with Spark.

    pip install 'omnigraph[spark]'          # and Java 17 or newer
    python run.py [--orders N] [--days N] [--place DIR]

1. The first delivery is loaded into `main`.
2. Each day goes to a branch of its own. Rows that are wrong are left out and kept for the shop to
   mend. The branch is asked whether it is whole, and only then merged into `main`.
3. A stream brings what has changed in `main` to a second graph. It goes on where it stopped, so it
   can run once a day, as here, or all the time.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from pathlib import Path
from typing import Any

from shop import deliver

import omnigraph as og

try:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
except ImportError:
    sys.exit("this example needs Spark: pip install 'omnigraph[spark]', and Java 17 or newer")

HERE = Path(__file__).parent
CHECKS = ("nobodys_orders", "empty_orders")
# The ends of an edge come before it.
TYPES = ("Customer", "Product", "Order", "Placed", "Contains")


class Pipeline:
    """The graph, where deliveries come from, and where rows go that nobody could load."""

    def __init__(self, place: Path, spark: SparkSession) -> None:
        place = place.resolve()  # processes of Spark's may be elsewhere
        self.deliveries, self.rejects = place / "deliveries", place / "rejects"
        self.spark = spark
        self.rejects.mkdir(parents=True)
        self.graph = og.init(place / "shop.omni", HERE / "schema.pg")
        self.copy = og.init(place / "copy.omni", HERE / "schema.pg")
        self.checkpoints = place / "checkpoints"

    def close(self) -> None:
        """Close both graphs."""
        self.graph.close()
        self.copy.close()

    def load(self, orders: int, days: int) -> None:
        """Make the deliveries, and load one after another."""
        deliver(self.deliveries, orders, days)
        self.first_load()
        for number in range(1, days + 1):
            self.load_day(f"day-{number}")

    def first_load(self) -> None:
        """Load all that the shop has; nothing in it may be wrong."""
        first = self.deliveries / "first"
        for name, file in (("Customer", "customers.parquet"), ("Product", "products.parquet")):
            loaded = self.graph.load_nodes(name, first / file, mode="append", spark=self.spark)
            print(f"{name}: {loaded.total_rows} rows")
        self.write_orders(first / "orders.parquet", branch="main")

    def load_day(self, name: str) -> None:
        """Load a day into a branch, see whether it is whole, and merge it."""
        folder = self.deliveries / name
        loaded = self.graph.load_nodes(
            "Customer",
            folder / "customers.csv",
            branch=name,
            from_branch="main",
            columns={"CustomerID": "cid", "Name": "name", "City": "city", "Since": "since"},
            ignore_extra=True,
            delimiter=";",
            null=["n/a"],
            encoding="latin-1",
            on_bad="skip",
            rejects=self.rejects / f"{name}-customers.jsonl",
        )
        print(f"{name}: {loaded.total_rows} customers, {loaded.skipped} left out")
        self.write_orders(
            folder / "orders.parquet", branch=name, merge="true", on_bad="skip", rejects=name
        )
        for check in CHECKS:
            found = self.graph.query(HERE / "queries.gq", check, branch=name)
            if found.rows:
                raise SystemExit(f"{name} stays a branch: {check} found {found.rows[:3]}")
        merged = self.graph.branches.merge(name, delete_branch=True)
        print(f"{name}: {merged.stats.inserts} new, {merged.stats.updates} changed in main")

    def write_orders(self, source: Path, **options: str) -> None:
        """Write one file of orders to three types: the orders, who placed them, what they contain."""
        rows = self.spark.read.parquet(str(source))
        self.write("Order", rows.select("oid", "day", "state", "amount"), **options)
        self.write("Placed", rows.select("cid", "oid"), from_col="cid", to_col="oid", **options)
        contains = rows.select("oid", "sku", "quantity")
        self.write("Contains", contains, from_col="oid", to_col="sku", **options)

    def write(self, type: str, rows: DataFrame, **options: str) -> None:
        """Write a frame to one type; `rejects` is the beginning of the name of a file."""
        if "rejects" in options:
            file = self.rejects / f"{options['rejects']}-{type.lower()}.jsonl"
            options["rejects"] = str(file)
        given: dict[str, Any] = {"graph": self.graph.uri, "type": type, **options}
        rows.write.format("omnigraph").options(**given).mode("append").save()

    def follow(self, name: str) -> StreamingQuery:
        """Start to bring to the copy what has changed of a type since this ran last; ends by itself.

        Every micro-batch is one commit there, and is made once: killed and started again, this ends
        with the same copy. Nothing is ever deleted in this shop; where it is, such changes come with
        the `op` delete, for a statement of yours to delete by.
        """
        feed = {"feed": "main", "types": name, "typed": "true", "startingFrom": "beginning"}
        changes = (
            self.spark.readStream.format("omnigraph").options(graph=self.graph.uri, **feed).load()
        )
        return (
            changes.where("op <> 'delete'")
            .drop("op", "graph_commit_id")
            .writeStream.format("omnigraph")
            .options(graph=self.copy.uri, type=name, merge="true", app_id=f"copy of {name}")
            .option("checkpointLocation", str(self.checkpoints / name))
            .trigger(availableNow=True)
            .start()
        )


def main() -> None:
    """Run the whole of it in a new directory."""
    parser = argparse.ArgumentParser(description="Orders of a shop, day by day.")
    parser.add_argument("--orders", type=int, default=200, help="how many there are at first")
    parser.add_argument("--days", type=int, default=3)
    parser.add_argument("--place", type=Path, default=Path("daily_orders.out"))
    given = parser.parse_args()
    shutil.rmtree(given.place, ignore_errors=True)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = SparkSession.builder.master("local[*]").appName("daily orders").getOrCreate()
    pipeline = Pipeline(given.place, spark)
    pipeline.load(given.orders, given.days)
    for name in TYPES:
        pipeline.follow(name).awaitTermination()
    for row in pipeline.copy.query(HERE / "queries.gq", "orders_by_state"):
        print(row)
    pipeline.close()
    spark.stop()


if __name__ == "__main__":
    main()
