"""The example `daily_orders`: what it stores and rejects is what its deliveries say."""

from __future__ import annotations

import csv
import importlib
import json
import shutil
import sys
from datetime import date
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import omnigraph as og
from omnigraph.spark import register
from tests.spark.streaming import run_to_end
from tests.stored import read_back

EXAMPLE = Path(__file__).parents[2] / "examples" / "daily_orders"
DAYS = 2
EPOCH = date(1970, 1, 1)


@pytest.fixture
def example(tmp_path, monkeypatch):
    """The example as `omnigraph examples` writes it, imported."""
    copied = tmp_path / "example"
    shutil.copytree(EXAMPLE, copied)
    monkeypatch.syspath_prepend(copied)
    yield importlib.import_module("run")
    for name in ("run", "shop"):
        del sys.modules[name]


def expected(deliveries):
    """Orders, customers and edges by plain dicts: what is right counts, and the last of its id."""
    customers, orders, placed, contains = {}, {}, set(), {}
    for folder in ("first", *(f"day-{day}" for day in range(1, DAYS + 1))):
        place = deliveries / folder
        if folder == "first":
            for row in pq.read_table(place / "customers.parquet").to_pylist():
                customers[row["cid"]] = (row["name"], row["city"])
        else:
            with (place / "customers.csv").open(encoding="latin-1", newline="") as file:
                for row in csv.DictReader(file, delimiter=";"):
                    if row["Name"] and "/" not in row["Since"]:
                        city = None if row["City"] == "n/a" else row["City"]
                        customers[row["CustomerID"]] = (row["Name"], city)
        for row in pq.read_table(place / "orders.parquet").to_pylist():
            amount, day, oid = row["amount"], row["day"], row["oid"]
            if None in (amount, day, oid) or amount < 0 or row["state"] == "lost":
                continue
            orders[oid] = (row["state"], amount, (day - EPOCH).days)
            placed.add((row["cid"], oid))
            contains[oid, row["sku"]] = row["quantity"]
    return customers, orders, placed, contains


def stored(graph):
    plain = read_back(graph)
    customers = {key: (row["name"], row["city"]) for key, row in plain.nodes["Customer"].items()}
    orders = {
        key: (row["state"], row["amount"], row["day"]) for key, row in plain.nodes["Order"].items()
    }
    placed = [(src, dst) for _, src, dst, _ in plain.edges["Placed"]]
    contains = {(src, dst): row["quantity"] for _, src, dst, row in plain.edges["Contains"]}
    assert len(placed) == len(set(placed)) == len(orders)
    assert len(contains) == len(plain.edges["Contains"])
    return customers, orders, set(placed), contains


@pytest.mark.thorough
def test_days_are_merged_wrong_rows_are_kept_and_a_copy_follows(example, spark, tmp_path):
    register(spark)
    place = tmp_path / "place"
    pipeline = example.Pipeline(place, spark)
    pipeline.load(orders=30, days=DAYS)
    for name in example.TYPES:
        run_to_end(partial(pipeline.follow, name))
    pipeline.close()
    with og.open(place / "shop.omni") as graph:
        found = stored(graph)
        assert graph.branches.list() == ["main"]
        original = read_back(graph)
    with og.open(place / "copy.omni") as copy:
        streamed = read_back(copy)
    assert streamed.nodes == original.nodes
    for name, edges in original.edges.items():
        assert sorted(streamed.edges[name]) == sorted(edges)
    assert found == expected(place / "deliveries")
    rejects = {
        path.name: [json.loads(line) for line in path.read_text().splitlines()]
        for path in (place / "rejects").iterdir()
    }
    assert {
        name.removeprefix("day-2-"): len(lines)
        for name, lines in rejects.items()
        if name.startswith("day-2-")
    } == {"customers.jsonl": 2, "order.jsonl": 5, "placed.jsonl": 5, "contains.jsonl": 5}
    assert {line["record"]["oid"] for line in rejects["day-1-order.jsonl"]} == {
        None, "wrong-1-0", "wrong-1-1", "wrong-1-3", "wrong-1-4",
    }  # fmt: skip
