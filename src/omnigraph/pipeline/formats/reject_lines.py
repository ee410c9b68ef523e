"""Lines of a file of rejects: bad records in a form that loads again once they are mended.

A line has `source`, `line` or `row`, `reason`, `property`, and the `record`. The record of a line is that
line's. That of a row has its values by the names of the properties, the ends of an edge as `from` and `to`,
and the line says beside it which `type` or `edge` the row is of. Whoever reads JSON lines reads the
record and leaves the rest alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from omnigraph.lang.schema.catalog import EdgeType, Entity

_NEEDED = {"source", "reason", "record"}
_MEMBERS = {*_NEEDED, "line", "row", "property", "type", "edge"}
_ENDS = (("from", "src"), ("to", "dst"))


def reject_of_row(entity: Entity, values: Mapping[str, Any] | str) -> str:
    """What a reject says about a bad row: its type, and its values (or the text of a row that has none)."""
    kind = "edge" if isinstance(entity, EdgeType) else "type"
    return json.dumps({kind: entity.name, "record": values}, default=_as_text)


def _as_text(value: object) -> str:
    isoformat = getattr(value, "isoformat", None)
    return str(isoformat()) if callable(isoformat) else str(value)


def end_names(entity: Entity) -> dict[str, str]:
    """What the ends of an edge are called in a reject, by their columns."""
    if not isinstance(entity, EdgeType):
        return {}
    taken = entity.properties.keys() & {end for end, _ in _ENDS}
    return {side: side if taken else end for end, side in _ENDS}


def is_reject(given: Mapping[str, Any]) -> bool:
    """Whether an object is a line of a file of rejects."""
    return given.keys() >= _NEEDED and given.keys() <= _MEMBERS


def is_row(given: Mapping[str, Any]) -> bool:
    """Whether the reject is one of a row: its values may be texts that spell them, as those of a cell."""
    return "type" in given or "edge" in given


def record_of(given: Mapping[str, Any]) -> Any:
    """The record in a reject, as a line of JSON has it; a text where it was none."""
    record = given["record"]
    if not is_row(given) or not isinstance(record, dict):
        return record
    if "type" in given:
        return {"type": given["type"], "data": record}
    data = dict(record)
    ends = {
        end: data.pop(side if side in data else end)
        for end, side in _ENDS
        if side in data or end in data
    }
    return {"edge": given["edge"], **ends, "data": data}
