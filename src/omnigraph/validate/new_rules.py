"""The rules that a schema change makes stricter, judged on every row that is stored.

The rules are those of loads and mutations: values by the masks of ``column_rules``, sets of rows by the SQL of
``rules``. Each is asked alone, about the columns it reads; ids are read only where a rule is broken.

For example, from ``load: I32?`` to ``load: I32  @range(load, 0..100)``: two rules of one column, which
is read once. Three rows without a load give ``BrokenRule("node:Meter.load", "required", 3, [...])``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from omnigraph.display.text import counted
from omnigraph.errors import SchemaViolation, shortened
from omnigraph.lang.schema.catalog import Catalog, EdgeType, Entity, NodeType, Property
from omnigraph.lang.schema.migrate.data_steps import (
    RequireProperty,
    ShrinkEnum,
    TightenCardinality,
)
from omnigraph.lang.schema.migrate.plan_steps import AddConstraint, SchemaStep
from omnigraph.lang.schema.shape import Check, Constraint, Group, Range, Valid, constraint_text
from omnigraph.manifest.rows import TableState
from omnigraph.runner.local_runner import LocalRunner
from omnigraph.storage.tables.table import open_table
from omnigraph.storage.tables.table_ref import TableRef
from omnigraph.validate import moments, rules
from omnigraph.validate.change_set import SHOWN
from omnigraph.validate.column_rules import judged_rules

if TYPE_CHECKING:
    import pyarrow as pa

_BATCH_ROWS = 65_536
_NAMED = 3


@dataclass(frozen=True, slots=True)
class BrokenRule:
    """A rule that stored rows do not keep: how many of them, and the first ids."""

    element: str
    rule: str
    rows: int
    row_ids: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the public form."""
        return {
            "element": self.element,
            "rule": self.rule,
            "rows": self.rows,
            "row_ids": list(self.row_ids),
        }


@dataclass(frozen=True, slots=True)
class NewRule:
    """One rule of one type. ``entity`` is that type with no other rule, under its new names."""

    element: str
    rule: str
    entity: Entity

    @property
    def is_of_rows(self) -> bool:
        """Whether each row keeps it or breaks it by itself."""
        return bool(self.entity.properties)


def new_rules(steps: Iterable[SchemaStep], accepted: Catalog, target: Catalog) -> list[NewRule]:
    """Return the rules that the steps of a plan make stricter, in their order."""
    found = [rule for step in steps for rule in _rules_of(step, target)]
    found += [rule for entity in _without_period(accepted, target) for rule in _all_stored(entity)]
    return list({(rule.element, rule.rule): rule for rule in found}.values())


def _without_period(accepted: Catalog, target: Catalog) -> Iterator[Entity]:
    """Yield the types that lose their period, by a step of its own or with one of its properties."""
    held = {one.table_incarnation_id for one in accepted.entities() if one.period is not None}
    for entity in target.entities():
        if entity.period is None and not held.isdisjoint(entity.incarnations):
            yield entity


def _all_stored(entity: Entity) -> Iterator[NewRule]:
    """Yield the rules that were about one moment and are about all that is stored from now on."""
    for group in entity.unique:
        yield from _constraint_rule(entity, Group("unique", group))
    if isinstance(entity, EdgeType) and entity.cardinality.max is not None:
        bare = replace(_bare(entity), cardinality=entity.cardinality)
        yield NewRule(entity.table_key, f"@card({entity.cardinality.text})", bare)


def _rules_of(step: SchemaStep, target: Catalog) -> Iterator[NewRule]:
    match step:
        case TightenCardinality():
            edge = target.edges[step.type_name]
            bare = replace(_bare(edge), cardinality=edge.cardinality)
            yield NewRule(edge.table_key, f"@card({step.to})", bare)
        case RequireProperty() | ShrinkEnum() if step.type_kind != "interface":
            entity = target.entity(f"{step.type_kind}:{step.type_name}")
            prop = entity.properties[step.property_name]
            if isinstance(step, RequireProperty):
                rule, kind = "required", replace(prop.type, enum_values=None)
            else:
                kind = prop.type.as_nullable()
                rule = prop.type.as_nullable(False).display
            yield NewRule(
                f"{entity.table_key}.{prop.name}", rule, _with(entity, replace(prop, type=kind))
            )
        case AddConstraint() if step.type_kind != "interface":
            entity = target.entity(f"{step.type_kind}:{step.type_name}")
            yield from _constraint_rule(entity, step.constraint)


