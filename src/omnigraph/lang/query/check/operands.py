"""Resolves the operands of predicates and the arguments of functions, and checks their kinds.

Literals have a type, a stored value, and suit a property or do not.
"""

from __future__ import annotations

from omnigraph.errors import ConstraintError
from omnigraph.lang.query import ir
from omnigraph.lang.query.check.scope import Context, Scope, property_of
from omnigraph.lang.query.syntax import ast
from omnigraph.lang.query.syntax.foreign import for_bare_word
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


INSTANT = PropType(Scalar.DATETIME)
NOW = ir.ParamRef(ir.NOW_PARAM, INSTANT)

Typed = tuple[ir.Operand, PropType]


def operand(context: Context, scope: Scope, expr: ast.Expr) -> Typed:
    """Resolve one side of a comparison: a property, literal, parameter or `now()`; else raise T7."""
    if isinstance(expr, ast.Literal):
        const = constant(context, expr)
        return const, const.type
    if isinstance(expr, ast.Now):
        return NOW, INSTANT
    if isinstance(expr, ast.PropRef):
        return readable_property(context, scope, expr)
    if isinstance(expr, ast.Var):
        return _bare_variable(context, scope, expr)
    if isinstance(expr, ast.Name):
        context.fail(
            "T28",
            f"`{expr.name}` is a bare word, and a match knows no output aliases",
            expr.span,
            for_bare_word(expr.name),
        )
    if expr.function in ast.AGGREGATES:
        why = "an aggregate is not a scalar of one row; there is no having"
    elif expr.function in ast.RANKINGS:
        why = "a ranking stands in `order`, it is not a scalar to compare"
    else:
        why = "a text predicate stands alone"
    context.fail("T7", f"`{expr.function}(…)` cannot be compared: {why}", expr.span)


def readable_property(context: Context, scope: Scope, ref: ast.PropRef) -> Typed:
    """Resolve `$x.p` as a value; a Blob is refused (T24)."""
    _, prop = property_of(context, scope, ref)
    if prop.type.is_blob:
        context.fail(
            "T24",
            f"`${ref.var}.{ref.name}` is a Blob and cannot be read by a query",
            ref.span,
            "read blobs through the blob API",
        )
    return ir.PropertyOf(ref.var, ref.name, prop.type), prop.type


def readable_parameter(context: Context, var: ast.Var) -> ir.ParamRef:
    """Resolve a declared parameter as a value; a Blob parameter is refused (T24)."""
    param = context.parameter(var, "a value")
    if param.type.is_blob:
        context.fail("T24", f"parameter `${var.name}` is a Blob and cannot be read", var.span)
    return param


def _bare_variable(context: Context, scope: Scope, var: ast.Var) -> Typed:
    variable = scope.get(var.name)
    if variable is None:
        param = readable_parameter(context, var)
        return param, param.type
    if variable.kind == "edge":
        context.fail(
            "T23",
            f"edge variable `${var.name}` cannot be used bare",
            var.span,
            f"read one of its properties: `${var.name}.<property>`",
        )
    context.fail(
        "T7",
        f"`${var.name}` is a node, not a scalar; whole nodes cannot be compared",
        var.span,
        "compare keys, as in `$a.key != $b.key`",
    )


def text_field(context: Context, scope: Scope, call: ast.Call, rule: str) -> ir.PropertyOf:
    """The first argument of a text function: a String property of a node variable."""
    field = call.args[0]
    if not isinstance(field, ast.PropRef):
        context.fail(
            rule, f"{call.function}() searches a String property of a node variable", field.span
        )
    variable, prop = property_of(context, scope, field)
    if variable.kind == "edge":
        context.fail(
            "T23",
            f"{call.function}() cannot search the edge property `${field.var}.{field.name}`",
            field.span,
        )
    if not prop.type.is_text:
        context.fail(
            rule,
            f"{call.function}() needs a String property; `${field.var}.{field.name}` is "
            f"{prop.type.display}",
            field.span,
        )
    return ir.PropertyOf(field.var, field.name, prop.type)


def text_query(context: Context, scope: Scope, call: ast.Call, rule: str) -> ir.Operand:
    """The second argument of a text function: a String literal or parameter."""
    arg = call.args[1]
    if isinstance(arg, ast.Literal) and arg.kind == "string":
        return ir.Const(arg.value, TEXT)
    if isinstance(arg, ast.Var) and scope.get(arg.name) is None:
        param = context.parameter(arg, f"the text of {call.function}()")
        if param.type.as_nullable(False) == TEXT:
            return param
    context.fail(
        rule, f"{call.function}() needs a String literal or parameter as its text", arg.span
    )


def integer_argument(
    context: Context, scope: Scope, arg: ast.Expr, rule: str, what: str
) -> ir.Const | ir.ParamRef:
    """An integer literal or a parameter of an integer type."""
    if isinstance(arg, ast.Literal) and arg.kind == "int":
        return constant(context, arg)
    if isinstance(arg, ast.Var) and scope.get(arg.name) is None:
        param = context.parameter(arg, what)
        if param.type.is_integer and not param.type.is_list:
            return param
    context.fail(rule, f"{what} must be an integer", arg.span)
