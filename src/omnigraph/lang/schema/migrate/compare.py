"""Finds the steps from one IR to another, matched by identity, in the order of a plan."""

from __future__ import annotations

from collections.abc import Iterator

from omnigraph.lang.schema.annotations import METADATA
from omnigraph.lang.schema.ir import Ir, TypeIr
from omnigraph.lang.schema.lint import (
    DROP_EDGE,
    DROP_NODE,
    DROP_PROPERTY,
    REQUIRED_PROPERTY_ADDED,
    TYPE_CHANGED,
)
from omnigraph.lang.schema.migrate.steps import (
    AddConstraint,
    AddProperty,
    AddType,
    DropConstraint,
    DropProperty,
    DropType,
    ExtendEnum,
    Mode,
    RelaxCardinality,
    RelaxProperty,
    RenameProperty,
    RenameType,
    SchemaStep,
    UnsupportedChange,
    UpdatePropertyMetadata,
    UpdateTypeMetadata,
)
from omnigraph.lang.schema.shape import (
    KINDS,
    Annotation,
    Cardinality,
    Check,
    Constraint,
    Group,
    PropertyShape,
    Range,
    annotations_json,
    constraint_order,
)
from omnigraph.types import PropType


def compare(accepted: Ir, target: Ir, mode: Mode) -> tuple[SchemaStep, ...]:
    """The steps for interfaces, nodes, then edges; in each kind by name, dropped types last."""
    old_types, new_types = accepted.by_id(), target.by_id()
    steps: list[SchemaStep] = []
    for kind in KINDS:
        for new in target.of_kind(kind):
            old = old_types.get(new.type_id)
            if old is None:
                steps.append(AddType(kind, new.name))
            else:
                steps += _Comparison(accepted, target, old, new, mode).steps()
        for old in accepted.of_kind(kind):
            if old.type_id not in new_types:
                steps.append(_dropped_type(old, mode))
    return tuple(steps)


def _dropped_type(old: TypeIr, mode: Mode) -> SchemaStep:
    if old.kind == "interface":
        return UnsupportedChange(
            old.shape.entity, f"interface `{old.name}` cannot be removed or renamed"
        )
    warning = DROP_NODE if old.kind == "node" else DROP_EDGE
    return DropType(old.kind, old.name, mode, (warning,))


