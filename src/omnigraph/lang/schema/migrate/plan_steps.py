"""The steps of a migration plan. Names are those after the plan's renames."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Literal

from omnigraph.lang.schema.lint import CODES, REQUIRED_PROPERTY_ADDED, TYPE_CHANGED
from omnigraph.lang.schema.shape import Constraint, Kind, constraint_json, constraint_text
from omnigraph.lang.source import escape

Mode = Literal["soft", "hard"]


@dataclass(frozen=True, slots=True)
class SchemaStep:
    """One change. ``kind`` and the fields are its JSON; ``describe`` is for people."""

    kind: ClassVar[str]
    sentence: ClassVar[str]

    def to_json(self) -> dict[str, Any]:
        """The step as plans show it; a member without a value is left out."""
        body: dict[str, Any] = {"kind": self.kind}
        for each in fields(self):
            value = getattr(self, each.name)
            if each.compare and value is not None and (each.name != "warnings" or value):
                body[each.name.removesuffix("_")] = _plain(value)
        return body

    def describe(self) -> str:
        """The step in words."""
        return self.sentence.format(step=self)

    def warning(self) -> str | None:
        """What the step destroys, after the code of the warning; None if nothing."""
        return None


def _destroys(codes: tuple[str, ...], what: str) -> str | None:
    return f"[{', '.join(codes)}] {what}" if codes else None


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


@dataclass(frozen=True, slots=True)
class AddType(SchemaStep):
    """A new declaration."""

    kind = "add_type"
    sentence = "add {step.type_kind} {step.name}"
    type_kind: Kind
    name: str


@dataclass(frozen=True, slots=True)
class RenameType(SchemaStep):
    """A declaration under a new name."""

    kind = "rename_type"
    sentence = "rename {step.type_kind} {step.from_} to {step.to}"
    type_kind: Kind
    from_: str
    to: str


@dataclass(frozen=True, slots=True)
class AddProperty(SchemaStep):
    """A new property; `property_type` as written.

    ``default`` is the value that the rows get which are there already, as JSON; without it they get none.
    """

    kind = "add_property"
    type_kind: Kind
    type_name: str
    property_name: str
    property_type: str
    default: Any = None

    def describe(self) -> str:
        """The step in words."""
        added = f"add {self.type_name}.{self.property_name}: {self.property_type}"
        if self.default is None:
            return added
        return f"{added} with {json.dumps(self.default, ensure_ascii=False)} in all rows"


@dataclass(frozen=True, slots=True)
class RenameProperty(SchemaStep):
    """A property under a new name."""

    kind = "rename_property"
    sentence = "rename {step.type_name}.{step.from_} to {step.to}"
    type_kind: Kind
    type_name: str
    from_: str
    to: str


@dataclass(frozen=True, slots=True)
class RelaxProperty(SchemaStep):
    """A required property becomes nullable."""

    kind = "relax_property"
    sentence = "make {step.type_name}.{step.property_name} nullable"
    type_kind: Kind
    type_name: str
    property_name: str


@dataclass(frozen=True, slots=True)
class RelaxCardinality(SchemaStep):
    """An edge type allows more; bounds as written."""

    kind = "relax_cardinality"
    sentence = "relax the cardinality of {step.type_name} from {step.from_} to {step.to}"
    type_name: str
    from_: str
    to: str


@dataclass(frozen=True, slots=True)
class _ConstraintStep(SchemaStep):
    type_kind: Kind
    type_name: str
    constraint: Constraint

    def to_json(self) -> dict[str, Any]:
        """The step as plans show it."""
        return {
            "kind": self.kind,
            "type_kind": self.type_kind,
            "type_name": self.type_name,
            "constraint": constraint_json(self.constraint),
        }

    def describe(self) -> str:
        """The step in words."""
        verb = self.kind.partition("_")[0]
        return f"{verb} {constraint_text(self.constraint)} on {self.type_kind} {self.type_name}"


@dataclass(frozen=True, slots=True)
class DropConstraint(_ConstraintStep):
    """An `@index`, `@unique`, `@range` or `@check` is removed."""

    kind = "drop_constraint"


@dataclass(frozen=True, slots=True)
class AddConstraint(_ConstraintStep):
    """An `@index`, `@unique`, `@range` or `@check` is added, or gets other bounds or another pattern.

    All but an index are checked: every row keeps the rule.
    """

    kind = "add_constraint"


@dataclass(frozen=True, slots=True)
class ExtendEnum(SchemaStep):
    """An enum gains values."""

    kind = "extend_enum"
    type_kind: Kind
    type_name: str
    property_name: str
    added_values: tuple[str, ...]

    def describe(self) -> str:
        """The step in words."""
        return f"add to {self.type_name}.{self.property_name}: {', '.join(self.added_values)}"


@dataclass(frozen=True, slots=True)
class ChangeMetric(SchemaStep):
    """`nearest` ranks a vector property by another distance; no row is touched."""

    kind = "change_metric"
    sentence = "rank {step.type_name}.{step.property_name} by {step.to}, not by {step.from_}"
    type_kind: Kind
    type_name: str
    property_name: str
    from_: str
    to: str


@dataclass(frozen=True, slots=True)
class UpdateTypeMetadata(SchemaStep):
    """The description or instruction of a type changes; lists the new ones."""

    kind = "update_type_metadata"
    sentence = "update the description of {step.type_kind} {step.name}"
    type_kind: Kind
    name: str
    annotations: tuple[dict[str, Any], ...]


@dataclass(frozen=True, slots=True)
class UpdatePropertyMetadata(SchemaStep):
    """The description or the default of a property changes; lists the new ones."""

    kind = "update_property_metadata"
    type_kind: Kind
    type_name: str
    property_name: str
    annotations: tuple[dict[str, Any], ...]

    def describe(self) -> str:
        """The step in words, with what the property has from then on."""
        name = f"{self.type_name}.{self.property_name}"
        values = {one["name"]: one.get("value", "") for one in self.annotations}
        if not values:
            return f"leave {name} without a description and a default"
        shown = [f"{word} {escape(values[word])}" for word in sorted(values)]
        return f"give {name} the {' and the '.join(shown)}"


@dataclass(frozen=True, slots=True)
class DropProperty(SchemaStep):
    """A property is dropped. `hard` also removes the versions that still contain it."""

    kind = "drop_property"
    sentence = "drop {step.type_name}.{step.property_name} ({step.mode})"
    type_kind: Kind
    type_name: str
    property_name: str
    mode: Mode
    warnings: tuple[str, ...] = ()

    def warning(self) -> str | None:
        """What the step destroys; an interface has no data of its own."""
        return _destroys(self.warnings, self.describe())


@dataclass(frozen=True, slots=True)
class DropType(SchemaStep):
    """A node or edge type is dropped. `hard` also removes its table."""

    kind = "drop_type"
    sentence = "drop {step.type_kind} {step.name} ({step.mode})"
    type_kind: Kind
    name: str
    mode: Mode
    warnings: tuple[str, ...] = ()

    def warning(self) -> str | None:
        """What the step destroys; an interface has no data of its own."""
        return _destroys(self.warnings, self.describe())


_REMEDIES: Mapping[str | None, str] = {
    REQUIRED_PROPERTY_ADDED: "declare it like that, and fill what is null",
    TYPE_CHANGED: "add a property of the new type, fill it by a mutation, and drop the old one",
}
_ANY_REMEDY = "leave it as it was, or declare a new type with the change and move the data there"


@dataclass(frozen=True, slots=True)
class UnsupportedChange(SchemaStep):
    """A change that no step can make; the whole plan is refused."""

    kind = "unsupported_change"
    entity: str
    reason: str
    code: str | None = None
    way: str | None = field(default=None, compare=False)
    """What to do instead, if it is not what the code says."""

    @property
    def remedy(self) -> str:
        """What to do instead."""
        return self.way or _REMEDIES.get(self.code, _ANY_REMEDY)

    def describe(self) -> str:
        """The refusal in words, with the code and its tier."""
        if self.code is None:
            return f"unsupported, {self.entity}: {self.reason}"
        return f"unsupported [{self.code}, {CODES[self.code].tier}], {self.entity}: {self.reason}"
