"""Hypothesis strategies for syntax trees: everything the grammar can express, and nothing else."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import strategies as st

from omnigraph.lang.query.syntax import ast
from omnigraph.types import PropType, Scalar

# Every word the grammar knows, words that begin like one, and plain names.
NAMES = tuple(
    word
    for line in (
        "query match return order limit not as asc desc contains starts_with",
        "insert update delete set where true false description instruction",
        "now date datetime",
        " ".join(ast.FUNCTIONS),
        "notify asc_x asX count2 _ __a a p x9 e5 camelCase from to id",
    )
    for word in line.split()
)
TYPES = ("T", "Person", "String", "Vector", "X_9", "NOT")

names = st.sampled_from(NAMES)
edge_words = names.filter(lambda word: word != "not")
bare_words = names.filter(lambda word: word not in {"true", "false"})
type_names = st.sampled_from(TYPES)
counts = st.integers(0, 2**63 - 1)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)

variables = st.builds(ast.Var, names)
properties = st.builds(ast.PropRef, names, names)
nows = st.builds(ast.Now)

scalars = st.one_of(
    st.builds(ast.Literal, st.just("string"), texts),
    st.builds(ast.Literal, st.just("int"), st.integers(-(2**63), 2**63 - 1)),
    st.builds(ast.Literal, st.just("float"), st.floats(allow_nan=False, allow_infinity=False)),
    st.builds(ast.Literal, st.just("bool"), st.booleans()),
    st.builds(ast.Literal, st.sampled_from(["date", "datetime"]), texts),
)
literals = st.deferred(lambda: _literals)
_literals = st.recursive(
    scalars,
    lambda inner: st.builds(ast.Literal, st.just("list"), st.lists(inner, max_size=3).map(tuple)),
    max_leaves=4,
)
values = st.one_of(literals, variables, nows)


def _calls(inner: st.SearchStrategy[ast.Expr]) -> st.SearchStrategy[ast.Call]:
    def call(functions: tuple[str, ...], *args: st.SearchStrategy[ast.Expr]):
        return st.builds(ast.Call, st.sampled_from(functions), st.tuples(*args))

    ranks = st.one_of(call(("nearest",), properties, inner), call(("bm25",), inner, inner))
    return st.one_of(
        call(ast.AGGREGATES, inner),
        call(ast.TEXT_CALLS, inner, inner),
        call(("fuzzy",), inner, inner, inner),
        ranks,
        call(("rrf",), ranks, ranks),
        call(("rrf",), ranks, ranks, inner),
    )


_leaves = st.one_of(literals, variables, properties, nows, st.builds(ast.Name, bare_words))
_expressions = st.recursive(_leaves, _calls, max_leaves=4)
# Deferred, because the text Hypothesis makes of a strategy would otherwise hold all the others.
expressions = st.deferred(lambda: _expressions)
atoms = expressions.filter(lambda expr: not isinstance(expr, ast.Var | ast.PropRef))
operands = expressions.filter(lambda expr: not isinstance(expr, ast.Var))
text_calls = st.deferred(lambda: _text_calls)
_text_calls = _calls(_leaves).filter(lambda call: call.function in ast.TEXT_CALLS)

comparators = st.sampled_from(["=", "!=", "<", "<=", ">", ">="])
word_operators = st.sampled_from(["contains", "starts_with"])

entries = st.builds(ast.Entry, names, values)
bindings = st.builds(ast.Binding, names, type_names, st.lists(entries, max_size=3).map(tuple))
hops = st.builds(ast.Hops, counts, st.none() | counts)
traversals = st.builds(
    ast.Traversal,
    variables,
    edge_words,
    variables,
    st.booleans(),
    st.none() | variables,
    st.none() | hops,
)
comparisons = st.one_of(
    st.builds(ast.Comparison, expressions, comparators, expressions),
    st.builds(ast.Comparison, operands, word_operators, expressions),
    st.builds(ast.Comparison, variables, word_operators, atoms),
)
_simple = st.one_of(bindings, traversals, comparisons, st.builds(ast.TextClause, text_calls))


def _blocks(inner: st.SearchStrategy[ast.Clause]) -> st.SearchStrategy[tuple[ast.Clause, ...]]:
    return st.lists(inner, min_size=1, max_size=4).map(tuple).filter(_can_be_written)


def _can_be_written(block: tuple[ast.Clause, ...]) -> bool:
    """A word operator after a text call belongs to it, so no clause can begin with one there."""
    return not any(
        isinstance(one, ast.TextClause)
        and isinstance(two, ast.Comparison)
        and two.left in (ast.Name("contains"), ast.Name("starts_with"))
        for one, two in pairwise(block)
    )


clauses = st.deferred(lambda: _clauses)
_clauses = st.recursive(_simple, lambda inner: st.builds(ast.Not, _blocks(inner)), max_leaves=4)

items = st.builds(ast.Item, expressions, st.none() | names)


def _is_nearest(expr: ast.Expr) -> bool:
    return isinstance(expr, ast.Call) and expr.function == "nearest"


directions = st.sampled_from([None, "asc", "desc"])
sort_keys = st.one_of(
    st.builds(ast.SortKey, expressions),
    st.builds(ast.SortKey, expressions.filter(lambda expr: not _is_nearest(expr)), directions),
)
reads = st.builds(
    ast.ReadBody,
    _blocks(clauses),
    st.lists(items, min_size=1, max_size=4).map(tuple),
    st.lists(sort_keys, max_size=3).map(tuple),
    st.none() | counts,
)

conditions = st.builds(ast.Condition, names, comparators, values)
assignments = st.lists(entries, min_size=1, max_size=4).map(tuple)
statements = st.one_of(
    st.builds(ast.Insert, type_names, assignments),
    st.builds(ast.Update, type_names, assignments, conditions),
    st.builds(ast.Delete, type_names, conditions),
)
writes = st.builds(ast.WriteBody, st.lists(statements, min_size=1, max_size=3).map(tuple))

param_types = st.one_of(
    st.builds(PropType, st.sampled_from(Scalar), st.booleans(), st.booleans()),
    st.builds(PropType, st.just(Scalar.F32), st.booleans(), dim=counts),
)
params = st.builds(ast.Param, names, param_types)
queries = st.builds(
    ast.Query,
    names,
    st.lists(params, max_size=3).map(tuple),
    reads | writes,
    st.none() | texts,
    st.none() | texts,
)
query_files = st.lists(queries, max_size=3, unique_by=lambda query: query.name).map(
    lambda made: ast.QueryFile(tuple(made))
)
