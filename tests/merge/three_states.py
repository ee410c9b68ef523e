"""Three states of a table in memory, and the merge of them decided entity by entity in plain Python."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from omnigraph.changes.row_pairs import ROW_ID, AlignedRows, ChangedRows
from omnigraph.lang.schema.catalog import EdgeType, Entity
from omnigraph.types import columns_equal, from_arrow, to_arrow
from omnigraph.write.merge.decide import decide
from omnigraph.write.merge.decided import Cells, Decided, DecideOptions, Side
from omnigraph.write.merge.resolutions import Changed, Image

State = Mapping[str, Mapping[str, Any]]
"""Entities by id; an entity is its stored values by column, a blob its bytes."""

SIZE = pa.struct([("size", pa.uint64())])
"""Stands for the description of a blob: only its validity matters here."""


def columns_of(entity: Entity) -> list[str]:
    return [*entity.implicit_columns[1:], *entity.properties]


def equal_values(a: Any, b: Any) -> bool:
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(equal_values, a, b))
    if isinstance(a, float) and isinstance(b, float) and math.isnan(a) and math.isnan(b):
        return True
    return bool(a == b)


def equal_images(a: Mapping[str, Any] | None, b: Mapping[str, Any] | None) -> bool:
    if a is None or b is None:
        return a is b
    return all(equal_values(a[name], b[name]) for name in a)


class Sides:
    """Base, source and target, as ``decide`` gets them; blobs are known by side and row id."""

    def __init__(self, entity: Entity, base: State, source: State, target: State) -> None:
        self.entity = entity
        self.states = {Side.BASE: base, Side.SOURCE: source, Side.TARGET: target}
        self.blobs: dict[tuple[int, int, str], Any] = {}
        every = sorted({*base, *source})
        self.ids = [id_ for id_ in every if not equal_images(base.get(id_), source.get(id_))]

    def rows(self, side: Side) -> AlignedRows:
        found = [self.states[side].get(id_) for id_ in self.ids]
        ids = [None if f is None else i for i, f in zip(self.ids, found, strict=True)]
        columns = {"id": pa.array(ids, pa.string())}
        for name in columns_of(self.entity):
            columns[name] = self._column(side, name, found)
        numbers = [None if f is None else 1000 * side + n for n, f in enumerate(found)]
        columns[ROW_ID] = pa.array(numbers, pa.uint64())
        return AlignedRows(pa.array([f is not None for f in found], pa.bool_()), pa.table(columns))

    def _column(self, side: Side, name: str, found: Sequence[Any]) -> pa.Array:
        values = [None if one is None else one[name] for one in found]
        prop = self.entity.properties.get(name)
        if prop is None:
            return pa.array(values, pa.string())
        if not prop.type.is_blob:
            return to_arrow(prop.type, values)
        for number, value in enumerate(values):
            self.blobs[side, 1000 * side + number, name] = value
        return pa.array([None if one is None else {"size": len(one)} for one in values], SIZE)

    def equal(self, names: Sequence[str], left: Cells, right: Cells) -> pa.BooleanArray:
        same = [True] * left.table.num_rows
        for name in names:
            prop = self.entity.properties.get(name)
            if prop is not None and not prop.type.is_blob:
                answer = columns_equal(prop.type, left.table.column(name), right.table.column(name))
                found = answer.to_pylist()
            else:
                pair = (self._values(name, cells) for cells in (left, right))
                found = [a == b for a, b in zip(*pair, strict=True)]
            same = [a and b for a, b in zip(same, found, strict=True)]
        return pa.array(same, pa.bool_())

    def _values(self, name: str, cells: Cells) -> list[Any]:
        if name not in self.entity.properties:
            return cells.table.column(name).to_pylist()
        if cells.side is Side.IMAGE:
            given = cells.table.column(name).to_pylist()
            return [None if one is None else one["data"] for one in given]
        numbers = cells.table.column(ROW_ID).to_pylist()
        return [self.blobs[cells.side, number, name] for number in numbers]

    def decide(self, options: DecideOptions) -> Decided:
        base, source, target = (self.rows(s) for s in (Side.BASE, Side.SOURCE, Side.TARGET))
        ids = pa.array(self.ids, pa.string())
        return decide(self.entity, ChangedRows(ids, base, source), target, options, self.equal)

    def merged(self, decided: Decided) -> dict[str, Mapping[str, Any]]:
        """The target with what was decided: rows replace or add, removed ids go."""
        result = dict(self.states[Side.TARGET])
        for id_ in decided.removed.to_pylist():
            del result[id_]
        columns = {name: self._written(decided, name) for name in columns_of(self.entity)}
        for number, id_ in enumerate(decided.rows.column("id").to_pylist()):
            result[id_] = {name: values[number] for name, values in columns.items()}
        return result

    def _written(self, decided: Decided, name: str) -> list[Any]:
        prop = self.entity.properties.get(name)
        column = decided.rows.column(name)
        if prop is None:
            return column.to_pylist()
        if not prop.type.is_blob:
            return from_arrow(prop.type, column)
        origin = decided.blobs[name]
        parts = zip(
            origin.side.to_pylist(),
            origin.row_id.to_pylist(),
            origin.given.to_pylist(),
            strict=True,
        )
        return [
            (None if given is None else given["data"])
            if side == Side.IMAGE
            else self.blobs[side, row_id, name]
            for side, row_id, given in parts
        ]


# ------------------------------------------------------------------ the model


@dataclass
class Expected:
    """What a merge of whole states must do."""

    result: dict[str, Mapping[str, Any]]
    conflicts: list[tuple[str, str, list[str] | None]] = field(default_factory=list)
    resolved: int = 0
    named: list[str] = field(default_factory=list)
    cut_off: list[str] = field(default_factory=list)


def expected_merge(
    entity: Entity,
    base: State,
    source: State,
    target: State,
    granularity: str,
    resolve: str | Mapping[str, Any] | None,
) -> Expected:
    """Merge entity by entity, as the truth table says; ``resolve`` maps ids to what becomes of them."""
    expected = Expected(dict(target))
    for id_ in sorted({*base, *source, *target}):
        b, s, t = base.get(id_), source.get(id_), target.get(id_)
        if equal_images(b, s) or equal_images(s, t):
            continue
        if equal_images(b, t):
            _set(expected, id_, s)
            continue
        kind = "divergent_insert" if b is None else "divergent_update"
        if b is not None and (s is None or t is None):
            kind = "delete_vs_update"
        clashing: list[str] | None = None
        mixed: dict[str, dict[str, Any]] = {"ours": dict(t or {}), "theirs": dict(s or {})}
        if granularity == "property" and kind == "divergent_update":
            mixed, clashing = _combined(entity, b, s, t)
            if not clashing:
                _set(expected, id_, mixed["ours"])
                continue
        if isinstance(resolve, str):
            decision: Any = resolve
        elif resolve is not None and id_ in resolve:
            decision = resolve[id_]
            expected.named.append(id_)
        else:
            expected.conflicts.append((id_, kind, clashing))
            continue
        expected.resolved += 1
        if decision is None and s is not None and t is not None:
            expected.cut_off.append(id_)
        if isinstance(decision, str):
            is_absent = (t if decision == "ours" else s) is None
            decision = None if is_absent else mixed[decision]
        elif isinstance(decision, Image):
            decision = _plain(entity, decision.values)
        elif isinstance(decision, Changed):
            decision = _changed(entity, decision, mixed[decision.word], {"ours": t, "theirs": s})
        _set(expected, id_, decision)
    return expected


def _changed(
    entity: Entity, decision: Changed, image: Mapping[str, Any], sides: Mapping[str, Any]
) -> dict[str, Any]:
    """A side's image with changes. A text that changes leaves its vector to be made: it is null here."""
    given = _plain(entity, decision.values)
    changed = {**image, **given}
    for name, word in decision.taken.items():
        changed[name] = sides[word][name]
    for vector, embed in entity.embeds.items():
        if vector in given or vector in decision.taken:
            continue
        if embed.source in decision.taken:
            changed[vector] = sides[decision.taken[embed.source]][vector]
        elif embed.source in given and (
            given[embed.source] is None or given[embed.source] != image[embed.source]
        ):
            changed[vector] = None
    return changed


