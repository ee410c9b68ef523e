"""The schema of a merge: what three schemas come to, and what that means for the types of the target.

The merge itself is ``lang/schema/merge``, which knows no rows. Here it learns which data a side changed,
takes ids for what is new, and answers questions about the merged types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.changes.compare_tables import compare
from omnigraph.changes.images import equal_column
from omnigraph.changes.stats import Meter
from omnigraph.changes.table_side import TableSide, state_of
from omnigraph.errors import HistoryReclaimed
from omnigraph.lang.schema.catalog import Catalog, Entity, Property
from omnigraph.lang.schema.catalog_of import catalog_of
from omnigraph.lang.schema.identities import Numbering
from omnigraph.lang.schema.ir import TypeIr
from omnigraph.lang.schema.merge.merge import SchemaMerge, merge_schemas
from omnigraph.lang.schema.merge.revert import revert_schema
from omnigraph.lang.schema.merge.sides import SHOWN_ROWS, DataChange, SchemaSide
from omnigraph.lang.schema.merge.sides import Side as SideName
from omnigraph.lang.schema.migrate.schema_change import SchemaChange
from omnigraph.lang.schema.read_ir import read_ir
from omnigraph.manifest.history.identity_counter import single_line_below, take_ids
from omnigraph.manifest.history.resolve import schema_row_at
from omnigraph.manifest.rows import SchemaRow
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.manifest.workspace import Workspace
from omnigraph.write.merge.decided import MergeConflict, Side


@dataclass(frozen=True)
class MergedSchemas:
    """The types of the base, of the source, of the target and of the merged schema.

    ``row`` is the schema that the target gets; None where it keeps its own. ``change`` are the steps to it; None
    where it only learns what the ids of the source mean.
    """

    base: Catalog
    source: Catalog
    target: Catalog
    catalog: Catalog
    row: SchemaRow | None = None
    change: SchemaChange | None = None
    conflicts: tuple[MergeConflict, ...] = ()
    resolved: tuple[str, ...] = ()
    gone: frozenset[int] = frozenset()
    """The ids of what the base has dropped."""
    _own: dict[str, Mapping[str, Side]] = field(default_factory=dict)

    def own(self, entity: Entity) -> Mapping[str, Side]:
        """Return the properties of a merged type that only one side has, with that side."""
        if entity.table_key not in self._own:
            self._own[entity.table_key] = dict(self._one_sided(entity))
        return self._own[entity.table_key]

    def _one_sided(self, entity: Entity) -> Iterator[tuple[str, Side]]:
        theirs, ours = counterpart(entity, self.source), counterpart(entity, self.target)
        if theirs is None or ours is None:
            return
        known = property_ids(theirs), property_ids(ours)
        for name, prop in entity.properties.items():
            there = [not ids.isdisjoint(prop.ids) for ids in known]
            if there[0] != there[1]:
                yield name, Side.SOURCE if there[0] else Side.TARGET

    def brings_back(self, entity: Entity) -> bool:
        """Return whether the source has a property that the base dropped: a merge had decided to keep it.

        Then rows that nobody has written since have values that the base lacks.
        """
        return any(
            side == Side.SOURCE and not self.gone.isdisjoint(entity.properties[name].ids)
            for name, side in self.own(entity).items()
        )

    def has_columns_of_source(self, entity: Entity) -> bool:
        """Return whether a table of the source has exactly the columns of the merged type."""
        theirs = counterpart(entity, self.source)
        if theirs is None:
            return False
        return _columns(theirs) == _columns(entity) and not other_vectors(entity, self.source)


def counterpart(entity: Entity, catalog: Catalog) -> Entity | None:
    """Return the type of another schema that is this one, whatever its name is there."""
    of_kind = catalog.nodes if entity.table_key.startswith("node:") else catalog.edges
    for one in of_kind.values():
        if not set(one.incarnations).isdisjoint(entity.incarnations):
            return one
    return None


def property_ids(entity: Entity) -> frozenset[int]:
    """Return every id that a property of a type has, joined ones included."""
    return frozenset(number for prop in entity.properties.values() for number in prop.ids)


def _columns(entity: Entity) -> dict[str, tuple[int, object]]:
    return {name: (prop.property_id, prop.type) for name, prop in entity.properties.items()}


def other_vectors(entity: Entity, catalog: Catalog) -> frozenset[str]:
    """Return the vectors of a type that another schema has made of another text, or by another model.

    What rows of that schema hold is no vector of this one: applying the change would have set it to null.
    """
    theirs = counterpart(entity, catalog) if entity.embeds else None
    if theirs is None:
        return frozenset()
    return frozenset(
        name
        for name, embed in entity.embeds.items()
        for prop in theirs.properties.values()
        if prop.embed is not None and _is_one(prop, entity.properties[name])
        if prop.embed.model != embed.model
        or not _is_one(theirs.properties[prop.embed.source], entity.properties[embed.source])
    )


def _is_one(prop: Property, other: Property) -> bool:
    return not set(prop.ids).isdisjoint(other.ids)


class SchemaMerging:
    """One merge of the schemas of three states; ``names`` are those of source and target in messages.

    With ``undone``, the id of a commit, it is a revert: the base is that commit, and the source its parent.
    """

    def __init__(
        self,
        workspace: Workspace,
        states: tuple[Snapshot, Snapshot, Snapshot],
        names: tuple[str, str],
        meter: Meter,
        undone: str | None = None,
    ) -> None:
        self.workspace = workspace
        self.undone = undone
        self.states = dict(zip(("base", "source", "target"), states, strict=True))
        self.meter = meter
        self.sides = {
            which: self._read(snapshot, name)
            for (which, snapshot), name in zip(
                self.states.items(), ("the base", *names), strict=True
            )
        }
        self.catalogs = {which: catalog_of(side.ir) for which, side in self.sides.items()}
        self._changed: dict[tuple[SideName, int, str | None], DataChange] = {}

    def _read(self, snapshot: Snapshot, name: str) -> SchemaSide:
        row = schema_row_at(self.workspace.manifest, snapshot)
        return SchemaSide(read_ir(row.ir), row.source, name)

    def run(self, resolve: object, *, dry_run: bool) -> MergedSchemas:
        """Merge the schemas, with ids from the counter of the graph unless it is a dry run."""
        next_id = max(side.ir.next_identity_id for side in self.sides.values())
        numbering = Numbering(next_id, single_line_below(self.workspace.manifest))
        found = self._merge(resolve, numbering)
        if found.schema is not None and not dry_run:
            count = found.schema.ir.next_identity_id - next_id
            if count > 0:
                found = self._merge(resolve, take_ids(self.workspace, count))
        return self._told(found)

    def _merge(self, resolve: object, numbering: Numbering) -> SchemaMerge:
        sides = (self.sides["base"], self.sides["source"], self.sides["target"])
        merge: Callable[..., SchemaMerge]
        if self.undone is not None:
            merge = partial(revert_schema, commit_id=self.undone)
        else:
            merge = partial(merge_schemas, own_table=self._needs_own_table)
        return merge(*sides, data=self._data_changed, resolve=resolve, numbering=numbering)

    def _told(self, found: SchemaMerge) -> MergedSchemas:
        base, source, target = (self.catalogs[which] for which in ("base", "source", "target"))
        if found.schema is None:
            conflicts = tuple(
                MergeConflict(
                    one.kind, one.table_key, None, f"{one.message}: {one.remedy()}", one.detail
                )
                for one in found.conflicts
            )
            return MergedSchemas(base, source, target, target, conflicts=conflicts)
        ours, merged = self.sides["target"], found.schema
        if merged.ir == ours.ir:
            return MergedSchemas(base, source, target, target, resolved=found.resolved)
        return MergedSchemas(
            base,
            source,
            target,
            catalog_of(merged.ir),
            SchemaRow(
                merged.text, merged.ir.to_json(), merged.ir.shape.shape_hash, merged.ir.ir_hash
            ),
            # Which ids are one, and which were dropped, is written down as well; alone it is no change.
            SchemaChange(ours.ir.ir_hash, merged.ir.ir_hash, merged.steps)
            if merged.steps
            else None,
            resolved=found.resolved,
            gone=frozenset(self.sides["base"].ir.dropped),
        )

    def _needs_own_table(self, type_: TypeIr) -> bool:
        """Return whether the target makes a table for a type of the source: that of a fork goes with its branch."""
        entity = self.catalogs["source"].entity(type_.shape.entity)
        state = state_of(self.states["source"], entity)
        return state is not None and state.table_branch is not None

    def _data_changed(self, side: SideName, type_: TypeIr, name: str | None) -> DataChange:
        """Return which rows of a type, or values of a property, one side wrote since the base.

        Schemas are merged twice where ids have to be taken; rows are compared once.
        """
        key = side, type_.type_id, name
        if key not in self._changed:
            self._changed[key] = self._compared(side, type_, name)
        return self._changed[key]

    def _compared(self, side: SideName, type_: TypeIr, name: str | None) -> DataChange:
        if type_.kind == "interface":
            return DataChange()
        entity = self.catalogs[side].entity(type_.shape.entity)
        before, after = (self._table("base", entity), self._table(side, entity))
        if before.state is not None and before.state == after.state:
            return DataChange()
        try:
            return _written(entity, before, after, name)
        except HistoryReclaimed:
            # A hard drop removed what the base had: every row may have been written since.
            return _written(entity, self._table("base", entity, is_gone=True), after, name)

    def _table(self, which: str, entity: Entity, *, is_gone: bool = False) -> TableSide:
        snapshot = self.states[which]
        return TableSide(
            self.workspace,
            replace(snapshot, tables={}) if is_gone else snapshot,
            entity,
            self.meter,
            defaults=True,
            without=other_vectors(entity, self.catalogs[which]),
        )


def _written(entity: Entity, before: TableSide, after: TableSide, name: str | None) -> DataChange:
    """Compare two states of a table: the rows that were written, or of which one property was."""
    rows, first = 0, list[str]()
    for changes in compare(before, after):
        written: npt.NDArray[np.bool_] = changes.after.present.to_numpy(zero_copy_only=False)
        if name is not None:
            values = changes.after.table.column(name).combine_chunks()
            same = equal_column(entity, name, changes.before, changes.after, (before, after))
            written = (
                written
                & values.is_valid().to_numpy(zero_copy_only=False)
                & ~same.to_numpy(zero_copy_only=False)
            )
        rows += int(written.sum())
        if len(first) < SHOWN_ROWS:
            first += changes.ids.filter(pa.array(written)).to_pylist()
    return DataChange(rows, tuple(first[:SHOWN_ROWS]))
