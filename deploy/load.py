"""Loads files of one type into a graph, as a program for `spark-submit`.

    spark-submit … load.py GRAPH TYPE FILE… [--from-col COLUMN --to-col COLUMN] [--mode merge]

With `--from-col` and `--to-col` the type is an edge type. What was loaded is printed as JSON; what was refused, in one
sentence on the error stream, with exit status 1.
"""

from __future__ import annotations

import argparse
import json
import sys

from pyspark.sql import SparkSession

import omnigraph as og
from omnigraph.errors import OmniGraphError


def main() -> None:
    """Load what the command line names."""
    parser = argparse.ArgumentParser(description="Load files of one type into a graph.")
    parser.add_argument(
        "graph", help="its address: s3a://bucket/prefix, or a path all machines share"
    )
    parser.add_argument("type")
    parser.add_argument("files", nargs="+", help="Parquet, CSV or Arrow files, directories, globs")
    parser.add_argument("--from-col")
    parser.add_argument("--to-col")
    parser.add_argument(
        "--mode", default="merge", choices=["merge", "patch", "append", "overwrite"]
    )
    parser.add_argument("--branch", default="main")
    parser.add_argument("--operation-id", help="a ULID: sent again under it, a load has no effect")
    parser.add_argument("--rejects", help="gets the bad records, which are then left out")
    given = parser.parse_args()
    if (given.from_col is None) != (given.to_col is None):
        parser.error("an edge type needs both --from-col and --to-col")
    try:
        result = load(given)
    except OmniGraphError as error:
        sys.exit(str(error))
    print(json.dumps(result.to_json()))


def load(given: argparse.Namespace) -> og.LoadResult:
    """Open the graph first: a wrong address shall not wait for executors."""
    with og.open(given.graph) as graph:
        options = {
            "mode": given.mode,
            "branch": given.branch,
            "on_bad": "fail" if given.rejects is None else "skip",
            "rejects": given.rejects,
            "operation_id": given.operation_id,
            "spark": SparkSession.builder.getOrCreate(),
        }
        if given.from_col is None:
            return graph.load_nodes(given.type, given.files, **options)
        return graph.load_edges(given.type, given.files, given.from_col, given.to_col, **options)


if __name__ == "__main__":
    main()
