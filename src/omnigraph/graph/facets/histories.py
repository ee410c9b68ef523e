"""`graph.history` and `graph.blame`: how an entity came to be what it is at a state of the graph."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from omnigraph.errors import BadRequest, EntityNotFound
from omnigraph.graph.access import Access
from omnigraph.graph.entities import checked_type
from omnigraph.graph.reads import retry_if_remade
from omnigraph.lang.schema.catalog import Catalog, Entity
from omnigraph.manifest.history.records import check_limit
from omnigraph.manifest.history.resolve import resolve_on
from omnigraph.manifest.manifest import BranchState
from omnigraph.manifest.snapshot import Snapshot, Target
from omnigraph.types import is_unicode

# Loaded by the first history: it needs numpy and pyarrow.
if TYPE_CHECKING:
    from omnigraph.changes.entity_history.authors import Authors
    from omnigraph.changes.entity_history.history import HistoryOptions
    from omnigraph.changes.entity_history.results import EntityBlame, EntityHistory
    from omnigraph.changes.entity_history.walk import Walk, WalkState


class NamedEntity(NamedTuple):
    """The entity that a history is about, as a caller named it, and whether its edges count, too."""

    kind: object
    type: object
    id: object
    edges: bool


class _At(NamedTuple):
    """The state of the graph that is asked about."""

    access: Access
    branch: BranchState
    snapshot: Snapshot
    catalog: Catalog

    def start(self, entity: Entity, id: str) -> tuple[Walk, WalkState]:
        from omnigraph.changes.entity_history.walk import Walk

        may_read = self.access.readable(self.branch.name)
        walk = Walk(self.access.state.workspace, entity, id, may_read)
        return walk, walk.start(self.branch, self.snapshot)

    def edges_of(self, entity: Entity, id: str) -> Iterator[tuple[Walk, WalkState]]:
        """Yield the edges of a node, in the order of a diff."""
        from omnigraph.changes.stats import Meter
        from omnigraph.changes.table_side import TableSide
        from omnigraph.storage.filters import Condition

        for name in sorted(self.catalog.edges):
            edge = self.catalog.edges[name]
            side = TableSide(self.access.state.workspace, self.snapshot, edge, Meter(None))
            ids: set[str] = set()
            for column, end in (("src", edge.from_type), ("dst", edge.to_type)):
                if end == entity.name:
                    found = side.rows_where([Condition(column, "=", id)])
                    ids.update(found.column("id").to_pylist())
            for one in sorted(ids):
                yield self.start(edge, one)

    def authors(self) -> Authors:
        from omnigraph.changes.entity_history.authors import Authors

        return Authors(self.access.state.workspace.manifest, self.branch)


def _at(access: Access, target: Target) -> _At:
    branch, snapshot = resolve_on(access.state.workspace.manifest, target)
    return _At(access, branch, snapshot, access.state.schemas.at(branch).catalog)


def history(
    access: Access, asked: NamedEntity, options: HistoryOptions, target: Target
) -> EntityHistory:
    """Return a page of the changes of an entity; refuse one that there never was."""
    from omnigraph.changes.entity_history.history import entity_history

    check_limit(options.limit)

    def find() -> EntityHistory:
        at = _at(access, target)
        entity = checked_type(at.catalog, *asked[:3])
        name = _id(asked, entity)
        starts = [at.start(entity, name)]
        if asked.edges:
            starts += at.edges_of(entity, name)
        page = entity_history(starts, at.authors(), options)
        if not page.entries and options.before is None:
            raise _not_found(asked, entity, "as far as the history goes, there was never any")
        return page

    return retry_if_remade(target, find)


def blame(access: Access, asked: NamedEntity, target: Target) -> EntityBlame:
    """Return which commit gave each property its value; refuse an entity that is not there."""
    from omnigraph.changes.entity_history.blame import entity_blame

    def find() -> EntityBlame:
        at = _at(access, target)
        entity = checked_type(at.catalog, *asked[:3])
        name = _id(asked, entity)
        walk, place = at.start(entity, name)
        if not place.seen.is_there:
            raise _not_found(asked, entity, "there is no")
        authors = at.authors()
        edges = None
        if asked.edges:
            edges = [entity_blame(*one, authors) for one in at.edges_of(entity, name)]
        return entity_blame(walk, place, authors, edges)

    return retry_if_remade(target, find)


def _id(asked: NamedEntity, entity: Entity) -> str:
    """Return the id that was asked for; no entity has a text that is no Unicode."""
    if asked.edges and asked.kind != "node":
        raise BadRequest("an edge has no edges; leave out `edges`, or name a node")
    name = str(asked.id)
    if not is_unicode(name):
        raise _not_found(asked, entity, "there is no")
    return name


def _not_found(asked: NamedEntity, entity: Entity, what: str) -> EntityNotFound:
    return EntityNotFound(
        f"{what} {asked.kind} of type {entity.name} with the id `{asked.id}`; check the id and the branch",
        entity={"kind": asked.kind, "type": entity.name, "id": asked.id},
    )
