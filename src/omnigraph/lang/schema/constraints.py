"""Checks constraints, and collects those that a type has in the end."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NoReturn

from omnigraph.display.text import counted
from omnigraph.lang.schema.shape import (
    ENDPOINT_ROLES,
    Check,
    Constraint,
    Group,
    Kind,
    Range,
    Valid,
    constraint_order,
)
from omnigraph.lang.schema.syntax import ast
from omnigraph.lang.source import Source
from omnigraph.spans import Span
from omnigraph.spelling import did_you_mean
from omnigraph.types import PropType

_MIN_EXACT, _MAX_EXACT = -(2**63), 2**64 - 1


class ConstrainedType:
    """The type whose constraints are checked: its properties, and the source for messages."""

    def __init__(
        self, source: Source, kind: Kind, name: str, properties: Mapping[str, PropType]
    ) -> None:
        self.source = source
        self.kind = kind
        self.name = name
        self.properties = properties

    def constraints(
        self,
        own: Sequence[ast.Constraint],
        inherited: Iterable[ast.Group] = (),
    ) -> tuple[Constraint, ...]:
        """Check and collect the constraints of both spellings and the interfaces, each once."""
        everything = [*own, *inherited]
        key = frozenset(member.text for group in _keys(everything) for member in group.members)
        # The period first: what is wrong with its end in a key is said of the period.
        periods_first = sorted(everything, key=lambda each: not isinstance(each, ast.Valid))
        built = {self._build(constraint, key) for constraint in periods_first}
        self._check_single_key(own, everything)
        self._check_single_period(own)
        return tuple(sorted(built, key=constraint_order))

    def check_group(self, group: ast.Group) -> Group:
        """A `@key`, `@unique` or `@index` whose members are all eligible."""
        if group.kind == "key" and self.kind == "edge":
            first = group.members[0].text
            self.source.fail(
                f"`@key` cannot stand on `{self.name}.{first}`: an edge has no key",
                group.span,
                "use `@unique` to forbid repeats",
            )
        for member in group.members:
            type_ = self._member(f"@{group.kind}", member, group.kind != "key")
            reason = None if type_ is None else _ineligible(group.kind, type_)
            if reason is not None:
                self._refuse(f"@{group.kind}", member, reason)
        return Group(group.kind, tuple(sorted({member.text for member in group.members})))

    def _build(self, constraint: ast.Constraint, key: frozenset[str]) -> Constraint:
        match constraint:
            case ast.Group():
                return self.check_group(constraint)
            case ast.Range():
                return self._range(constraint)
            case ast.Check():
                return self._check(constraint)
            case ast.Valid():
                return self._valid(constraint, key)

    def _check_single_key(
        self, own: Sequence[ast.Constraint], everything: Sequence[ast.Constraint]
    ) -> None:
        written = list(_keys(own))
        tuples = {frozenset(member.text for member in key.members) for key in _keys(everything)}
        if len(written) > 1 or len(tuples) > 1:
            second = (written or list(_keys(everything)))[-1]
            labels = {self._label(key.members) for key in _keys(everything)}
            self.source.fail(
                f"{self.kind} type `{self.name}` has multiple `@key` constraints: "
                f"{', '.join(sorted(labels))}",
                second.span,
                "a node has at most one key; several properties form one as `@key(a, b)`",
            )

    def _label(self, members: Sequence[ast.Name]) -> str:
        names = sorted({member.text for member in members})
        listed = names[0] if len(names) == 1 else f"({', '.join(names)})"
        return f"`{self.name}.{listed}`"

    def _range(self, constraint: ast.Range) -> Range:
        type_ = self._node_property("@range", constraint.property, constraint.span)
        if not type_.is_numeric:
            self._refuse("@range", constraint.property, f"{_kind_of(type_)}, not numeric")
        low = self._bound(constraint.property, constraint.min, type_)
        high = self._bound(constraint.property, constraint.max, type_)
        if low is not None and high is not None and low > high:
            self._refuse("@range", constraint.property, f"its lower bound {low} is above {high}")
        return Range(constraint.property.text, low, high)

    def _bound(
        self, prop: ast.Name, bound: ast.Bound | None, type_: PropType
    ) -> int | float | None:
        if bound is None:
            return None
        value = _number(bound.text)
        if value is None:
            text = bound.text if len(bound.text) <= 40 else f"{bound.text[:40]}…"
            self._refuse(
                "@range",
                ast.Name(prop.text, bound.span),
                f"the bound {text} is neither a 64-bit integer nor a finite number",
            )
        return _as_column(value, type_)

    def _check(self, constraint: ast.Check) -> Check:
        type_ = self._node_property("@check", constraint.property, constraint.span)
        if not type_.is_text:
            reason = f"{_kind_of(type_)}, and a pattern needs a String or an enum"
            self._refuse("@check", constraint.property, reason)
        fault = _pattern_fault(constraint.pattern)
        if fault is not None:
            self._refuse(
                "@check",
                ast.Name(constraint.property.text, constraint.pattern_span),
                f"the pattern does not compile: {fault}",
                "patterns are RE2: no look-around and no back references",
            )
        return Check(constraint.property.text, constraint.pattern)

    def _valid(self, constraint: ast.Valid, key: frozenset[str]) -> Valid:
        if len(constraint.members) != 2:
            self.source.fail(
                f"`@valid` names {counted(len(constraint.members), 'property', 'properties')} where a "
                f"period has two: {self._label(constraint.members)}",
                constraint.span,
                "write `@valid(since, until)`: when it begins to hold, and when it ends",
            )
        since, until = constraint.members
        types = []
        for member in (since, until):
            type_ = self._member("@valid", member, endpoints=False)
            assert type_ is not None
            if not type_.is_temporal:
                self._refuse("@valid", member, f"{_kind_of(type_)}, neither Date nor DateTime")
            types.append(type_)
        if until.text in key:
            self._refuse("@valid", until, "it is in the `@key`, and the end of a period may change")
        if since.text == until.text:
            self._refuse("@valid", until, "it is named twice, and a period has two ends")
        if types[0].scalar != types[1].scalar:
            reason = f"{_kind_of(types[1])}, and `{self.name}.{since.text}` is {types[0].display}"
            self._refuse("@valid", until, reason, "both are Date, or both are DateTime")
        if not types[1].nullable:
            reason = f"{_kind_of(types[1])}, and the end of what still holds is null"
            self._refuse("@valid", until, reason, f"declare it as `{types[1].display}?`")
        return Valid(since.text, until.text)

    def _check_single_period(self, own: Sequence[ast.Constraint]) -> None:
        written = [each for each in own if isinstance(each, ast.Valid)]
        if len(written) > 1:
            listed = ", ".join(self._label(each.members) for each in written)
            self.source.fail(
                f"{self.kind} type `{self.name}` has multiple `@valid` constraints: {listed}",
                written[-1].span,
                "a type has at most one period",
            )

    def _node_property(self, word: str, prop: ast.Name, span: Span) -> PropType:
        if self.kind == "edge":
            self.source.fail(
                f"`{word}` cannot stand on `{self.name}.{prop.text}`: it is for nodes, not edges",
                span,
            )
        type_ = self._member(word, prop, endpoints=False)
        assert type_ is not None
        return type_

    def _member(self, word: str, prop: ast.Name, endpoints: bool) -> PropType | None:
        """The type of a named property; None for an edge's `src` or `dst`."""
        type_ = self.properties.get(prop.text)
        if type_ is None and not (
            endpoints and self.kind == "edge" and prop.text in ENDPOINT_ROLES
        ):
            self.source.fail(
                f"`{word}` names `{prop.text}`, which is no property of "
                f"{self.kind} type `{self.name}`",
                prop.span,
                did_you_mean(prop.text, self.properties),
            )
        return type_

    def _refuse(self, word: str, prop: ast.Name, reason: str, hint: str | None = None) -> NoReturn:
        self.source.fail(
            f"`{word}` cannot use `{self.name}.{prop.text}`: {reason}", prop.span, hint
        )


