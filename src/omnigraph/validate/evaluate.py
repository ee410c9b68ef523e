"""Check the set rules of a change set against the committed rows.

Rules run in a fixed order: taken ids, uniqueness, missing endpoints, edges that lose a node, and
cardinality. The first rule that is broken ends the check of a load or a mutation; a merge wants every
violation of every rule. Each rule first tries a cheap look at rows in memory, and asks the SQL engine
(``validate/rules.py``, ``validate/moments.py`` for types with a period) only if that does not settle it.

For example, a strict insert of Person "ann", which exists, gives ``[Violation("key", "node:Person",
"ann", ...)]``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from omnigraph.lang.schema.catalog import EdgeType, Entity, Period
from omnigraph.runner.runner import Frame, Runner
from omnigraph.validate import moments, rules
from omnigraph.validate.at_once import most_at_once
from omnigraph.validate.change_set import (
    ORDER,
    SHOWN,
    ChangeSet,
    TableDelta,
    Violation,
    needed_columns,
)
from omnigraph.validate.committed import Committed
from omnigraph.validate.overlaps import HoldingRow, OneAtATime
from omnigraph.validate.violations import (
    cardinality_violation,
    endpoint_violation,
    taken_id,
    unique_violations,
)

if TYPE_CHECKING:
    import pyarrow as pa


def first_set_violations(changes: ChangeSet, committed: Committed) -> list[Violation]:
    """Return the violations of the first set rule that is broken, or an empty list."""
    for rule in Evaluation(changes, committed).rules():
        found = list(rule())
        if found:
            return found
    return []


def all_set_violations(changes: ChangeSet, committed: Committed) -> list[Violation]:
    """Return every violation of every set rule."""
    rules_ = Evaluation(changes, committed, limit=None).rules()
    return [violation for rule in rules_ for violation in rule()]


class Evaluation:
    """The set rules, each a method that yields its violations.

    ``limit`` is how many violations a query about a rule answers; None means all of them, and then
    every row that shares a unique value with an earlier one is a violation of its own.
    """

    def __init__(self, changes: ChangeSet, committed: Committed, limit: int | None = SHOWN) -> None:
        self.limit = limit
        self.changes = changes
        self.committed = committed
        self.runner: Runner = committed.runner
        self.catalog = changes.catalog

    # -- frames

    def pending_rows(self, delta: TableDelta) -> Frame:
        """Return the frame called `pend` in the SQL: added and changed rows."""
        return delta.pending if delta.pending is not None else self._empty_frame(delta.entity)

    def removed_ids(self, delta: TableDelta) -> Frame:
        """Return the frame called `gone` in the SQL: removed ids."""
        return delta.removed if delta.removed is not None else self._empty_frame(delta.entity)

    def _empty_frame(self, entity: Entity) -> Frame:
        """Return a frame without rows, with the columns that rules read."""
        import pyarrow as pa

        schema = entity.arrow_schema()
        names = ["id", *needed_columns(entity)]
        fields = [schema.field(name) for name in names] + [pa.field(ORDER, pa.int64())]
        return self.runner.frame(pa.schema(fields).empty_table())

    def ask(self, text: str, frames: Mapping[str, Frame]) -> pa.Table:
        """Return the rows of a rule's query."""
        return self.runner.ask(text, frames)

    def is_empty(self, frame: Frame) -> bool:
        """Return whether the frame is in memory and has no rows; starts no engine."""
        return self.fewer_than(1, frame)

    def fewer_than(self, rows: int, frame: Frame) -> bool:
        """Return whether the frame is in memory and has fewer rows than that."""
        here = self.runner.in_memory(frame)
        return here is not None and here.num_rows < rows

    def are_among(self, frame: Frame, column: str, *others: Frame) -> bool:
        """Return whether all values of the column are ids of the other frames.

        False also if a frame is not in memory; then the SQL has to decide.
        """
        import pyarrow as pa
        import pyarrow.compute as pc

        mine, *theirs = (self.runner.in_memory(each) for each in (frame, *others))
        if mine is None or any(table is None for table in theirs):
            return False
        chunks = [c for table in theirs if table is not None for c in table.column("id").chunks]
        known = pa.chunked_array(chunks, pa.utf8())
        return bool(pc.all(pc.is_in(mine.column(column), known), min_count=0).as_py())

    def deltas(self) -> Iterator[TableDelta]:
        """Return the changes, by table key."""
        return (self.changes.tables[key] for key in sorted(self.changes.tables))

    def edge_deltas(self) -> Iterator[tuple[EdgeType, TableDelta]]:
        """Yield the changes of edge types."""
        for delta in self.deltas():
            if isinstance(delta.entity, EdgeType):
                yield delta.entity, delta

    # -- rules

    def rules(self) -> tuple[Callable[[], Iterator[Violation]], ...]:
        """Return the rules in their order."""
        return self.taken_ids, self.unique, self.endpoints, self.stranded, self.cardinality

    def taken_ids(self) -> Iterator[Violation]:
        """Yield rows of strict inserts whose id exists already."""
        for delta in self.deltas():
            if not delta.strict or delta.pending is None or delta.replaced:
                continue
            entity = delta.entity
            com = self.committed.rows(self.changes, entity, [], "id", delta.pending, "id")
            if self.is_empty(com):
                continue
            frames = {"pend": delta.pending, "com": com, "gone": self.removed_ids(delta)}
            for row in self.ask(rules.taken_ids(self.limit), frames).to_pylist():
                yield taken_id(entity, row["id"], row["rec"])

    def unique(self) -> Iterator[Violation]:
        """Yield rows that share the values of a unique group with another row."""
        for delta in self.deltas():
            if delta.pending is None:
                continue
            for group in delta.entity.unique:
                yield from self._unique_group(delta, delta.pending, group)

    def _unique_group(
        self, delta: TableDelta, pending: Frame, group: tuple[str, ...]
    ) -> Iterator[Violation]:
        """Compare the incoming rows with each other, then with the committed rows."""
        if self._holds_apart(delta, pending, group):
            return
        if not self.fewer_than(2, pending):
            yield from self.unique_within(delta, pending, group)
        yield from self.unique_against(delta, pending, group)

    def _holds_apart(self, delta: TableDelta, pending: Frame, group: tuple[str, ...]) -> bool:
        """Return whether a look at rows in memory shows that no two of one tuple hold at one moment."""
        period = delta.entity.period
        if period is None:
            return False
        lead, columns = group[0], (*group, *period.names)
        com = self.committed.rows(self.changes, delta.entity, columns, lead, pending, lead)
        return self._at_once(delta, pending, com, group, period, 1)

    def _at_once(
        self,
        delta: TableDelta,
        pending: Frame,
        com: Frame,
        columns: Sequence[str],
        period: Period,
        most: int,
    ) -> bool:
        """Return whether no more rows with the same values hold at one moment, as far as memory tells."""
        import pyarrow as pa
        import pyarrow.compute as pc

        gone = self.removed_ids(delta)
        new, old, removed = (self.runner.in_memory(one) for one in (pending, com, gone))
        if new is None or old is None or removed is None:
            return False
        changed = pa.chunked_array(
            [*new.column("id").chunks, *removed.column("id").chunks], pa.utf8()
        )
        stays = old.filter(pc.invert(pc.is_in(old.column("id"), changed)))
        found = most_at_once([new, stays], columns, period.names)
        return found is not None and found <= most

    def unique_within(
        self, delta: TableDelta, pending: Frame, group: tuple[str, ...]
    ) -> Iterator[Violation]:
        """Yield rows that share their values; without a limit, all but the first of each value."""
        frames = {"pend": pending}
        period = delta.entity.period
        if period is not None:
            yield from self._overlapping(delta, pending, group, period)
            return
        if self.limit is None:
            entity = delta.entity
            frames["com"] = self.committed.rows(self.changes, entity, group, "id", pending, "id")
            text = rules.later_of_tuple(group)
        else:
            text = rules.unique_within(group, self.limit)
        yield from unique_violations(delta.entity, group, self.ask(text, frames))

    def _overlapping(
        self, delta: TableDelta, pending: Frame, group: tuple[str, ...], period: Period
    ) -> Iterator[Violation]:
        """Yield rows that hold at a moment at which an earlier row with their values holds."""
        entity, bounds = delta.entity, period.names
        crowded = self.ask(moments.crowded_tuples(group, bounds, self.limit), {"pend": pending})
        if not crowded.num_rows:
            return
        columns = [*group, *bounds]
        frames = {
            "pend": pending,
            "crowded": self.runner.frame(crowded),
            "com": self.committed.rows(self.changes, entity, columns, "id", pending, "id"),
        }
        rows = self.ask(moments.rows_of_tuples(group, bounds), frames)
        rows = rows.sort_by([("place", "ascending"), ("rec", "ascending")])
        kept: dict[int, OneAtATime] = {}
        places, others = [], []
        spans = zip(
            *(rows.column(name).to_pylist() for name in ("id", "since", "until")), strict=True
        )
        numbers = rows.column("tuple_no").to_pylist()
        for place, (number, span) in enumerate(zip(numbers, spans, strict=True)):
            other = kept.setdefault(number, OneAtATime()).add(HoldingRow(*span))
            if other is not None:
                places.append(place)
                others.append(other.id)
        found = rows.take(places[: self.limit]).rename_columns({"id": "row_id"})
        found = found.append_column("other_id", [others[: self.limit]])
        yield from unique_violations(entity, group, found)

    def unique_against(
        self, delta: TableDelta, pending: Frame, group: tuple[str, ...]
    ) -> Iterator[Violation]:
        """Yield rows with the values of a committed row that stays as it is."""
        lead = group[0]
        period = delta.entity.period
        columns = group if period is None else (*group, *period.names)
        com = self.committed.rows(self.changes, delta.entity, columns, lead, pending, lead)
        if self.are_among(com, "id", pending, self.removed_ids(delta)):
            return
        frames = {"pend": pending, "com": com, "gone": self.removed_ids(delta)}
        text = rules.unique_against(group, self.limit)
        if period is not None:
            text = moments.unique_against(group, period.names, self.limit)
        found = self.ask(text, frames)
        yield from unique_violations(delta.entity, group, found)

    def endpoints(self) -> Iterator[Violation]:
        """Yield incoming edges whose source or target does not exist after the change."""
        for edge, delta in self.edge_deltas():
            if delta.pending is not None:
                yield from self.missing_ends(edge, delta.pending)

    def missing_ends(self, edge: EdgeType, edges: Frame) -> Iterator[Violation]:
        """Yield the edges of one type whose source or target does not exist after the change."""
        ends = list(self._look_up_ends(edge, edges))
        if self._all_ends_exist(edges, ends):
            return
        for side, type_name, com in ends:
            frames = self._endpoint_frames(edges, type_name, com)
            for row in self.ask(rules.missing_endpoints(side, self.limit), frames).to_pylist():
                yield endpoint_violation(edge, row["id"], side, row["node"], type_name, row["rec"])

    def _endpoint_frames(self, edges: Frame, type_name: str, com: Frame) -> dict[str, Frame]:
        """Return the frames that the SQL about endpoints reads."""
        nodes = self.changes.delta(self.catalog.nodes[type_name])
        return {
            "pend": edges,
            "nodes": self.pending_rows(nodes),
            "gone": self.removed_ids(nodes),
            "com": com,
        }

    def _all_ends_exist(self, edges: Frame, ends: Sequence[tuple[str, str, Frame]]) -> bool:
        """Return whether every end is a node. Counting is cheaper than finding the missing ones."""
        together: dict[tuple[str, int], list[tuple[str, Frame]]] = {}
        for side, type_name, com in ends:
            together.setdefault((type_name, id(com)), []).append((side, com))
        for (type_name, _), found in together.items():
            sides, com = [side for side, _ in found], found[0][1]
            frames = self._endpoint_frames(edges, type_name, com)
            removed = self.changes.delta(self.catalog.nodes[type_name]).removed
            if removed is None and all(
                self.are_among(edges, side, com, frames["nodes"]) for side in sides
            ):
                continue
            counted = self.ask(rules.count_missing_endpoints(sides), frames)
            if counted.column("n")[0].as_py():
                return False
        return True

    def _look_up_ends(self, edge: EdgeType, edges: Frame) -> Iterator[tuple[str, str, Frame]]:
        """Yield side, node type and committed nodes of both ends; ends of one type share a lookup."""
        import pyarrow as pa

        here = self.runner.in_memory(edges)
        sides = (("src", edge.from_type), ("dst", edge.to_type))
        if here is not None and edge.from_type == edge.to_type:
            node = self.catalog.nodes[edge.from_type]
            ids = pa.chunked_array(here.column("src").chunks + here.column("dst").chunks, pa.utf8())
            keys = self.runner.frame(pa.table({"id": ids}))
            both = self.committed.rows(self.changes, node, [], "id", keys, "id")
            yield from ((side, type_name, both) for side, type_name in sides)
            return
        for side, type_name in sides:
            node = self.catalog.nodes[type_name]
            yield side, type_name, self.committed.rows(self.changes, node, [], "id", edges, side)

    def stranded(self) -> Iterator[Violation]:
        """Yield committed edges that stay although the node at one end is removed."""
        for edge in self.catalog.edges.values():
            delta = self.changes.delta(edge)
            for side, type_name in (("src", edge.from_type), ("dst", edge.to_type)):
                nodes = self.changes.delta(self.catalog.nodes[type_name])
                if nodes.removed is None and not nodes.replaced:
                    continue
                if delta.replaced:
                    continue
                com = self._edges_at(edge, side, nodes)
                if self.are_among(com, "id", self.removed_ids(delta)):
                    continue
                frames = {
                    "com": com,
                    "pend": self.pending_rows(delta),
                    "gone": self.removed_ids(delta),
                    "nodes": self.pending_rows(nodes),
                    "left_nodes": self.removed_ids(nodes),
                }
                text = rules.stranded_edges(side, self.limit, replaced=nodes.replaced)
                for row in self.ask(text, frames).to_pylist():
                    yield endpoint_violation(edge, row["id"], side, row["node"], type_name, None)

    def edges_at(self, edge: EdgeType, side: str, nodes: Frame) -> pa.Table:
        """Return the ids of committed edges that stay as they are, with one of the nodes at that end."""
        delta = self.changes.delta(edge)
        frames = {
            "com": self.committed.rows(self.changes, edge, ["src", "dst"], side, nodes, "id"),
            "pend": self.pending_rows(delta),
            "gone": self.removed_ids(delta),
            "nodes": nodes,
        }
        return self.ask(rules.edges_at_nodes(side), frames)

    def _edges_at(self, edge: EdgeType, side: str, nodes: TableDelta) -> Frame:
        """Return the committed edges at the removed nodes."""
        if nodes.replaced or nodes.removed is None:
            return self.committed.all_rows(edge, ["src", "dst"])
        return self.committed.rows(self.changes, edge, ["src", "dst"], side, nodes.removed, "id")

    def cardinality(self) -> Iterator[Violation]:
        """Yield source nodes that would have too few or too many edges."""
        for edge, delta in self.edge_deltas():
            bounds = edge.cardinality
            if bounds.min == 0 and self._cannot_exceed(edge, delta, bounds.max):
                continue
            for row in self.wrong_counts(edge, delta).to_pylist():
                yield cardinality_violation(edge, row["src"], row["n"])

    def wrong_counts(self, edge: EdgeType, delta: TableDelta) -> pa.Table:
        """Return the touched source nodes (`src`) whose number of edges (`n`) is out of bounds."""
        bounds, period = edge.cardinality, edge.period
        touched = self._touched_sources(edge, delta)
        columns = ["src"] if period is None or bounds.max is None else ["src", *period.names]
        com = self.committed.rows(self.changes, edge, columns, "src", touched, "src")
        sources = self.changes.delta(self.catalog.nodes[edge.from_type])
        frames = {
            "touched": touched,
            "pend": self.pending_rows(delta),
            "gone": self.removed_ids(delta),
            "com": com,
            "nodes": self.pending_rows(sources),
            "left_nodes": self.removed_ids(sources),
        }
        text = rules.cardinality(bounds.min, bounds.max, sources.replaced, self.limit)
        if period is not None and bounds.max is not None:
            text = moments.cardinality(
                bounds.min, bounds.max, period.names, sources.replaced, self.limit
            )
        return self.ask(text, frames)

    def _cannot_exceed(self, edge: EdgeType, delta: TableDelta, limit: int | None) -> bool:
        """Return whether a cheap count shows that no source gets more edges than the limit.

        The count takes old and new edges together, including removed and moved ones, so it may be
        too high but never too low.
        """
        import pyarrow as pa

        if limit is None or delta.pending is None:
            return True
        period = edge.period
        columns = ["src"] if period is None else ["src", *period.names]
        com = self.committed.rows(self.changes, edge, columns, "src", delta.pending, "src")
        if period is not None:
            return self._at_once(delta, delta.pending, com, ["src"], period, limit)
        new, old = self.runner.in_memory(delta.pending), self.runner.in_memory(com)
        if new is None or old is None:
            return False
        sources = pa.chunked_array(new.column("src").chunks + old.column("src").chunks, pa.utf8())
        counts = sources.value_counts().field("counts").to_pylist()
        return max(counts, default=0) <= limit

    def _touched_sources(self, edge: EdgeType, delta: TableDelta) -> Frame:
        """Return the source nodes that gain or lose an edge."""
        pending, removed = self.pending_rows(delta), self.removed_ids(delta)
        if delta.replaced:
            frames = {"pend": pending, "com": self.committed.all_rows(edge, ["src"])}
            if delta.deserted is not None:
                frames["deserted"] = delta.deserted
            text = rules.touched_by_replacing(deserted=delta.deserted is not None)
            return self.runner.sql(text, frames)
        ids = self.runner.sql(rules.changed_ids(), {"pend": pending, "gone": removed})
        old = self.committed.rows(self.changes, edge, ["src"], "id", ids, "id")
        frames = {"pend": pending, "gone": removed, "com": old}
        return self.runner.sql(rules.touched_sources(), frames)
