"""Nodes and edges as a picture has them: a caption, and the few properties that were asked for.

{"type": "Person", "id": "ada", "caption": "Ada Lovelace", "properties": {"born": 1815}}
{"type": "Knows", "id": "01J…", "from": {"type": "Person", "id": "ada"}, "to": {…}}
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import pyarrow as pa

from omnigraph.changes.stats import Meter
from omnigraph.changes.table_side import TableSide
from omnigraph.errors import BadRequest, ResourceLimit
from omnigraph.lang.query.ir import EVER
from omnigraph.lang.schema.catalog import Catalog, EdgeType, Entity, NodeType, Property
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.manifest.workspace import Workspace
from omnigraph.read.values.periods import Moment, moment_text, rows_holding
from omnigraph.read.view.view import View
from omnigraph.spelling import did_you_mean
from omnigraph.types import column_to_json, is_unicode

Document = dict[str, Any]
Type = TypeVar("Type", bound=NodeType | EdgeType)

TEXT_CHARACTERS = 1_024
"""Texts are cut here, captions too: a picture has no room for more."""
CAPTIONS = ("name", "title", "label")


@dataclass(frozen=True, slots=True)
class Drawing:
    """One state of a graph, which properties of which type are shown, and the moment at which things hold."""

    workspace: Workspace
    view: View
    properties: Mapping[str, tuple[str, ...]]
    moment: Moment
    _sides: dict[str, TableSide] = field(default_factory=dict)

    @property
    def snapshot(self) -> Snapshot:
        """The state that is drawn."""
        return self.view.snapshot

    @property
    def catalog(self) -> Catalog:
        """The types by their names of today."""
        return self.view.catalog

    @property
    def as_of(self) -> str | None:
        """The moment as answers show it; None if nothing that was read so far has a period."""
        timed = any(side.entity.period is not None for side in self._sides.values())
        return moment_text(self.moment) if timed else None

    def is_timed(self, entity: Entity) -> bool:
        """Whether some of its entities may not hold."""
        return entity.period is not None and self.moment != EVER

    def holding(self, type_name: str, ids: pa.Array) -> pa.Array:
        """Return those ids of a type whose nodes hold."""
        entity = self.catalog.nodes[type_name]
        if not self.is_timed(entity):
            return ids
        rows = rows_holding(self.side(entity).rows_of(ids), entity, self.moment)
        return rows.column("id").combine_chunks()

    def side(self, entity: Entity) -> TableSide:
        """Return the table of a type with what is shown of it, and no other property."""
        known = self._sides.get(entity.table_key)
        if known is None:
            known = self._sides[entity.table_key] = self._side(entity)
        return known

    def _side(self, entity: Entity) -> TableSide:
        shown = {*self.properties.get(entity.name, ()), *_needed(entity)}
        kept = {name: prop for name, prop in entity.properties.items() if name in shown}
        return TableSide(
            self.workspace,
            self.snapshot,
            replace(entity, properties=kept),
            Meter(
                None
            ),  # Pictures report no costs, so the figures, which take time to collect, are left out.
            pin=lambda: self.view.table(entity),
        )

    def nodes(
        self, type_name: str, ids: Iterable[str], *, ever: bool = False
    ) -> dict[str, Document]:
        """Return the nodes of a type that are there, by their ids: those that hold, or ``ever`` all."""
        entity = self.catalog.nodes[type_name]
        # Half of a surrogate pair can be in a text of Python, and in no id.
        wanted = pa.array([one for one in ids if is_unicode(one)], pa.utf8())
        moment = EVER if ever else self.moment
        rows = rows_holding(self.side(entity).rows_of(wanted), entity, moment)
        captions = [
            column_to_json(prop.type, rows.column(prop.name)) for prop in caption_properties(entity)
        ]
        values = self._values(entity, rows)
        drawn: dict[str, Document] = {}
        for at, row_id in enumerate(rows.column("id").to_pylist()):
            texts = (column[at] for column in captions)
            caption = next((text for text in texts if text is not None), row_id)
            shown: Document = {
                "type": type_name,
                "id": row_id,
                "caption": caption[:TEXT_CHARACTERS],
            }
            if values is not None:
                shown["properties"] = {name: column[at] for name, column in values.items()}
            drawn[row_id] = shown
        return drawn

    def edges(self, edge: EdgeType, rows: pa.Table) -> list[Document]:
        """Return edges from rows of the table of their type, in the order of the rows."""
        ids, sources, targets = (rows.column(name).to_pylist() for name in ("id", "src", "dst"))
        values = self._values(edge, rows)
        drawn = []
        for at, row_id in enumerate(ids):
            shown: Document = {
                "type": edge.name,
                "id": row_id,
                "from": {"type": edge.from_type, "id": sources[at]},
                "to": {"type": edge.to_type, "id": targets[at]},
            }
            if values is not None:
                shown["properties"] = {name: column[at] for name, column in values.items()}
            drawn.append(shown)
        return drawn

    def _values(self, entity: Entity, rows: pa.Table) -> dict[str, list[Any]] | None:
        """Return the columns that were asked for; None where none of the type was."""
        named = self.properties.get(entity.name)
        if named is None:
            return None
        mine = {name: entity.properties[name] for name in named if name in entity.properties}
        return {
            name: [_cut(value) for value in column_to_json(prop.type, rows.column(name), True)]
            for name, prop in mine.items()
        }


def _cut(value: Any) -> Any:
    return value[:TEXT_CHARACTERS] if isinstance(value, str) else value


def caption_properties(entity: NodeType) -> list[Property]:
    """Return the properties that may be the caption of a node, the best first."""
    found = (entity.properties.get(name) for name in CAPTIONS)
    return [prop for prop in found if prop is not None and prop.type.is_text]


def _needed(entity: Entity) -> set[str]:
    """Return the properties that are read in any case: captions, the key, from which ids are known, the period."""
    period = () if entity.period is None else entity.period.names
    if isinstance(entity, EdgeType):
        return set(period)
    return {*(prop.name for prop in caption_properties(entity)), *(entity.key or ()), *period}


# ------------------------------------------------------------------ what a caller asks for


def node_type(catalog: Catalog, name: object) -> NodeType:
    """Return a node type by its name."""
    found = catalog.nodes.get(name) if isinstance(name, str) else None
    if found is None:
        raise _unknown("node type", name, catalog.nodes)
    return found


def chosen_edges(catalog: Catalog, names: object) -> list[EdgeType]:
    """Return the edge types that a caller names, or all of them, by name."""
    if names is None:
        return sorted(catalog.edges.values(), key=lambda edge: edge.name)
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise BadRequest(f"edges is {names!r}; give a list of names of edge types, or leave it out")
    found: dict[str, EdgeType] = {}
    for name in names:
        edge = catalog.edge(name) if isinstance(name, str) else None
        if edge is None:
            raise _unknown("edge type", name, catalog.edges)
        found[edge.name] = edge
    return [found[name] for name in sorted(found)]


def chosen_properties(catalog: Catalog, given: object) -> dict[str, tuple[str, ...]]:
    """Return the properties to show by type; each must be there, and a single value that is no blob."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise BadRequest(f"properties is {given!r}; give a dict from types to names of properties")
    chosen: dict[str, tuple[str, ...]] = {}
    for type_name, names in given.items():
        entities = _named(catalog, type_name)
        if isinstance(names, str) or not isinstance(names, Iterable):
            raise BadRequest(f"properties of {type_name} is {names!r}; give a list of names")
        wanted = tuple(dict.fromkeys(names))
        for name in wanted:
            _check_property(entities, name)
        chosen |= {entity.name: wanted for entity in entities}
    return chosen