def _keys(constraints: Iterable[ast.Constraint]) -> Iterator[ast.Group]:
    for constraint in constraints:
        if isinstance(constraint, ast.Group) and constraint.kind == "key":
            yield constraint


def _ineligible(kind: ast.GroupKind, type_: PropType) -> str | None:
    """Why a type cannot be a member of such a group, or None."""
    barred = type_.is_blob or type_.is_list or (type_.is_vector and kind != "index")
    if barred:
        return _kind_of(type_)
    if kind == "key" and type_.nullable:
        return "it is nullable, and every node needs its key"
    return None


def _kind_of(type_: PropType) -> str:
    if type_.is_list:
        return f"it is a list ({type_.display})"
    if type_.is_blob:
        return f"it is a blob ({type_.display})"
    if type_.is_vector:
        return f"it is a vector ({type_.display})"
    return f"it is {type_.display}"


def _number(text: str) -> int | float | None:
    """Read a bound: exact where it fits 64 bits, else the nearest float; None when too large."""
    digits = text.removeprefix("-").lstrip("0") or "0"
    if digits.isdigit() and len(digits) <= len(str(_MAX_EXACT)):
        value = -int(digits) if text.startswith("-") else int(digits)
        if _MIN_EXACT <= value <= _MAX_EXACT:
            return value
    number = float(text)
    return number if math.isfinite(number) else None


def _as_column(value: float, type_: PropType) -> int | float:
    """Convert a bound to the column's kind if nothing is lost, so `0` and `0.0` mean the same."""
    if type_.is_float:
        return float(value) + 0.0 if float(value) == value else value  # adding turns -0.0 into 0.0
    return int(value) if value == int(value) else value


def _pattern_fault(pattern: str) -> str | None:
    """RE2's complaint about a pattern, or None. The Arrow array is built from buffers because
    building it from Python values makes pyarrow import pandas."""
    import pyarrow as pa
    import pyarrow.compute as pc

    offsets = pa.py_buffer(bytes(8))
    text = pa.Array.from_buffers(pa.utf8(), 1, [None, offsets, pa.py_buffer(b"")])
    try:
        pc.match_substring_regex(text, pattern)
    except pa.ArrowInvalid as error:
        return str(error).partition(":")[2].strip() or str(error)
    return None