def _plain(entity: Entity, given: Mapping[str, Any]) -> dict[str, Any]:
    blobs = {name: given[name] for name in entity.blob_properties if name in given}
    return {
        **{name: given[name] for name in columns_of(entity) if name in given},
        **{name: None if value is None else value["data"] for name, value in blobs.items()},
    }


def _set(expected: Expected, id_: str, image: Mapping[str, Any] | None) -> None:
    if image is None:
        expected.result.pop(id_, None)
    else:
        expected.result[id_] = image


def _combined(
    entity: Entity, b: Any, s: Any, t: Any
) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """The entity put together, with the units in conflict as either side has them; and their names."""
    whole = _units(entity)
    mixed: dict[str, dict[str, Any]] = {"ours": {}, "theirs": {}}
    clashing = []
    for unit in whole:
        of = [{name: side[name] for name in unit} for side in (b, s, t)]
        if equal_images(of[0], of[1]) or equal_images(of[1], of[2]):
            ours = theirs = of[2]
        elif equal_images(of[0], of[2]):
            ours = theirs = of[1]
        else:
            theirs, ours = of[1], of[2]
            shown = {"src": "from", "dst": "to"} if unit == ["src", "dst"] else {}
            clashing += [shown.get(name, name) for name in unit]
        mixed["ours"] |= ours
        mixed["theirs"] |= theirs
    return mixed, sorted(clashing)


def _units(entity: Entity) -> list[list[str]]:
    found = [["src", "dst"]] if isinstance(entity, EdgeType) else []
    vectors = {name: prop.embed.source for name, prop in entity.properties.items() if prop.embed}
    texts = [name for name in entity.properties if name not in vectors]
    return [*found, *([n, *(v for v, text in vectors.items() if text == n)] for n in texts)]
