"""The shape: what a source means, without identities; and the small records it shares with IR and catalog.

Order, comments, spelling of constraints, rename hints, and whether a property is written on the
node or injected by an interface do not change the meaning: two sources with the same meaning have
the same ``shape_hash``. Places and hints are kept for messages and for matching identities.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Literal, get_args

from omnigraph.lang.schema.syntax.ast import NOWHERE, GroupKind
from omnigraph.lang.source import Source, escape
from omnigraph.spans import Span
from omnigraph.types import PropType

Kind = Literal["interface", "node", "edge"]

KINDS: tuple[Kind, ...] = get_args(Kind)
ENDPOINT_ROLES = ("src", "dst")

IMPLICIT_COLUMNS: dict[Kind, tuple[str, ...]] = {
    "interface": (),
    "node": ("id",),
    "edge": ("id", *ENDPOINT_ROLES),
}
"""The columns every table of a kind has before its properties; no property may take their names."""

ROW_COLUMNS = frozenset(
    {"_rowid", "_rowaddr", "_rowoffset", "_row_created_at_version", "_row_last_updated_at_version"}
)
"""The columns Lance adds to every table; no property may take their names."""


@dataclass(frozen=True, slots=True)
class Annotation:
    """A stored annotation: its positional value and keywords, all as text."""

    name: str
    value: str | None = None
    keywords: tuple[tuple[str, str], ...] = ()


Metric = Literal["l2", "cosine", "dot"]
"""By which distance `nearest` ranks a vector property."""

METRIC: Final = "metric"
DEFAULT_METRIC: Final[Metric] = "l2"
METRICS: Final[tuple[Metric, ...]] = get_args(Metric)


def metric_of(annotations: Iterable[Annotation]) -> Metric:
    """The metric of a vector property with these stored annotations."""
    named = next((one.value for one in annotations if one.name == METRIC), None)
    return next((metric for metric in METRICS if metric == named), DEFAULT_METRIC)


@dataclass(frozen=True, slots=True)
class Embed:
    """The `@embed` binding of a vector property."""

    source: str
    model: str | None = None


@dataclass(frozen=True, slots=True)
class Range:
    """`@range`: inclusive bounds, either may be open."""

    property: str
    min: int | float | None
    max: int | float | None


@dataclass(frozen=True, slots=True)
class Check:
    """`@check`: an RE2 pattern that must be found in the value."""

    property: str
    pattern: str


@dataclass(frozen=True, slots=True)
class Cardinality:
    """`@card`: how many edges of the type one source node may have."""

    min: int = 0
    max: int | None = None

    @property
    def text(self) -> str:
        """The bounds as written: `0..2`."""
        return f"{self.min}..{'' if self.max is None else self.max}"

    def allows(self, other: Cardinality) -> bool:
        """Whether whatever keeps the other bounds keeps these, too."""
        top = self.max is None or (other.max is not None and other.max <= self.max)
        return self.min <= other.min and top


@dataclass(frozen=True, slots=True)
class Hint:
    """A `@rename_from`: the name the declaration had before."""

    old_name: str
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Group:
    """A `@key`, `@unique` or `@index` over properties, sorted by name."""

    kind: GroupKind
    properties: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Valid:
    """`@valid`: the properties that say since when and until when an entity holds."""

    since: str
    until: str


Constraint = Group | Range | Check | Valid


@dataclass(frozen=True, slots=True)
class PropertyShape:
    """One effective property. ``markers`` are the constraints an interface property implies."""

    name: str
    type: PropType
    annotations: tuple[Annotation, ...] = ()
    embed: Embed | None = None
    markers: tuple[GroupKind, ...] = ()
    declared_directly: bool = field(default=True, compare=False)
    satisfies: tuple[str, ...] = field(default=(), compare=False)
    hint: Hint | None = field(default=None, compare=False, repr=False)
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class TypeShape:
    """One declaration. ``properties`` keeps the source order, injected ones last."""

    kind: Kind
    name: str
    properties: tuple[PropertyShape, ...] = ()
    annotations: tuple[Annotation, ...] = ()
    implements: tuple[str, ...] = ()
    endpoints: tuple[str, str] | None = None
    cardinality: Cardinality | None = None
    constraints: tuple[Constraint, ...] = ()
    hint: Hint | None = field(default=None, compare=False, repr=False)
    span: Span = field(default=NOWHERE, compare=False, repr=False)

    @property
    def entity(self) -> str:
        """How messages and plans name the declaration: `node:Ship`."""
        return f"{self.kind}:{self.name}"

    def property(self, name: str) -> PropertyShape | None:
        """The effective property of that name."""
        return next((prop for prop in self.properties if prop.name == name), None)


@dataclass(frozen=True)
class Shape:
    """All declarations, by kind and name."""

    interfaces: tuple[TypeShape, ...] = ()
    nodes: tuple[TypeShape, ...] = ()
    edges: tuple[TypeShape, ...] = ()
    source: Source = field(default_factory=lambda: Source(""), compare=False, repr=False)

    def __iter__(self) -> Iterator[TypeShape]:
        yield from self.interfaces
        yield from self.nodes
        yield from self.edges

    def to_json(self) -> dict[str, Any]:
        """The canonical form: every list sorted."""
        return {
            "interfaces": [_type_json(type_) for type_ in self.interfaces],
            "nodes": [_type_json(type_) for type_ in self.nodes],
            "edges": [_type_json(type_) for type_ in self.edges],
        }

    @cached_property
    def shape_hash(self) -> str:
        """`sha256:` and the hex digest of the canonical JSON."""
        return digest(self.to_json())


def canonical_json(value: Any) -> str:
    """Compact JSON with sorted members; ASCII, so that any text has one encoding."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest(value: Any) -> str:
    """`sha256:` and the hex digest of a value's canonical JSON."""
    return "sha256:" + hashlib.sha256(canonical_json(value).encode()).hexdigest()


