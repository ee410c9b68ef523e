"""The catalog: the in-memory view of an accepted schema that the rest of the product reads.

Its mappings are plain dicts, because a catalog is pickled to worker processes; do not change them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from omnigraph.display.panel import Panel, Shown
from omnigraph.display.text import counted
from omnigraph.lang.schema.shape import (
    IMPLICIT_COLUMNS,
    Annotation,
    Cardinality,
    Check,
    Embed,
    Metric,
    Range,
    metric_of,
)
from omnigraph.types import TEXT, PropType, Scalar, TupleMember, to_arrow, tuple_id_column

if TYPE_CHECKING:
    import pyarrow as pa

PRIMARY_KEY_METADATA = {"lance-schema:unenforced-primary-key": "true"}
PROPERTY_ID_METADATA = "omnigraph.stable_property_id"
FILL_METADATA = "omnigraph.filled_with"
"""The value that all rows got when a column was added, as `fill_text` says it."""
ENDS = ("src", "dst")


@dataclass(frozen=True, slots=True)
class Property:
    """One effective property of a type, with its stable identity.

    ``default`` is the stored value that a record or an insert gets where it leaves the property out, a
    list as a tuple; None without one.
    """

    name: str
    type: PropType
    property_id: int
    annotations: tuple[Annotation, ...] = ()
    embed: Embed | None = None
    default: Any = None
    joined_ids: tuple[int, ...] = ()
    """Other ids that mean this property, since a merge joined them."""

    @property
    def ids(self) -> tuple[int, ...]:
        """Every id that means this property, its own first."""
        return (self.property_id, *self.joined_ids)

    @property
    def metric(self) -> Metric:
        """The distance by which `nearest` ranks a vector property."""
        return metric_of(self.annotations)

    @property
    def fills(self) -> bool:
        """Whether rows that are there get the default when the property is added: it is required."""
        return not self.type.nullable and self.default is not None

    def default_column(self, rows: int) -> pa.Array:
        """The default once for each row."""
        import pyarrow as pa

        # `pa.repeat` of the default itself is slow where that is a list (pyarrow 26).
        return to_arrow(self.type, [self.default]).take(pa.repeat(0, rows))


def fill_text(value: pa.Scalar) -> str:
    """A default as the column says it that was filled with it."""
    return json.dumps(value.as_py(), default=str)


@dataclass(frozen=True, slots=True)
class Period:
    """The `@valid` of a type: which properties say since when and until when an entity holds.

    It holds from ``since``, included, to ``until``, excluded; null is open. ``kind`` is that of both
    properties, Date or DateTime; a Date counts as its midnight UTC.
    """

    since: str
    until: str
    kind: Scalar

    @property
    def is_date(self) -> bool:
        """Whether both ends are Dates, not DateTimes."""
        return self.kind.counts_days

    @property
    def names(self) -> tuple[str, str]:
        """Both properties, the beginning first."""
        return self.since, self.until


@dataclass(frozen=True, slots=True)
class InterfaceType:
    """A named bundle of properties without a table."""

    name: str
    type_id: int
    properties: Mapping[str, Property]


@dataclass(frozen=True, slots=True, repr=False)
class EntityType:
    """What node and edge types share. ``properties`` keeps the order of the source text.

    ``index`` holds every tuple to index, the key's included; ``declared_index`` only those that
    `@index` names.
    """

    name: str
    type_id: int
    table_incarnation_id: int
    properties: Mapping[str, Property]
    unique: tuple[tuple[str, ...], ...] = ()
    index: tuple[tuple[str, ...], ...] = ()
    annotations: tuple[Annotation, ...] = ()
    declared_index: tuple[tuple[str, ...], ...] = ()
    joined_incarnations: tuple[int, ...] = ()
    """Other tables that were of this type, on branches whose type a merge joined with it."""
    period: Period | None = None
    """When its entities hold; None if they always do."""

    @property
    def incarnations(self) -> tuple[int, ...]:
        """Every table that may hold rows of this type, its own first."""
        return (self.table_incarnation_id, *self.joined_incarnations)

    @property
    def blob_properties(self) -> tuple[str, ...]:
        """Names of the Blob properties, in property order."""
        return tuple(name for name, prop in self.properties.items() if prop.type.is_blob)

    @property
    def defaults(self) -> Mapping[str, Any]:
        """The `@default` values by property, as they are stored; a list is a tuple."""
        found = ((name, prop.default) for name, prop in self.properties.items())
        return {name: value for name, value in found if value is not None}

    @property
    def embeds(self) -> Mapping[str, Embed]:
        """The `@embed` bindings by vector property."""
        return {name: prop.embed for name, prop in self.properties.items() if prop.embed}

    def __repr__(self) -> str:
        return f"<omnigraph.{type(self).__name__} {self.name} {{ {self.property_list} }}>"

    @property
    def property_list(self) -> str:
        """The properties and their types, for people."""
        return ", ".join(f"{name}: {prop.type}" for name, prop in self.properties.items())

    @property
    def implicit_columns(self) -> tuple[str, ...]:
        """The columns every table of this kind has before its properties."""
        return IMPLICIT_COLUMNS["node"]

    def arrow_schema(self) -> pa.Schema:
        """The columns of this type's table: the implicit ones, then properties in source order."""
        import pyarrow as pa

        fields = [
            pa.field(
                name,
                pa.utf8(),
                nullable=False,
                metadata=PRIMARY_KEY_METADATA if name == "id" else None,
            )
            for name in self.implicit_columns
        ]
        for name, prop in self.properties.items():
            field_ = prop.type.arrow_field(name)
            fields.append(field_.with_metadata({PROPERTY_ID_METADATA: str(prop.property_id)}))
        return pa.schema(fields)


