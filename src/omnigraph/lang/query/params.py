"""Binds parameters: checks a JSON object, or its Python form, against the declared ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from omnigraph.errors import BadRequest, ParamError
from omnigraph.lang.query.ir import ParamSpec, RecordList
from omnigraph.spelling import nearest_name
from omnigraph.types import INTEGER_RANGES, PropType, Unfit, json_form, param_from_json, shown
from omnigraph.types.values import are_plain


def named_or_given(
    name: str | Mapping[str, Any] | None, params: Mapping[str, Any] | None
) -> tuple[str | None, Mapping[str, Any] | None]:
    """Sort out a query's name and parameters; the parameters may be passed in the name's place."""
    if not isinstance(name, Mapping):
        return name, params
    if params is not None:
        raise BadRequest(
            "parameters stand in second place, and `params` is given too; give them once, or put the "
            "name of the query in second place"
        )
    return None, name


def bind(declared: Sequence[ParamSpec], given: object, *, js_safe: bool = False) -> dict[str, Any]:
    """Stored values of all declared parameters; an absent optional one is None."""
    if given is None:
        given = {}
    if not isinstance(given, Mapping):
        raise ParamError("params must be a JSON object keyed by parameter name")
    known = {spec.name for spec in declared}
    for key in given:
        if key not in known:
            raise _undeclared(str(key), known)
    return {spec.name: _bound(spec, given, js_safe) for spec in declared}


def passed(
    declared: Sequence[ParamSpec], values: Sequence[Any], source: str | None
) -> dict[str, Any]:
    """The parameters of a query that is a source, given these stored values in order; one left out is None."""
    names = [spec.name for spec in declared]
    given = dict.fromkeys(names) | dict(zip(names, values, strict=False))
    for spec in declared:
        try:
            _check_passed(spec, given[spec.name])
        except Unfit as unfit:
            place = f"parameter `{spec.name}` of type {spec.type.display} of the source `{source}`"
            raise ParamError(f"{place} {unfit}", param=spec.name, type=spec.type.display) from None
    return given


def _check_passed(spec: ParamSpec, value: Any) -> None:
    if value is None:
        if not spec.type.nullable:
            raise Unfit("cannot be null")
    elif isinstance(spec.type, PropType) and spec.type.scalar in INTEGER_RANGES:
        low, high = INTEGER_RANGES[spec.type.scalar]
        values = value if spec.type.is_list else [value]
        for one in (min(values), max(values)) if values else ():
            if not low <= one <= high:
                raise Unfit(f"cannot be {one}: it is from {low} to {high}")


def _undeclared(key: str, known: set[str]) -> ParamError:
    near = nearest_name(key.removeprefix("$"), sorted(known))
    hint = f"; did you mean `{near}`?" if near is not None else ""
    if near is None and known:
        hint = f"; the query declares {', '.join(sorted(known))}"
    return ParamError(f"parameter `{key}` is not declared by the query{hint}", param=key)


def _bound(spec: ParamSpec, given: Mapping[Any, Any], js_safe: bool) -> Any:
    place = f"parameter `{spec.name}` of type {spec.type.display}"
    value = given.get(spec.name)
    try:
        if isinstance(spec.type, RecordList):
            if value is not None:
                return _records(spec.type, value, js_safe)
        else:
            value = json_form(spec.type, value)
            if value is not None:
                return param_from_json(spec.type, value, js_safe=js_safe)
    except Unfit as unfit:
        raise ParamError(f"{place}: {unfit}", param=spec.name, type=spec.type.display) from None
    if spec.type.nullable:
        return None
    what = "cannot be null" if spec.name in given else "is missing"
    raise ParamError(f"{place} {what}", param=spec.name, type=spec.type.display)


def _records(kind: RecordList, given: object, js_safe: bool) -> list[dict[str, Any]]:
    """The stored values of all records; what does not fit is told by its position and field."""
    if not isinstance(given, list | tuple):
        raise Unfit(f"expected an array of objects, got {shown(given)}")
    fields = dict(kind.fields)
    if _are_plain_records(fields, given):
        return list(given)
    records = []
    for position, record in enumerate(given, start=1):
        if not isinstance(record, Mapping):
            raise Unfit(f"element {position} is not an object but {shown(record)}")
        for name in record:
            if name not in fields:
                near = nearest_name(str(name), list(fields))
                hint = f"; did you mean `{near}`?" if near is not None else ""
                raise Unfit(f"element {position} has an unknown field `{name}`{hint}")
        records.append(
            {name: _field(record, name, fields[name], position, js_safe) for name in fields}
        )
    return records


def _are_plain_records(fields: Mapping[str, PropType], given: Sequence[Any]) -> bool:
    """Tell, looking at a whole field at a time, whether the records are stored as they are."""
    names = fields.keys()
    if not all(type(record) is dict and record.keys() == names for record in given):
        return False
    for name, kind in fields.items():
        values = [record[name] for record in given]
        if kind.nullable:
            values = [value for value in values if value is not None]
        if kind.is_list or kind.is_vector or (values and not are_plain(kind.scalar, values)):
            return False
    return True


def _field(
    record: Mapping[Any, Any], name: str, kind: PropType, position: int, js_safe: bool
) -> Any:
    try:
        value = json_form(kind, record.get(name))
        if value is not None:
            return param_from_json(kind, value, js_safe=js_safe)
    except Unfit as unfit:
        raise Unfit(f"element {position}, field `{name}` of type {kind.display}: {unfit}") from None
    if kind.nullable:
        return None
    what = "cannot be null" if name in record else "is missing"
    raise Unfit(f"element {position}: field `{name}` of type {kind.display} {what}")
