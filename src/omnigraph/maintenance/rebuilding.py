"""Which indexes `ensure_indices(rebuild=…)` makes anew: all, those of types, or those of properties."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from omnigraph.errors import BadRequest
from omnigraph.lang.schema.catalog import Catalog, Entity, NodeType
from omnigraph.lang.schema.indexes import WantedIndex, wanted_indexes
from omnigraph.spelling import did_you_mean

Rebuild = bool | str | Sequence[str]
"""True for all indexes, or names: a type (`Person`), or one of its properties (`Person.name`)."""


def check_rebuild(rebuild: object) -> bool | tuple[str, ...]:
    """Return what was asked for, in one form; ``BadRequest`` for anything that is no such thing."""
    if isinstance(rebuild, bool):
        return rebuild
    names = [rebuild] if isinstance(rebuild, str) else rebuild
    if not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        raise BadRequest(
            f"rebuild is True, a type, a property (`Person.name`) or a list of them, not {rebuild!r}"
        )
    return tuple(names)


def indexes_to_rebuild(
    catalog: Catalog, rebuild: bool | tuple[str, ...]
) -> Mapping[str, list[WantedIndex]]:
    """Return the indexes to make anew by the key of their table, whether they are there or not."""
    entities = {one.name: one for one in catalog.entities()}
    if isinstance(rebuild, bool):
        chosen = entities.values() if rebuild else ()
        return {one.table_key: wanted_indexes(one) for one in chosen}
    found: dict[str, list[WantedIndex]] = {}
    for text in rebuild:
        entity, name = _parsed(entities, text)
        of_table = found.setdefault(entity.table_key, [])
        wanted = wanted_indexes(entity)
        if name is not None:
            # The key of a node is found by its id.
            is_key = isinstance(entity, NodeType) and entity.id_property == name
            wanted = [one for one in wanted if one[0] == ("id" if is_key else name)]
        if not wanted:
            raise BadRequest(_no_index(entity, str(name)))
        of_table += [one for one in wanted if one not in of_table]
    return found


def _parsed(entities: Mapping[str, Entity], text: str) -> tuple[Entity, str | None]:
    """Return the type that a text names (as `Person` or `node:Person`), and the property, if any."""
    table, _, name = text.strip().partition(".")
    table = table.removeprefix("node:").removeprefix("edge:")
    if table not in entities:
        hint = did_you_mean(table, entities) or f"types: {', '.join(entities)}"
        raise BadRequest(f"the schema has no type `{table}`; {hint}")
    return entities[table], name or None


def _no_index(entity: Entity, name: str) -> str:
    indexed = ", ".join(dict.fromkeys(column for column, _ in wanted_indexes(entity)))
    return f"no index is declared on `{entity.name}.{name}`; indexes are on: {indexed}"
