"""The intermediate representation: an accepted shape plus the identities of all its parts.

Identities survive a rename: they are numbers from one counter and never reused. In JSON a reference
holds both id and name, so that a stored record can be checked against itself.
``joined`` says which ids mean the same element since a merge joined them, and ``dropped`` which ids
this schema and those before it gave up; both are left out of the JSON while they are empty.
``position``, ``declared_directly`` and ``satisfies`` describe the accepted source and take no part
in the comparison of two schemas.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from omnigraph.lang.schema.shape import (
    Check,
    Constraint,
    Group,
    Kind,
    PropertyShape,
    Range,
    Shape,
    TypeShape,
    Valid,
    annotations_json,
    constraint_json,
    digest,
)

IR_VERSION = 2
MAX_ID = 2**64 - 1

SECTIONS: dict[Kind, str] = {"interface": "interfaces", "node": "nodes", "edge": "edges"}


@dataclass(frozen=True, slots=True)
class TypeIr:
    """One declaration with its identities; an interface has no table."""

    shape: TypeShape
    type_id: int
    table_incarnation_id: int | None
    property_ids: Mapping[str, int]

    @property
    def kind(self) -> Kind:
        """Interface, node or edge."""
        return self.shape.kind

    @property
    def name(self) -> str:
        """The accepted name."""
        return self.shape.name

    @property
    def ids(self) -> Iterator[int]:
        """All its ids: its own, that of its table, and those of its properties."""
        yield self.type_id
        if self.table_incarnation_id is not None:
            yield self.table_incarnation_id
        yield from self.property_ids.values()

    def property_by_id(self, property_id: int) -> PropertyShape | None:
        """The property with that identity."""
        for prop in self.shape.properties:
            if self.property_ids[prop.name] == property_id:
                return prop
        return None

    def member_id(self, name: str) -> int | str:
        """What a constraint member means: a property's id, or the role `src` or `dst`."""
        return self.property_ids.get(name, name)


@dataclass(frozen=True)
class Ir:
    """An accepted schema. Types are sorted by kind, then by name.

    ``joined`` are pairs of an id and the one kept for it, by the first of both. ``dropped`` are ids of
    elements that this schema or one before it dropped, those joined with them included.
    """

    schema_identity_domain: str
    next_identity_id: int
    interfaces: tuple[TypeIr, ...] = ()
    nodes: tuple[TypeIr, ...] = ()
    edges: tuple[TypeIr, ...] = ()
    joined: tuple[tuple[int, int], ...] = ()
    dropped: tuple[int, ...] = ()
    _named: Mapping[tuple[Kind, str], TypeIr] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        named = {(type_.kind, type_.name): type_ for type_ in self}
        object.__setattr__(self, "_named", named)

    def __iter__(self) -> Iterator[TypeIr]:
        yield from self.interfaces
        yield from self.nodes
        yield from self.edges

    def of_kind(self, kind: Kind) -> tuple[TypeIr, ...]:
        """The types of one kind, by name."""
        return {"interface": self.interfaces, "node": self.nodes, "edge": self.edges}[kind]

    def type(self, kind: Kind, name: str) -> TypeIr | None:
        """The type of that kind and name."""
        return self._named.get((kind, name))

    @cached_property
    def ids(self) -> frozenset[int]:
        """The ids of all its types, tables and properties."""
        return frozenset(number for type_ in self for number in type_.ids)

    def by_id(self) -> dict[int, TypeIr]:
        """All types by identity."""
        return {type_.type_id: type_ for type_ in self}

    @cached_property
    def shape(self) -> Shape:
        """The accepted shape."""
        return Shape(
            tuple(type_.shape for type_ in self.interfaces),
            tuple(type_.shape for type_ in self.nodes),
            tuple(type_.shape for type_ in self.edges),
        )

    def to_json(self) -> dict[str, Any]:
        """The stored form; `read_ir` is its inverse."""
        return {
            "ir_version": IR_VERSION,
            "schema_identity_domain": self.schema_identity_domain,
            "next_identity_id": self.next_identity_id,
            **{
                section: [_type_json(self, type_) for type_ in self.of_kind(kind)]
                for kind, section in SECTIONS.items()
            },
            **({"joined": [list(pair) for pair in self.joined]} if self.joined else {}),
            **({"dropped": list(self.dropped)} if self.dropped else {}),
        }

    @cached_property
    def ir_hash(self) -> str:
        """`sha256:` and the hex digest of the stored form."""
        return digest(self.to_json())


def _type_json(ir: Ir, type_: TypeIr) -> dict[str, Any]:
    shape = type_.shape
    positions = {prop.name: at for at, prop in enumerate(shape.properties)}
    ordered = sorted(shape.properties, key=lambda prop: prop.name)
    body: dict[str, Any] = {
        "name": shape.name,
        "type_id": type_.type_id,
        "properties": [_property_json(ir, type_, p, positions[p.name]) for p in ordered],
    }
    if type_.table_incarnation_id is not None:
        body["table_incarnation_id"] = type_.table_incarnation_id
        body["annotations"] = annotations_json(shape.annotations)
        body["constraints"] = [_constraint_json(type_, each) for each in shape.constraints]
    if shape.kind == "node":
        body["implements"] = [_type_ref(ir, "interface", name) for name in shape.implements]
    if shape.endpoints is not None and shape.cardinality is not None:
        body["from"] = _type_ref(ir, "node", shape.endpoints[0])
        body["to"] = _type_ref(ir, "node", shape.endpoints[1])
        body["cardinality"] = {"min": shape.cardinality.min, "max": shape.cardinality.max}
    return body


def _property_json(ir: Ir, type_: TypeIr, prop: PropertyShape, position: int) -> dict[str, Any]:
    body: dict[str, Any] = {
        "name": prop.name,
        "property_id": type_.property_ids[prop.name],
        "position": position,
        "type": prop.type.to_ir(),
        "annotations": annotations_json(prop.annotations),
        "markers": list(prop.markers),
        "embed": None,
        "declared_directly": prop.declared_directly,
        "satisfies": [_satisfied(ir, name, prop.name) for name in prop.satisfies],
    }
    if prop.embed is not None:
        source = _property_ref(type_, prop.embed.source)
        body["embed"] = {"source": source, "model": prop.embed.model}
    return body


def _constraint_json(type_: TypeIr, constraint: Constraint) -> dict[str, Any]:
    body = constraint_json(constraint)
    match constraint:
        case Group(_, properties):
            body["properties"] = [_property_ref(type_, name) for name in properties]
        case Range(name) | Check(name):
            body["property"] = _property_ref(type_, name)
        case Valid(since, until):
            body["properties"] = [_property_ref(type_, name) for name in (since, until)]
    return body


def _satisfied(ir: Ir, interface: str, prop: str) -> dict[str, Any]:
    owner = ir.type("interface", interface)
    assert owner is not None
    return {"interface": _ref(owner), "property": _property_ref(owner, prop)}


def _type_ref(ir: Ir, kind: Kind, name: str) -> dict[str, Any]:
    owner = ir.type(kind, name)
    assert owner is not None
    return _ref(owner)


def _ref(type_: TypeIr) -> dict[str, Any]:
    return {"type_id": type_.type_id, "name": type_.name}


def _property_ref(type_: TypeIr, name: str) -> dict[str, Any]:
    """Refer to a property by id and name, to an endpoint by its role. The source of an interface's
    `@embed` may be a property that only its nodes have; that one is referred to by name."""
    if name in type_.property_ids:
        return {"property_id": type_.property_ids[name], "name": name}
    return {"role": name} if type_.kind == "edge" else {"name": name}