def _named(catalog: Catalog, name: object) -> list[Entity]:
    found: list[Entity | None] = []
    if isinstance(name, str):
        found = [catalog.nodes.get(name), catalog.edge(name)]
    entities = [one for one in found if one is not None]
    if not entities:
        raise _unknown("type", name, [*catalog.nodes, *catalog.edges])
    return entities


def _check_property(entities: Sequence[Entity], name: object) -> None:
    known = {one: prop for entity in entities for one, prop in entity.properties.items()}
    found = known.get(name) if isinstance(name, str) else None
    if found is None:
        raise _unknown(f"property of {entities[0].name}", name, known)
    if found.type.is_list or found.type.is_vector or found.type.is_blob:
        raise BadRequest(
            f"{entities[0].name}.{name} is {found.type}, and a picture shows single values; read it with "
            "entity, or leave it out"
        )


def _unknown(what: str, name: object, known: Iterable[str]) -> BadRequest:
    names = list(known)
    hint = did_you_mean(name, names) if isinstance(name, str) else None
    if hint is None:
        hint = f"there are {', '.join(names)}" if names else "there is none"
    named = {"type": name} if what.endswith("type") else {}
    return BadRequest(f"there is no {what} `{name}`; {hint}", **named)


def check_count(name: str, given: object, default: int, most: int) -> int:
    """Return how many there may be: the default, or a whole number from 1 on, up to a limit."""
    if given is None:
        return default
    if isinstance(given, bool) or not isinstance(given, int) or given < 1:
        raise BadRequest(f"{name} is {given!r}; give a whole number from 1 to {most:,}")
    if given > most:
        raise ResourceLimit(
            f"{name} is {given:,} and may be {most:,} at most; ask for less at a time",
            resource=name,
            limit=most,
            actual=given,
        )
    return given
