"""A three-way merge of whole graphs in plain Python: decisions, cascades, and the rules of the result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from omnigraph.lang.schema.catalog import Catalog, EdgeType, Entity
from tests.merge.three_states import Expected, State, equal_images, expected_merge

PlainStates = Mapping[str, State]
"""By table key: entities by id, each its stored values by column."""
Found = tuple[str, str, str | None, Mapping[str, Any] | None]
"""A conflict: kind, table key, id, and the detail of a rule of the whole graph."""


@dataclass
class PlainMerge:
    """The merged graph, or the conflicts in its way, in no particular order."""

    result: dict[str, dict[str, Any]]
    conflicts: list[Found] = field(default_factory=list)
    resolved: int = 0
    named: set[tuple[str, str]] = field(default_factory=set)
    """The entities in conflict that the resolutions name."""


def types_of(catalog: Catalog) -> list[Entity]:
    return [*catalog.nodes.values(), *catalog.edges.values()]


def plain_merge(
    catalog: Catalog,
    base: PlainStates,
    source: PlainStates,
    target: PlainStates,
    granularity: str = "entity",
    resolve: str | Mapping[tuple[str, str], Any] | None = None,
) -> PlainMerge:
    """Merge what the source changed since the base into the target."""
    merge = PlainMerge({})
    decided: dict[str, Expected] = {}
    for entity in types_of(catalog):
        key = entity.table_key
        words = resolve
        if isinstance(resolve, Mapping):
            words = {id_: what for (table, id_), what in resolve.items() if table == key}
        found = expected_merge(entity, base[key], source[key], target[key], granularity, words)
        decided[key] = found
        merge.result[key] = dict(found.result)
        merge.resolved += found.resolved
        merge.named |= {(key, id_) for id_ in found.named}
        merge.conflicts += [(kind, key, id_, None) for id_, kind, _ in found.conflicts]
    if merge.conflicts:
        return merge
    for node in catalog.nodes.values():
        for edge in catalog.edges.values():
            _cascade(edge, node.name, decided[node.table_key].cut_off, base, source, merge.result)
    merge.conflicts = list(_broken_rules(catalog, target, merge.result))
    return merge


def _cascade(
    edge: EdgeType,
    type_name: str,
    nodes: list[str],
    base: PlainStates,
    source: PlainStates,
    result: dict[str, dict[str, Any]],
) -> None:
    """Remove the edges at nodes that a resolution deleted, as far as nobody touched them."""
    key = edge.table_key
    for id_, row in list(result[key].items()):
        ends = (("src", edge.from_type), ("dst", edge.to_type))
        is_at = any(row[end] in nodes for end, of in ends if of == type_name)
        old = base[key].get(id_)
        if is_at and equal_images(old, row) and equal_images(old, source[key].get(id_)):
            del result[key][id_]


def _broken_rules(catalog: Catalog, target: PlainStates, result: PlainStates) -> Iterator[Found]:
    for entity in types_of(catalog):
        key = entity.table_key
        old, new = target[key], result[key]
        incoming = {id_ for id_ in new if not equal_images(new[id_], old.get(id_))}
        for group in entity.unique:
            yield from _shared(key, group, old, new, incoming)
        if isinstance(entity, EdgeType):
            yield from _orphans(catalog, entity, result)
            gone = set(old) - set(new)
            touched = {new[id_]["src"] for id_ in incoming}
            touched |= {old[id_]["src"] for id_ in (incoming & set(old)) | gone}
            yield from _counts(catalog, entity, result, touched)


def _shared(
    key: str, group: tuple[str, ...], old: State, new: State, incoming: set[str]
) -> Iterator[Found]:
    holders: dict[tuple[Any, ...], list[str]] = {}
    for id_ in sorted(new):
        value = tuple(new[id_][name] for name in group)
        if None not in value:
            holders.setdefault(value, []).append(id_)
    for value, ids in holders.items():
        kept = [id_ for id_ in ids if id_ not in incoming]
        had = [i for i in ids if i in old and tuple(old[i][name] for name in group) == value]
        first = (kept or had or ids)[0]
        for id_ in ids:
            if id_ in incoming and id_ != first:
                detail = {"properties": list(group), "value": list(value), "other_id": first}
                yield "unique_violation", key, id_, detail


def _orphans(catalog: Catalog, edge: EdgeType, result: PlainStates) -> Iterator[Found]:
    for id_, row in result[edge.table_key].items():
        for end, type_name in (("src", edge.from_type), ("dst", edge.to_type)):
            if row[end] not in result[catalog.nodes[type_name].table_key]:
                detail = {"endpoint": end, "node_type": type_name, "node_id": row[end]}
                yield "orphan_edge", edge.table_key, id_, detail


def _counts(
    catalog: Catalog, edge: EdgeType, result: PlainStates, touched: set[str]
) -> Iterator[Found]:
    low, high = edge.cardinality.min, edge.cardinality.max
    nodes = catalog.nodes[edge.from_type].table_key
    for source in touched:
        count = sum(row["src"] == source for row in result[edge.table_key].values())
        for bound, limit, is_broken in (
            ("min", low, count < low),
            ("max", high, high is not None and count > high),
        ):
            # A source that is missing altogether is an orphan's, and one that was removed owes nothing.
            if is_broken and source in result[nodes]:
                detail = {"source_id": source, "count": count, "bound": bound, "limit": limit}
                yield "cardinality_violation", edge.table_key, None, detail
