"""Blobs of a table by row id, straight from Lance: what tests compare with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from omnigraph.storage.tables.table import Table


def read_blobs(table: Table, column: str, row_ids: Sequence[int]) -> list[bytes | None]:
    """The bytes of each row's blob, in the order asked for; external ones are fetched too."""
    pairs = table.dataset.read_blobs(column, ids=list(row_ids), preserve_order=True)
    return [data for _, data in pairs]


def describe_blobs(table: Table, column: str, row_ids: Sequence[int]) -> list[Any]:
    """(size, address) of each row's blob, in the order asked for; None where the value is null."""
    found = table.take(row_ids, [column]).column(column).to_pylist()
    return [one and (one["size"], one["blob_uri"]) for one in found]
