"""Reads a stored IR and refuses anything the product would not have written.

The reader trusts names and rebuilds ids, order and references from them; then it writes the result
again and compares. So one rule covers unsorted lists, unknown members, and references whose id and
name do not belong together.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from reprlib import repr as brief
from typing import Any, NoReturn, TypeVar, cast

from omnigraph.errors import IdentityError
from omnigraph.lang.schema.defaults import default_value
from omnigraph.lang.schema.ir import IR_VERSION, MAX_ID, SECTIONS, Ir, TypeIr
from omnigraph.lang.schema.joins import Joins
from omnigraph.lang.schema.shape import (
    ENDPOINT_ROLES,
    IMPLICIT_COLUMNS,
    ROW_COLUMNS,
    Annotation,
    Cardinality,
    Check,
    Constraint,
    Embed,
    Group,
    Kind,
    PropertyShape,
    Range,
    TypeShape,
    Valid,
    annotation_order,
    constraint_json,
    constraint_order,
)
from omnigraph.lang.schema.syntax.ast import GROUP_KINDS, GroupKind
from omnigraph.types import PropType, Unfit

Item = TypeVar("Item")

_DOMAIN = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}")
_TYPE_NAME = re.compile(r"[A-Z][A-Za-z0-9_]*")
_PROPERTY_NAME = re.compile(r"[a-z_][A-Za-z0-9_]*")


def read_ir(stored: object) -> Ir:
    """Read the IR from a JSON text or value; anything malformed is an IdentityError."""
    try:
        if isinstance(stored, str | bytes):
            stored = json.loads(stored, object_pairs_hook=_members)
        return _read(stored)
    except (ValueError, RecursionError) as error:
        _malformed(f"it is not JSON ({brief(str(error))})")


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build a JSON object; a repeated member is refused, because readers may take either."""
    body = dict(pairs)
    if len(body) < len(pairs):
        repeated = Counter(name for name, _ in pairs).most_common(1)[0][0]
        _malformed(f"the member {brief(repeated)} is repeated")
    return body


def _read(stored: object) -> Ir:
    body = _object(stored, "the record")
    version = body.get("ir_version")
    if version != IR_VERSION:
        _malformed(f"ir_version is {brief(version)}, and this product knows {IR_VERSION}")
    domain = _text(body, "schema_identity_domain")
    if _DOMAIN.fullmatch(domain) is None:
        _malformed(f"schema_identity_domain {brief(domain)} is not a ULID")
    types = {
        kind: _sorted(body, section, _type_of(kind), lambda type_: type_.name)
        for kind, section in SECTIONS.items()
    }
    ir = Ir(
        domain,
        _number(body, "next_identity_id", MAX_ID),
        types["interface"],
        types["node"],
        types["edge"],
        joined=_ids(body, "joined", _join),
        dropped=_ids(body, "dropped", _id),
    )
    _check_references(ir)
    _check_ids(ir)
    difference = _difference(body, ir.to_json(), "")
    if difference is not None:
        _malformed(difference)
    return ir


def _malformed(reason: str) -> NoReturn:
    raise IdentityError(
        f"the stored schema IR is malformed: {reason}; restore it from the graph's manifest",
        entity="schema",
    )


# Reading


def _type_of(kind: Kind) -> Callable[[object], TypeIr]:
    return lambda value: _type(kind, _object(value, f"a {kind}"))


def _type(kind: Kind, body: dict[str, Any]) -> TypeIr:
    name = _text(body, "name")
    if _TYPE_NAME.fullmatch(name) is None:
        _malformed(f"{name!r} is not a type name")
    read = _items(body, "properties", _property)
    properties = tuple(prop for _, _, prop in sorted(read, key=lambda each: each[0]))
    endpoints = cardinality = None
    if kind == "edge":
        endpoints = (_ref_name(body.get("from")), _ref_name(body.get("to")))
        card = _object(body.get("cardinality"), "a cardinality")
        top = None if card.get("max") is None else _number(card, "max", 2**32 - 1)
        cardinality = Cardinality(_number(card, "min", 2**32 - 1), top)
    shape = TypeShape(
        kind,
        name,
        properties,
        () if kind == "interface" else _sorted(body, "annotations", _annotation, annotation_order),
        _sorted(body, "implements", _ref_name, str) if kind == "node" else (),
        endpoints=endpoints,
        cardinality=cardinality,
        constraints=()
        if kind == "interface"
        else _sorted(body, "constraints", _constraint, constraint_order),
    )
    incarnation = None if kind == "interface" else _number(body, "table_incarnation_id", MAX_ID)
    ids = {prop.name: property_id for _, property_id, prop in read}
    return TypeIr(shape, _number(body, "type_id", MAX_ID), incarnation, ids)


