"""The merge of rows under a merged schema."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.histories.schemas.plain_changes import as_if, differs
from tests.histories.schemas.plain_schema import Row, Schema, State, Type
from tests.histories.schemas.plain_schemas import Conflict, Schemas


@dataclass
class Rows:
    """One merge of rows under a merged schema, by single numbers."""

    sides: Schemas
    schema: Schema
    by_property: bool
    resolve: Any
    conflicts: set[Conflict] = field(default_factory=set)
    resolved: int = 0

    def run(self) -> State:
        result: dict[tuple[int, str], Row] = {}
        sides = self.sides
        states = [
            as_if(each, self.schema).rows for each in (sides.base, sides.source, sides.target)
        ]
        for number, type_ in self.schema.types.items():
            lone = [side for side in (sides.source, sides.target) if number in side.schema.types]
            if len(lone) == 1:  # a new type, or one that stays by a word although a side dropped it
                for key, row in lone[0].rows.items():
                    if key[0] == number:
                        result[key] = self._filled(type_, self._image(type_, row))
                continue
            ids = {key[1] for rows in states for key in rows if key[0] == number}
            for row_id in ids:
                images = [
                    None
                    if (number, row_id) not in rows
                    else self._image(type_, rows[number, row_id])
                    for rows in states
                ]
                row = self._row(number, type_, row_id, *images)
                if row is not None:
                    result[number, row_id] = self._filled(type_, row)
        return self.sides.with_own_numbers(State(self.schema, result))

    @staticmethod
    def _filled(type_: Type, row: Row) -> Row:
        """A row with what neither side had: an interface of one gives it to a type of the other."""
        new = {
            each: None if prop.nullable else prop.default
            for each, prop in type_.props.items()
            if each not in row
        }
        return {**row, **new}

    def _image(self, type_: Type, row: Row) -> Row:
        names: list[Any] = [*(("from", "to") if type_.ends else ()), *type_.props]
        return {each: row[each] for each in names if each in row}

    def _row(
        self,
        number: int,
        type_: Type,
        row_id: str,
        base: Row | None,
        source: Row | None,
        target: Row | None,
    ) -> Row | None:
        theirs, ours = (
            side.schema.types[number].props for side in (self.sides.source, self.sides.target)
        )
        own = dict.fromkeys(theirs.keys() - ours.keys(), "source")
        own |= dict.fromkeys(ours.keys() - theirs.keys(), "target")
        own = {each: side for each, side in own.items() if each in type_.props}
        both = (theirs.keys() & ours.keys()) | {"from", "to"}
        units = [tuple(each for each in unit if each in both) for unit in self._units(type_)]
        shared: list[Any] = [unit for unit in units if unit]
        kind, image = self._cell(type_, base, source, target, shared)
        if kind is not None:
            if self.resolve is None:
                self.conflicts.add((kind, type_.element, row_id))
                return None
            self.resolved += 1
            image = source if self.resolve == "theirs" else target
            if self.by_property and None not in (base, source, target):
                assert base is not None
                assert source is not None
                assert target is not None
                image = self._combined(base, source, target, shared, prefer=image)
        if image is None:
            return None
        row = dict(image)
        for each, side in own.items():
            owner = source if side == "source" else target
            value = None if owner is None else owner[each]
            prop = type_.props[each]
            if owner is None and not prop.nullable:
                value = prop.default
            row[each] = value
        for each in own:
            text = type_.props[each].embed
            owner = source if own[each] == "source" else target
            if text is not None and owner is not None and row[text] != owner[text]:
                row[each] = None  # it is made of another text now
        return row

    def _units(self, type_: Type) -> list[tuple[Any, ...]]:
        """What changes together: the ends of an edge, a text and the vectors that are made of it."""
        ends = [("from", "to")] if type_.ends else []
        groups: dict[int, list[int]] = {}
        for each, prop in type_.props.items():
            groups.setdefault(prop.embed or each, []).append(each)
        return [*ends, *(tuple(group) for group in groups.values())]

    def _cell(
        self,
        type_: Type,
        base: Row | None,
        source: Row | None,
        target: Row | None,
        shared: list[Any],
    ) -> tuple[str | None, Row | None]:
        if source is None or target is None:
            there = target if source is None else source
            if there is None or base is None:
                return None, there
            return ("delete_vs_update", None) if differs(base, there, type_) else (None, None)
        was, theirs, ours = (
            None if row is None else {n: row.get(n) for unit in shared for n in unit}
            for row in (base, source, target)
        )
        if theirs in (was, ours):
            return None, target
        if ours == was:
            return None, source
        if base is None:
            return "divergent_insert", None
        if self.by_property and not any(
            self._clashes(unit, base, source, target) for unit in shared
        ):
            return None, self._combined(base, source, target, shared, prefer=target)
        return "divergent_update", None

    @staticmethod
    def _clashes(unit: Any, base: Row, source: Row, target: Row) -> bool:
        was, theirs, ours = ([row.get(n) for n in unit] for row in (base, source, target))
        return was not in (theirs, ours) and theirs != ours

    def _combined(
        self, base: Row, source: Row, target: Row, shared: list[Any], prefer: Row | None
    ) -> Row:
        assert prefer is not None
        image = dict(target)
        for unit in shared:
            if self._clashes(unit, base, source, target):
                chosen = prefer
            else:
                changed = [source.get(n) for n in unit] != [base.get(n) for n in unit]
                chosen = source if changed else target
            image.update({n: chosen.get(n) for n in unit})
        return image
