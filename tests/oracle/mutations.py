"""The oracle of mutations: statements executed row by row on plain rows, as the specification says.

Rows come from the match on the graph before the mutation and stay. Values of nodes and edges are read when a statement
runs; what looks at the graph itself (`exists`, text predicates, sources, paths) was answered with the match. The rows
of one element of `for` are one step of a statement: they read, and then they write. Without `for` all rows are.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from omnigraph.lang.query import ir
from omnigraph.lang.schema.catalog import Catalog, EdgeType, NodeType
from omnigraph.lang.schema.catalog import Entity as EntityType
from omnigraph.types import PropType, Scalar, derive_id
from tests.oracle.analysis import mock_embedding, round_f32
from tests.oracle.bound import Bound, Entity, Place, Record, Row
from tests.oracle.graph import Embed, Graph
from tests.oracle.interpreter import Run, _sortable, _tie

RANGES = {
    Scalar.I32: range(-(2**31), 2**31),
    Scalar.I64: range(-(2**63), 2**63),
    Scalar.U32: range(2**32),
    Scalar.U64: range(2**64),
}


class WriteRefused(Exception):
    """The mutation is refused; `kinds` are the violations that may be reported first."""

    def __init__(self, kinds: Iterable[str]) -> None:
        super().__init__(*sorted(kinds))
        self.kinds = set(kinds)


@dataclass
class Changed:
    """What a mutation did: the graph after it, its counts and its rows, and what is to be judged."""

    graph: Graph
    nodes: int = 0
    edges: int = 0
    rows: list[dict[str, Any]] | None = None
    touched: dict[str, set[str]] = field(default_factory=dict)
    """By type: the ids of what was written, whether or not it is still there."""
    sources: dict[str, set[str]] = field(default_factory=dict)
    """By edge type: the nodes whose edges changed."""
    before: Graph = field(default_factory=Graph)

    @property
    def commits(self) -> bool:
        """Whether there is something to commit: rows that are there anew, or that are gone."""
        now, then = ids_of(self.graph), ids_of(self.before)
        written = any(self.touched[name] & now[name] for name in now)
        return written or any(then[name] - now[name] for name in now)


def mutate(
    catalog: Catalog,
    plan: ir.MutationPlan,
    graph: Graph,
    params: Mapping[str, Any],
    now_ms: int,
    embed: Embed = mock_embedding,
) -> Changed:
    """The graph after a mutation, without the rules that are judged at its end. New ids begin with `~`."""
    values = {**params, ir.NOW_PARAM: now_ms, ir.AS_OF_PARAM: now_ms}
    return Mutating(catalog, plan, graph, values, embed).run()


class Mutating(Run):
    """One run of a mutation, on a copy of the graph."""

    def __init__(
        self,
        catalog: Catalog,
        plan: ir.MutationPlan,
        graph: Graph,
        params: Mapping[str, Any],
        embed: Embed,
    ) -> None:
        self.mutation, self.catalog = plan, catalog
        wanted = plan.returned
        columns = () if wanted is None else wanted.columns
        distinct = wanted is not None and wanted.distinct
        read = ir.ReadPlan(None, (), plan.steps, columns, plan.variables, distinct=distinct)
        super().__init__(read, _copied(graph), params, embed)
        self.first = Run(read, graph, params, embed)
        """Sees the graph as it was."""
        self.last: dict[tuple[str, str], Mapping[str, Any]] = {}
        self.fresh = (f"~{number:09d}" for number in itertools.count())
        names = [*graph.nodes, *graph.edges]
        self.changed = Changed(
            self.graph,
            touched={name: set() for name in names},
            before=graph,
        )

    def run(self) -> Changed:
        """All of it: match, statements, return."""
        rows = self.matched()
        for statement in self.mutation.statements:
            self.kinds: set[str] = set()
            match statement:
                case ir.Insert():
                    rows = self.insert(statement, rows)
                case ir.Update():
                    self.update(statement, rows)
                case ir.Delete():
                    self.delete(statement, rows)
            if self.kinds:
                raise WriteRefused(self.kinds)
        if self.mutation.returned is not None:
            self.changed.rows = self.returned(rows)
        self.changed.sources = {name: self.moved(name) for name in self.graph.edges}
        return self.changed

    # -- the rows

    def matched(self) -> list[Row]:
        """The rows of the match in their order: position in `for`, then the variables by name."""
        if not self.mutation.steps:
            return [{}]
        rows = self.first.match(self.mutation.steps, [{}])
        names = sorted(rows[0]) if rows else []
        named = [one.name for one in self.mutation.variables if one.name in names]
        each = self.mutation.each
        order = ([] if each is None else [each]) + sorted(named)
        return sorted(rows, key=lambda row: [_sortable(_tie(row[name])) for name in order])

    def elements(self, rows: list[Row]) -> Iterator[list[tuple[int, Row]]]:
        """The rows, with their places, that make one step of a statement."""
        each = self.mutation.each

        def position(item: tuple[int, Row]) -> int:
            bound = None if each is None else item[1][each]
            return bound.position if isinstance(bound, Record) else 0

        for _, group in itertools.groupby(enumerate(rows), position):
            yield list(group)

    def now(self, bound: Bound) -> Bound:
        """An entity with its values of now; one that is gone with its last ones."""
        if not isinstance(bound, Entity):
            return bound
        values = self.living(bound.type_name).get(bound.id)
        if values is None:
            values = self.last.get((bound.type_name, bound.id), bound.values)
        return Entity(bound.id, values, bound.type_name)

    def living(self, type_name: str) -> dict[str, Mapping[str, Any]]:
        """The entities of a type that are there, edges with their ends."""
        if type_name in self.graph.nodes:
            return self.graph.nodes[type_name]
        return {
            row_id: {**values, "from": src, "to": dst}
            for row_id, src, dst, values in self.graph.edges[type_name]
        }

    # -- expressions

    def value(self, expr: ir.Output, at: Place) -> Any:
        """The value of an expression; properties of entities are those of now."""
        if isinstance(expr, ir.PropertyOf | ir.Shape) and expr.var != ir.TARGET:
            at = Place({**at.row, expr.var: self.now(at.row[expr.var])}, at.group, at.columns)
        return super().value(expr, at)

    def satisfied(self, condition: ir.Condition, at: Place) -> bool:
        """Whether a condition holds; blocks and searches look at the graph as it was."""
        if isinstance(condition, ir.Exists | ir.TextMatch):
            if any(name not in self.first_names(at.row) for name in ir.mentioned(condition)):
                return False
            return self.first.satisfied(condition, at)
        return super().satisfied(condition, at)

    def first_names(self, row: Row) -> set[str]:
        """The variables of the match."""
        made = {one.var for one in self.mutation.statements if isinstance(one, ir.Insert)}
        return set(row) - made - {ir.TARGET}

    def undefined(self, expr: ir.Expr, at: Place) -> set[str]:
        """Why an expression that is null has no value; nothing where a null made it null."""
        if not isinstance(expr, ir.Apply):
            return set()
        if expr.function == "if":
            test, *values = expr.args
            assert isinstance(test, ir.Truth)
            chosen = values[:1] if self.satisfied(test.condition, at) else values[1:]
            return {kind for one in chosen for kind in self.undefined(one, at)}
        given = [self.value(arg, at) for arg in expr.args]
        inside = {
            kind
            for arg, value in zip(expr.args, given, strict=True)
            if value is None
            for kind in self.undefined(arg, at)
        }
        if inside or expr.function == "coalesce" or None in given:
            return inside
        return {"zero" if expr.function in ("/", "%") and given[1] == 0 else "overflow"}

    def assigned(self, entity: EntityType, one: ir.Assignment, at: Place) -> Any:
        """The value to be stored; what does not fit is noted."""
        is_end = isinstance(entity, EdgeType) and one.property in ("from", "to")
        value = None if one.value is None else self.value(one.value, at)
        if value is None and one.value is not None:
            kinds = self.undefined(one.value, at)
            self.kinds |= kinds
            if kinds:
                return None
        if is_end:
            if value is None:
                self.kinds.add("null")
            return value if value is None else str(value)
        kind = entity.properties[one.property].type
        if value is None:
            if not kind.nullable:
                self.kinds.add("null")
            return None
        return self.fitted(kind, value)

    def fitted(self, kind: PropType, value: Any) -> Any:
        """A value in the type of its property."""
        if kind.is_list or kind.is_vector or not kind.is_numeric:
            return value
        if kind.scalar in RANGES:
            if value not in RANGES[kind.scalar]:
                self.kinds.add("overflow")
            return value
        stored = round_f32(value) if kind.scalar is Scalar.F32 else float(value)
        if not math.isfinite(stored):
            self.kinds.add("overflow")
        return stored

    # -- insert and upsert

    def insert(self, statement: ir.Insert, rows: list[Row]) -> list[Row]:
        """Insert or upsert for every row; the rows then know what was inserted."""
        entity = self.entity(statement)
        self.affect(statement, len(rows))
        extended: list[Row] = []
        for element in self.elements(rows):
            targets = [self.identified(statement, entity, row) for _, row in element]
            # Rows that mean one new edge mean the same one.
            made: dict[Any, str] = {}
            ids = [
                made.setdefault(target, next(self.fresh)) if isinstance(target, tuple) else target
                for target in targets
            ]
            changes = [(row, row_id) for (_, row), row_id in zip(element, ids, strict=True)]
            self.assign(statement, entity, changes)
            for row, row_id in changes:
                new: Row = {}
                if statement.var is not None:
                    new = {statement.var: Entity(row_id, {}, entity.name)}
                extended.append({**row, **new})
        return extended

    def identified(self, statement: ir.Insert, entity: EntityType, row: Row) -> Any:
        """The id of what a row means; a tuple where it is a new edge that several rows may mean."""
        nothing = Entity("", dict.fromkeys([*entity.properties, "from", "to"]), entity.name)
        at = Place({**row, ir.TARGET: nothing})
        by_name = {one.property: one for one in statement.assignments}
        if isinstance(entity, NodeType):
            if entity.key is None:
                return next(self.fresh)
            members = [
                (entity.properties[name].type, self.assigned(entity, by_name[name], at))
                for name in entity.key
            ]
            if any(value is None for _, value in members):
                self.kinds.add("null")
                return next(self.fresh)
            return derive_id(members)
        if not statement.is_upsert:
            return next(self.fresh)
        names = [
            {"src": "from", "dst": "to"}.get(name, name)
            for name in statement.unique or ("src", "dst")
        ]
        wanted = tuple(self.assigned(entity, by_name[name], at) for name in names)
        found = [
            row_id
            for row_id, values in self.living(entity.name).items()
            if tuple(values[name] for name in names) == wanted
        ]
        if len(found) > 1:
            self.kinds.add("ambiguous")
        return found[0] if found else wanted

    def assign(
        self,
        statement: ir.Insert | ir.Update,
        entity: EntityType,
        changes: list[tuple[Row, str]],
    ) -> None:
        """Give entities their values: all rows read, then all write; two may not differ."""
        living = self.living(entity.name)
        replaces = isinstance(statement, ir.Insert) and not statement.is_upsert
        nothing = dict.fromkeys([*entity.properties, "from", "to"])
        new: dict[str, dict[str, Any]] = {}
        for row, row_id in changes:
            old = nothing if replaces else living.get(row_id, nothing)
            at = Place({**row, ir.TARGET: Entity(row_id, old, entity.name)})
            if isinstance(statement, ir.Update) and statement.var is not None:
                group = [other for other, other_id in changes if other_id == row_id]
                at = Place(at.row, tuple(group))
            given = new.setdefault(row_id, {})
            for one in statement.assignments:
                value = self.assigned(entity, one, at)
                if one.property in given and not _same(given[one.property], value):
                    self.kinds.add("ambiguous")
                given[one.property] = value
        for row_id, values in new.items():
            old = {} if replaces else living.get(row_id, {})
            if isinstance(statement, ir.Insert) and not old:
                old = {
                    name: list(value) if isinstance(value, tuple) else value
                    for name, value in entity.defaults.items()
                }
            self.put(entity, row_id, {**nothing, **old, **values})

    def put(self, entity: EntityType, row_id: str, values: dict[str, Any]) -> None:
        """Put the whole row, in place of one that has its id."""
        self.changed.touched[entity.name].add(row_id)
        properties = {name: values[name] for name in entity.properties}
        if isinstance(entity, NodeType):
            self.graph.nodes[entity.name][row_id] = properties
            return
        edges = [one for one in self.graph.edges[entity.name] if one[0] != row_id]
        edges.append((row_id, values["from"], values["to"], properties))
        self.graph.edges[entity.name] = edges

    # -- update

    def update(self, statement: ir.Update, rows: list[Row]) -> None:
        """Change what is chosen, element by element."""
        entity = self.entity(statement)
        found: set[str] = set()
        for element in self.elements(rows):
            changes = [
                (row, row_id)
                for _, row in element
                for row_id in self.chosen(statement, entity, row)
            ]
            if not changes and statement.var is None:
                self.check_constants(statement, entity)
            self.assign(statement, entity, changes)
            found |= {row_id for _, row_id in changes}
        self.affect(statement, len(found))

    def check_constants(self, statement: ir.Update, entity: EntityType) -> None:
        """A value that fits no entity is refused, also where there is none to change."""
        for one in statement.assignments:
            if one.value is None or isinstance(one.value, ir.Value):
                self.assigned(entity, one, Place({}))

    def chosen(self, statement: ir.Update | ir.Delete, entity: EntityType, row: Row) -> list[str]:
        """The entities that are there and that a row chooses."""
        living = self.living(entity.name)
        if statement.var is not None:
            bound = row[statement.var]
            return [bound.id] if isinstance(bound, Entity) and bound.id in living else []
        assert statement.where is not None
        return [
            row_id
            for row_id, values in living.items()
            if self.satisfied(
                statement.where,
                Place({**row, ir.TARGET: Entity(row_id, values, entity.name)}),
            )
        ]

    # -- delete

    def delete(self, statement: ir.Delete, rows: list[Row]) -> None:
        """Remove what any row chooses, and with nodes the edges at them."""
        entity = self.entity(statement)
        gone = {row_id for row in rows for row_id in self.chosen(statement, entity, row)}
        self.affect(statement, len(gone))
        if isinstance(entity, EdgeType):
            self.unlink(entity.name, gone)
            return
        for row_id in gone:
            values = self.graph.nodes[entity.name].pop(row_id)
            self.last[entity.name, row_id] = values
        for edge in self.catalog.edges.values():
            cut = {
                row_id
                for row_id, src, dst, _ in self.graph.edges[edge.name]
                if (edge.from_type == entity.name and src in gone)
                or (edge.to_type == entity.name and dst in gone)
            }
            self.unlink(edge.name, cut)
            self.changed.edges += len(cut)

    def unlink(self, name: str, gone: set[str]) -> None:
        """Remove edges of a type."""
        living = self.living(name)
        for row_id in gone:
            self.last[name, row_id] = living[row_id]
        self.graph.edges[name] = [one for one in self.graph.edges[name] if one[0] not in gone]

    # -- the end

    def returned(self, rows: list[Row]) -> list[dict[str, Any]]:
        """A row for each source row in its order, or groups of them."""
        if self.plan.is_aggregate or self.plan.distinct:
            return self.grouped(rows)
        return [self.named(self.shown(row)) for row in rows]

    def moved(self, name: str) -> set[str]:
        """The nodes whose edges of a type changed in the end: what came and went again is no change."""
        before = {row_id: src for row_id, src, _, _ in self.changed.before.edges[name]}
        now = {row_id: src for row_id, src, _, _ in self.graph.edges[name]}
        gone = {src for row_id, src in before.items() if row_id not in now}
        return gone | {src for row_id, src in now.items() if row_id in self.changed.touched[name]}

    def entity(self, statement: ir.Mutation) -> EntityType:
        """The type that a statement changes."""
        types = self.catalog.edges if statement.kind == "edge" else self.catalog.nodes
        return types[statement.type_name]

    def affect(self, statement: ir.Mutation, changed: int) -> None:
        """Add to what was affected."""
        if statement.kind == "edge":
            self.changed.edges += changed
        else:
            self.changed.nodes += changed


def ids_of(graph: Graph) -> dict[str, set[str]]:
    """The ids of everything, by type."""
    found = {name: set(nodes) for name, nodes in graph.nodes.items()}
    return found | {name: {one[0] for one in edges} for name, edges in graph.edges.items()}


def _copied(graph: Graph) -> Graph:
    return Graph(copy.deepcopy(graph.nodes), {n: list(e) for n, e in graph.edges.items()})


def _same(one: Any, other: Any) -> bool:
    return bool(one == other) and (one is None) == (other is None)
