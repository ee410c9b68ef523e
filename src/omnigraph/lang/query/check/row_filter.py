"""A filter on the rows of one type: the comparisons of a match, with bare property names.

`age > 30  name starts_with "a"` keeps the rows that satisfy both. Syntax and rules (T1 to T28) are
those of a match; only the variable is left out, because there is just one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from omnigraph.errors import BadRequest, SourceError
from omnigraph.lang.query import ir
from omnigraph.lang.query.check.predicates import comparison
from omnigraph.lang.query.check.scope import Context, Scope, Variable
from omnigraph.lang.query.syntax import ast
from omnigraph.lang.query.syntax.parser import parse
from omnigraph.lang.schema.catalog import Catalog, NodeType, Property
from omnigraph.lang.source import Source

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
        scope.variables[ROW] = Variable(ROW, "node", type_name)
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
