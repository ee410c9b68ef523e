"""Gives a merged schema its ids: the target's where it has the element, else the source's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from omnigraph.lang.schema.identities import Numbering
from omnigraph.lang.schema.ir import Ir, TypeIr
from omnigraph.lang.schema.joins import dropped_since
from omnigraph.lang.schema.merge.by_identity import TypeView
from omnigraph.lang.schema.merge.deciding import Decided, DecidedType
from omnigraph.lang.schema.merge.join_added import JoinedSchemas
from omnigraph.lang.schema.shape import Shape

OwnTable = Callable[[TypeIr], bool]
"""Whether the target makes a table of its own for a type that only the source has."""


def numbered(
    shape: Shape,
    decided: Decided,
    schemas: JoinedSchemas,
    numbering: Numbering,
    own_table: OwnTable,
) -> Ir:
    """The IR of a merged shape. What only the merge brings about gets new ids.

    That is a property that an interface of one side gives to a type of the other, and a table that
    the target makes of its own, whose id is joined with that of the source's table.
    """
    by_name = {(type_.kind, type_.name): type_ for type_ in decided.values()}
    next_id = numbering.next_id
    joins = schemas.joins
    types: list[TypeIr] = []
    for type_ in shape:
        found = by_name[type_.kind, type_.name]
        there = _there(schemas, found)
        types.append(TypeIr(type_, there.ir.type_id, None, _known_ids(schemas, found)))
    types.sort(key=lambda type_: type_.type_id)
    for at, numbered_type in enumerate(types):
        ids = dict(numbered_type.property_ids)
        for name in sorted(prop.name for prop in numbered_type.shape.properties):
            if name not in ids:
                ids[name], next_id = next_id, next_id + 1
        types[at] = replace(numbered_type, property_ids=ids)
    for at, numbered_type in enumerate(types):
        found = by_name[numbered_type.kind, numbered_type.name]
        there = _there(schemas, found)
        table = there.ir.table_incarnation_id
        is_new = found.number not in schemas.target.types
        if (
            table is not None
            and is_new
            and (own_table(there.ir) or _has_other_columns(there.ir, numbered_type))
        ):
            joins.join(table, next_id)
            table, next_id = next_id, next_id + 1
        types[at] = replace(numbered_type, table_incarnation_id=table)
    named = {(type_.kind, type_.name): type_ for type_ in types}
    ir = Ir(
        schemas.target.ir.schema_identity_domain,
        next_id,
        tuple(named["interface", each.name] for each in shape.interfaces),
        tuple(named["node", each.name] for each in shape.nodes),
        tuple(named["edge", each.name] for each in shape.edges),
    )
    return _with_history(ir, schemas, next_id > numbering.next_id)


def _has_other_columns(source: TypeIr, merged: TypeIr) -> bool:
    """Whether an interface of the target gives a type of the source something else than that of the source."""
    before, after = (
        {
            prop.name: (each.property_ids[prop.name], prop.type, prop.embed)
            for prop in each.shape.properties
        }
        for each in (source, merged)
    )
    return before != after


def _there(schemas: JoinedSchemas, decided: DecidedType) -> TypeView:
    found = schemas.target.types.get(decided.number) or schemas.source.types.get(decided.number)
    assert found is not None
    return found


def _known_ids(schemas: JoinedSchemas, decided: DecidedType) -> dict[str, int]:
    """The ids of the properties by their merged names."""
    ids: dict[int, int] = {}
    for view in (schemas.source, schemas.target):
        type_ = view.types.get(decided.number)
        if type_ is not None:
            ids |= {
                prop.number: type_.ir.property_ids[prop.name] for prop in type_.properties.values()
            }
    return {prop.name: ids[prop.number] for prop in decided.properties.values()}


def _with_history(ir: Ir, schemas: JoinedSchemas, took_ids: bool) -> Ir:
    """Add which ids are joined and which were dropped on either line."""
    joins, sides = schemas.joins, (schemas.source.ir, schemas.target.ir)
    live = {joins.one(number): number for number in ir.ids}
    joined = {(other, kept) for kept in live.values() for other in joins.all(kept) if other != kept}
    gone = {
        each
        for side in sides
        for number in dropped_since(side, ir.ids, schemas.single_line_below)
        if joins.one(number) not in live
        for each in joins.all(number)
    }
    joined |= {pair for side in sides for pair in side.joined if joins.one(pair[0]) not in live}
    used = {*ir.ids, *gone, *(number for pair in joined for number in pair)}
    next_id = ir.next_identity_id
    if not took_ids:
        next_id = max(schemas.target.ir.next_identity_id, *(number + 1 for number in used), 1)
    return replace(
        ir,
        next_identity_id=next_id,
        joined=tuple(sorted(joined)),
        dropped=tuple(sorted(gone)),
    )
