"""Row rules: enum, range, check, null and the order of a period, each computed for a whole Arrow column at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from omnigraph.lang.schema.catalog import Entity, NodeType, Period, Property
from omnigraph.lang.schema.shape import Check, Range
from omnigraph.storage.filters import ComparisonOp, settle
from omnigraph.types import from_arrow, to_json
from omnigraph.validate.change_set import ORDER, SHOWN, Violation, ViolationKind

if TYPE_CHECKING:
    import pyarrow as pa

Mask = Any


def row_violations(entity: Entity, rows: pa.Table, limit: int | None = SHOWN) -> list[Violation]:
    """Return the broken row rules, at most ``limit`` rows per rule, in the order of the rows."""
    found: list[Violation] = []
    places = rows.select([name for name in ("id", ORDER) if name in rows.column_names])
    for prop, column, (kind, bad, text) in judged_rules(entity, rows):
        found += _violations(
            entity, prop, column, places, kind=kind, bad=bad, text=text, limit=limit
        )
    return sorted(found, key=lambda violation: violation.record or 0)


def judged_rules(entity: Entity, rows: pa.Table) -> Iterator[tuple[Property, pa.Array, Rule]]:
    """Yield every row rule of the columns that are there, with the mask of the rows that break it."""
    there = set(rows.column_names)
    bounds, checks = _by_property(entity)
    for prop in entity.properties.values():
        is_free = prop.type.nullable and prop.type.enum_values is None
        if prop.name not in there or (
            is_free and prop.name not in bounds and prop.name not in checks
        ):
            continue
        column = rows.column(prop.name).combine_chunks()
        rules = _rules(entity, prop, column, bounds.get(prop.name, ()), checks.get(prop.name, ()))
        yield from ((prop, column, rule) for rule in rules)
    period = entity.period
    if period is not None and there.issuperset(period.names):
        since, until = (rows.column(name).combine_chunks() for name in period.names)
        prop = entity.properties[period.until]
        yield prop, until, _ends_before_it_begins(entity, period, since, until)


def _by_property(
    entity: Entity,
) -> tuple[dict[str, list[Range]], dict[str, list[Check]]]:
    """Return the ranges and checks of a type by the property they constrain."""
    bounds: dict[str, list[Range]] = {}
    checks: dict[str, list[Check]] = {}
    if isinstance(entity, NodeType):
        for one in entity.ranges:
            bounds.setdefault(one.property, []).append(one)
        for check in entity.checks:
            checks.setdefault(check.property, []).append(check)
    return bounds, checks


Rule = tuple[ViolationKind, Mask, Callable[[object, int], str]]
"""The kind of a rule, the rows that break it, and the message for the value of a row."""


def _rules(
    entity: Entity,
    prop: Property,
    column: pa.Array,
    ranges: Sequence[Range],
    checks: Sequence[Check],
) -> Iterator[Rule]:
    """Yield the rules of one property: kind, mask of the bad rows, and the message for a value."""
    import pyarrow.compute as pc

    place = f"{entity.name}.{prop.name}"
    if not prop.type.nullable:
        yield "null", pc.is_null(column), lambda *_: f"{place} is required and cannot be null"
    if prop.type.enum_values is not None:
        allowed = ", ".join(prop.type.enum_values)
        yield (
            "enum",
            _outside_enum(prop, column),
            lambda value, _: f"{place} cannot be {value!r}: its enum has {allowed}",
        )
    for bounds in ranges:
        yield "range", _outside_range(bounds, column), partial(_range_text, place, bounds)
    for check in checks:
        found = pc.match_substring_regex(column, check.pattern)
        yield "check", pc.invert(found), partial(_check_text, place, check)


def _ends_before_it_begins(
    entity: Entity, period: Period, since: pa.Array, until: pa.Array
) -> Rule:
    """Return the rule about a period: it may be empty, but its end does not lie before its beginning."""
    import pyarrow.compute as pc

    prop = entity.properties[period.since]

    def text(value: object, row: int) -> str:
        (begin,) = from_arrow(prop.type.as_nullable(), since.slice(row, 1))
        return (
            f"@valid of {entity.name}: {period.since} {to_json(prop.type, begin)} is after "
            f"{period.until} {value}"
        )

    return "valid", pc.greater(since, until), text


def _range_text(place: str, bounds: Range, value: object, _: int) -> str:
    low = "" if bounds.min is None else bounds.min
    high = "" if bounds.max is None else bounds.max
    return f"{place} is {value}, outside its @range {low}..{high}"


def _check_text(place: str, check: Check, value: object, _: int) -> str:
    return f"{place} is {value!r}, which its @check {check.pattern!r} does not allow"


def _outside_enum(prop: Property, column: pa.Array) -> Mask:
    """Return the mask of rows with a value that the enum does not have; lists are checked by item."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    allowed = pa.array(list(prop.type.enum_values or ()), pa.string())
    if not prop.type.is_list:
        return pc.and_(pc.is_valid(column), pc.invert(pc.is_in(column, allowed)))
    flat = pc.list_flatten(column)
    wrong = pc.and_(pc.is_valid(flat), pc.invert(pc.is_in(flat, allowed)))
    bad = np.zeros(len(column), np.bool_)
    bad[pc.filter(pc.list_parent_indices(column), wrong).to_numpy(zero_copy_only=False)] = True
    return pa.array(bad)


def _outside_range(bounds: Range, column: pa.Array) -> Mask:
    """Return the mask of rows outside the bounds.

    The comparison is exact: a bound that does not fit the column's type is resolved beforehand,
    never rounded.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    bad: Mask = None
    sides: list[tuple[ComparisonOp, int | float | None]] = [(">=", bounds.min), ("<=", bounds.max)]
    for op, bound in sides:
        if bound is None:
            continue
        settled = settle(column.type, op, bound)
        if settled is True:
            continue
        if settled is False:
            return pc.is_valid(column)
        exact_op, value = settled
        compare = {">=": pc.greater_equal, "<=": pc.less_equal, ">": pc.greater, "<": pc.less}
        # Inverted, so that NaN counts as outside. Null stays null, which is no violation.
        outside = pc.invert(compare[exact_op](column, pa.scalar(value, column.type)))
        bad = outside if bad is None else pc.or_(bad, outside)
    return pa.repeat(pa.scalar(False), len(column)) if bad is None else bad


def _violations(
    entity: Entity,
    prop: Property,
    column: pa.Array,
    rows: pa.Table,
    *,
    kind: ViolationKind,
    bad: Mask,
    text: Callable[[object, int], str],
    limit: int | None,
) -> Iterator[Violation]:
    """Yield a violation for each bad row, up to the limit."""
    import pyarrow.compute as pc

    places = pc.indices_nonzero(pc.fill_null(bad, fill_value=False))
    places = places if limit is None else places.slice(0, limit)
    if not len(places):
        return
    hit = rows.take(places)
    # A column that is judged for null alone may stand for the property without being of its type.
    values = (
        [None] * len(places)
        if kind == "null"
        else from_arrow(prop.type.as_nullable(), column.take(places))
    )
    order = hit.column(ORDER).to_pylist() if ORDER in rows.column_names else places.to_pylist()
    ids, at = hit.column("id").to_pylist(), places.to_pylist()
    for row_id, record, value, row in zip(ids, order, values, at, strict=True):
        shown = None if value is None else to_json(prop.type, value)
        if kind == "enum" and prop.type.is_list:
            allowed = prop.type.enum_values or ()
            shown = next(item for item in value if item is not None and item not in allowed)
        yield Violation(
            kind, entity.table_key, row_id, text(shown, row), record, {"property": prop.name}
        )