class _Comparison:
    """Compares a type that exists in both schemas."""

    def __init__(self, accepted: Ir, target: Ir, old: TypeIr, new: TypeIr, mode: Mode) -> None:
        self.accepted = accepted
        self.target = target
        self.old = old
        self.new = new
        self.mode = mode
        self.kind = new.kind
        self.name = new.name
        self.entity = new.shape.entity

    def steps(self) -> Iterator[SchemaStep]:
        if self.old.name != self.name:
            yield RenameType(self.kind, self.old.name, self.name)
        yield from self._implements()
        yield from self._ends()
        yield from self._type_metadata()
        yield from self._properties()
        yield from self._dropped_properties()
        yield from self._constraints()

    def _implements(self) -> Iterator[SchemaStep]:
        before = _interface_ids(self.accepted, self.old)
        after = _interface_ids(self.target, self.new)
        if before != after:
            reason = f"the interfaces that node `{self.name}` implements cannot change"
            yield UnsupportedChange(self.entity, reason)

    def _ends(self) -> Iterator[SchemaStep]:
        before, after = self.old.shape.cardinality, self.new.shape.cardinality
        if before is None or after is None:
            return
        if _endpoint_ids(self.accepted, self.old) != _endpoint_ids(self.target, self.new):
            yield UnsupportedChange(
                self.entity, f"the endpoints of edge `{self.name}` cannot change"
            )
        if before == after:
            return
        if _is_wider(before, after):
            yield RelaxCardinality(self.name, _card_text(before), _card_text(after))
        else:
            reason = (
                f"the cardinality of edge `{self.name}` cannot be tightened from "
                f"{_card_text(before)} to {_card_text(after)}"
            )
            yield UnsupportedChange(self.entity, reason)

    def _type_metadata(self) -> Iterator[SchemaStep]:
        before, after = self.old.shape.annotations, self.new.shape.annotations
        if _metadata(before) != _metadata(after):
            desired = tuple(annotations_json(_metadata(after)))
            yield UpdateTypeMetadata(self.kind, self.name, desired)
        yield from self._other_annotations(self.entity, f"{self.kind} `{self.name}`", before, after)

    def _other_annotations(
        self,
        entity: str,
        label: str,
        before: tuple[Annotation, ...],
        after: tuple[Annotation, ...],
    ) -> Iterator[SchemaStep]:
        rest = {each for each in before if each.name not in METADATA}
        changed = rest ^ {each for each in after if each.name not in METADATA}
        if changed:
            words = ", ".join(sorted({f"`@{each.name}`" for each in changed}))
            yield UnsupportedChange(entity, f"the annotations of {label} cannot change: {words}")

    # Properties

    def _properties(self) -> Iterator[SchemaStep]:
        old_names = {identity: name for name, identity in self.old.property_ids.items()}
        old_properties = {prop.name: prop for prop in self.old.shape.properties}
        for prop in sorted(self.new.shape.properties, key=lambda prop: prop.name):
            identity = self.new.property_ids[prop.name]
            if identity not in old_names:
                yield self._added(prop)
                continue
            old_name = old_names[identity]
            if old_name != prop.name:
                yield RenameProperty(self.kind, self.name, old_name, prop.name)
            before = old_properties[old_name]
            yield from self._changed_type(before.type, prop)
            yield from self._changed_embed(before, prop)
            yield from self._changed_metadata(before, prop)

    def _added(self, prop: PropertyShape) -> SchemaStep:
        if prop.type.nullable:
            return AddProperty(self.kind, self.name, prop.name, prop.type.display)
        return UnsupportedChange(
            f"{self.entity}.{prop.name}",
            f"the new property `{self.name}.{prop.name}` of an existing type must be nullable: "
            f"write {prop.type.as_nullable().display}",
            REQUIRED_PROPERTY_ADDED,
        )

    def _changed_type(self, before: PropType, prop: PropertyShape) -> Iterator[SchemaStep]:
        after = prop.type
        if before == after:
            return
        old_values, new_values = set(before.enum_values or ()), set(after.enum_values or ())
        same_base = (before.scalar, before.is_list, before.dim, before.is_enum) == (
            after.scalar,
            after.is_list,
            after.dim,
            after.is_enum,
        )
        if not same_base or not old_values <= new_values or (before.nullable > after.nullable):
            yield UnsupportedChange(
                f"{self.entity}.{prop.name}",
                f"the type of `{self.name}.{prop.name}` cannot change from {before.display} "
                f"to {after.display}",
                TYPE_CHANGED,
            )
            return
        added = tuple(sorted(new_values - old_values))
        if added:
            yield ExtendEnum(self.kind, self.name, prop.name, added)
        if after.nullable and not before.nullable:
            yield RelaxProperty(self.kind, self.name, prop.name)

    def _changed_embed(self, before: PropertyShape, prop: PropertyShape) -> Iterator[SchemaStep]:
        if not _same_embed(self.old, before, self.new, prop) and not self._embeds_follow(prop):
            yield UnsupportedChange(
                f"{self.entity}.{prop.name}",
                f"the `@embed` of `{self.name}.{prop.name}` cannot change: stored vectors would "
                "not match the new source or model",
            )

    def _embeds_follow(self, prop: PropertyShape) -> bool:
        """Whether an interface's `@embed` changed only with the name of its nodes' source property."""
        if self.kind != "interface":
            return False
        old_nodes = self.accepted.by_id()
        bound = []
        for node in self.target.nodes:
            injected = node.shape.property(prop.name)
            old = old_nodes.get(node.type_id)
            if self.name in node.shape.implements and injected is not None and old is not None:
                before = old.property_by_id(node.property_ids[prop.name])
                bound.append(before is not None and _same_embed(old, before, node, injected))
        return bool(bound) and all(bound)

    def _changed_metadata(self, before: PropertyShape, prop: PropertyShape) -> Iterator[SchemaStep]:
        if _metadata(before.annotations) != _metadata(prop.annotations):
            desired = tuple(annotations_json(_metadata(prop.annotations)))
            yield UpdatePropertyMetadata(self.kind, self.name, prop.name, desired)
        yield from self._other_annotations(
            f"{self.entity}.{prop.name}",
            f"`{self.name}.{prop.name}`",
            before.annotations,
            prop.annotations,
        )

    def _dropped_properties(self) -> Iterator[SchemaStep]:
        still_there = set(self.new.property_ids.values())
        for name, identity in sorted(self.old.property_ids.items()):
            if identity not in still_there:
                # An interface holds no data to lose; its nodes get steps of their own.
                warnings = () if self.kind == "interface" else (DROP_PROPERTY,)
                yield DropProperty(self.kind, self.name, name, self.mode, warnings)

    # Constraints

    def _constraints(self) -> Iterator[SchemaStep]:
        still_there = set(self.new.property_ids.values())
        old_ids = {_identified(self.old, each): each for each in _constraints_of(self.old)}
        new_ids = {_identified(self.new, each): each for each in _constraints_of(self.new)}
        names = {identity: name for name, identity in self.new.property_ids.items()}
        removed = []
        for identified, each in old_ids.items():
            members = identified[1]
            fallen = any(
                isinstance(member, int) and member not in still_there for member in members
            )
            if identified not in new_ids and not fallen:
                removed.append(_renamed(self.old, each, names))
        added = [each for identified, each in new_ids.items() if identified not in old_ids]
        for each in sorted(removed, key=constraint_order):
            yield self._constraint_step(each, removed=True)
        for each in sorted(added, key=constraint_order):
            yield self._constraint_step(each, removed=False)

    def _constraint_step(self, constraint: Constraint, *, removed: bool) -> SchemaStep:
        verb = "removed from" if removed else "added to"
        if not isinstance(constraint, Group):
            word = "range" if isinstance(constraint, Range) else "check"
            reason = f"`@{word}` cannot be {verb} `{self.name}.{constraint.property}`"
            return UnsupportedChange(self.entity, reason)
        if constraint.kind == "index":
            step = DropConstraint if removed else AddConstraint
            return step(self.kind, self.name, constraint.properties)
        members = ", ".join(constraint.properties)
        single = len(constraint.properties) == 1
        entity = f"{self.entity}.{members}" if single else self.entity
        label = f"{self.name}.{members}" if single else f"{self.name}.({members})"
        return UnsupportedChange(entity, f"`@{constraint.kind}` cannot be {verb} `{label}`")


