"""Schemas of branches in plain values: elements with numbers that never change, and the text of a schema.

A type is found by its number whatever its name is, a property likewise. Nothing here calls the compiler.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

Row = Mapping[Any, Any]
"""The values of an entity by the numbers of its properties; of an edge also `from` and `to`."""
Rows = dict[tuple[int, str], Row]
"""The entities of a graph by the number of their type and their id."""

NUMBERS = count(1)
"""Gives every element its number."""
KINDS = ("interface", "node", "edge")
VECTOR = "Vector(2)"
CHECKS = {"^[^v]*$": "v", "^[^w]*$": "w"}
"""The patterns that properties are checked by, each with the letter it forbids."""


@dataclass(frozen=True)
class Prop:
    """A property. ``values`` are those of an enum, else None.

    ``follows`` is the interface property that it is injected from, ``embed`` the property that vectors are made of.
    """

    name: str
    scalar: str
    nullable: bool = True
    values: frozenset[str] | None = None
    description: str | None = None
    default: Any = None
    range: tuple[int, int] | None = None
    check: str | None = None
    unique: bool = False
    index: bool = False
    is_key: bool = False
    follows: int | None = None
    embed: int | None = None
    model: str | None = None

    @property
    def display(self) -> str:
        """The type as written."""
        shown = self.scalar if self.values is None else f"enum({', '.join(sorted(self.values))})"
        return f"{shown}{'?' if self.nullable else ''}"

    def breaks(self, value: Any) -> bool:
        """Whether a value is not allowed."""
        if value is None:
            return not self.nullable
        if self.values is not None and value not in self.values:
            return True
        if self.range is not None and not self.range[0] <= value <= self.range[1]:
            return True
        return self.check is not None and CHECKS[self.check] in value

    def says(self, value: Any) -> bool:
        """Whether a value of an added property is a change: every row gets the default of a required one."""
        return value is not None and (self.nullable or value != self.default)

    def line(self, hint: str | None, embedded: str | None = None) -> str:
        words = [f"{self.name}: {self.display}"]
        model = f', model="{self.model}"' if self.model else ""
        words += [f'@embed("{embedded}"{model})'] if embedded else []
        words += ["@key"] if self.is_key else []
        words += ["@unique"] if self.unique else []
        words += ["@index"] if self.index else []
        words += [f'@description("{self.description}")'] if self.description else []
        if self.default is not None:
            quoted = f'"{self.default}"' if isinstance(self.default, str) else self.default
            words += [f"@default({quoted})"]
        words += [f'@rename_from("{hint}")'] if hint else []
        return " ".join(words)


@dataclass(frozen=True)
class Type:
    """An interface, a node or an edge type.

    ``card`` are the fewest and most edges of a source; None: any number. ``implements`` are interfaces by number.
    """

    kind: str
    name: str
    props: Mapping[int, Prop]
    ends: tuple[int, int] | None = None
    card: tuple[int, int | None] = (0, None)
    description: str | None = None
    implements: frozenset[int] = frozenset()

    @property
    def element(self) -> str:
        return f"{self.kind}:{self.name}"


@dataclass(frozen=True)
class Schema:
    """The types by number, the numbers that are one element, and those that were dropped."""

    types: Mapping[int, Type]
    joined: frozenset[tuple[int, int]] = frozenset()
    dropped: frozenset[int] = frozenset()

    @property
    def numbers(self) -> set[int]:
        return {*self.types, *(number for type_ in self.types.values() for number in type_.props)}

    def of_kind(self, kind: str) -> list[int]:
        return [number for number, type_ in self.types.items() if type_.kind == kind]

    def edges_at(self, number: int) -> list[int]:
        return [each for each in self.of_kind("edge") if number in (self.types[each].ends or ())]


@dataclass(frozen=True)
class State:
    """What a commit holds: a schema and the rows under it."""

    schema: Schema
    rows: Rows = field(default_factory=dict)


def text_of(schema: Schema, hints: Mapping[int, str] | None = None) -> str:
    """The source of a schema; ``hints`` are the former names of elements."""
    hints = hints or {}
    parts = []
    for kind in KINDS:
        for number in schema.of_kind(kind):
            type_ = schema.types[number]
            head = [f"{kind} {type_.name}"]
            if type_.ends is not None:
                source, target = (schema.types[end].name for end in type_.ends)
                head = [f"{head[0]}: {source} -> {target}"]
            if type_.card != (0, None):
                most = "" if type_.card[1] is None else type_.card[1]
                head.append(f"@card({type_.card[0]}..{most})")
            head += [f'@description("{type_.description}")'] if type_.description else []
            head += [f'@rename_from("{hints[number]}")'] if number in hints else []
            interfaces = ", ".join(schema.types[each].name for each in type_.implements)
            head += [f"implements {interfaces}"] if interfaces else []
            own = {each: prop for each, prop in type_.props.items() if prop.follows is None}
            lines = [
                prop.line(hints.get(each), type_.props[prop.embed].name if prop.embed else None)
                for each, prop in own.items()
            ]
            for prop in own.values():
                if prop.range is not None:
                    lines.append(f"@range({prop.name}, {prop.range[0]}..{prop.range[1]})")
                if prop.check is not None:
                    lines.append(f'@check({prop.name}, "{prop.check}")')
            parts.append(f"{' '.join(head)} {{\n" + "".join(f"  {one}\n" for one in lines) + "}\n")
    return "\n".join(parts)


def broken_rules(schema: Schema) -> set[str]:
    """The elements that break a rule of the language."""
    found = set[str]()
    for type_ in sorted(schema.types.values(), key=lambda each: KINDS.index(each.kind)):
        if any(
            element.startswith(f"interface:{schema.types[each].name}.")
            for element in found
            for each in type_.implements
        ):
            continue  # the interface tells
        if type_.ends is not None and not schema.types.keys() >= set(type_.ends):
            found.add(type_.element)
        for prop in type_.props.values():
            no_values = prop.values is not None and not prop.values
            no_text = prop.embed is not None and prop.embed not in type_.props
            if (
                no_values
                or no_text
                or (prop.default is not None and replace(prop, nullable=True).breaks(prop.default))
            ):
                found.add(f"{type_.element}.{prop.name}")
    return found


def with_injected(types: Mapping[int, Type]) -> dict[int, Type]:
    """The types, in which nodes have exactly the properties that their interfaces give them now."""
    found = dict(types)
    for number, type_ in types.items():
        given = {each: prop for one in type_.implements for each, prop in types[one].props.items()}
        props = dict[int, Prop]()
        for each, prop in type_.props.items():
            if prop.follows is None:
                props[each] = prop
            elif prop.follows in given:
                props[each] = replace(given.pop(prop.follows), follows=prop.follows)
        props |= {next(NUMBERS): replace(prop, follows=each) for each, prop in given.items()}
        found[number] = replace(type_, props=props)
    return found


def cleared(before: Schema, after: Schema) -> set[tuple[int, int]]:
    """The vectors that are made of another text, or by another model, than before: type and property."""
    return {
        (number, each)
        for number, type_ in after.types.items()
        if number in before.types
        for each, prop in type_.props.items()
        if each in before.types[number].props
        and (prop.embed, prop.model)
        != (before.types[number].props[each].embed, before.types[number].props[each].model)
    }


def shown(state: State) -> dict[tuple[str, str], dict[str, Any]]:
    """The rows as an export of the state has them, under its own names."""
    found = {}
    for (number, row_id), row in state.rows.items():
        type_ = state.schema.types[number]
        image = {prop.name: row[each] for each, prop in type_.props.items()}
        if type_.ends is not None:
            image = {"from": row["from"], "to": row["to"], **image}
        found[type_.element, row_id] = image
    return found


Violation = tuple[str, str, str | None]
"""Kind, type and row; no row where the report may name one of several."""


def violations(schema: Schema, rows: Rows) -> set[Violation]:
    """Everything that the rows break of the rules of their schema."""
    found: set[Violation] = set()
    for number, type_ in schema.types.items():
        own = {key[1]: row for key, row in rows.items() if key[0] == number}
        for row_id, row in own.items():
            if any(prop.breaks(row[each]) for each, prop in type_.props.items()):
                found.add(("value_constraint_violation", type_.element, row_id))
            if type_.ends is not None:
                ends = zip(type_.ends, (row["from"], row["to"]), strict=True)
                if any(end not in rows for end in ends):
                    found.add(("orphan_edge", type_.element, row_id))
        for each, prop in type_.props.items():
            values = [row[each] for row in own.values() if row[each] is not None]
            if prop.unique and len(set(values)) < len(values):
                found.add(("unique_violation", type_.element, None))
        most = type_.card[1]
        starts = [row["from"] for row in own.values()] if type_.ends is not None else []
        if most is not None and any(starts.count(one) > most for one in starts):
            found.add(("cardinality_violation", type_.element, None))
    return found