def _constraint_rule(entity: Entity, constraint: Constraint) -> Iterator[NewRule]:
    text = constraint_text(constraint)
    match constraint:
        case Group("unique", properties):
            single = len(properties) == 1 and properties[0] in entity.properties
            element = f"{entity.table_key}.{properties[0]}" if single else entity.table_key
            yield NewRule(element, text, replace(_bare(entity), unique=(properties,)))
        case Range() | Check():
            free = replace(
                entity.properties[constraint.property],
                type=replace(
                    entity.properties[constraint.property].type, nullable=True, enum_values=None
                ),
            )
            one = _with(entity, free)
            assert isinstance(one, NodeType)
            if isinstance(constraint, Range):
                one = replace(one, ranges=(constraint,))
            else:
                one = replace(one, checks=(constraint,))
            yield NewRule(f"{entity.table_key}.{constraint.property}", text, one)
        case Valid(since, until):
            free_ends = {
                name: replace(
                    entity.properties[name], type=entity.properties[name].type.as_nullable()
                )
                for name in (since, until)
            }
            yield NewRule(entity.table_key, text, replace(_bare(entity), properties=free_ends))


def _bare(entity: Entity) -> Any:
    """The type without properties and rules; its period stays, for rules about one moment."""
    none: dict[str, Any] = {"properties": {}, "unique": ()}
    if isinstance(entity, NodeType):
        return replace(entity, **none, ranges=(), checks=())
    return replace(entity, **none)


def _with(entity: Entity, prop: Property) -> Entity:
    bare: Entity = replace(_bare(entity), properties={prop.name: prop}, period=None)
    return bare


class RenamedRows:
    """The rows of a type as they are stored, under the names that a schema change gives to its columns.

    New properties that are required have their defaults in all rows, as they will once the change is made.
    """

    def __init__(self, ref: TableRef, accepted: Entity, target: Entity) -> None:
        self.table = open_table(ref)
        old = {prop.property_id: prop.name for prop in accepted.properties.values()}
        self._stored = {name: name for name in accepted.implicit_columns} | {
            prop.name: old[prop.property_id]
            for prop in target.properties.values()
            if prop.property_id in old
        }
        self._filled = {
            prop.name: prop
            for prop in target.properties.values()
            if prop.property_id not in old and not prop.type.nullable
        }

    def has(self, columns: Iterable[str]) -> bool:
        """Whether the table has values in all of these columns; those of others are null."""
        return all(name in self._stored or name in self._filled for name in columns)

    def read(self, columns: Sequence[str]) -> pa.RecordBatchReader:
        """Stream these columns."""
        import pyarrow as pa

        stored = {name: self._stored[name] for name in columns if name in self._stored}
        # A scan needs a column, if only to count the rows.
        reader = self.table.scan(list(stored.values()) or ["id"], batch_size=_BATCH_ROWS)
        schema = pa.schema(
            [
                reader.schema.field(stored[name]).with_name(name)
                if name in stored
                else self._filled[name].type.arrow_field(name)
                for name in columns
            ]
        )

        def batches() -> Iterator[pa.RecordBatch]:
            for batch in reader:
                arrays = [
                    batch.column(stored[name])
                    if name in stored
                    else self._filled[name].default_column(batch.num_rows)
                    for name in columns
                ]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)

        return pa.RecordBatchReader.from_batches(schema, batches())


def broken_rules(
    asked: Sequence[NewRule],
    accepted: Catalog,
    target: Catalog,
    pins: Mapping[int, TableState],
    locate: Callable[[TableState], TableRef],
) -> list[BrokenRule]:
    """Return the rules that stored rows break. ``pins`` are the tables by the incarnation of their type."""
    old = {entity.table_incarnation_id: entity for entity in accepted.entities()}
    found: dict[int, BrokenRule] = {}
    for entity in target.entities():
        number = entity.table_incarnation_id
        mine = {
            at: rule for at, rule in enumerate(asked) if rule.entity.table_incarnation_id == number
        }
        if not mine or number not in old or pins[number].row_count == 0:
            continue
        stored = RenamedRows(locate(pins[number]), old[number], entity)
        found |= _broken_rows({at: one for at, one in mine.items() if one.is_of_rows}, stored)
        for at, rule in mine.items():
            broken = None if rule.is_of_rows else _broken_set(rule, stored)
            if broken is not None:
                found[at] = broken
    return [found[at] for at in sorted(found)]