_Identified = tuple[str, frozenset[int | str], object]


def _constraints_of(type_: TypeIr) -> Iterator[Constraint]:
    yield from type_.shape.constraints
    for prop in type_.shape.properties:
        for kind in prop.markers:
            yield Group(kind, (prop.name,))


def _identified(type_: TypeIr, constraint: Constraint) -> _Identified:
    """A constraint with the identities of its members in place of their names."""
    match constraint:
        case Group(kind, properties):
            return kind, frozenset(type_.member_id(name) for name in properties), None
        case Range(name, low, high):
            return "range", frozenset({type_.member_id(name)}), (low, high)
        case Check(name, pattern):
            return "check", frozenset({type_.member_id(name)}), pattern


def _renamed(type_: TypeIr, constraint: Constraint, names: dict[int, str]) -> Constraint:
    """An accepted constraint with the names its properties have now."""

    def now(name: str) -> str:
        identity = type_.member_id(name)
        return names[identity] if isinstance(identity, int) else name

    match constraint:
        case Group(kind, properties):
            return Group(kind, tuple(sorted(now(name) for name in properties)))
        case Range(name, low, high):
            return Range(now(name), low, high)
        case Check(name, pattern):
            return Check(now(name), pattern)


def _same_embed(old: TypeIr, before: PropertyShape, new: TypeIr, after: PropertyShape) -> bool:
    if before.embed is None or after.embed is None:
        return before.embed is after.embed
    return before.embed.model == after.embed.model and (
        old.member_id(before.embed.source) == new.member_id(after.embed.source)
    )


def _interface_ids(ir: Ir, type_: TypeIr) -> set[int | None]:
    return {_type_id(ir, "interface", name) for name in type_.shape.implements}


def _endpoint_ids(ir: Ir, type_: TypeIr) -> list[int | None]:
    return [_type_id(ir, "node", name) for name in type_.shape.endpoints or ()]


def _type_id(ir: Ir, kind: str, name: str) -> int | None:
    found = ir.type("node" if kind == "node" else "interface", name)
    return None if found is None else found.type_id


def _metadata(annotations: tuple[Annotation, ...]) -> tuple[Annotation, ...]:
    return tuple(each for each in annotations if each.name in METADATA)


def _is_wider(before: Cardinality, after: Cardinality) -> bool:
    open_top = after.max is None or (before.max is not None and before.max <= after.max)
    return after.min <= before.min and open_top


def _card_text(cardinality: Cardinality) -> str:
    return f"{cardinality.min}..{'' if cardinality.max is None else cardinality.max}"
