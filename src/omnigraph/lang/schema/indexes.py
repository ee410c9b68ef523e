"""The indexes that the declarations of a type ask for."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from typing import Final

from omnigraph.lang.schema.catalog import EntityType, NodeType, Property
from omnigraph.lang.schema.shape import Metric


class IndexKind(enum.StrEnum):
    """The kinds of index, by the names that plans and reports show."""

    BTREE = "btree"
    FTS = "fts"
    VECTOR = "vector"
    COSINE = "vector_cosine"
    DOT = "vector_dot"


VECTOR_KINDS: Final[Mapping[Metric, IndexKind]] = {
    "l2": IndexKind.VECTOR,
    "cosine": IndexKind.COSINE,
    "dot": IndexKind.DOT,
}
"""The index that serves `nearest` under each metric."""

WantedIndex = tuple[str, IndexKind]
"""A column, and the kind of index that it should have."""


def index_kind(prop: Property) -> IndexKind | None:
    """The kind of index that `@index` builds on a property."""
    type_ = prop.type
    if type_.is_list or type_.is_blob:
        return None
    if type_.is_vector:
        return VECTOR_KINDS[prop.metric]
    is_text = type_.is_text and not type_.is_enum
    return IndexKind.FTS if is_text else IndexKind.BTREE


def wanted_indexes(entity: EntityType) -> list[WantedIndex]:
    """Every index a table should have: the implicit columns first, then what is declared."""
    implicit = [(name, IndexKind.BTREE) for name in entity.implicit_columns]
    return [*implicit, *declared_indexes(entity)]


def declared_indexes(entity: EntityType) -> tuple[WantedIndex, ...]:
    """The indexes a type's declarations ask for, by property and kind.

    Every member of a group gets its own index. A String that is the whole key gets no text index:
    equality goes through `id`. A unique String also gets a BTREE, for lookups. The implicit
    columns are always indexed and not listed.
    """
    return tuple(sorted(set(_declared(entity))))


def _declared(entity: EntityType) -> Iterator[WantedIndex]:
    key = entity.key if isinstance(entity, NodeType) else None
    for group in entity.index:
        only_key = group == key and len(group) == 1 and group not in entity.declared_index
        for name in group:
            kind = _kind_of_member(entity, name)
            if kind is not None and not (kind is IndexKind.FTS and only_key):
                yield name, kind
    for group in entity.unique:
        for name in group:
            if _kind_of_member(entity, name) is IndexKind.FTS:
                yield name, IndexKind.BTREE


def _kind_of_member(entity: EntityType, name: str) -> IndexKind | None:
    prop = entity.properties.get(name)
    return None if prop is None else index_kind(prop)
