"""Running the statements of a mutation one after the other, each for all rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.lang.query import ir
from omnigraph.lang.schema.catalog import EdgeType, Entity, NodeType
from omnigraph.write.pending import PendingTable
from omnigraph.write.statements.asserting import Asserting
from omnigraph.write.statements.assign import Assigning, Scene, check_constants, nothing
from omnigraph.write.statements.ending import Ending
from omnigraph.write.statements.identity import (
    Columns,
    Identified,
    edges_between,
    keyed,
    new_ids,
    settle_ids,
)
from omnigraph.write.statements.pending_graph import PendingGraph
from omnigraph.write.statements.plain import PlainInsert, inserted_together, neighbours
from omnigraph.write.statements.rows import Places
from omnigraph.write.statements.spaces import TableSpace, column_of
from omnigraph.write.statements.targets import Where
from omnigraph.write.statements.values import stored_column


@dataclass(slots=True)
class Statements:
    """Runs statements on pending tables, and counts what they change."""

    graph: PendingGraph
    scene: Scene
    nodes: int = 0
    edges: int = 0

    def run_all(self, statements: Iterable[ir.Mutation]) -> None:
        """Run statements in their order, plain inserts that follow each other together."""
        for found in neighbours(statements):
            if len(found) < 2 or self.scene.rows.length != 1 or not self._insert_together(found):
                for statement in found:
                    self.settle_ids()
                    self.run(statement)
        self.settle_ids()

    def settle_ids(self) -> None:
        """Tell new edges from committed ones that have the ids made for them, before a statement looks at either."""
        for table in self.graph.tables.values():
            settle_ids(table)

    def run(self, statement: ir.Mutation) -> None:
        """Run one statement for all rows."""
        match statement:
            case ir.Insert():
                self._insert(statement)
            case ir.Update():
                self._update(statement)
            case ir.Delete():
                self._delete(statement)
            case ir.End():
                ending = Ending(self.scene, statement, self.graph.table(self._entity(statement)))
                self._count(statement, ending.run())
            case ir.Assert():
                self._assert(statement)
        if not isinstance(statement, ir.Delete):
            self.graph.check_size()

    def _entity(self, statement: ir.Mutation) -> Entity:
        catalog = self.graph.catalog
        types = catalog.edges if statement.kind == "edge" else catalog.nodes
        return types[statement.type_name]

    def _count(self, statement: ir.Mutation, changed: int) -> None:
        if statement.kind == "edge":
            self.edges += changed
        else:
            self.nodes += changed

    # -------------------------------------------------------------- insert and upsert

    def _insert_together(self, statements: Sequence[ir.Mutation]) -> bool:
        """Run plain inserts as one; return False, with nothing changed, if one may be refused."""
        tables: dict[str, tuple[PendingTable, list[PlainInsert]]] = {}
        for one in statements:
            assert isinstance(one, ir.Insert)
            pending = self.graph.table(self._entity(one))
            plain = PlainInsert(one, self.scene.params, self.scene.blobs)
            tables.setdefault(pending.entity.table_key, (pending, []))[1].append(plain)
        if inserted_together(list(tables.values())) is None:
            return False
        for _, found in tables.values():
            self._count(found[0].statement, len(found))
        self.graph.check_size()
        return True

    def _insert(self, statement: ir.Insert) -> None:
        entity, rows = self._entity(statement), self.scene.rows
        pending = self.graph.table(entity)
        self._count(statement, rows.length)
        ids = pa.array([], pa.string())
        if rows.length:
            parts = [
                self._inserted(statement, pending, at)
                for at in self._parts(statement, pending, np.arange(rows.length))
            ]
            ids = pa.concat_arrays(parts)
        if statement.var is not None:
            rows.bind(statement.var, entity, ids)

    def _parts(self, statement: ir.Insert, pending: PendingTable, at: Places) -> list[Places]:
        """All rows at once, or element by element where what one inserts decides which entity another means."""
        rows = self.scene.rows
        names = {
            name
            for one in self._identifying(statement, pending)
            if one.value is not None
            for name in _read_properties(one.value)
        }
        reads = [rows.entities[name] for name in names if name in rows.entities]
        if rows.elements is None or not any(pending.entity in one.types for one in reads):
            return [at]
        return np.split(at, np.flatnonzero(np.diff(rows.elements)) + 1)

    def _inserted(self, statement: ir.Insert, pending: PendingTable, at: Places) -> pa.Array:
        """Insert or upsert for some rows; return the id of each row's entity."""
        columns = self._identity(statement, pending, at)
        entity = pending.entity
        is_keyed = False
        if isinstance(entity, NodeType) and entity.key is not None:
            is_keyed = True
            targets = keyed(entity, columns)
        elif statement.is_upsert:
            now = self.scene.params[ir.NOW_PARAM]
            targets = edges_between(pending, statement.unique, columns, len(at), now)
        else:
            # What a variable stands for keeps its id.
            ids = new_ids(pending, columns, len(at), at_once=statement.var is not None)
            targets = Identified(ids, np.arange(len(at)))
        is_new = not is_keyed and not statement.is_upsert
        Assigning(
            self.scene,
            statement,
            pending,
            targets,
            at,
            replaces=not statement.is_upsert,
            fresh=is_new,
        ).run()
        return targets.ids.take(pa.array(targets.codes))

    def _identifying(self, statement: ir.Insert, pending: PendingTable) -> list[ir.Assignment]:
        """The assignments that say which entity a row means."""
        entity = pending.entity
        wanted: set[str] = set()
        if isinstance(entity, NodeType):
            wanted = set(entity.key or ())
        elif isinstance(entity, EdgeType):
            wanted = {"src", "dst", *statement.unique, *entity.identity_columns}
        return [one for one in statement.assignments if column_of(entity, one.property) in wanted]

    def _identity(self, statement: ir.Insert, pending: PendingTable, at: Places) -> Columns:
        """The assigned values that say which entity a row means, by column."""
        scene, entity = self.scene, pending.entity
        found = self._identifying(statement, pending)
        names = {name for one in found if one.value is not None for name in ir.mentioned(one.value)}
        operands = scene.rows.operands(names - {ir.TARGET}, scene.table_of, scene.params, at)
        if ir.TARGET in names:
            # What says which entity it is has no old value to look at.
            empty = TableSpace(nothing(pending, pa.nulls(1, pa.string())), entity)
            operands = replace(
                operands,
                spaces={**operands.spaces, ir.TARGET: empty},
                codes={**operands.codes, ir.TARGET: np.zeros(len(at), np.int32)},
            )
        columns: dict[str, pa.Array] = {}
        for one in found:
            name = column_of(entity, one.property)
            kind = pending.schema.field(name).type
            columns[name] = stored_column(entity, one, operands, kind, scene.blobs)
        return columns

    def _assert(self, statement: ir.Assert) -> None:
        entity = self._entity(statement)
        ids, count = Asserting(self.scene, statement, self.graph.table(entity)).run()
        self._count(statement, count)
        if statement.var is not None:
            self.scene.rows.bind(statement.var, entity, ids)

    # -------------------------------------------------------------- update

    def _update(self, statement: ir.Update) -> None:
        entity = self._entity(statement)
        pending = self.graph.table(entity)
        if statement.var is not None:
            self._count(statement, self._update_variable(statement, statement.var, pending))
            return
        if not self.scene.rows.length:
            return  # not even a value that fits no entity matters
        assert statement.where is not None
        where = self._where(pending, statement.where)
        found: list[pa.Array] = []
        for at in self._rows_for(statement, where):
            targets = where.targets(self.scene.rows, at, whole=True)
            used, codes = np.unique(targets.codes, return_inverse=True)
            ids = targets.table.column("id").combine_chunks().take(pa.array(used))
            found.append(ids)
            if not len(ids):
                check_constants(self.scene, statement, pending)
            Assigning(self.scene, statement, pending, Identified(ids, codes), targets.rows).run()
        changed = pa.concat_arrays([*found, pa.array([], pa.string())])
        self._count(statement, len(changed.unique()) if len(found) > 1 else len(changed))

    def _update_variable(self, statement: ir.Update, var: str, pending: PendingTable) -> int:
        """Change the matched entities that are still there; return how many."""
        entities = self.scene.rows.entities[var]
        (ids,) = entities.blocks
        is_there = np.zeros(len(ids) + 1, np.bool_)  # one more for nothing
        is_there[:-1] = pc.is_in(ids, pending.living(ids)).to_numpy(zero_copy_only=False)
        at = np.flatnonzero(is_there[entities.codes])
        targets = Identified(ids, entities.codes[at].astype(np.int64))
        Assigning(self.scene, statement, pending, targets, at).run()
        return int(is_there.sum())

    def _rows_for(self, statement: ir.Update, where: Where) -> list[Places]:
        """The rows to choose and change for: all at once, or element by element where one decides what another
        chooses. Rows that cannot differ are left out."""
        rows = self.scene.rows
        every = np.arange(rows.length)
        values = [one.value for one in statement.assignments if one.value is not None]
        read = {name for value in values for name in ir.mentioned(value)}
        if not where.mentions_rows and not read - {ir.TARGET}:
            if rows.elements is None or not read:
                return [every[:1]]
            every = np.unique(rows.elements, return_index=True)[1]
        if rows.elements is None or not self._is_chosen_by_change(statement, where):
            return [every]
        return np.split(every, np.flatnonzero(np.diff(rows.elements[every])) + 1)

    def _is_chosen_by_change(self, statement: ir.Update, where: Where) -> bool:
        """Whether the condition looks at what the statement changes."""
        assigned = {one.property for one in statement.assignments}
        rows, entity = self.scene.rows, where.entity
        for one in _properties(where.condition):
            others = rows.entities.get(one.var)
            is_same = one.var == ir.TARGET or (others is not None and entity in others.types)
            if is_same and one.property in assigned:
                return True
        return False

    def _where(self, pending: PendingTable, condition: ir.Condition) -> Where:
        return Where(pending, condition, self.scene.params, self.scene.table_of)

    # -------------------------------------------------------------- delete

    def _delete(self, statement: ir.Delete) -> None:
        """Remove entities, and with nodes the edges at them."""
        entity = self._entity(statement)
        pending = self.graph.table(entity)
        ids = pending.living(self._chosen(statement, pending).unique())
        self._count(statement, pending.remove(ids))
        if isinstance(entity, NodeType) and len(ids):
            self.edges += self.graph.cascade(entity, ids)

    def _chosen(self, statement: ir.Delete, pending: PendingTable) -> pa.Array:
        rows = self.scene.rows
        if statement.var is not None:
            (ids,) = rows.entities[statement.var].blocks
            return ids
        assert statement.where is not None
        where = self._where(pending, statement.where)
        at = np.arange(rows.length)
        targets = where.targets(rows, at if where.mentions_rows else at[:1], whole=False)
        ids = targets.table.column("id").combine_chunks()
        return ids.take(pa.array(targets.codes))


def _properties(part: ir.Output | ir.Condition) -> Iterator[ir.PropertyOf]:
    """The properties that an expression or a condition looks at."""
    if isinstance(part, ir.PropertyOf):
        yield part
    for inner in ir.parts_of(part):
        yield from _properties(inner)


def _read_properties(expr: ir.Expr) -> Iterator[str]:
    return (one.var for one in _properties(expr))
