"""The type checker: turns a syntax tree and a catalog into a resolved query, or fails."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.lang.query import ir
from omnigraph.lang.query.check.mutations import mutation
from omnigraph.lang.query.check.output import Output, output
from omnigraph.lang.query.check.patterns import Resolved, match_block
from omnigraph.lang.query.check.scope import ANONYMOUS, Context, Scope
from omnigraph.lang.query.syntax import ast
from omnigraph.lang.schema.catalog import Catalog
from omnigraph.lang.source import Source

MAX_DIM = 2**31 - 1


@dataclass(frozen=True, slots=True)
class CheckedRead:
    """A read query whose every name and type is resolved."""

    name: str
    params: tuple[ir.ParamSpec, ...]
    clauses: tuple[Resolved, ...]
    variables: tuple[ir.Variable, ...]
    output: Output


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
