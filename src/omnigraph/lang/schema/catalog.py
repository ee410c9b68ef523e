"""The catalog: the in-memory view of an accepted schema that the rest of the product reads.

Its mappings are plain dicts, to be read only: a catalog travels to worker processes by pickle.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from omnigraph.types import PropType

if TYPE_CHECKING:
    import pyarrow as pa

    from omnigraph.lang.schema.ir import Ir

IndexKind = Literal["btree", "fts", "vector"]

PRIMARY_KEY_METADATA = {"lance-schema:unenforced-primary-key": "true"}
PROPERTY_ID_METADATA = "omnigraph.stable_property_id"

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

    @property
    def blob_properties(self) -> tuple[str, ...]:
        """Names of the Blob properties, in property order."""
        return tuple(name for name, prop in self.properties.items() if prop.type.is_blob)

    @property
    def embeds(self) -> Mapping[str, Embed]:
        """The `@embed` bindings by vector property."""
        return {name: prop.embed for name, prop in self.properties.items() if prop.embed}

    @property
    def implicit_columns(self) -> tuple[str, ...]:
        """The columns every table of this kind has before its properties."""
        return ("id",)

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

    @property
    def implicit_columns(self) -> tuple[str, ...]:
        """The columns every edge table has before its properties."""
        return ("id", "src", "dst")

    @property
    def identity(self) -> tuple[str, ...] | None:
        """The unique group that tells edges apart where records have no id.

        It contains both ends. Of several the smallest counts, then the first by its members.
        """
        groups = [group for group in self.unique if {"src", "dst"} <= set(group)]
        return min(groups, key=lambda group: (len(group), sorted(group)), default=None)


@dataclass(frozen=True, slots=True)
class Catalog:
    """All types of one accepted schema."""

    interfaces: Mapping[str, InterfaceType] = field(default_factory=dict)
    nodes: Mapping[str, NodeType] = field(default_factory=dict)
    edges: Mapping[str, EdgeType] = field(default_factory=dict)

    _folded: Mapping[str, EdgeType] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        folded = {name.lower(): edge for name, edge in self.edges.items()}
        object.__setattr__(self, "_folded", folded)

    @staticmethod
    def of(ir: Ir) -> Catalog:
        """The catalog of an accepted schema."""
        from omnigraph.lang.schema.catalog_of import catalog_of

        return catalog_of(ir)

    def entity(self, table_key: str) -> NodeType | EdgeType:
        """The type behind a table key (`node:T` or `edge:T`)."""
        kind, _, name = table_key.partition(":")
        return self.nodes[name] if kind == "node" else self.edges[name]

    def edge(self, word: str) -> EdgeType | None:
        """The edge type a record or a query word means: the exact name, else ignoring case."""
        exact = self.edges.get(word)
        return exact if exact is not None else self._folded.get(word.lower())

    def integer_ends(self, entity: EntityType) -> dict[str, PropType]:
        """Those of an edge's `from` and `to` that may be integers, with the type of the key they name.

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


def index_kind(type_: PropType) -> IndexKind | None:
    """The kind of index that `@index` builds on a property of this type."""
    if type_.is_list or type_.is_blob:
        return None
    if type_.is_vector:
        return "vector"
    return "fts" if type_.is_text and not type_.is_enum else "btree"


def declared_indexes(entity: EntityType) -> tuple[tuple[str, IndexKind], ...]:
    """The indexes a type's declarations ask for, by property and kind.

    Every member of a group gets its own. The words of a String that is the whole key are not
    indexed: its equality goes through `id`. A unique String also gets a BTREE, for its lookups.
    The implicit columns are indexed anyway and left out.
    """
    return tuple(sorted(set(_declared(entity))))


def _declared(entity: EntityType) -> Iterator[tuple[str, IndexKind]]:
    key = entity.key if isinstance(entity, NodeType) else None
    for group in entity.index:
        only_key = group == key and len(group) == 1 and group not in entity.declared_index
        for name in group:
            kind = _kind_of_member(entity, name)
            if kind is not None and not (kind == "fts" and only_key):
                yield name, kind
    for group in entity.unique:
        for name in group:
            if _kind_of_member(entity, name) == "fts":
                yield name, "btree"


def _kind_of_member(entity: EntityType, name: str) -> IndexKind | None:
    prop = entity.properties.get(name)
    return None if prop is None else index_kind(prop.type)
