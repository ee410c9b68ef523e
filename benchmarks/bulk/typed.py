"""Loads of typed columns on Spark beside plain Spark jobs over the same files, in one warm session.

Every way is gone once to warm up and then twice more; the faster of the two counts, with all its costs.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import omnigraph as og
from benchmarks.bulk.costs import RETAINED, costs
from benchmarks.bulk.orders import SCHEMA, Orders, write_orders

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROUNDS = 3
NO_INDEXES = "OMNIGRAPH_INDEX_MIN_ROWS"
"""A load builds no index of a table with fewer rows than this variable says."""
Ways = dict[str, Callable[[int], None]]


def typed(directory: str, rows: int, roots: list[int], conf: dict[str, str]) -> dict[str, Any]:
    """Append orders, then edges to them, to graphs without indexes; the ways `indexed` build them."""
    data = write_orders(Path(directory), rows, 0)
    session = _session(conf)
    prepared = _graph_of(data, Path(directory, "prepared"))

    def empty(_: int) -> None:
        _fresh(directory)
        og.init(Path(directory, "graph"), SCHEMA).close()

    def with_nodes(_: int) -> None:
        _fresh(directory)
        shutil.copytree(prepared, Path(directory, "graph"))

    nodes: Ways = {
        "plain Parquet -> Parquet": lambda _: _plain(session, data.orders, directory),
        "load_nodes, Spark": lambda _: _load(directory, "Order", data.orders, "spark"),
        "load_nodes, Spark, indexed": lambda _: _indexed(
            lambda: _load(directory, "Order", data.orders, "spark")
        ),
        "df.write": lambda _: _write(session, directory, "Order", data.orders),
        "load_nodes, local": lambda _: _load(directory, "Order", data.orders, "local"),
    }
    edges: Ways = {
        "plain Parquet -> Parquet": lambda _: _plain(session, data.placed, directory),
        "load_edges, Spark": lambda _: _load(directory, "Placed", data.placed, "spark"),
        "load_edges, Spark, indexed": lambda _: _indexed(
            lambda: _load(directory, "Placed", data.placed, "spark")
        ),
        "df.write": lambda _: _write(session, directory, "Placed", data.placed),
        "load_edges, local": lambda _: _load(directory, "Placed", data.placed, "local"),
    }
    return {
        "nodes": _measured(session, nodes, empty, roots),
        "edges": _measured(session, edges, with_nodes, roots),
    }


def merge(directory: str, rows: int, roots: list[int], conf: dict[str, str]) -> dict[str, Any]:
    """Merge a thirtieth of the orders into all of them; their ids are indexed."""
    data = write_orders(Path(directory), rows, ROUNDS)
    session = _session(conf)
    place = _graph_of(data, Path(directory, "merged"))
    with og.open(place) as graph:
        graph.ensure_indices(engine="local")

    def as_loaded(_: int) -> None:
        _fresh(directory)
        shutil.copytree(place, Path(directory, "graph"))

    changes = data.changes
    ways: Ways = {
        "plain Parquet -> Parquet": lambda day: _plain(session, changes[day], directory),
        "load_nodes, Spark": lambda day: _load(directory, "Order", changes[day], "spark", "merge"),
        "df.write": lambda day: _write(session, directory, "Order", changes[day], merge="true"),
        "load_nodes, local": lambda day: _load(directory, "Order", changes[day], "local", "merge"),
    }
    return {"merge": _measured(session, ways, as_loaded, roots)}


def _session(conf: dict[str, str]) -> SparkSession:
    from omnigraph.runner.session import spark_session

    # Before Java starts: the commit of a data source takes its environment from there.
    os.environ[NO_INDEXES] = str(10**12)
    return spark_session(None, {**RETAINED, **conf})


def _graph_of(data: Orders, place: Path) -> Path:
    """A graph of all nodes, loaded here; its orders in several fragments, as a job leaves them.

    The process before this one may have made it of the same files.
    """
    if place.exists():
        return place
    with og.init(place, SCHEMA) as graph:
        graph.load_nodes("Customer", data.customers, mode="append", engine="local")
        graph.load_nodes("Order", data.orders, mode="append", engine="local")
    return place


def _measured(
    session: SparkSession, ways: Ways, prepare: Callable[[int], None], roots: list[int]
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for turn in range(ROUNDS):
        for name, way in ways.items():
            prepare(turn)
            with costs(session, *roots) as cost:
                way(turn)
            if turn == 0:
                continue
            if name not in found or cost["seconds"] < found[name]["seconds"]:
                found[name] = cost
    return found


def _fresh(directory: str) -> None:
    shutil.rmtree(Path(directory, "graph"), ignore_errors=True)


def _plain(session: SparkSession, source: str, directory: str) -> None:
    session.read.parquet(source).write.mode("overwrite").parquet(f"{directory}/plain.parquet")


def _load(directory: str, type: str, source: str, engine: Any, mode: Any = "append") -> None:
    with og.open(Path(directory, "graph"), upkeep="off") as graph:
        if type == "Placed":
            graph.load_edges(type, source, "cid", "oid", mode=mode, engine=engine)
        else:
            graph.load_nodes(type, source, mode=mode, engine=engine)


def _indexed(load: Callable[[], None]) -> None:
    """Load, and build the indexes that the type declares, as a load does by itself."""
    unindexed = os.environ.pop(NO_INDEXES)
    try:
        load()
    finally:
        os.environ[NO_INDEXES] = unindexed


def _write(session: SparkSession, directory: str, type: str, source: str, **given: str) -> None:
    options = {"graph": str(Path(directory, "graph").resolve()), "type": type, **given}
    if type == "Placed":
        options |= {"from_col": "cid", "to_col": "oid"}
    frame = session.read.parquet(source)
    frame.write.format("omnigraph").options(**options).mode("append").save()
