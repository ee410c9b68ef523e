"""Three-way merges of single values: what either side changed.

``base`` is what both sides started from. Functions return ``CONFLICT`` where both changed it
differently, so that a person has to decide.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from enum import Enum
from typing import Final, TypeVar

from omnigraph.lang.schema.shape import Cardinality
from omnigraph.types import PropType

Value = TypeVar("Value")
Item = TypeVar("Item", bound=Hashable)


class Undecided(Enum):
    """The answer of a merge that a person has to decide."""

    CONFLICT = "conflict"


CONFLICT: Final = Undecided.CONFLICT


def merge_value(base: Value, source: Value, target: Value) -> Value | Undecided:
    """What the side that changed it says; both must agree if both did."""
    if source in (base, target):
        return target
    return source if target == base else CONFLICT


def merge_set(
    base: frozenset[Item], source: frozenset[Item], target: frozenset[Item]
) -> frozenset[Item]:
    """What either side added, less what either removed."""
    return (base & source & target) | (source - base) | (target - base)


def merge_rules(
    base: frozenset[Item], source: frozenset[Item], target: frozenset[Item]
) -> frozenset[Item] | Undecided:
    """Merge the `@range` (or `@check`) rules of one property. Both sides altered it differently if
    both added one, or one altered what the other removed."""
    added_s, added_t = source - base, target - base
    if added_s != added_t and ((added_s and added_t) or (base - source) & (base - target)):
        return CONFLICT
    return merge_set(base, source, target)


def merge_type(base: PropType | None, source: PropType, target: PropType) -> PropType | Undecided:
    """Merge the types of a property: nullability, width and enum values each by themselves.

    Without a base, for elements that were joined before, the looser of both wins.
    """
    if source == target:
        return target
    wide: PropType | Undecided
    if base is None:
        wide = _unbound(target) if _unbound(source) == _unbound(target) else CONFLICT
        base = replace(target, nullable=False, enum_values=None)
    else:
        wide = merge_value(_unbound(base), _unbound(source), _unbound(target))
    if isinstance(wide, Undecided):
        return wide
    nullable = source.nullable if target.nullable == base.nullable else target.nullable
    values = None
    if wide.enum_values is not None:
        values = tuple(merge_set(_values(base), _values(source), _values(target)))
    return replace(wide, nullable=nullable, enum_values=values)


def _unbound(type_: PropType) -> PropType:
    """A type without `?` and with no enum values, which are merged apart."""
    return replace(type_, nullable=False, enum_values=None if type_.enum_values is None else ())


def _values(type_: PropType) -> frozenset[str]:
    return frozenset(type_.enum_values or ())


def merge_cardinality(
    base: Cardinality | None, source: Cardinality, target: Cardinality
) -> Cardinality | Undecided:
    """Merge bounds: both sides may relax them differently, and then the wider of each holds."""
    both = Cardinality(
        min(source.min, target.min),
        None if source.max is None or target.max is None else max(source.max, target.max),
    )
    if base is None:
        return both
    if source != base != target and source.allows(base) and target.allows(base):
        return both
    return merge_value(base, source, target)
