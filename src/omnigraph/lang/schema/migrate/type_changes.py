"""The steps from one type of a property to another, or why there is no way.

For example, from ``I32?`` to ``I64``: the column is widened, and then the property is made required,
which is checked against all rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from omnigraph.lang.schema.lint import TYPE_CHANGED
from omnigraph.lang.schema.migrate.data_steps import RequireProperty, ShrinkEnum, WidenProperty
from omnigraph.lang.schema.migrate.plan_steps import (
    ExtendEnum,
    RelaxProperty,
    SchemaStep,
    UnsupportedChange,
)
from omnigraph.lang.schema.shape import Kind
from omnigraph.types import PropType


@dataclass(frozen=True, slots=True)
class ChangedType:
    """A property with another type than before. ``in_key``: the ids of nodes are made of it."""

    type_kind: Kind
    type_name: str
    property_name: str
    before: PropType
    after: PropType
    in_key: bool

    def steps(self) -> Iterator[SchemaStep]:
        """The steps to the new type: first what values it has, then whether it may be null."""
        before, after = self.before, self.after
        place = self.type_kind, self.type_name, self.property_name
        if not _same_base(before, after):
            if not is_wider(before, after) or (self.in_key and before.scalar.is_float):
                yield self._unsupported()
                return
            widened = replace(before, scalar=after.scalar)
            yield WidenProperty(*place, before.display, widened.display)
        old_values, new_values = set(before.enum_values or ()), set(after.enum_values or ())
        if added := tuple(sorted(new_values - old_values)):
            yield ExtendEnum(*place, added)
        if removed := tuple(sorted(old_values - new_values)):
            yield ShrinkEnum(*place, removed)
        if after.nullable and not before.nullable:
            yield RelaxProperty(*place)
        if before.nullable and not after.nullable:
            yield RequireProperty(*place)

    def _unsupported(self) -> UnsupportedChange:
        name = f"{self.type_name}.{self.property_name}"
        reason = (
            f"the type of `{name}` cannot change from {self.before.display} to {self.after.display}"
        )
        way = None
        if self.in_key:
            reason += ", because the ids of the nodes are made of it"
            way = (
                "declare a new type with that key, load the nodes into it under their new ids, and "
                "drop the old one"
            )
        return UnsupportedChange(f"{self.type_kind}:{name}", reason, TYPE_CHANGED, way)


def _same_base(before: PropType, after: PropType) -> bool:
    return (before.scalar, before.is_list, before.dim, before.is_enum) == (
        after.scalar,
        after.is_list,
        after.dim,
        after.is_enum,
    )


def is_wider(before: PropType, after: PropType) -> bool:
    """Whether a type is another one but for larger numbers; lists count by their items."""
    return after.scalar.widens(before.scalar) and (
        before.is_list == after.is_list and before.dim is None and after.dim is None
    )
