"""What is said about a broken set rule: the violation with its text and facts, and the error of a write."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from omnigraph.errors import ConstraintError, KeyConflict, OmniGraphError
from omnigraph.lang.schema.catalog import EdgeType, Entity
from omnigraph.types import TEXT, from_arrow, to_json
from omnigraph.validate.change_set import SHOWN, Violation

if TYPE_CHECKING:
    import pyarrow as pa


_AT_ONE_MOMENT = " at one moment"


def violation_error(violations: Sequence[Violation]) -> OmniGraphError:
    """Return the error of a write that breaks a rule: the first violation, and how many follow.

    Queries about rules answer ``SHOWN`` violations at most, so from that many on there may be more.
    """
    first, others = violations[0], len(violations) - 1
    least = "at least " if len(violations) >= SHOWN else ""
    more = f" (and {least}{others} more)" if others else ""
    if first.kind == "key":
        return KeyConflict(first.message + more, table_key=first.table_key, entity_id=first.row_id)
    return ConstraintError(
        first.message + more,
        table_key=first.table_key,
        row_id=first.row_id,
        violation=first.kind,
        violations=[violation.message for violation in violations],
        **first.detail,
    )


def taken_id(entity: Entity, row_id: str, record: int | None) -> Violation:
    """Return the violation of a strict insert whose id exists already."""
    message = f"{entity.table_key} already has the id {row_id!r}"
    return Violation("key", entity.table_key, row_id, message, record)


def unique_violations(
    entity: Entity, group: tuple[str, ...], found: pa.Table
) -> Iterator[Violation]:
    """Yield the violations of a unique group, one for each row of the answer to its query."""
    place = (
        f"{entity.name}.{group[0]}" if len(group) == 1 else (f"{entity.name}.({', '.join(group)})")
    )
    columns = [_json_values(entity, name, found.column(f"v{at}")) for at, name in enumerate(group)]
    for at, row in enumerate(found.select(["row_id", "other_id", "rec"]).to_pylist()):
        value = [column[at] for column in columns]
        shown = ", ".join(one if isinstance(one, str) else json.dumps(one) for one in value)
        message = (
            f"@unique {place}: {shown} is held by both {row['other_id']!r} and {row['row_id']!r}"
            f"{_AT_ONE_MOMENT if entity.period is not None else ''}"
        )
        detail = {"properties": list(group), "value": value, "other_id": row["other_id"]}
        yield Violation("unique", entity.table_key, row["row_id"], message, row["rec"], detail)


def _json_values(entity: Entity, name: str, values: pa.ChunkedArray) -> list[Any]:
    """Return the values of a column as JSON has them."""
    prop = entity.properties.get(name)
    kind = TEXT if prop is None else prop.type.as_nullable(False)
    plain = from_arrow(kind, values.cast(kind.arrow_type()))
    # -0.0 equals 0.0, and engines answer either for both: adding zero makes it 0.0.
    return [to_json(kind, one + 0.0 if isinstance(one, float) else one) for one in plain]


def endpoint_violation(
    edge: EdgeType, row_id: str, side: str, node: str, type_name: str, record: int | None
) -> Violation:
    """Return the violation of an edge whose node at one end does not exist."""
    message = f"{side} {node!r} of edge {edge.name} {row_id!r}: {type_name} not found"
    detail = {"endpoint": side, "node_type": type_name, "node_id": node}
    return Violation("endpoint", edge.table_key, row_id, message, record, detail)


def cardinality_violation(
    edge: EdgeType,
    source: str,
    count: int,
    row_id: str | None = None,
    record: int | None = None,
) -> Violation:
    """Return the violation of a source node with too few or too many edges.

    ``row_id`` and ``record`` name an edge that makes the difference.
    """
    bounds = edge.cardinality
    below = count < bounds.min
    limit = bounds.min if below else bounds.max
    wanted = f"at least {limit}" if below else f"at most {limit}"
    message = (
        f"@card of {edge.name}: {edge.from_type} {source!r} would have {count} edges"
        f"{_AT_ONE_MOMENT if edge.period is not None and not below else ''}, and must have {wanted}"
    )
    detail = {
        "source_id": source,
        "count": count,
        "bound": "min" if below else "max",
        "limit": limit,
    }
    return Violation("cardinality", edge.table_key, row_id, message, record, detail)
