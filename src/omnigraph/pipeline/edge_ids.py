"""Ids of edges whose records have none, where a tuple identifies them.

A type with a unique group that contains both ends (``EdgeType.identity``) says when two records mean
one edge. Their records were read with ids made from that tuple. In a merge or a patch such a record
takes the id of the committed edge with its tuple; where there is none, that of an earlier record of
the load with the same tuple. If neither is there, and an edge with another tuple has the id by now,
the record gets a new one. A tuple with a null never equals another. Records with an id keep it.
Where the type has a period, edges with one tuple are told apart by when they begin.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from omnigraph.lang.schema.catalog import EdgeType
from omnigraph.pipeline.engine import Incoming
from omnigraph.pipeline.load_options import LoadMode
from omnigraph.pipeline.rows.ids import ids_of_places
from omnigraph.pipeline.rows.row_rules import RowRules
from omnigraph.runner.runner import Frame, Runner
from omnigraph.validate import rules
from omnigraph.validate.change_set import MADE, ORDER
from omnigraph.validate.committed import Committed


@dataclass(frozen=True, slots=True)
class EdgeIds:
    """Gives edges without an id the one that they should have, on one state of the branch."""

    runner: Runner
    row_rules: RowRules
    committed: Committed
    mode: LoadMode

    def assign(self, incoming: Mapping[str, Incoming]) -> set[str]:
        """Let records without an id take that of the edge they mean. Loads of every engine call this.

        Each call starts from the ids that the records were read with, so a load that is tried again
        calls it with the rows of the new head. Returns the tables in which some row has another id than
        before the call: what was written of them must be written again.
        """
        changed = set()
        for key, rows in incoming.items():
            edge = rows.entity
            if not isinstance(edge, EdgeType) or edge.identity is None or not rows.any_made:
                continue
            if rows.take_ids(self.runner, self._taken(edge, rows)):
                changed.add(key)
        return changed

    def _taken(self, edge: EdgeType, rows: Incoming) -> Frame:
        """The records that get other ids than they were read with, and these."""
        assert edge.identity is not None
        members, since = edge.identity_columns, edge.identity_since
        columns = list(dict.fromkeys(["id", "src", "dst", *members, ORDER, MADE]))
        pending = rows.frame(self.runner, columns, as_read=True)
        if self.mode not in {"merge", "patch"}:
            if not rows.may_repeat and not self._meets_edges(edge):
                return self._new_ids(None)
            ids = self._ids_in_use(edge, [], pending)
            used = rules.made_ids_in_use()
            return self._new_ids(self.runner.ask(used, {"pend": pending, "ids": ids}))
        held = self.committed.between(edge, members, pending)
        frames = {"pend": pending, "com": held}
        taken = self.runner.sql(rules.identified_edges(edge.identity, since), frames)
        if not rows.may_repeat and not self._meets_edges(edge):
            return taken
        frames["ids"] = self._ids_in_use(edge, members, pending)
        misled = self.runner.ask(rules.misled_edges(edge.identity, since), frames)
        if not misled.num_rows:
            return taken
        named = self._new_ids(misled)
        return self.runner.sql(rules.other_ids(), {"taken": taken, "misled": named})

    def _meets_edges(self, edge: EdgeType) -> bool:
        """Whether there are committed edges that stay."""
        self.committed.relied_on.add(edge.table_key)
        return self.mode != "overwrite" and self.committed.pins[edge.table_key].row_count > 0

    def _ids_in_use(
        self, edge: EdgeType, columns: list[str] | tuple[str, ...], keys: Frame
    ) -> Frame:
        if not self._meets_edges(edge):
            return self.committed.no_rows(edge, columns)
        return self.committed.with_ids(edge, columns, keys)

    def _new_ids(self, found: pa.Table | None) -> Frame:
        """New ids for records, each made from the place of the record `rec`."""
        schema = pa.schema({ORDER: pa.int64(), "id": pa.utf8()})
        if found is None or not found.num_rows:
            return self.runner.frame(schema.empty_table())
        places = found.column("rec").cast(pa.int64()).combine_chunks()
        operation, started = self.row_rules.operation_id, self.row_rules.started_at_ms
        columns = [found.column(ORDER).cast(pa.int64()), ids_of_places(places, operation, started)]
        return self.runner.frame(pa.table(columns, schema=schema))
