"""Loads files of one type into a graph, as a program for `spark-submit`.

    spark-submit … load.py GRAPH TYPE FILE… [--from-col COLUMN --to-col COLUMN] [--mode merge]

With `--from-col` and `--to-col` the type is an edge type. What was loaded is printed as JSON.
"""

from __future__ import annotations

import argparse
import json

from pyspark.sql import SparkSession

import omnigraph as og


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
    session = SparkSession.builder.getOrCreate()
    with og.open(given.graph) as graph:
        options = {
            "mode": given.mode,
            "branch": given.branch,
            "on_bad": "fail" if given.rejects is None else "skip",
            "rejects": given.rejects,
            "operation_id": given.operation_id,
            "spark": session,
        }
        if given.from_col and given.to_col:
            ends = given.from_col, given.to_col
            result = graph.load_edges(given.type, given.files, *ends, **options)
        else:
            result = graph.load_nodes(given.type, given.files, **options)
    print(json.dumps(result.to_json()))


if __name__ == "__main__":
    main()