def _broken_rows(asked: Mapping[int, NewRule], stored: RenamedRows) -> dict[int, BrokenRule]:
    """Judge the rules about single rows, all of a table in one pass; in a second one find the ids."""
    there = {at: rule for at, rule in asked.items() if stored.has(rule.entity.properties)}
    bad = _counted(there, stored, with_ids=False)
    broken = {at: rule for at, rule in there.items() if bad[at][0]}
    return {
        at: BrokenRule(broken[at].element, broken[at].rule, rows, tuple(ids))
        for at, (rows, ids) in _counted(broken, stored, with_ids=True).items()
    }


def _counted(
    asked: Mapping[int, NewRule], stored: RenamedRows, *, with_ids: bool
) -> dict[int, tuple[int, list[str]]]:
    """How many rows break each rule and, if they are wanted, the first of their ids."""
    import pyarrow as pa
    import pyarrow.compute as pc

    counts = dict.fromkeys(asked, 0)
    first: dict[int, pa.Array] = {at: pa.array([], pa.string()) for at in asked}
    columns = list(
        dict.fromkeys(name for rule in asked.values() for name in rule.entity.properties)
    )
    if not columns:
        return {}
    for batch in stored.read([*(["id"] if with_ids else []), *columns]):
        rows = pa.Table.from_batches([batch])
        for at, rule in asked.items():
            for _, _, (_, mask, _) in judged_rules(rule.entity, rows):
                broken = pc.sum(mask).as_py() or 0
                counts[at] += broken
                if with_ids and broken:
                    ids = pc.filter(batch.column("id"), mask)
                    first[at] = pa.concat_arrays([first[at], ids]).sort().slice(0, SHOWN)
    return {at: (counts[at], first[at].to_pylist()) for at in asked}


def _broken_set(rule: NewRule, stored: RenamedRows) -> BrokenRule | None:
    """Judge a rule about several rows together: a unique group, or a cardinality."""
    runner = LocalRunner()
    try:
        period = rule.entity.period
        if period is not None and not stored.has(period.names):
            period = None  # a bound that is not there yet is open in all rows
        ends = () if period is None else period.names
        if rule.entity.unique:
            (group,) = rule.entity.unique
            if not stored.has(group):
                return None
            values = runner.once(stored.read(list(dict.fromkeys([*group, *ends]))))
            repeated = f"SELECT COUNT(*) AS n FROM ({rules.repeated_tuples(group)}) r"
            text = rules.sharing_rows(group)
            if period is not None:
                repeated = moments.count_crowded_tuples(group, period.names)
                text = moments.overlapping_rows(group, period.names)
            if not runner.ask(repeated, {"pend": values}).column("n")[0].as_py():
                return None
            rows = runner.frame(stored.read(list(dict.fromkeys(["id", *group, *ends]))))
            found = runner.ask(text, {"pend": rows})
        else:
            assert isinstance(rule.entity, EdgeType)
            bounds = rule.entity.cardinality
            if period is not None and bounds.max is not None:
                edges = runner.frame(stored.read(["src", *period.names]))
                text = moments.wrong_sources(bounds.min, bounds.max, period.names)
                found = runner.ask(text, {"pend": edges})
            else:
                sources = runner.once(stored.read(["src"]))
                found = runner.ask(rules.wrong_sources(bounds.min, bounds.max), {"pend": sources})
    finally:
        runner.close()
    if not found.num_rows:
        return None
    ids = tuple(found.column("id").to_pylist())
    return BrokenRule(rule.element, rule.rule, found.column("n")[0].as_py(), ids)


def violation_of(broken: Sequence[BrokenRule]) -> SchemaViolation:
    """Return the error of a plan whose rules do not hold for stored rows."""
    said = "; ".join(_text(one) for one in broken)
    return SchemaViolation(
        shortened(
            f"stored rows do not fit the new schema: {said}; change or delete those rows first"
        ),
        violations=[one.to_json() for one in broken],
    )


def _text(one: BrokenRule) -> str:
    what = "source node" if one.rule.startswith("@card") else "row"
    named = ", ".join(one.row_ids[:_NAMED]) + (", …" if one.rows > _NAMED else "")
    return f"{one.rule} of {one.element} is broken by {counted(one.rows, what)} ({named})"
