"""Makes the steps of a plan again from the JSON that commits and servers keep of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from omnigraph.lang.schema.migrate.data_steps import (
    ChangeEmbed,
    RequireProperty,
    ShrinkEnum,
    TightenCardinality,
    WidenProperty,
)
from omnigraph.lang.schema.migrate.plan_steps import (
    AddConstraint,
    AddProperty,
    AddType,
    ChangeMetric,
    DropConstraint,
    DropProperty,
    DropType,
    ExtendEnum,
    RelaxCardinality,
    RelaxProperty,
    RenameProperty,
    RenameType,
    SchemaStep,
    UnsupportedChange,
    UpdatePropertyMetadata,
    UpdateTypeMetadata,
)
from omnigraph.lang.schema.shape import Check, Constraint, Embed, Group, Range, Valid

_STEPS: Mapping[str, type[SchemaStep]] = {
    step.kind: step
    for step in (
        AddType,
        RenameType,
        AddProperty,
        RenameProperty,
        WidenProperty,
        RelaxProperty,
        RequireProperty,
        RelaxCardinality,
        TightenCardinality,
        DropConstraint,
        AddConstraint,
        ExtendEnum,
        ShrinkEnum,
        ChangeEmbed,
        ChangeMetric,
        UpdateTypeMetadata,
        UpdatePropertyMetadata,
        DropProperty,
        DropType,
        UnsupportedChange,
    )
}


def read_step(document: Mapping[str, Any]) -> SchemaStep:
    """Return the step that this JSON describes, which ``to_json`` of a step made."""
    step = _STEPS[document["kind"]]
    names = {each.name: each.name.removesuffix("_") for each in fields(step)}
    return step(
        **{name: _read(key, document[key]) for name, key in names.items() if key in document}
    )


def step_texts(schema: Mapping[str, Any]) -> list[str]:
    """Return the steps of a document ``{from_hash, to_hash, steps}`` in words."""
    return [
        read_step(step).describe() if step["kind"] in _STEPS else str(step["kind"])
        for step in schema["steps"]
    ]


def _read(key: str, value: Any) -> Any:
    if key == "constraint":
        return _constraint(value)
    if isinstance(value, Mapping):
        return Embed(value["source"], value["model"])
    return tuple(value) if isinstance(value, list) else value


def _constraint(body: Mapping[str, Any]) -> Constraint:
    match body["kind"]:
        case "range":
            return Range(body["property"], body["min"], body["max"])
        case "check":
            return Check(body["property"], body["pattern"])
        case "valid":
            return Valid(*body["properties"])
        case kind:
            return Group(kind, tuple(body["properties"]))
