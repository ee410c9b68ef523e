"""The data of the typed benchmarks: customers, their orders, and which customer placed which order.

Every file is written in parts of a quarter of a million rows, as a Spark job would have left it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMA = """
node Customer { cid: String @key  name: String  city: String? }
node Order { oid: String @key  amount: F64  items: I32  day: Date  state: enum(open, paid, sent) }
edge Placed: Customer -> Order { channel: String? }
"""
PART = 250_000


@dataclass(frozen=True)
class Orders:
    """Where the data lies: one directory of Parquet files for each type, one for each day's changes."""

    customers: str
    orders: str
    placed: str
    changes: list[str]


def write_orders(directory: Path, rows: int, days: int) -> Orders:
    """That many orders and edges, a tenth as many customers; each day changes a thirtieth of the orders.

    Nine of ten changes are to orders that are there, spread over all of them; the others are new.
    """
    many = max(rows // 30, 10)
    return Orders(
        _write(directory / "customers", max(rows // 10, 1), _customers),
        _write(directory / "orders", rows, _orders),
        _write(directory / "placed", rows, partial(_placed, rows=rows)),
        [
            _write(directory / f"day-{day}", many, partial(_changes, rows=rows, many=many, day=day))
            for day in range(1, days + 1)
        ],
    )


def _write(directory: Path, end: int, part: Callable[[int, int], pa.Table]) -> str:
    import pyarrow.parquet as pq

    if not directory.exists():
        directory.mkdir(parents=True)
        for begin in range(0, end, PART):
            table = part(begin, min(begin + PART, end))
            pq.write_table(table, directory / f"part-{begin:09}.parquet")
    return str(directory)


def _customers(start: int, end: int) -> pa.Table:
    import numpy as np
    import pyarrow as pa

    n = np.arange(start, end)
    return pa.table(
        {"cid": _named("c", n), "name": _named("name", n), "city": _named("t", n % 977)}
    )


def _orders(start: int, end: int) -> pa.Table:
    import numpy as np

    return _order_columns(np.arange(start, end), 0)


def _changes(start: int, end: int, rows: int, many: int, day: int) -> pa.Table:
    import numpy as np

    n = np.arange(start, end)
    known = (n * (rows // many) + day) % rows
    new = rows + (day - 1) * many + n
    return _order_columns(np.where(n % 10 == 9, new, known), day)


def _order_columns(numbers: Any, day: int) -> pa.Table:
    import numpy as np
    import pyarrow as pa

    dates = np.datetime64("2026-01-01") + numbers % 365
    return pa.table(
        {
            "oid": _named("o", numbers),
            "amount": pa.array((numbers * 7919 % 100_000) / 100 + day),
            "items": pa.array((numbers % 9 + 1).astype(np.int32)),
            "day": pa.array(dates.astype("datetime64[D]")),
            "state": pa.array(["open", "paid", "sent"]).take(pa.array(numbers % 3)),
        }
    )


def _placed(start: int, end: int, rows: int) -> pa.Table:
    import numpy as np
    import pyarrow as pa

    n, customers = np.arange(start, end), max(rows // 10, 1)
    channel = pa.array(["web", "shop", None]).take(pa.array(n % 3))
    return pa.table(
        {"cid": _named("c", n * 7919 % customers), "oid": _named("o", n), "channel": channel}
    )


def _named(prefix: str, numbers: Any) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.binary_join_element_wise(prefix, pa.array(numbers).cast(pa.utf8()), "-")
