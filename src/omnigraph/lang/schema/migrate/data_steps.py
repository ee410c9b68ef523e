"""The steps of a plan that depend on stored rows: checked against all of them, or writing a column anew.

A checked step (``RequireProperty``, ``ShrinkEnum``, ``TightenCardinality`` and the constraints that are
added) changes no row: either every row keeps the new rule, or the plan is not applied.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from omnigraph.lang.schema.migrate.plan_steps import SchemaStep
from omnigraph.lang.schema.shape import Embed, Kind, embed_json, embed_text


@dataclass(frozen=True, slots=True)
class WidenProperty(SchemaStep):
    """A number gets a larger type; `from` and `to` as written. Its column is written anew."""

    kind = "widen_property"
    sentence = "widen {step.type_name}.{step.property_name} from {step.from_} to {step.to}"
    type_kind: Kind
    type_name: str
    property_name: str
    from_: str
    to: str


@dataclass(frozen=True, slots=True)
class RequireProperty(SchemaStep):
    """A nullable property becomes required; checked: no row is without it."""

    kind = "require_property"
    sentence = "make {step.type_name}.{step.property_name} required"
    type_kind: Kind
    type_name: str
    property_name: str


@dataclass(frozen=True, slots=True)
class ShrinkEnum(SchemaStep):
    """An enum loses values; checked: no row has one of them."""

    kind = "shrink_enum"
    type_kind: Kind
    type_name: str
    property_name: str
    removed_values: tuple[str, ...]

    def describe(self) -> str:
        """The step in words."""
        removed = ", ".join(self.removed_values)
        return f"remove from {self.type_name}.{self.property_name}: {removed}"


@dataclass(frozen=True, slots=True)
class TightenCardinality(SchemaStep):
    """An edge type allows less; bounds as written. Checked: every source keeps them."""

    kind = "tighten_cardinality"
    sentence = "tighten the cardinality of {step.type_name} from {step.from_} to {step.to}"
    type_name: str
    from_: str
    to: str


@dataclass(frozen=True, slots=True)
class ChangeEmbed(SchemaStep):
    """Vectors are made of another text or by another model: the stored ones are set to null."""

    kind = "change_embed"
    type_kind: Kind
    type_name: str
    property_name: str
    from_: Embed
    to: Embed

    def to_json(self) -> dict[str, Any]:
        """The step as plans show it."""
        return {
            "kind": self.kind,
            "type_kind": self.type_kind,
            "type_name": self.type_name,
            "property_name": self.property_name,
            "from": embed_json(self.from_),
            "to": embed_json(self.to),
        }

    def describe(self) -> str:
        """The step in words."""
        place = f"{self.type_name}.{self.property_name}"
        return (
            f"change the @embed of {place} from {embed_text(self.from_)} to {embed_text(self.to)}"
        )

    def warning(self) -> str | None:
        """What the step destroys."""
        if self.type_kind == "interface":
            return None
        return f"the vectors of {self.type_name}.{self.property_name} are set to null; fill them by embed"
