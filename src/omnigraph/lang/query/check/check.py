"""The type checker: turns a syntax tree and a catalog into a plan, or fails.

Also a filter on the rows of one type: the comparisons of a match, with bare property names. `age > 30  name
starts_with "a"` keeps the rows that satisfy both. Syntax and rules (T1 to T38) are those of a match; only the variable
is left out, because there is just one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from omnigraph.errors import BadRequest, SourceError
from omnigraph.lang.query import ir
from omnigraph.lang.query.check.blocks.patterns import Patterns, match_steps, scope_variables
from omnigraph.lang.query.check.mutations import mutation
from omnigraph.lang.query.check.returned.ordering import output
from omnigraph.lang.query.check.scope import ANONYMOUS, BoundVariable, Context, Scope
from omnigraph.lang.query.check.terms.applying import Typed
from omnigraph.lang.query.syntax import ast
from omnigraph.lang.query.syntax.parser import parse
from omnigraph.lang.schema.catalog import Catalog, NodeType, Property
from omnigraph.lang.source import Source

MAX_DIM = 2**31 - 1


def check(
    query: ast.Query, catalog: Catalog, source: Source, declared: Iterable[ast.Query] = ()
) -> ir.Plan:
    """Check a query against a catalog and lower it; the first failure in source order is raised.

    `declared` are the queries of its source, whose rows it may take.
    """
    others = {other.name: other for other in declared if other.name is not None}
    context = Context(query, catalog, source, others, compile_source=_source_plan)
    params = _parameters(context)
    if isinstance(query.body, ast.WriteBody):
        return mutation(context, query.body, params)
    return _read_plan(context, query.body, params)


def _source_plan(context: Context, query: ast.Query) -> ir.ReadPlan:
    """The plan of a declaration that a query takes rows from."""
    inner = Context(
        query,
        context.catalog,
        context.source,
        context.others,
        context.plans,
        context.compile_source,
        (*context.callers, context.query.name or ""),
    )
    assert isinstance(query.body, ast.ReadBody)
    return _read_plan(inner, query.body, _parameters(inner))


def _read_plan(
    context: Context, body: ast.ReadBody, params: tuple[ir.ParamSpec, ...]
) -> ir.ReadPlan:
    scope = Scope()
    steps = match_steps(context, scope, body)
    result = output(context, scope, body)
    return ir.ReadPlan(
        name=context.query.name,
        params=params,
        steps=steps,
        columns=result.columns,
        variables=scope_variables(scope),
        ranking=result.ranking,
        order=result.order,
        limit=result.limit,
        offset=result.offset,
        distinct=body.distinct,
        having=result.having,
        has_periods=context.has_periods,
    )


def _parameters(context: Context) -> tuple[ir.ParamSpec, ...]:
    for param in context.query.params:
        if param.name in context.params:
            context.fail("T25", f"parameter `${param.name}` is declared twice", param.span)
        if param.name in (ir.NOW_PARAM, ir.AS_OF_PARAM):
            context.fail("T25", f"the parameter name `${param.name}` is reserved", param.span)
        if param.name == ANONYMOUS:
            context.fail(
                "T25",
                "the parameter name `$_` is reserved: it stands for any entity",
                param.span,
                "give the parameter a name",
            )
        dim = None if isinstance(param.type, ir.RecordList) else param.type.dim
        if dim is not None and not 1 <= dim <= MAX_DIM:
            context.fail(
                "T25",
                f"parameter `${param.name}`: a Vector has 1 to {MAX_DIM} dimensions, not {dim}",
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
        return tuple(
            compare for clause in _clauses(queries) for compare in _compared(context, scope, clause)
        )
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


def _compared(context: Context, scope: Scope, clause: ast.Clause) -> Iterator[ir.Compare]:
    """The comparisons of a clause of a filter, which may be joined by `and`."""
    if isinstance(clause, ast.And):
        for part in clause.parts:
            yield from _compared(context, scope, part)
        return
    if isinstance(clause, ast.Comparison):
        compare = _RowConditions(context, scope).comparison(clause)
        if isinstance(compare, ir.Compare) and _is_plain(compare):
            yield compare
            return
    context.fail(
        None,
        "it compares properties of one row with values and with each other, and can neither match other "
        "entities, nor search text, nor calculate",
        clause.span,
        "run a query for that",
    )


def _is_plain(compare: ir.Compare) -> bool:
    return isinstance(compare.left, ir.Operand) and isinstance(compare.right, ir.Operand)


class _RowConditions(Patterns):
    """Conditions on one row: a bare word means the property of that name."""

    def name(self, expr: ast.Name) -> Typed:
        """The property of the row."""
        if expr.name == "null":
            return super().name(expr)
        return self.property(ast.PropRef(ROW, expr.name, expr.span))
