"""The type checker: turns a syntax tree and a catalog into a resolved query, or fails.

Also a filter on the rows of one type: the comparisons of a match, with bare property names. `age > 30  name
starts_with "a"` keeps the rows that satisfy both. Syntax and rules (T1 to T28) are those of a match; only the variable
is left out, because there is just one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from omnigraph.errors import BadRequest, SourceError
from omnigraph.lang.query import ir
from omnigraph.lang.query.check.mutations import mutation
from omnigraph.lang.query.check.output import CheckedOutput, output
from omnigraph.lang.query.check.patterns import Resolved, match_block
from omnigraph.lang.query.check.predicates import comparison
from omnigraph.lang.query.check.scope import ANONYMOUS, BoundVariable, Context, Scope
from omnigraph.lang.query.syntax import ast
from omnigraph.lang.query.syntax.parser import parse
from omnigraph.lang.schema.catalog import Catalog, NodeType, Property
from omnigraph.lang.source import Source

MAX_DIM = 2**31 - 1


@dataclass(frozen=True, slots=True)
class CheckedRead:
    """A read query whose every name and type is resolved."""

    name: str
    params: tuple[ir.ParamSpec, ...]
    clauses: tuple[Resolved, ...]
    variables: tuple[ir.Variable, ...]
    output: CheckedOutput


Checked = CheckedRead | ir.MutationPlan


def check(query: ast.Query, catalog: Catalog, source: Source) -> Checked:
    """Check a query against a catalog; the first failure in source order is raised."""
    context = Context(query, catalog, source)
    params = _parameters(context)
    if isinstance(query.body, ast.WriteBody):
        return ir.MutationPlan(query.name, params, mutation(context, query.body))
    scope = Scope()
    clauses = match_block(context, scope, query.body.match)
    result = output(context, scope, query.body)
    variables = tuple(
        ir.Variable(variable.name, variable.kind, variable.type_name)
        for name, variable in sorted(scope.variables.items())
        if not name.startswith("#")
    )
    return CheckedRead(query.name, params, clauses, variables, result)


def _parameters(context: Context) -> tuple[ir.ParamSpec, ...]:
    for param in context.query.params:
        if param.name in context.params:
            context.fail("T25", f"parameter `${param.name}` is declared twice", param.span)
        if param.name == ir.NOW_PARAM:
            context.fail("T25", f"the parameter name `${param.name}` is reserved", param.span)
        if param.name == ANONYMOUS:
            context.fail(
                "T25",
                "the parameter name `$_` is reserved: it stands for any entity",
                param.span,
                "give the parameter a name",
            )
        if param.type.dim is not None and not 1 <= param.type.dim <= MAX_DIM:
            context.fail(
                "T25",
                f"parameter `${param.name}`: a Vector has 1 to {MAX_DIM} dimensions, "
                f"not {param.type.dim}",
                param.span,
            )
        context.params[param.name] = param.type
    return tuple(ir.ParamSpec(param.name, param.type) for param in context.query.params)


ROW = "row"
"""The variable that operands of a compiled filter name."""

_EXAMPLE = 'write conditions one after another, as in `age > 30  name starts_with "a"`'


def compile_filter(
    type_name: str, properties: Mapping[str, Property], text: str
) -> tuple[ir.Compare, ...]:
    """Compile a filter to the comparisons that a row must satisfy, all of them."""
    source = Source(f"query filter() {{ match {{\n{text}\n}} return {{ ${ROW}.id }} }}")
    # Only the properties matter here, so an edge type may be passed off as a node type.
    catalog = Catalog(nodes={type_name: NodeType(type_name, 0, 0, properties)})
    try:
        queries = parse(source.text).queries
        scope = Scope()
        scope.variables[ROW] = BoundVariable(ROW, "node", type_name)
        context = Context(queries[0], catalog, source)
        return tuple(_comparison(context, scope, clause) for clause in _clauses(queries))
    except SourceError as error:
        hint = error.hint or _EXAMPLE
        raise BadRequest(
            f"the filter `{text}` does not fit {type_name}: {error.message}; {hint}", filter=text
        ) from None


def _clauses(queries: tuple[ast.Query, ...]) -> tuple[ast.Clause, ...]:
    body = queries[0].body
    if len(queries) > 1 or not isinstance(body, ast.ReadBody) or len(body.items) > 1:
        raise SourceError("it is more than conditions", hint=_EXAMPLE)
    return body.match


def _comparison(context: Context, scope: Scope, clause: ast.Clause) -> ir.Compare:
    if isinstance(clause, ast.Comparison):
        named = replace(clause, left=_named(clause.left), right=_named(clause.right))
        compare = comparison(context, scope, named)
        if isinstance(compare, ir.Compare):
            return compare
    context.fail(
        None,
        "it compares properties of one row and can neither match other entities nor search text",
        clause.span,
        "run a query for that",
    )


def _named(expr: ast.Expr) -> ast.Expr:
    """A bare word means the property of that name."""
    return ast.PropRef(ROW, expr.name, expr.span) if isinstance(expr, ast.Name) else expr
