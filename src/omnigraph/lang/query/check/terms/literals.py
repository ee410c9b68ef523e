"""Literals: each has a type and a stored value, and suits a property or does not."""

from __future__ import annotations

from omnigraph.errors import ConstraintError
from omnigraph.lang.query import ir
from omnigraph.lang.query.check.scope import Context
from omnigraph.lang.query.syntax import ast
from omnigraph.types import TEXT, PropType, Scalar, Unfit, from_json

SCALARS = {
    "string": Scalar.STRING,
    "int": Scalar.I64,
    "float": Scalar.F64,
    "bool": Scalar.BOOL,
    "date": Scalar.DATE,
    "datetime": Scalar.DATETIME,
}


def compatible(left: PropType, right: PropType) -> bool:
    """True when two operands may be compared: equal element types, or both numeric."""
    if left.is_list != right.is_list or left.is_vector or right.is_vector:
        return False
    if left.scalar == right.scalar:
        return True
    return left.element.is_numeric and right.element.is_numeric


def constant(context: Context, literal: ast.Literal) -> ir.Const:
    """A literal in its natural type: I64, F64, or for a list the type of its first element."""
    if literal.kind == "list":
        return _list_constant(context, literal)
    if SCALARS[literal.kind].is_temporal:
        return ir.Const(_instant(context, literal), PropType(SCALARS[literal.kind]))
    return ir.Const(literal.value, PropType(SCALARS[literal.kind]))


def _instant(context: Context, literal: ast.Literal) -> int:
    try:
        return SCALARS[literal.kind].time.parse(str(literal.value))
    except Unfit as unfit:
        context.fail("T3", f"{literal.kind}({literal.value!r}): {unfit}", literal.span)


def _list_constant(context: Context, literal: ast.Literal) -> ir.Const:
    items = elements(literal)
    for item in items:
        if item.kind == "list":
            context.fail("T27", "a list literal cannot hold another list", item.span)
        if item.kind != items[0].kind:
            context.fail(
                "T27",
                f"a list literal holds one kind of value; this one mixes {items[0].kind} "
                f"and {item.kind}",
                item.span,
            )
    scalar = SCALARS[items[0].kind] if items else Scalar.STRING
    values = [constant(context, item).value for item in items]
    return ir.Const(values, PropType(scalar, is_list=True))


def elements(literal: ast.Literal) -> tuple[ast.Literal, ...]:
    """The members of a list literal."""
    return literal.value if isinstance(literal.value, tuple) else ()


def vector_constant(
    context: Context, literal: ast.Literal, dim: int, rule: str, what: str
) -> ir.Const:
    """A list literal of exactly `dim` numbers as a vector; anything else breaks the rule."""
    kind = PropType.vector(dim)
    # A date or a list is not a number either, although its text may look like one.
    written = [item.value for item in elements(literal)]
    try:
        return ir.Const(from_json(kind, written), kind)
    except Unfit as unfit:
        context.fail(rule, f"{what}: {unfit}", literal.span)


def check_enum(context: Context, prop: str, kind: PropType, literal: ast.Literal) -> None:
    """Raise T3 when a text literal is not a value of a property's enum."""
    if kind.enum_values is not None and literal.value not in kind.enum_values:
        allowed = ", ".join(kind.enum_values)
        context.fail(
            "T3",
            f"property `{prop}` cannot be {literal.value!r}: its enum has {allowed}",
            literal.span,
        )


def assigned_constant(
    context: Context, prop: str, kind: PropType, literal: ast.Literal
) -> ir.Const:
    """A literal as the stored value of the property it is assigned to (T3 when it does not suit)."""
    if kind.is_vector and literal.kind == "list":
        return vector_constant(context, literal, kind.dim or 0, "T3", f"property `{prop}`")
    natural = constant(context, literal)
    if not _assignable(natural, kind):
        context.fail(
            "T3",
            f"property `{prop}` is {kind.display}; {describe_one(literal)} does not suit it",
            literal.span,
            date_hint(literal, kind),
        )
    for item in elements(literal) if literal.kind == "list" else (literal,):
        check_enum(context, prop, kind, item)
    target = kind.as_nullable(False)
    try:
        return ir.Const(_converted(natural, target), target)
    except Unfit as unfit:
        raise ConstraintError(
            f"property `{prop}` is {kind.display}: {unfit}", property=prop, violation="overflow"
        ) from None


def _assignable(natural: ir.Const, kind: PropType) -> bool:
    source = natural.type
    if kind.is_blob:
        return source == TEXT
    if kind.is_vector or source.is_list != kind.is_list:
        return False
    if source.is_list and natural.value == []:
        return True
    if source.scalar == kind.scalar:
        return True
    if source.element.is_integer:
        return kind.element.is_numeric
    return source.element.is_float and kind.element.is_float


def _converted(natural: ir.Const, target: PropType) -> object:
    if target.element.is_numeric:
        return from_json(target, natural.value)
    if target.is_blob:
        return from_json(target, natural.value)
    return natural.value


def describe(literal: ast.Literal) -> str:
    """A literal's kind in words, for messages."""
    words = {"string": "text", "int": "integer", "float": "fraction", "bool": "boolean"}
    return f"{words.get(literal.kind, literal.kind)} literal"


def describe_one(literal: ast.Literal) -> str:
    """The kind of a literal in words, with its article."""
    return f"{'an' if literal.kind == 'int' else 'a'} {describe(literal)}"


def date_hint(literal: ast.Literal, kind: PropType) -> str | None:
    """A hint how to write the date that a text literal was meant to be."""
    if literal.kind == "string" and kind.scalar.is_temporal:
        return f"write {kind.scalar.time.literal}"
    return None
