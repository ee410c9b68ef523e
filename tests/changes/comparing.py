"""Two states of a table compared by reading all of both: what the product must agree with."""

from __future__ import annotations

import base64
from datetime import datetime
from typing import Any

from omnigraph.changes.compare_tables import compare, same_state
from omnigraph.changes.images import images
from omnigraph.changes.may_differ import find_candidates
from omnigraph.changes.table_side import TableSide
from omnigraph.graph.graph import Graph
from omnigraph.manifest.snapshot import Snapshot
from tests.opened import workspace_of

Image = dict[str, Any]


def side_of(graph: Graph, snapshot: Snapshot, table_key: str) -> TableSide:
    """One table of a snapshot, read under the schema of today."""
    return TableSide(workspace_of(graph), snapshot, graph.schema.catalog.entity(table_key))


def every_image(side: TableSide) -> dict[str, Image]:
    """Every row of a side by its id, straight from Lance."""
    if side.state is None:
        return {}
    columns = {
        (field.metadata or {}).get(b"omnigraph.stable_property_id"): field.name
        for field in side.table.schema
    }
    rows = side.table.read(None, with_row_address=True).to_pylist()
    found = {}
    for row in rows:
        properties = {}
        for name, prop in side.entity.properties.items():
            column = columns.get(str(prop.property_id).encode())
            value = None if column is None else row[column]
            if prop.type.is_blob and value is not None:
                value = _blob_text(side, column, value, row["_rowaddr"])
            if isinstance(value, datetime):
                value = value.isoformat(timespec="milliseconds").replace("+00:00", "Z")
            properties[name] = value
        found[row["id"]] = {"properties": properties}
        if "src" in row:
            found[row["id"]]["endpoints"] = {"from": row["src"], "to": row["dst"]}
    assert len(found) == len(rows)
    return found


def _blob_text(side: TableSide, column: str | None, described: Image, address: int) -> str:
    if described["kind"] == 3:
        return str(described["blob_uri"])
    ((_, data),) = side.table.dataset.read_blobs(column, addresses=[address])
    return "base64:" + base64.b64encode(data).decode()


def full_scan(before: TableSide, after: TableSide) -> dict[str, tuple[Image | None, Image | None]]:
    """What differs, by comparing every row with every row."""
    old, new = every_image(before), every_image(after)
    keys = sorted(old.keys() | new.keys())
    return {k: (old.get(k), new.get(k)) for k in keys if old.get(k) != new.get(k)}


def compared(before: TableSide, after: TableSide, **options: Any) -> dict[str, Any]:
    """What the product finds; the ids must come in ascending order, each once."""
    found: dict[str, Any] = {}
    order: list[str] = []
    for chunk in compare(before, after, **options):
        ids = chunk.ids.to_pylist()
        order += ids
        pairs = zip(images(before, chunk.before), images(after, chunk.after), strict=True)
        found.update(zip(ids, pairs, strict=True))
    assert order == sorted(set(order))
    return found


def check(before: TableSide, after: TableSide) -> int:
    """The product finds what a full scan finds, and its candidates include all of it."""
    expected = full_scan(before, after)
    assert compared(before, after) == expected
    if before.state is not None and after.state is not None and not same_state(before, after):
        found = find_candidates(before, after, 1_000_000, 0)
        assert found is not None
        assert expected.keys() <= set(found.ids.to_pylist())
    return len(expected)
