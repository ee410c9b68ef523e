"""Random schemas and random changes of them, as texts with rename hints."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field

from hypothesis import strategies as st

NAMES = ["a", "b", "c", "d", "e"]
TYPES = ["A", "B", "C", "D"]
PLAIN = ["I32", "String", "F64", "Date"]


@dataclass
class Prop:
    """A property of the model."""

    type: str
    nullable: bool = True
    values: set[str] | None = None
    description: str | None = None
    default: str | None = None
    index: bool = False
    unique: bool = False
    range: str | None = None
    hint: str | None = None

    def line(self, name: str) -> str:
        shown = self.type if self.values is None else f"enum({', '.join(sorted(self.values))})"
        words = [f"{name}: {shown}{'?' if self.nullable else ''}"]
        words += ["@index"] if self.index else []
        words += ["@unique"] if self.unique else []
        words += [f'@description("{self.description}")'] if self.description else []
        words += [f'@default("{self.default}")'] if self.default else []
        words += [f'@rename_from("{self.hint}")'] if self.hint else []
        return " ".join(words)


@dataclass
class Type:
    """A node type of the model, which may have an edge type to itself."""

    properties: dict[str, Prop] = field(default_factory=dict)
    implements: bool = False
    description: str | None = None
    hint: str | None = None
    card: tuple[int, int] | None = None

    def text(self, name: str) -> str:
        head = [f"node {name}"]
        head += [f'@description("{self.description}")'] if self.description else []
        head += [f'@rename_from("{self.hint}")'] if self.hint else []
        head += ["implements Named"] if self.implements else []
        lines = ["k: String @key", *(prop.line(each) for each, prop in self.properties.items())]
        ranged = [(each, prop.range) for each, prop in self.properties.items() if prop.range]
        lines += [f"@range({each}, {bounds})" for each, bounds in ranged]
        text = (
            f"// about {name}\n{' '.join(head)} {{\n"
            + "".join(f"    {line}\n" for line in lines)
            + "}\n"
        )
        if self.card is not None:
            text += f"\nedge To{name}: {name} -> {name} @card({self.card[0]}..{self.card[1]})"
            text += f'{f""" @rename_from("To{self.hint}")""" if self.hint else ""}\n'
        return text


@dataclass
class Schema:
    """A schema of the model: node types, and an interface."""

    types: dict[str, Type] = field(default_factory=dict)
    named: dict[str, Prop] = field(default_factory=dict)

    @property
    def text(self) -> str:
        lines = "".join(f"    {prop.line(name)}\n" for name, prop in self.named.items())
        return "\n".join(
            [
                f"interface Named {{\n{lines}}}\n",
                *(each.text(name) for name, each in self.types.items()),
            ]
        )


def settled(schema: Schema) -> Schema:
    """The schema after an apply: its hints are used up."""
    after = copy.deepcopy(schema)
    for type_ in after.types.values():
        type_.hint = None
        for prop in type_.properties.values():
            prop.hint = None
    for prop in after.named.values():
        prop.hint = None
    return after


@st.composite
def properties(draw: Callable) -> Prop:
    """A new property."""
    if draw(st.integers(0, 3)) == 0:
        return Prop("enum", values={draw(st.sampled_from("uvwx")), "y"})
    return Prop(draw(st.sampled_from(PLAIN)), index=draw(st.booleans()))


@st.composite
def schemas(draw: Callable) -> Schema:
    """A schema to start from."""
    found = Schema(named={"label": Prop("String")})
    for name in draw(st.lists(st.sampled_from(TYPES), min_size=1, max_size=3, unique=True)):
        names = draw(st.lists(st.sampled_from(NAMES), max_size=4, unique=True))
        found.types[name] = Type(
            {each: draw(properties()) for each in names},
            implements=draw(st.booleans()),
            card=draw(st.sampled_from([None, (0, 2), (1, 3)])),
        )
        for prop in found.types[name].properties.values():
            prop.nullable = draw(st.booleans())
    return found


@st.composite
def changed(draw: Callable, schema: Schema, most: int = 4) -> Schema:
    """A schema after some changes of one apply, all of which have a step."""
    after = settled(schema)
    for _ in range(draw(st.integers(0, most))):
        change = draw(st.sampled_from(CHANGES))
        change(draw, after, schema)
    return after


def _pick(draw: Callable, choices: object) -> str | None:
    found = sorted(choices)  # type: ignore[call-overload]
    return draw(st.sampled_from(found)) if found else None


def _free(schema: Schema, type_: Type) -> set[str]:
    taken = set(type_.properties) | (set(schema.named) if type_.implements else set())
    return set(NAMES) - taken


def _add_property(draw: Callable, after: Schema, before: Schema) -> None:
    owner = _pick(draw, after.types)
    if owner is None:
        return
    type_ = after.types[owner]
    known = before.types.get(type_.hint or owner, Type())
    # A name that the type had is not free before the next apply: it would be matched by name.
    name = _pick(draw, _free(after, type_) - set(known.properties) - set(before.named))
    if name is not None:
        type_.properties[name] = draw(properties())


def _add_to_interface(draw: Callable, after: Schema, before: Schema) -> None:
    both = (*after.types.values(), *before.types.values())
    taken = {name for type_ in both for name in type_.properties} | set(before.named)
    name = _pick(draw, set(NAMES) - taken - set(after.named))
    if name is not None:
        after.named[name] = Prop(draw(st.sampled_from(PLAIN)))


def _drop_from_interface(draw: Callable, after: Schema, _before: Schema) -> None:
    name = _pick(draw, after.named)
    if name is not None:
        del after.named[name]


def _drop_property(draw: Callable, after: Schema, _before: Schema) -> None:
    owner = _pick(draw, after.types)
    name = None if owner is None else _pick(draw, after.types[owner].properties)
    if owner is not None and name is not None:
        del after.types[owner].properties[name]


def _rename_property(draw: Callable, after: Schema, before: Schema) -> None:
    owner = _pick(draw, after.types)
    if owner is None:
        return
    type_ = after.types[owner]
    known = before.types.get(type_.hint or owner)
    if known is None:
        return
    old = _pick(draw, [each for each in type_.properties if each in known.properties])
    name = _pick(draw, _free(after, type_) - set(known.properties) - set(before.named))
    if old is not None and name is not None and type_.properties[old].hint is None:
        prop = type_.properties.pop(old)
        prop.hint = old
        type_.properties[name] = prop


def _rename_type(draw: Callable, after: Schema, before: Schema) -> None:
    old = _pick(draw, [name for name in after.types if name in before.types])
    name = _pick(draw, set(TYPES) - set(after.types) - set(before.types))
    if old is not None and name is not None:
        type_ = after.types.pop(old)
        type_.hint = old
        after.types[name] = type_


def _add_type(draw: Callable, after: Schema, before: Schema) -> None:
    name = _pick(draw, set(TYPES) - set(after.types) - set(before.types))
    if name is not None:
        names = draw(st.lists(st.sampled_from(NAMES), max_size=2, unique=True))
        implements = draw(st.booleans())
        type_ = Type(implements=implements)
        type_.properties = {
            each: draw(properties()) for each in names if not (implements and each in after.named)
        }
        after.types[name] = type_


def _drop_type(draw: Callable, after: Schema, _before: Schema) -> None:
    name = _pick(draw, after.types)
    if name is not None:
        del after.types[name]


WAYS = [
    *("relax", "require", "widen", "extend", "shrink", "describe"),
    *("index", "unique", "range", "default"),
]


def _alter(draw: Callable, after: Schema, _before: Schema) -> None:
    owner = _pick(draw, after.types)
    name = None if owner is None else _pick(draw, after.types[owner].properties)
    if owner is None or name is None:
        return
    prop = after.types[owner].properties[name]
    what = draw(st.sampled_from(WAYS))
    if what == "relax":
        prop.nullable = True
    elif what == "extend" and prop.values is not None:
        prop.values.add(draw(st.sampled_from("uvwxz")))
    elif what == "describe":
        prop.description = draw(st.sampled_from([None, "one", "two"]))
    elif what == "index":
        prop.index = not prop.index
    elif what == "unique":
        prop.unique = not prop.unique
    elif what == "require":
        prop.nullable = False
    elif what == "widen" and prop.type == "I32":
        prop.type = "I64"
    elif what == "shrink" and prop.values is not None and len(prop.values) > 1:
        prop.values.discard(draw(st.sampled_from(sorted(prop.values))))
    elif what == "range" and prop.type in {"I32", "I64"}:
        prop.range = draw(st.sampled_from([None, "0..9", "0..8", "..7"]))
    elif what == "default" and prop.type == "String":
        prop.default = draw(st.sampled_from([None, "p", "q"]))


def _describe(draw: Callable, after: Schema, _before: Schema) -> None:
    name = _pick(draw, after.types)
    if name is not None:
        after.types[name].description = draw(st.sampled_from([None, "one", "two"]))


def _change_cardinality(draw: Callable, after: Schema, _before: Schema) -> None:
    name = _pick(draw, [each for each, type_ in after.types.items() if type_.card])
    if name is not None:
        after.types[name].card = (draw(st.integers(0, 1)), draw(st.integers(1, 5)))


CHANGES: list[Callable] = [
    _add_property,
    _add_property,
    _add_to_interface,
    _drop_from_interface,
    _drop_property,
    _rename_property,
    _rename_type,
    _add_type,
    _drop_type,
    _alter,
    _alter,
    _alter,
    _describe,
    _change_cardinality,
]
