"""Finds the steps from one IR to another, matched by identity, in the order of a plan."""

from __future__ import annotations

from collections.abc import Iterator

from omnigraph.lang.schema.annotations import METADATA
from omnigraph.lang.schema.defaults import DEFAULT, default_json
from omnigraph.lang.schema.ir import Ir, TypeIr
from omnigraph.lang.schema.lint import (
    DROP_EDGE,
    DROP_NODE,
    DROP_PROPERTY,
    REQUIRED_PROPERTY_ADDED,
)
from omnigraph.lang.schema.migrate.constraint_changes import constraint_steps, constraints_of
from omnigraph.lang.schema.migrate.data_steps import ChangeEmbed, TightenCardinality
from omnigraph.lang.schema.migrate.plan_steps import (
    AddProperty,
    AddType,
    ChangeMetric,
    DropProperty,
    DropType,
    Mode,
    RelaxCardinality,
    RenameProperty,
    RenameType,
    SchemaStep,
    UnsupportedChange,
    UpdatePropertyMetadata,
    UpdateTypeMetadata,
)
from omnigraph.lang.schema.migrate.type_changes import ChangedType
from omnigraph.lang.schema.shape import (
    KINDS,
    METRIC,
    Annotation,
    Embed,
    Group,
    PropertyShape,
    annotations_json,
    metric_of,
)
from omnigraph.types import PropType

_METADATA = (*METADATA, DEFAULT)
"""The annotations that may change without touching a row."""


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
        yield from constraint_steps(self.old, self.new)

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
        if after.allows(before):
            yield RelaxCardinality(self.name, before.text, after.text)
        else:
            yield TightenCardinality(self.name, before.text, after.text)

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
        aside = (*_METADATA, METRIC)
        rest = {each for each in before if each.name not in aside}
        changed = rest ^ {each for each in after if each.name not in aside}
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
            old_metric, metric = metric_of(before.annotations), metric_of(prop.annotations)
            if old_metric != metric:
                yield ChangeMetric(self.kind, self.name, prop.name, old_metric, metric)
            yield from self._changed_metadata(before, prop)

    def _added(self, prop: PropertyShape) -> SchemaStep:
        # Rows that are there have no value where none is required, whatever the default of new ones.
        value = None if prop.type.nullable else default_json(prop.type, prop.annotations)
        if prop.type.nullable or value is not None:
            return AddProperty(self.kind, self.name, prop.name, prop.type.display, value)
        return UnsupportedChange(
            f"{self.entity}.{prop.name}",
            f"the new property `{self.name}.{prop.name}` of an existing type must be nullable or have a "
            f"default: write {prop.type.as_nullable().display}, or `@default(value)`",
            REQUIRED_PROPERTY_ADDED,
        )

    def _changed_type(self, before: PropType, prop: PropertyShape) -> Iterator[SchemaStep]:
        if before != prop.type:
            in_key = any(
                isinstance(each, Group) and each.kind == "key" and prop.name in each.properties
                for each in constraints_of(self.new)
            )
            yield from ChangedType(
                self.kind, self.name, prop.name, before, prop.type, in_key
            ).steps()

    def _changed_embed(self, before: PropertyShape, prop: PropertyShape) -> Iterator[SchemaStep]:
        if _same_embed(self.old, before, self.new, prop) or self._embeds_follow(prop):
            return
        place = f"`{self.name}.{prop.name}`"
        if before.embed is None or prop.embed is None:
            verb = "added to" if before.embed is None else "removed from"
            yield UnsupportedChange(
                f"{self.entity}.{prop.name}",
                f"`@embed` cannot be {verb} {place}",
                way="add another vector property as you want it, fill it, and drop this one",
            )
        elif not prop.type.nullable:
            yield UnsupportedChange(
                f"{self.entity}.{prop.name}",
                f"the `@embed` of {place} cannot change while its vectors are required: the stored "
                "ones would be set to null",
                way=f"declare it {prop.type.as_nullable().display}",
            )
        else:
            old = self._now(before.embed)
            yield ChangeEmbed(self.kind, self.name, prop.name, old, prop.embed)

    def _now(self, embed: Embed) -> Embed:
        """An accepted binding with the name that its source has now; a dropped one keeps its own."""
        source = self.old.property_ids.get(embed.source)
        names = {identity: name for name, identity in self.new.property_ids.items()}
        return Embed(
            embed.source if source is None else names.get(source, embed.source), embed.model
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
    return tuple(each for each in annotations if each.name in _METADATA)
