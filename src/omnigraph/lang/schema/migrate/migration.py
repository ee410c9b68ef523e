"""Plans a migration: what to do to give a graph a new schema, or why that is not possible."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from omnigraph.errors import UnsupportedMigration
from omnigraph.lang.schema.compile import compile_schema
from omnigraph.lang.schema.identities import Numbering, evolve
from omnigraph.lang.schema.ir import Ir
from omnigraph.lang.schema.lint import Diagnostic
from omnigraph.lang.schema.migrate.compare import compare
from omnigraph.lang.schema.migrate.plan_steps import SchemaStep, UnsupportedChange
from omnigraph.lang.schema.shape import METRIC, Annotation, Shape, TypeShape
from omnigraph.lang.schema.syntax.hints import hints_in


@dataclass(frozen=True, slots=True)
class MigrationPlan:
    """The steps from the accepted schema to a desired one, and the IR they lead to."""

    steps: tuple[SchemaStep, ...]
    target_ir: Ir
    diagnostics: tuple[Diagnostic, ...] = ()

    @property
    def unsupported(self) -> tuple[UnsupportedChange, ...]:
        """The changes that make the plan impossible."""
        return tuple(step for step in self.steps if isinstance(step, UnsupportedChange))

    def new_ids(self, accepted: Ir) -> int:
        """How many ids it gives to what is new, if it was made without a numbering."""
        return self.target_ir.next_identity_id - accepted.next_identity_id

    @property
    def supported(self) -> bool:
        """Whether the plan can be applied."""
        return not self.unsupported

    def to_json(self) -> dict[str, Any]:
        """The plan as every surface shows it."""
        return {
            "supported": self.supported,
            "step_count": len(self.steps),
            "steps": [step.to_json() for step in self.steps],
        }

    def require_supported(self) -> None:
        """Raise UnsupportedMigration with the first reason against the plan, and what to do instead."""
        for change in self.unsupported:
            label = f"[{change.code}] " if change.code is not None else ""
            raise UnsupportedMigration(
                f"{label}{change.reason}; {change.remedy}", code=change.code, entity=change.entity
            )


def _compared(shape: Shape) -> Shape:
    """Return a shape without its metrics, which are compared by what they mean.

    A schema of before metrics may hold `@metric(l2)`, or any other word anywhere, as an annotation without a meaning.
    """

    def rest(type_: TypeShape) -> TypeShape:
        properties = tuple(
            replace(each, annotations=_without_metric(each.annotations))
            for each in type_.properties
        )
        annotations = _without_metric(type_.annotations)
        return replace(type_, properties=properties, annotations=annotations)

    return Shape(
        tuple(map(rest, shape.interfaces)),
        tuple(map(rest, shape.nodes)),
        tuple(map(rest, shape.edges)),
    )


def _without_metric(annotations: tuple[Annotation, ...]) -> tuple[Annotation, ...]:
    return tuple(each for each in annotations if each.name != METRIC)


def plan(
    accepted: Ir,
    desired: str | Shape,
    allow_data_loss: bool = False,
    filename: str | None = None,
    accepted_source: str | None = None,
    numbering: Numbering | None = None,
) -> MigrationPlan:
    """Plan the change from the accepted schema to a source text or its shape. Writes nothing.

    Rename hints that ``accepted_source`` has as well were used up, and get no diagnostic. ``numbering``
    gives the ids of what is new; without it they are provisional.
    """
    shape = compile_schema(desired, filename).shape if isinstance(desired, str) else desired
    used = () if accepted_source is None else hints_in(accepted_source)
    target, diagnostics = evolve(accepted, shape, numbering, used=used)
    steps = compare(accepted, target, "hard" if allow_data_loss else "soft")
    if not steps and _compared(accepted.shape).shape_hash != _compared(shape).shape_hash:
        steps = (UnsupportedChange("schema", "the schema changed in a way no step describes"),)
    return MigrationPlan(steps, target, diagnostics)
