"""Random changes of schemas and of rows under them, one small function for each step of a plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from tests.histories.schemas.plain_schema import (
    CHECKS,
    NUMBERS,
    VECTOR,
    Prop,
    Row,
    Rows,
    Schema,
    State,
    Type,
    broken_rules,
    cleared,
    violations,
    with_injected,
)

TYPES = {
    "interface": ["I", "J"],
    "node": ["A", "B", "C", "D"],
    "edge": ["Eto", "Fto", "Gto"],
}
NAMES = ["a", "b", "c", "d", "e"]
GIVEN = {"I": ["m", "n"], "J": ["o", "p"]}
"""The names of what interfaces give: other ones than those of what types declare."""
ROW_IDS = ["r0", "r1", "r2", "r3"]
VALUES = {
    "I32": [0, 1, 2, 3],
    "I64": [0, 1, 2, 3],
    "String": ["", "u", "v", "w"],
    "Blob": ["base64:aGk=", "base64:", "base64:aG8="],
    VECTOR: [[1.0, 0.0], [0.0, 1.0]],
}
RANGES = [None, (0, 2), (1, 3), (0, 3)]
DESCRIPTIONS = [None, "one", "two"]
CARDS: list[tuple[int, int | None]] = [(0, None), (0, 1), (0, 2), (0, 3)]
MODELS = [None, "m1", "m2"]
NO_INTERFACE = ("node", "edge")
ANY = ("interface", *NO_INTERFACE)


@dataclass
class Edit:
    """A schema that is being changed; ``before`` is what the branch has, ``hints`` the former names."""

    rnd: Random
    before: Schema
    types: dict[int, Type] = field(default_factory=dict)
    hints: dict[int, str] = field(default_factory=dict)
    kinds: list[str] = field(default_factory=list)
    only: tuple[int, int] | None = None
    """The type and the property that are changed, if not any."""

    def __post_init__(self) -> None:
        self.types = dict(self.before.types)

    @property
    def schema(self) -> Schema:
        left = Schema(self.types)
        one = {n: n for n in left.numbers}
        gone = self.before.numbers - set(one)
        joined = {n: {n} for pair in self.before.joined for n in pair}
        for a, b in self.before.joined:
            both = joined[a] | joined[b]
            for n in both:
                joined[n] = both
        gone |= {m for n in gone for m in joined.get(n, ())}
        return replace(left, joined=self.before.joined, dropped=self.before.dropped | gone)

    def settle(self) -> bool:
        """Give nodes what their interfaces have now; whether the language allows the schema."""
        self.types = with_injected(self.types)
        return not broken_rules(Schema(self.types))

    def pick_type(self, *kinds: str) -> int | None:
        """A type that is there before and after; if not told, a node or edge type."""
        found = [
            n
            for n, type_ in self.types.items()
            if n in self.before.types
            and type_.kind in (kinds or NO_INTERFACE)
            and (self.only is None or n == self.only[0])
        ]
        return self.rnd.choice(found) if found else None

    def pick_property(self, fits: Callable[[Prop], object], *kinds: str) -> tuple[int, int] | None:
        """A property that its type declares itself, there before and after; if not told, of any type."""
        found = [
            (number, each)
            for number, type_ in self.types.items()
            if number in self.before.types and type_.kind in (kinds or ANY)
            for each, prop in type_.props.items()
            if each in self.before.types[number].props and not prop.is_key and fits(prop)
            if prop.follows is None and self.only in (None, (number, each))
        ]
        return self.rnd.choice(found) if found else None

    def free_name(self, number: int) -> str | None:
        """A name for a property that the type has not, and had not before."""
        known = self.before.types.get(number)
        taken = {p.name for p in self.types[number].props.values()}
        taken |= set() if known is None else {p.name for p in known.props.values()}
        free = [name for name in self.names(number) if name not in taken]
        return self.rnd.choice(free) if free else None

    def names(self, number: int) -> list[str]:
        """The names that properties of a type may have."""
        return GIVEN.get(self.types[number].name, NAMES)

    def free_type_name(self, kind: str) -> str | None:
        every = [*self.types.values(), *self.before.types.values()]
        free = [n for n in TYPES[kind] if n not in {type_.name for type_ in every}]
        return self.rnd.choice(free) if free else None

    def set(self, number: int, each: int, **values: Any) -> bool:
        """Change attributes of a property; whether anything did."""
        type_ = self.types[number]
        prop = replace(type_.props[each], **values)
        if prop == type_.props[each]:
            return False
        self.types[number] = replace(type_, props={**type_.props, each: prop})
        return True


def new_property(rnd: Random, name: str, kind: str) -> Prop:
    """A property that nobody requires."""
    scalar = rnd.choice(["I32", "I32", "String", "enum", "Blob", VECTOR])
    if scalar == "enum":
        return Prop(name, "String", values=frozenset(rnd.sample("uvw", 2)))
    index = scalar not in {"Blob", VECTOR} and kind != "interface" and rnd.random() < 0.2
    return Prop(name, scalar, index=index)


def add_property(edit: Edit) -> bool:
    number = edit.pick_type(*ANY)
    name = None if number is None else edit.free_name(number)
    if number is None or name is None or len(edit.types[number].props) > 4:
        return False
    type_ = edit.types[number]
    prop = new_property(edit.rnd, name, type_.kind)
    edit.types[number] = replace(type_, props={**type_.props, next(NUMBERS): prop})
    return True


def add_required(edit: Edit) -> bool:
    """A required property with a default, which every row gets."""
    number = edit.pick_type(*ANY)
    name = None if number is None else edit.free_name(number)
    if number is None or name is None or len(edit.types[number].props) > 4:
        return False
    type_ = edit.types[number]
    prop = Prop(name, "I32", nullable=False, default=edit.rnd.choice([1, 2]))
    edit.types[number] = replace(type_, props={**type_.props, next(NUMBERS): prop})
    return True


def add_embedded(edit: Edit) -> bool:
    """A vector that is made of a text of its node."""
    number = edit.pick_type("node")
    name = None if number is None else edit.free_name(number)
    if number is None or name is None or len(edit.types[number].props) > 4:
        return False
    type_ = edit.types[number]
    texts = texts_of(type_)
    if not texts:
        return False
    prop = Prop(name, VECTOR, embed=edit.rnd.choice(texts), model=edit.rnd.choice(MODELS))
    edit.types[number] = replace(type_, props={**type_.props, next(NUMBERS): prop})
    return True


def texts_of(type_: Type) -> list[int]:
    """The properties that vectors can be made of."""
    return [
        each
        for each, prop in type_.props.items()
        if prop.scalar == "String" and prop.values is None and not prop.is_key
    ]


def change_embed(edit: Edit) -> bool:
    """Another text, or another model; the vectors that are there are lost."""
    found = edit.pick_property(lambda prop: prop.embed is not None)
    if found is None:
        return False
    text = edit.rnd.choice(texts_of(edit.types[found[0]]))
    return edit.set(*found, embed=text, model=edit.rnd.choice(MODELS))


def add_interface(edit: Edit) -> bool:
    """An interface, and perhaps a node type that implements it."""
    name = edit.free_type_name("interface")
    if name is None:
        return False
    first = edit.rnd.choice(GIVEN[name])
    props = {next(NUMBERS): new_property(edit.rnd, first, "interface")}
    edit.types[next(NUMBERS)] = Type("interface", name, props)
    return edit.rnd.random() < 0.3 or add_type(edit)


def drop_property(edit: Edit) -> bool:
    found = edit.pick_property(lambda _: True)
    if found is None:
        return False
    type_ = edit.types[found[0]]
    left = {each: prop for each, prop in type_.props.items() if each != found[1]}
    edit.types[found[0]] = replace(type_, props=left)
    return True


def rename_property(edit: Edit) -> bool:
    found = edit.pick_property(lambda _: True)
    name = None if found is None else edit.free_name(found[0])
    if found is None or name is None or found[1] in edit.hints:
        return False
    edit.hints[found[1]] = edit.before.types[found[0]].props[found[1]].name
    return edit.set(*found, name=name)


def add_type(edit: Edit) -> bool:
    nodes = Schema(edit.types).of_kind("node")
    kind = edit.rnd.choice(["node", "edge"]) if nodes else "node"
    name = edit.free_type_name(kind)
    if name is None:
        return False
    props = {next(NUMBERS): Prop("k", "String", nullable=False, is_key=True)}
    implements = frozenset[int]()
    if kind == "edge":
        props = {}
    else:
        known = Schema(edit.types).of_kind("interface")
        implements = frozenset(each for each in known if edit.rnd.random() < 0.6)
    for each in edit.rnd.sample(NAMES, edit.rnd.randint(0, 2)):
        props[next(NUMBERS)] = new_property(edit.rnd, each, kind)
    ends = (edit.rnd.choice(nodes), edit.rnd.choice(nodes)) if kind == "edge" else None
    edit.types[next(NUMBERS)] = Type(kind, name, props, ends, implements=implements)
    return True


def drop_type(edit: Edit) -> bool:
    number = edit.pick_type()
    if number is None:
        return False
    schema = Schema(edit.types)
    if edit.types[number].kind == "node":
        if len(schema.of_kind("node")) < 2:
            return False
        for edge in schema.edges_at(number):
            del edit.types[edge]
    del edit.types[number]
    return True


def rename_type(edit: Edit) -> bool:
    number = edit.pick_type()
    name = None if number is None else edit.free_type_name(edit.types[number].kind)
    if number is None or name is None or number in edit.hints:
        return False
    edit.hints[number] = edit.before.types[number].name
    edit.types[number] = replace(edit.types[number], name=name)
    return True


def relax_property(edit: Edit) -> bool:
    found = edit.pick_property(lambda prop: not prop.nullable)
    return found is not None and edit.set(*found, nullable=True)


def require_property(edit: Edit) -> bool:
    found = edit.pick_property(lambda prop: prop.nullable and prop.scalar not in {"Blob", VECTOR})
    return found is not None and edit.set(*found, nullable=False)


def widen_property(edit: Edit) -> bool:
    found = edit.pick_property(lambda prop: prop.scalar == "I32")
    return found is not None and edit.set(*found, scalar="I64")


def extend_enum(edit: Edit) -> bool:
    found = edit.pick_property(lambda prop: prop.values is not None)
    if found is None:
        return False
    values = edit.types[found[0]].props[found[1]].values or frozenset()
    return edit.set(*found, values=values | {edit.rnd.choice("uvwxy")})


def shrink_enum(edit: Edit) -> bool:
    found = edit.pick_property(lambda prop: prop.values is not None and len(prop.values) > 1)
    if found is None:
        return False
    values = edit.types[found[0]].props[found[1]].values or frozenset()
    return edit.set(*found, values=values - {edit.rnd.choice(sorted(values))})


def describe(edit: Edit) -> bool:
    found = edit.pick_property(lambda _: True)
    if found is None or edit.rnd.random() < 0.5:
        number = edit.pick_type()
        if number is None:
            return False
        text = edit.rnd.choice(DESCRIPTIONS)
        was, edit.types[number] = edit.types[number], replace(edit.types[number], description=text)
        return was.description != text
    return edit.set(*found, description=edit.rnd.choice(DESCRIPTIONS))


def set_default(edit: Edit) -> bool:
    found = edit.pick_property(lambda prop: prop.scalar in {"I32", "I64", "String"})
    if found is None:
        return False
    prop = edit.types[found[0]].props[found[1]]
    values = sorted(prop.values) if prop.values else VALUES[prop.scalar][1:3]
    return edit.set(*found, default=edit.rnd.choice([None, *values]))


def set_index(edit: Edit) -> bool:
    found = edit.pick_property(lambda prop: prop.scalar != "Blob", *NO_INTERFACE)
    if found is None:
        return False
    return edit.set(*found, index=not edit.types[found[0]].props[found[1]].index)


def set_unique(edit: Edit) -> bool:
    found = edit.pick_property(lambda prop: prop.scalar not in {"Blob", VECTOR}, *NO_INTERFACE)
    if found is None:
        return False
    return edit.set(*found, unique=not edit.types[found[0]].props[found[1]].unique)


def set_range(edit: Edit) -> bool:
    found = edit.pick_property(lambda prop: prop.scalar in {"I32", "I64"}, "node")
    return found is not None and edit.set(*found, range=edit.rnd.choice(RANGES))


def set_check(edit: Edit) -> bool:
    found = edit.pick_property(lambda prop: prop.scalar == "String", "node")
    return found is not None and edit.set(*found, check=edit.rnd.choice([None, *CHECKS]))


def set_cardinality(edit: Edit) -> bool:
    number = edit.pick_type("edge")
    if number is None:
        return False
    was = edit.types[number]
    edit.types[number] = replace(was, card=edit.rnd.choice(CARDS))
    return edit.types[number] != was


EDITS: dict[str, tuple[Callable[[Edit], bool], int]] = {
    "add_property": (add_property, 6),
    "add_required": (add_required, 2),
    "add_embedded": (add_embedded, 2),
    "change_embed": (change_embed, 2),
    "add_interface": (add_interface, 2),
    "drop_property": (drop_property, 3),
    "rename_property": (rename_property, 3),
    "add_type": (add_type, 4),
    "drop_type": (drop_type, 2),
    "rename_type": (rename_type, 3),
    "relax_property": (relax_property, 2),
    "require_property": (require_property, 2),
    "widen_property": (widen_property, 2),
    "extend_enum": (extend_enum, 2),
    "shrink_enum": (shrink_enum, 2),
    "describe": (describe, 2),
    "set_default": (set_default, 2),
    "set_index": (set_index, 2),
    "set_unique": (set_unique, 2),
    "set_range": (set_range, 2),
    "set_check": (set_check, 2),
    "set_cardinality": (set_cardinality, 2),
}
"""Every change of a schema, with how often it is chosen beside the others."""


def random_edit(rnd: Random, schema: Schema, deck: list[str]) -> Edit | None:
    """One to three changes that the language allows; None if none was found.

    The first is the next of the ``deck`` that can be made, so that all kinds come in turn.
    """
    edit = Edit(rnd, schema)
    if not deck:
        deck += rnd.sample(list(EDITS), len(EDITS))
    done = next((name for name in deck if try_edit(edit, name)), None)
    if done is not None:
        deck.remove(done)
    names = list(EDITS)
    for _ in range(rnd.choice([0, 0, 0, 1, 2])):
        try_edit(edit, *rnd.choices(names, [EDITS[each][1] for each in names]))
    return edit if edit.types != dict(schema.types) else None  # changes may undo each other


def try_edit(edit: Edit, name: str) -> bool:
    """Make a change, if the language allows it."""
    types, hints = dict(edit.types), dict(edit.hints)
    if EDITS[name][0](edit) and _is_allowed(edit, name):
        edit.kinds.append(name)
        return True
    edit.types, edit.hints = types, hints
    return False


def _is_allowed(edit: Edit, name: str) -> bool:
    # Consent to the loss of vectors would make drops hard.
    drops = any(each.startswith("drop_") for each in (*edit.kinds, name))
    if drops and "change_embed" in (*edit.kinds, name):
        return False
    return edit.settle()


def after_edit(state: State, schema: Schema) -> State:
    """The state under a changed schema: rows lose what was dropped, and get the defaults of what is required."""
    rows: Rows = {}
    lost = cleared(state.schema, schema)
    for key, row in state.rows.items():
        if key[0] not in schema.types:
            continue
        known = state.schema.types[key[0]].props
        image = {each: value for each, value in row.items() if isinstance(each, str)}
        for each, prop in schema.types[key[0]].props.items():
            fill = None if prop.nullable else prop.default
            image[each] = row[each] if each in known else fill
            if (key[0], each) in lost:
                image[each] = None
        rows[key] = image
    return State(schema, rows)


def random_rows(rnd: Random, state: State) -> tuple[Rows, Rows]:
    """Rows to write that keep all rules, and the rows of the graph after it."""
    schema = state.schema
    written: Rows = {}
    tables = [number for number, type_ in schema.types.items() if type_.kind != "interface"]
    for _ in range(rnd.randint(1, 4) if tables else 0):
        number = rnd.choice(tables)
        type_ = schema.types[number]
        row_id = rnd.choice(ROW_IDS)
        row: dict[Any, Any] = {}
        if type_.ends is not None:
            ends = [
                [key[1] for key in (*state.rows, *written) if key[0] == end] for end in type_.ends
            ]
            if not all(ends):
                continue
            row = {"from": rnd.choice(sorted(ends[0])), "to": rnd.choice(sorted(ends[1]))}
        for each, prop in type_.props.items():
            row[each] = row_id if prop.is_key else _random_value(rnd, prop)
        row |= _unmade_vectors(type_, row, state.rows.get((number, row_id)))
        tried = {**written, (number, row_id): row}
        if not violations(schema, {**state.rows, **tried}):
            written = tried
    return written, {**state.rows, **written}


def _unmade_vectors(type_: Type, row: Row, stored: Row | None) -> Row:
    """The vectors of a row that nobody gives: kept while their text is the same, else null without a provider."""
    found: dict[Any, Any] = {}
    for each, prop in type_.props.items():
        if prop.embed is not None and (row[prop.embed] is None or row[each] is None):
            text = row[prop.embed]
            keeps = stored is not None and text is not None and stored[prop.embed] == text
            found[each] = stored[each] if keeps and stored is not None else None
    return found


def _random_value(rnd: Random, prop: Prop) -> Any:
    values = sorted(prop.values) if prop.values is not None else VALUES[prop.scalar]
    return rnd.choice([*values, None] if prop.nullable else values)


def without_node(state: State, key: tuple[int, str]) -> Rows:
    """The rows without an entity and the edges at it."""
    rows: dict[tuple[int, str], Row] = {k: row for k, row in state.rows.items() if k != key}
    for edge in state.schema.edges_at(key[0]):
        ends = state.schema.types[edge].ends or ()
        for each in [k for k in rows if k[0] == edge]:
            starts = zip(ends, (rows[each]["from"], rows[each]["to"]), strict=True)
            if key in starts:
                del rows[each]
    return rows