def _property(value: object) -> tuple[int, int, PropertyShape]:
    body = _object(value, "a property")
    name = _text(body, "name")
    if _PROPERTY_NAME.fullmatch(name) is None:
        _malformed(f"{name!r} is not a property name")
    annotations = _sorted(body, "annotations", _annotation, annotation_order)
    try:
        type_ = PropType.from_ir(body.get("type"))
        default_value(type_, annotations)
    except Unfit as error:
        _malformed(f"property {name!r}: {error}")
    embed = None
    if body.get("embed") is not None:
        binding = _object(body["embed"], "an embed binding")
        model = None if binding.get("model") is None else _text(binding, "model")
        embed = Embed(_ref_name(binding.get("source")), model)
    shape = PropertyShape(
        name,
        type_,
        annotations,
        embed,
        _sorted(body, "markers", _marker, str),
        declared_directly=body.get("declared_directly") is True,
        satisfies=_sorted(body, "satisfies", _satisfied, str),
    )
    return _number(body, "position", MAX_ID), _number(body, "property_id", MAX_ID), shape


def _annotation(value: object) -> Annotation:
    body = _object(value, "an annotation")
    text = _text(body, "value") if "value" in body else None
    keywords = _sorted(body, "keywords", _pair, lambda pair: pair) if "keywords" in body else ()
    return Annotation(_text(body, "name"), text, keywords)


def _pair(value: object) -> tuple[str, str]:
    match value:
        case [str(name), str(text)]:
            return name, text
        case _:
            _malformed(f"{brief(value)} is not a keyword and its text")


def _constraint(value: object) -> Constraint:
    body = _object(value, "a constraint")
    match body.get("kind"):
        case "key" | "unique" | "index" as kind:
            return Group(cast("GroupKind", kind), _sorted(body, "properties", _ref_name, str))
        case "range":
            bounds = (_bound(body.get("min")), _bound(body.get("max")))
            return Range(_ref_name(body.get("property")), *bounds)
        case "check":
            return Check(_ref_name(body.get("property")), _text(body, "pattern"))
        case "valid":
            members = _items(body, "properties", _ref_name)
            if len(members) != 2:
                _malformed(f"a period has two properties, got {len(members)}")
            return Valid(*members)
        case other:
            _malformed(f"{brief(other)} is not a kind of constraint")


def _bound(value: object) -> int | float | None:
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        return value
    _malformed(f"{brief(value)} is not a bound")


def _marker(value: object) -> GroupKind:
    if value not in GROUP_KINDS:
        _malformed(f"{brief(value)} is not a constraint an interface property implies")
    return value


def _satisfied(value: object) -> str:
    return _ref_name(_object(value, "a satisfied property").get("interface"))


def _ref_name(value: object) -> str:
    body = _object(value, "a reference")
    return _text(body, "role" if "role" in body else "name")