def constraint_order(constraint: Constraint) -> tuple[str, tuple[str, ...], str]:
    """Sort key of constraints: by kind, then by members, then by what they say."""
    body = constraint_json(constraint)
    members = body["properties"] if "properties" in body else [body["property"]]
    return body["kind"], tuple(members), canonical_json(body)


def constraint_json(constraint: Constraint) -> dict[str, Any]:
    """A constraint by property names."""
    match constraint:
        case Group(kind, properties):
            return {"kind": kind, "properties": list(properties)}
        case Range(name, low, high):
            return {"kind": "range", "property": name, "min": low, "max": high}
        case Check(name, pattern):
            return {"kind": "check", "property": name, "pattern": pattern}
        case Valid(since, until):
            return {"kind": "valid", "properties": [since, until]}


def constraint_text(constraint: Constraint) -> str:
    """A constraint as it is written in the body of a type."""
    match constraint:
        case Group(kind, properties):
            return f"@{kind}({', '.join(properties)})"
        case Range(name, low, high):
            bounds = f"{'' if low is None else low}..{'' if high is None else high}"
            return f"@range({name}, {bounds})"
        case Check(name, pattern):
            return f"@check({name}, {escape(pattern)})"
        case Valid(since, until):
            return f"@valid({since}, {until})"


def embed_json(embed: Embed) -> dict[str, Any]:
    """An `@embed` binding as JSON."""
    return {"source": embed.source, "model": embed.model}


def embed_text(embed: Embed) -> str:
    """An `@embed` binding in words."""
    return embed.source if embed.model is None else f"{embed.source} by {embed.model}"


def annotation_order(annotation: Annotation) -> tuple[str, bool, str, tuple[tuple[str, str], ...]]:
    """Sort key of annotations: by name, then by what they say."""
    value = annotation.value
    return annotation.name, value is not None, value or "", annotation.keywords


def annotations_json(annotations: Iterable[Annotation]) -> list[dict[str, Any]]:
    """Stored annotations as JSON; absent members are left out."""
    return [_annotation_json(annotation) for annotation in annotations]


def _annotation_json(annotation: Annotation) -> dict[str, Any]:
    body: dict[str, Any] = {"name": annotation.name}
    if annotation.value is not None:
        body["value"] = annotation.value
    if annotation.keywords:
        body["keywords"] = [list(pair) for pair in annotation.keywords]
    return body


def _type_json(type_: TypeShape) -> dict[str, Any]:
    ordered = sorted(type_.properties, key=lambda prop: prop.name)
    body: dict[str, Any] = {
        "name": type_.name,
        "properties": [_property_json(prop) for prop in ordered],
    }
    if type_.kind == "interface":
        return body
    body["annotations"] = annotations_json(type_.annotations)
    body["constraints"] = [constraint_json(constraint) for constraint in type_.constraints]
    if type_.kind == "node":
        body["implements"] = list(type_.implements)
    if type_.endpoints is not None and type_.cardinality is not None:
        body["from"], body["to"] = type_.endpoints
        body["cardinality"] = {"min": type_.cardinality.min, "max": type_.cardinality.max}
    return body


def _property_json(prop: PropertyShape) -> dict[str, Any]:
    embed = prop.embed
    return {
        "name": prop.name,
        "type": prop.type.to_ir(),
        "annotations": annotations_json(prop.annotations),
        "embed": None if embed is None else embed_json(embed),
        "markers": list(prop.markers),
    }