@dataclass(frozen=True, slots=True, repr=False)
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

    @property
    def id_property(self) -> str | None:
        """The property whose text is the id of a node: the whole key, a text; None if there is none."""
        if self.key is None or len(self.key) != 1:
            return None
        return self.key[0] if self.properties[self.key[0]].type.is_text else None


@dataclass(frozen=True, slots=True, repr=False)
class EdgeType(EntityType):
    """A directed edge type between two node types."""

    from_type: str = ""
    to_type: str = ""
    cardinality: Cardinality = field(default_factory=Cardinality)

    @property
    def table_key(self) -> str:
        """The manifest's name for this type's table."""
        return f"edge:{self.name}"

    @property
    def implicit_columns(self) -> tuple[str, ...]:
        """The columns every edge table has before its properties."""
        return IMPLICIT_COLUMNS["edge"]

    @property
    def identity(self) -> tuple[str, ...] | None:
        """The unique group that identifies an edge when its record has no id; None without one.

        It must contain both ends. Of several groups the smallest is taken, then the first by name.
        """
        groups = [group for group in self.unique if {"src", "dst"} <= set(group)]
        return min(groups, key=lambda group: (len(group), sorted(group)), default=None)

    @property
    def identity_since(self) -> str | None:
        """The beginning of the period, where it tells edges with one tuple of ``identity`` apart.

        Of two edges without a beginning it is the same. None without a period, and where the tuple has it.
        """
        if self.identity is None or self.period is None or self.period.since in self.identity:
            return None
        return self.period.since

    @property
    def identity_columns(self) -> tuple[str, ...]:
        """All columns that say which edge a record without an id means; none without ``identity``."""
        since = self.identity_since
        return (self.identity or ()) if since is None else (*(self.identity or ()), since)

    def tuple_ids(self, columns: Callable[[str], Any]) -> pa.StringArray:
        """The ids that the tuples of ``identity``, with ``identity_since``, give to rows.

        The id is null where a member of the tuple is null.

        ``columns`` returns the values of a column. Members are named by what stays when they are
        renamed: the ends, then properties by their ids, in that order.
        """
        assert self.identity is not None
        named = [self.properties[name] for name in self.identity if name not in ENDS]
        named.sort(key=lambda prop: prop.property_id)
        members = [TupleMember(end, TEXT, columns(end)) for end in ENDS]
        members += [TupleMember(prop.property_id, prop.type, columns(prop.name)) for prop in named]
        if self.identity_since is not None:
            since = self.properties[self.identity_since]
            members.append(TupleMember(since.property_id, since.type, columns(since.name), True))
        return tuple_id_column(self.type_id, members)


Entity = NodeType | EdgeType
"""A type that has a table."""


@dataclass(frozen=True, slots=True, repr=False)
class Catalog(Shown):
    """All types of one accepted schema."""

    interfaces: Mapping[str, InterfaceType] = field(default_factory=dict)
    nodes: Mapping[str, NodeType] = field(default_factory=dict)
    edges: Mapping[str, EdgeType] = field(default_factory=dict)

    _folded: Mapping[str, EdgeType] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        folded = {name.lower(): edge for name, edge in self.edges.items()}
        object.__setattr__(self, "_folded", folded)

    def entity(self, table_key: str) -> Entity:
        """The type behind a table key (`node:T` or `edge:T`)."""
        kind, _, name = table_key.partition(":")
        return self.nodes[name] if kind == "node" else self.edges[name]

    def entities(self) -> list[Entity]:
        """All types with a table: the node types, then the edge types."""
        return [*self.nodes.values(), *self.edges.values()]

    def edge(self, word: str) -> EdgeType | None:
        """The edge type a record or a query word means: the exact name, else ignoring case."""
        exact = self.edges.get(word)
        return exact if exact is not None else self._folded.get(word.lower())

    def integer_ends(self, entity: EntityType) -> dict[str, PropType]:
        """The ends (`from`, `to`) of an edge that may be given as integers, with their key's type.

        A node with one integer as its key has the text of that integer as its id.
        """
        if not isinstance(entity, EdgeType):
            return {}
        kinds: dict[str, PropType] = {}
        for end, type_name in (("from", entity.from_type), ("to", entity.to_type)):
            node = self.nodes[type_name]
            if node.key is not None and len(node.key) == 1:
                kind = node.properties[node.key[0]].type
                if kind.is_integer:
                    kinds[end] = kind
        return kinds

    def _panel(self) -> Panel:
        nodes = [
            ("node", one.name, ", ".join(one.key or ()), one.property_list)
            for one in self.nodes.values()
        ]
        edges = [
            ("edge", one.name, f"{one.from_type} -> {one.to_type}", one.property_list)
            for one in self.edges.values()
        ]
        title = f"{counted(len(nodes), 'node type')}, {counted(len(edges), 'edge type')}"
        rows = nodes + edges
        columns = ("", "type", "key or ends", "properties")
        return Panel.of_rows(title, columns, rows) if rows else Panel(title)
