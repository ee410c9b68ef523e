"""The request of a purge: from entities by type to the tables that may hold them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from omnigraph.errors import BadRequest
from omnigraph.lang.schema.catalog_of import catalog_of
from omnigraph.lang.schema.read_ir import read_ir
from omnigraph.maintenance.cleanup.survey import Registered
from omnigraph.manifest.manifest import BranchState, Manifest
from omnigraph.types import is_unicode, shown

Named = Mapping[str, frozenset[str]]
"""The ids that a caller names, by the type that it names them with."""


def check_entities(entities: object) -> Named:
    """Return the ids by type; at least one must be named, and every id is a text or a whole number."""
    if not isinstance(entities, Mapping):
        raise BadRequest(
            "entities is a dict of types with lists of ids, such as {'Person': ['ann']}, not a Python "
            f"{type(entities).__name__}"
        )
    named = {_name(name): frozenset(_ids(str(name), ids)) for name, ids in entities.items()}
    if not any(named.values()):
        raise BadRequest("name at least one entity to purge, such as {'Person': ['ann']}")
    return {name: ids for name, ids in named.items() if ids}


def _name(name: object) -> str:
    if not isinstance(name, str):
        raise BadRequest(f"a type is named by a text, not by {shown(name)}")
    return name.strip()


def _ids(name: str, ids: object) -> Iterable[str]:
    if isinstance(ids, str | bytes | Mapping) or not isinstance(ids, Iterable):
        raise BadRequest(f"the ids of {name} are a list of texts, not {shown(ids)}")
    for one in ids:
        if isinstance(one, int) and not isinstance(one, bool):
            yield str(one)
        elif isinstance(one, str) and one and is_unicode(one):
            yield one
        else:
            raise BadRequest(f"an id of {name} is {shown(one)}; ids are texts that are not empty")


@dataclass(slots=True)
class Sought:
    """What is looked for in one table: ids of its own entities, and of nodes at the ends of its edges."""

    table: Registered
    ids: set[str] = field(default_factory=set)
    ends: dict[str, frozenset[str]] = field(default_factory=dict)
    """By column, `src` or `dst`."""

    @property
    def type(self) -> str:
        """The name of the type."""
        return self.table.table_key.partition(":")[2]


def seek(
    manifest: Manifest,
    states: Iterable[BranchState],
    tables: Iterable[Registered],
    named: Named,
) -> list[Sought]:
    """Return the tables that may hold the named entities or their edges; a type that none has is refused.

    A type that was dropped counts while a version of its table is there.
    """
    found = {one.incarnation: Sought(one) for one in tables}
    for name, ids in named.items():
        known = [one for one in found.values() if name in _names(one)]
        if not known:
            raise BadRequest(
                f"there is no type {shown(name)} in this graph; name one of its types, an edge type as "
                "`edge:Knows`"
            )
        for one in known:
            one.ids |= ids
    nodes = {number: frozenset(one.ids) for number, one in found.items() if one.ids}
    nodes = {number: ids for number, ids in nodes.items() if _is_node(found[number])}
    ends_of = _end_tables(manifest, states) if nodes else {}
    for sought in found.values():
        if not _is_node(sought) and nodes:
            sought.ends = _ends(ends_of.get(sought.table.incarnation), nodes)
    return [one for one in found.values() if one.ids or one.ends]


def _names(sought: Sought) -> tuple[str, str]:
    return sought.table.table_key, sought.type


def _is_node(sought: Sought) -> bool:
    return sought.table.table_key.startswith("node:")


Ends = dict[int, dict[str, set[int]]]


def _end_tables(manifest: Manifest, states: Iterable[BranchState]) -> Ends:
    """Return the node tables that each edge table leads from and to, on any branch."""
    found: Ends = {}
    for state in states:
        catalog = catalog_of(read_ir(manifest.schema(state).ir))
        tables = state.head.tables
        for edge in catalog.edges.values():
            of_edge = found.setdefault(tables[edge.table_key].incarnation, {})
            for column, node in (("src", edge.from_type), ("dst", edge.to_type)):
                of_edge.setdefault(column, set()).add(tables[f"node:{node}"].incarnation)
    return found


def _ends(
    tables: Mapping[str, set[int]] | None, nodes: Mapping[int, frozenset[str]]
) -> dict[str, frozenset[str]]:
    """Return the nodes whose edges are looked for, by column.

    Which types an edge type had that was dropped is not known any more: all that is named counts.
    """
    if tables is None:
        everything = frozenset[str]().union(*nodes.values())
        return dict.fromkeys(("src", "dst"), everything)
    ends = {
        column: frozenset[str]().union(*(nodes.get(number, ()) for number in numbers))
        for column, numbers in tables.items()
    }
    return {column: ids for column, ids in ends.items() if ids}
