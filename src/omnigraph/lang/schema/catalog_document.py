"""The types of a schema as a document, for programs that draw them, complete names or build forms.

For example a property `age: I32? @index` with `@range(age, 0..150)`:

    {"name": "age", "type": "I32", "nullable": true, "list": false, "index": "btree", "unique": false,
     "constraints": ["@range(age, 0..150)"]}
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from omnigraph.lang.schema.catalog import (
    Catalog,
    EdgeType,
    Entity,
    EntityType,
    InterfaceType,
    NodeType,
    Property,
)
from omnigraph.lang.schema.defaults import default_json
from omnigraph.lang.schema.indexes import VECTOR_KINDS, IndexKind, declared_indexes
from omnigraph.lang.schema.shape import Annotation, Range

Document = dict[str, Any]

# The index that says most about a property is shown: a unique text has two.
_INDEX_WORDS: Mapping[IndexKind, str] = {
    IndexKind.BTREE: "btree",
    IndexKind.FTS: "text",
    **dict.fromkeys(VECTOR_KINDS.values(), "vector"),
}


def catalog_document(catalog: Catalog, schema_hash: str) -> Document:
    """Return every type with its properties; ``schema_hash`` names the schema that they are of."""
    return {
        "schema_hash": schema_hash,
        "nodes": [_node(node) for node in catalog.nodes.values()],
        "edges": [_edge(edge) for edge in catalog.edges.values()],
        "interfaces": [_interface(one) for one in catalog.interfaces.values()],
    }


def edge_word(edge: EdgeType) -> str:
    """Return the word that queries have for an edge type: `knows` for `Knows`."""
    return edge.name[:1].lower() + edge.name[1:]


def _node(node: NodeType) -> Document:
    return {
        "name": node.name,
        "key": list(node.key or ()),
        "implements": list(node.implements),
        **_described(node.annotations),
        "properties": _properties(node),
    }


def _edge(edge: EdgeType) -> Document:
    most = edge.cardinality.max
    return {
        "name": edge.name,
        "word": edge_word(edge),
        "from": edge.from_type,
        "to": edge.to_type,
        "card": {"min": edge.cardinality.min, **({} if most is None else {"max": most})},
        **_described(edge.annotations),
        "properties": _properties(edge),
    }


def _interface(interface: InterfaceType) -> Document:
    shown = [_property(prop) for prop in interface.properties.values()]
    return {"name": interface.name, "properties": shown}


def _properties(entity: Entity) -> list[Document]:
    indexes: dict[str, str] = {}
    for name, kind in declared_indexes(entity):
        if indexes.get(name) in (None, "btree"):
            indexes[name] = _INDEX_WORDS[kind]
    constraints = _constraints(entity)
    alone = _unique_alone(entity)
    return [
        _property(prop, indexes.get(name), constraints.get(name, ()), unique=name in alone)
        for name, prop in entity.properties.items()
    ]


def _property(
    prop: Property,
    index: str | None = None,
    constraints: Iterable[str] = (),
    *,
    unique: bool = False,
) -> Document:
    kind = prop.type
    word = "Vector" if kind.is_vector else "enum" if kind.is_enum else kind.scalar.value
    return {
        "name": prop.name,
        "type": word,
        "nullable": kind.nullable,
        "list": kind.is_list,
        **({} if kind.enum_values is None else {"enum": list(kind.enum_values)}),
        **({} if kind.dim is None else {"vector_dim": kind.dim, "metric": prop.metric}),
        **({} if index is None else {"index": index}),
        "unique": unique,
        **(
            {}
            if prop.embed is None
            else {"embed": {"source": prop.embed.source, "model": prop.embed.model}}
        ),
        **({} if prop.default is None else {"default": _default(prop)}),
        "constraints": list(constraints),
        **_described(prop.annotations),
    }


def _default(prop: Property) -> Any:
    shown = default_json(prop.type, prop.annotations)
    return list(shown) if isinstance(shown, tuple) else shown


def _unique_alone(entity: EntityType) -> set[str]:
    """Return the properties of which no two rows have the same value."""
    groups = list(entity.unique)
    if isinstance(entity, NodeType) and entity.key is not None:
        groups.append(entity.key)
    return {group[0] for group in groups if len(group) == 1}


def _constraints(entity: Entity) -> dict[str, list[str]]:
    """Return what is declared about each property, as a schema says it; a group stands at each member."""
    found: dict[str, list[str]] = {}
    for group in entity.unique:
        if len(group) > 1:
            for name in group:
                found.setdefault(name, []).append(f"@unique({', '.join(group)})")
    if entity.period is not None:
        for name in entity.period.names:
            found.setdefault(name, []).append(f"@valid({', '.join(entity.period.names)})")
    if isinstance(entity, NodeType):
        for bounds in entity.ranges:
            text = f"@range({bounds.property}, {_range(bounds)})"
            found.setdefault(bounds.property, []).append(text)
        for check in entity.checks:
            text = f"@check({check.property}, {json.dumps(check.pattern, ensure_ascii=False)})"
            found.setdefault(check.property, []).append(text)
    return found


def _range(bounds: Range) -> str:
    low, high = ("" if one is None else str(one) for one in (bounds.min, bounds.max))
    return f"{low}..{high}"


def _described(annotations: Iterable[Annotation]) -> Document:
    """Return the description, where there is one."""
    told = (one.value for one in annotations if one.name == "description")
    text = next((value for value in told if value is not None), None)
    return {} if text is None else {"description": text}
