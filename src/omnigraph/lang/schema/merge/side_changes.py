"""What a side did to an element since the base: the words of a conflict with the other side's drop."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from omnigraph.lang.schema.annotations import METADATA
from omnigraph.lang.schema.defaults import DEFAULT
from omnigraph.lang.schema.merge.by_identity import PropertyView, TypeView
from omnigraph.lang.schema.shape import Annotation, metric_of

NOTES = (*METADATA, DEFAULT)
"""The annotations with a text that each side may change."""


def note(annotations: Iterable[Annotation], name: str) -> str | None:
    """The text of the annotation of that name; None without one."""
    return next((each.value for each in annotations if each.name == name), None)


def definition_notes(annotations: Iterable[Annotation]) -> frozenset[Annotation]:
    """The stored annotations that define an element: all but description, instruction and default."""
    return frozenset(each for each in annotations if each.name not in NOTES)


def type_changes(before: TypeView | None, after: TypeView) -> set[str]:
    """What was done to a type and its own properties, descriptions, rules and indexes aside."""
    if before is None:
        return set()
    found = set()
    if before.name != after.name:
        found.add("rename")
    old, new = before.ir.shape.cardinality, after.ir.shape.cardinality
    if old is not None and new is not None and old != new:
        found.add("relax_cardinality" if new.allows(old) else "tighten_cardinality")
    for number, prop in after.properties.items():
        if prop.is_injected:
            continue  # its interface tells
        if number not in before.properties:
            found.add("add_property")
        else:
            found |= property_changes(before.properties[number], prop)
    return found


def property_changes(before: PropertyView | None, after: PropertyView) -> set[str]:
    """What was done to a property, its description, rules and indexes aside."""
    return set() if before is None else set(_property_changes(before, after))


def _property_changes(before: PropertyView, after: PropertyView) -> Iterator[str]:
    if before.name != after.name:
        yield "rename"
    old, new = before.shape.type, after.shape.type
    if old.nullable != new.nullable:
        yield "relax" if new.nullable else "require"
    values = set(old.enum_values or ()), set(new.enum_values or ())
    if values[1] - values[0]:
        yield "extend_enum"
    if values[0] - values[1]:
        yield "shrink_enum"
    if (old.scalar, old.is_list, old.dim) != (new.scalar, new.is_list, new.dim):
        yield "widen"
    if note(before.shape.annotations, DEFAULT) != note(after.shape.annotations, DEFAULT):
        yield DEFAULT
    if before.embed != after.embed:
        yield "change_embed"
    if metric_of(before.shape.annotations) != metric_of(after.shape.annotations):
        yield "change_metric"
