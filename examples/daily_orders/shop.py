"""What the shop delivers: all it has, and then a folder for each day, with some rows that are wrong.

    first/customers.parquet, products.parquet, orders.parquet
    day-N/customers.csv      `;` between cells, in Latin-1, with a column that nobody wants
    day-N/orders.parquet     orders of the day, and older ones whose state has changed

The same arguments give the same files.
"""

from __future__ import annotations

import csv
import random
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

FIRST_DAY = date(2026, 1, 1)
CITIES = ("Århus", "Bern", "Cádiz", "Delft", None)
ORDERS = pa.schema(
    [
        ("oid", pa.string()),
        ("cid", pa.string()),
        ("day", pa.date32()),
        ("state", pa.string()),
        ("amount", pa.float64()),
        ("sku", pa.string()),
        ("quantity", pa.int32()),
    ]
)
Row = dict[str, Any]


def deliver(directory: Path, orders: int, days: int) -> None:
    """Write the files: that many orders at first, and a tenth of it, at least ten, each day."""
    rnd = random.Random(orders)
    customers, products = max(orders // 5, 5), max(orders // 20, 5)
    first = directory / "first"
    first.mkdir(parents=True)
    _parquet(first / "customers.parquet", [_customer(rnd, n) for n in range(customers)])
    goods = [_product(rnd, n) for n in range(products)]
    _parquet(first / "products.parquet", goods)
    made = [_order(rnd, n, customers, goods, FIRST_DAY) for n in range(orders)]
    pq.write_table(pa.Table.from_pylist(made, ORDERS), first / "orders.parquet")
    for number in range(1, days + 1):
        folder = directory / f"day-{number}"
        folder.mkdir()
        newcomers = [_customer(rnd, customers + n) for n in range(3)]
        customers += len(newcomers)
        _write_customers(folder / "customers.csv", newcomers)
        today = FIRST_DAY + timedelta(days=number)
        count = max(orders // 10, 10)
        fresh = [_order(rnd, len(made) + n, customers, goods, today) for n in range(count)]
        older = [{**row, "state": "sent"} for row in rnd.sample(made, count // 2)]
        made += fresh
        rows = [*older, *fresh, *_wrong_orders(rnd, number, customers, goods, today)]
        # The same order once more, a moment later: the last of them counts.
        rows.append({**fresh[0], "state": "paid"})
        pq.write_table(pa.Table.from_pylist(rows, ORDERS), folder / "orders.parquet")


def _customer(rnd: random.Random, number: int) -> Row:
    since = FIRST_DAY - timedelta(days=rnd.randrange(1000))
    return {
        "cid": f"c{number}",
        "name": f"Name {number}",
        "city": rnd.choice(CITIES),
        "since": since,
    }


def _product(rnd: random.Random, number: int) -> Row:
    return {"sku": f"s{number}", "title": f"Product {number}", "price": rnd.randrange(1, 5000) / 4}


def _order(rnd: random.Random, number: int, customers: int, goods: list[Row], day: date) -> Row:
    product, quantity = rnd.choice(goods), rnd.randrange(1, 5)
    return {
        "oid": f"o{number}",
        "cid": f"c{rnd.randrange(customers)}",
        "day": day,
        "state": "open",
        "amount": product["price"] * quantity,
        "sku": product["sku"],
        "quantity": quantity,
    }


def _wrong_orders(
    rnd: random.Random, number: int, customers: int, goods: list[Row], day: date
) -> Iterator[Row]:
    """One row for each thing that goes wrong in a shop."""
    wrong: tuple[Row, ...] = (
        {"amount": -5.0},
        {"state": "lost"},
        {"oid": None},
        {"amount": None},
        {"day": None},
    )
    for at, change in enumerate(wrong):
        row = _order(rnd, 0, customers, goods, day)
        yield {**row, "oid": f"wrong-{number}-{at}", **change}


def _parquet(path: Path, rows: list[Row]) -> None:
    pq.write_table(pa.Table.from_pylist(rows), path)


def _write_customers(path: Path, rows: list[Row]) -> None:
    with path.open("w", encoding="latin-1", newline="") as file:
        cells = csv.writer(file, delimiter=";")
        cells.writerow(["CustomerID", "Name", "City", "Since", "Fax"])
        for row in rows:
            city = row["city"] or "n/a"
            cells.writerow([row["cid"], row["name"], city, row["since"].isoformat(), ""])
        cells.writerow(["no-name", "", "Bern", "2026-01-01", ""])
        cells.writerow(["no-date", "Name", "Bern", "01/02/26", ""])
