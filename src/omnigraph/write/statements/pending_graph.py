"""All tables that a mutation changes, or looks at to change others."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from omnigraph import settings
from omnigraph.commit.stage_tables import needs_fork
from omnigraph.errors import ResourceLimit, SchemaConflict
from omnigraph.lang.schema.catalog import Catalog, Entity, NodeType
from omnigraph.manifest.manifest import BranchState
from omnigraph.manifest.rows import GraphCommit
from omnigraph.manifest.workspace import Workspace
from omnigraph.storage.tables.table import open_table
from omnigraph.write.pending import PendingTable

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(slots=True)
class PendingGraph:
    """The pending tables of a mutation on one state of its branch, opened on first use.

    ``beneath`` are the changes of mutations before it that share its commit. ``read`` are the keys of tables that were
    read besides ``tables``: by the match, and by the rules.
    """

    workspace: Workspace
    state: BranchState
    catalog: Catalog
    beneath: PendingGraph | None = None
    tables: dict[str, PendingTable] = field(default_factory=dict)
    read: set[str] = field(default_factory=set)

    def table(self, entity: Entity) -> PendingTable:
        """Return the pending table of a type."""
        known = self.tables.get(entity.table_key)
        if known is None and self.beneath is not None:
            under = self.beneath.table(entity)
            known = PendingTable(entity, under.pin, under.table, under)
            self.tables[entity.table_key] = known
        if known is None:
            pin = self.state.head.tables.get(entity.table_key)
            if pin is None or pin.incarnation != entity.table_incarnation_id:
                raise SchemaConflict(
                    f"{entity.name} was changed by a schema apply while the mutation was prepared; "
                    "run it again",
                    table_key=entity.table_key,
                )
            known = PendingTable(entity, pin, open_table(self.workspace.pinned(pin)))
            self.tables[entity.table_key] = known
        return known

    @property
    def changed(self) -> dict[str, PendingTable]:
        """The tables that the mutation changes, by key."""
        return {key: table for key, table in self.tables.items() if table.is_changed}

    def take_over(self, later: PendingGraph) -> None:
        """Add the changes of a mutation that was run over these."""
        for table in later.changed.values():
            self.table(table.entity).take_over(table)

    def find_new(self) -> None:
        """Find out of inserted rows whether all of them are new: then they can be appended."""
        for key, table in self.changed.items():
            if table.inserted_only and not table.fresh_only and not table.removed:
                ids = table.rows.column("id").to_pylist()
                table.fresh_only = self.workspace.recent_ids.lacks_all(
                    self._place(table), self._state(key), table.table, ids
                )

    def note_committed(self, commit: GraphCommit) -> None:
        """Note which rows a commit of these changes added."""
        for key, table in self.changed.items():
            if needs_fork(table.pin, self.state.name):
                continue
            after = commit.graph_commit_id, table.pin.incarnation
            ids = table.rows.column("id").to_pylist()
            self.workspace.recent_ids.note(self._place(table), self._state(key), after, ids)

    def _place(self, table: PendingTable) -> Hashable:
        return table.pin.incarnation, table.pin.table_branch, table.pin.table_branch_id

    def _state(self, key: str) -> Hashable:
        # Commits are never made twice, whatever is put back from a backup: version numbers are.
        return self.state.head.commit.graph_commit_id, self.state.head.tables[key].incarnation

    def cascade(self, node: NodeType, ids: pa.Array) -> int:
        """Remove the edges that begin or end at these nodes; return how many there were."""
        count = 0
        for edge in self.catalog.edges.values():
            for end, type_name in (("src", edge.from_type), ("dst", edge.to_type)):
                if type_name == node.name:
                    pending = self.table(edge)
                    count += pending.remove(pending.ids_among(end, ids))
        return count

    @property
    def row_count(self) -> int:
        """The number of pending rows."""
        return sum(table.rows.num_rows for table in self.tables.values())

    def check_size(self) -> None:
        """Refuse a mutation with more pending rows than OMNIGRAPH_MUTATION_MAX_ROWS."""
        limit = settings.MUTATION_MAX_ROWS.get()
        if limit is None:
            return
        rows = self.row_count
        if rows > limit:
            raise ResourceLimit(
                f"the mutation holds {rows} rows and OMNIGRAPH_MUTATION_MAX_ROWS is {limit}; load "
                "the rows instead, or raise the limit",
                resource="mutation_rows",
                limit=limit,
                actual=rows,
            )