def _object(value: object, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        _malformed(f"{what} is a JSON object, got {brief(value)}")
    return value


def _text(body: dict[str, Any], member: str) -> str:
    value = body.get(member)
    if not isinstance(value, str):
        _malformed(f"{member!r} is a text, got {brief(value)}")
    return value


def _number(body: dict[str, Any], member: str, high: int) -> int:
    value = body.get(member)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= high:
        _malformed(f"{member!r} is a whole number up to {high}, got {brief(value)}")
    return value


def _items(body: dict[str, Any], member: str, read: Callable[[object], Item]) -> tuple[Item, ...]:
    values = body.get(member)
    if not isinstance(values, list):
        _malformed(f"{member!r} is a list, got {brief(values)}")
    return tuple(read(value) for value in values)


def _sorted(
    body: dict[str, Any],
    member: str,
    read: Callable[[object], Item],
    order: Callable[[Item], Any],
) -> tuple[Item, ...]:
    return tuple(sorted(_items(body, member, read), key=order))


def _ids(body: dict[str, Any], member: str, read: Callable[[object], Item]) -> tuple[Item, ...]:
    """Read a list that is left out while it is empty; its entries are sorted and differ."""
    if member not in body:
        return ()
    found: set[Any] = set(_items(body, member, read))
    return tuple(sorted(found))


def _id(value: object) -> int:
    return _number({"an id": value}, "an id", MAX_ID)


def _join(value: object) -> tuple[int, int]:
    if not isinstance(value, list) or len(value) != 2:
        _malformed(f"a join is a pair of ids, got {brief(value)}")
    return _id(value[0]), _id(value[1])


# Checking


def _check_references(ir: Ir) -> None:
    for type_ in ir:
        for interface in type_.shape.implements:
            if ir.type("interface", interface) is None:
                _malformed(f"{type_.name} implements {interface}, which is not stored")
        for endpoint in type_.shape.endpoints or ():
            if ir.type("node", endpoint) is None:
                _malformed(f"{type_.name} ends at {endpoint}, which is not stored")
        for constraint in type_.shape.constraints:
            _check_members(type_, constraint)
        for prop in type_.shape.properties:
            _check_property(ir, type_, prop)


def _check_members(type_: TypeIr, constraint: Constraint) -> None:
    body = constraint_json(constraint)
    roles = ENDPOINT_ROLES if type_.kind == "edge" else ()
    for name in body.get("properties", [body.get("property")]):
        if name not in type_.property_ids and name not in roles:
            _malformed(f"a constraint of {type_.name} names {name}, which is not stored")


def _check_property(ir: Ir, type_: TypeIr, prop: PropertyShape) -> None:
    if prop.name in ROW_COLUMNS or prop.name in IMPLICIT_COLUMNS[type_.kind]:
        _malformed(f"{type_.name}.{prop.name} has a reserved name")
    source = None if prop.embed is None else prop.embed.source
    if type_.kind != "interface" and source is not None and source not in type_.property_ids:
        _malformed(f"{type_.name}.{prop.name} embeds {source}, which is not stored")
    for interface in prop.satisfies:
        owner = ir.type("interface", interface)
        if owner is None or prop.name not in owner.property_ids:
            _malformed(f"{type_.name}.{prop.name} satisfies {interface}, which has no such one")


def _check_ids(ir: Ir) -> None:
    seen: set[int] = set()
    names: set[tuple[Kind, str]] = set()
    for type_ in ir:
        if (type_.kind, type_.name) in names:
            _malformed(f"{type_.kind} {type_.name} is stored twice")
        names.add((type_.kind, type_.name))
        for identity in type_.ids:
            if not 0 < identity < ir.next_identity_id:
                _malformed(f"id {identity} of {type_.name} is not below next_identity_id")
            if identity in seen:
                _malformed(f"id {identity} of {type_.name} is used twice")
            seen.add(identity)
    for identity in (*ir.dropped, *(number for pair in ir.joined for number in pair)):
        if not 0 < identity < ir.next_identity_id:
            _malformed(f"id {identity} is not below next_identity_id")
    for identity in ir.dropped:
        if identity in seen:
            _malformed(f"id {identity} is both declared and dropped")
    declared = Counter(Joins(ir).one(identity) for identity in seen) if ir.joined else Counter()
    for identity, count in declared.items():
        if count > 1:
            _malformed(f"id {identity} is joined with another one that is declared, too")


def _difference(stored: Any, written: Any, path: str) -> str | None:
    """The first place where a stored value is not what would be written."""
    if isinstance(stored, dict) and isinstance(written, dict):
        if stored.keys() != written.keys():
            odd = ", ".join(sorted(stored.keys() ^ written.keys()))
            return f"{path or 'the record'} has missing or unknown members: {odd}"
        pairs = [(f"{path}.{key}".lstrip("."), stored[key], written[key]) for key in written]
    elif isinstance(stored, list) and isinstance(written, list):
        if len(stored) != len(written):
            return f"{path} has {len(stored)} entries where {len(written)} make sense"
        pairs = [
            (f"{path}[{at}]", *both) for at, both in enumerate(zip(stored, written, strict=True))
        ]
    elif type(stored) is type(written) and stored == written:
        return None
    else:
        return f"{path} is {brief(stored)} and should be {brief(written)}"
    return next(filter(None, (_difference(old, new, at) for at, old, new in pairs)), None)
