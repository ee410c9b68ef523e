"""The catalog: the in-memory view of an accepted schema that the rest of the product reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from omnigraph.types import PropType

ROW_COLUMNS = frozenset(
    {"_rowid", "_rowaddr", "_rowoffset", "_row_created_at_version", "_row_last_updated_at_version"}
)


@dataclass(frozen=True, slots=True)
class Annotation:
    """A stored annotation: its positional value and keywords, all as text."""

    name: str
    value: str | None = None
    keywords: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Embed:
    """The `@embed` binding of a vector property."""

    source: str
    model: str | None = None


@dataclass(frozen=True, slots=True)
class Property:
    """One effective property of a type, with its stable identity."""

    name: str
    type: PropType
    property_id: int
    annotations: tuple[Annotation, ...] = ()
    embed: Embed | None = None


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


@dataclass(frozen=True, slots=True)
class InterfaceType:
    """A named bundle of properties without a table."""

    name: str
    type_id: int
    properties: Mapping[str, Property]


@dataclass(frozen=True, slots=True)
class EntityType:
    """What node and edge types share. ``properties`` keeps the order of the source text."""

    name: str
    type_id: int
    table_incarnation_id: int
    properties: Mapping[str, Property]
    unique: tuple[tuple[str, ...], ...] = ()
    index: tuple[tuple[str, ...], ...] = ()
    annotations: tuple[Annotation, ...] = ()

    @property
    def blob_properties(self) -> tuple[str, ...]:
        """Names of the Blob properties, in property order."""
        return tuple(name for name, prop in self.properties.items() if prop.type.is_blob)


@dataclass(frozen=True, slots=True)
class NodeType(EntityType):
    """A node type. ``key`` is in stable property id order: the order of a composite id's members."""

    implements: tuple[str, ...] = ()
    key: tuple[str, ...] | None = None
    ranges: tuple[Range, ...] = ()
    checks: tuple[Check, ...] = ()

    @property
    def table_key(self) -> str:
        """The manifest's name for this type's table."""
        return f"node:{self.name}"


@dataclass(frozen=True, slots=True)
class EdgeType(EntityType):
    """A directed edge type between two node types."""

    from_type: str = ""
    to_type: str = ""
    cardinality: Cardinality = Cardinality()

    @property
    def table_key(self) -> str:
        """The manifest's name for this type's table."""
        return f"edge:{self.name}"


@dataclass(frozen=True, slots=True)
class Catalog:
    """All types of one accepted schema."""

    interfaces: Mapping[str, InterfaceType] = field(default_factory=lambda: MappingProxyType({}))
    nodes: Mapping[str, NodeType] = field(default_factory=lambda: MappingProxyType({}))
    edges: Mapping[str, EdgeType] = field(default_factory=lambda: MappingProxyType({}))

    def edge(self, word: str) -> EdgeType | None:
        """The edge type a record or a query word means: the exact name, else ignoring case."""
        exact = self.edges.get(word)
        if exact is not None:
            return exact
        folded = word.lower()
        return next((edge for name, edge in self.edges.items() if name.lower() == folded), None)
