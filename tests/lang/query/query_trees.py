"""Hypothesis strategies for syntax trees: everything the grammar can express, and nothing else."""

from __future__ import annotations

from hypothesis import strategies as st

from omnigraph.lang.query import functions
from omnigraph.lang.query.record_type import RecordList
from omnigraph.lang.query.syntax import ast
from omnigraph.types import PropType, Scalar

# Every word the grammar knows, words that begin like one, and plain names.
NAMES = tuple(
    dict.fromkeys(
        word
        for line in (
            "query match return order limit not as asc desc contains starts_with ends_with",
            "insert upsert update delete end assert at set where true false description instruction",
            "and or in is null for by exists optional distinct having offset",
            "of during ever",
            "now date datetime",
            " ".join(ast.FUNCTIONS),
            "notify asc_x asX count2 android orient index isx formed _ __a a p x9 e5 camelCase from to id",
        )
        for word in line.split()
    )
)
TYPES = ("T", "Person", "String", "Vector", "X_9", "NOT")


def short(strategy: st.SearchStrategy) -> st.SearchStrategy:
    """The same strategy without its text, which would hold those of all the others inside it."""

    @st.composite
    def drawn(draw: st.DrawFn) -> object:
        return draw(strategy)

    return drawn()


names = short(st.sampled_from(NAMES))
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
_lists = st.builds(ast.Literal, st.just("list"), st.lists(scalars, max_size=3).map(tuple))
_lists_of_lists = st.builds(ast.Literal, st.just("list"), st.lists(_lists, max_size=2).map(tuple))
literals = short(st.one_of(scalars, scalars, _lists, _lists_of_lists))


def tuples_of(inner: st.SearchStrategy, least: int, most: int) -> st.SearchStrategy[tuple]:
    return st.lists(inner, min_size=least, max_size=most).map(tuple)


# ------------------------------------------------------------------ expressions

PLAIN_FUNCTIONS = tuple(word for word in functions.WORDS if word not in ast.DATED)
SUMS = tuple(name for name in ast.AGGREGATES if name not in ast.COUNTING)
shapes = st.builds(ast.Shape, names, st.none() | tuples_of(names, 1, 3))


def is_text_call(expr: ast.Expr) -> bool:
    return isinstance(expr, ast.Call) and expr.function in ast.TEXT_CALLS


def calls(inner: st.SearchStrategy[ast.Expr]) -> st.SearchStrategy[ast.Call]:
    def call(names: tuple[str, ...], *args: st.SearchStrategy[ast.Expr], distinct=False):
        made = st.booleans() if distinct else st.just(False)
        return st.builds(ast.Call, st.sampled_from(names), st.tuples(*args), made)

    # An argument of a scalar function is a condition when it is a text predicate.
    plain = inner.filter(lambda expr: not is_text_call(expr))
    dates = plain.filter(lambda expr: not (isinstance(expr, ast.Literal) and expr.kind == "string"))
    ranks = st.one_of(call(("nearest",), properties, inner), call(("bm25",), inner, inner))
    return st.one_of(
        call(SUMS, inner),
        call(ast.COUNTING, inner | shapes, distinct=True),
        st.just(ast.Call("count", (ast.AllRows(),))),
        call(ast.TEXT_CALLS, inner, inner),
        call(("fuzzy",), inner, inner, inner),
        ranks,
        call(("rrf",), ranks, ranks),
        call(("rrf",), ranks, ranks, ranks, inner),
        st.builds(ast.Call, st.sampled_from(PLAIN_FUNCTIONS), tuples_of(plain, 0, 3)),
        call(ast.DATED, dates),
        st.builds(ast.Call, st.sampled_from(ast.DATED), tuples_of(plain, 2, 2)),
    )


def _compound(inner: st.SearchStrategy[ast.Expr]) -> st.SearchStrategy[ast.Expr]:
    return st.one_of(
        short(calls(inner)),
        st.builds(ast.Arithmetic, st.sampled_from("+-*/%"), inner, inner),
        st.builds(ast.Minus, inner),
        st.builds(ast.Truth, st.deferred(lambda: _values_of_conditions)),
        st.builds(ast.Exists, st.deferred(lambda: small_blocks)),
    )


leaves = short(st.one_of(literals, variables, properties, nows, st.builds(ast.Name, bare_words)))
simple_expressions = short(
    st.one_of(leaves, st.builds(ast.Arithmetic, st.sampled_from("+-*/%"), leaves, leaves))
)
_small = short(_compound(leaves))
expressions = short(st.one_of(leaves, _small, _compound(_small | leaves)))
text_calls = st.builds(ast.Call, st.sampled_from(ast.TEXT_CALLS), st.tuples(properties, leaves))

# ------------------------------------------------------------------ conditions

comparators = st.sampled_from(["=", "!=", "<", "<=", ">", ">="])
word_operators = st.sampled_from(["contains", "starts_with", "ends_with", "in"])


def can_stand_alone(expr: ast.Expr) -> bool:
    """What is no condition by itself, or is another one: a bare name is no clause."""
    if isinstance(expr, ast.Call):
        return expr.function in functions.WORDS
    return not isinstance(expr, ast.Name | ast.Truth | ast.Exists)


def tests_of(expressions: st.SearchStrategy[ast.Expr]) -> st.SearchStrategy[ast.Condition]:
    return short(_tests_of(expressions))


def _tests_of(expressions: st.SearchStrategy[ast.Expr]) -> st.SearchStrategy[ast.Condition]:
    return st.one_of(
        st.builds(ast.Comparison, expressions, comparators | word_operators, expressions),
        st.builds(ast.Nullness, expressions, st.booleans()),
        st.builds(ast.TextClause, text_calls),
        st.builds(ast.Bare, expressions.filter(can_stand_alone)),
    )


def joined(inner: st.SearchStrategy[ast.Condition]) -> st.SearchStrategy[ast.Condition]:
    return st.one_of(
        st.builds(ast.And, tuples_of(inner, 2, 3)),
        st.builds(ast.Or, tuples_of(inner, 2, 3)),
        st.builds(ast.Negated, inner),
    )


def conditions_of(tests: st.SearchStrategy[ast.Condition]) -> st.SearchStrategy[ast.Condition]:
    return short(st.one_of(tests, joined(tests), joined(joined(tests) | tests)))


plain_conditions = conditions_of(tests_of(simple_expressions))
"""Those without blocks, as in a `where`."""
conditions = conditions_of(
    st.one_of(
        tests_of(expressions),
        st.builds(ast.Not, st.deferred(lambda: small_blocks)),
        st.builds(ast.Exists, st.deferred(lambda: small_blocks)),
    )
)
_values_of_conditions = st.one_of(
    tests_of(leaves),
    joined(tests_of(leaves)),
    st.builds(ast.Not, st.deferred(lambda: small_blocks)),
).filter(lambda made: not isinstance(made, ast.Bare))
"""What becomes a value in parentheses: an expression alone stays one."""

# ------------------------------------------------------------------ clauses

whens = short(
    st.one_of(
        st.none(),
        st.none(),
        st.builds(ast.AsOf, expressions),
        st.builds(ast.During, simple_expressions, expressions),
        st.builds(ast.Ever),
    )
)
entries = st.builds(ast.Entry, names, expressions)
bindings = st.builds(ast.Binding, names, type_names, tuples_of(entries, 0, 3), whens)
rows = st.builds(ast.Rows, names, names, tuples_of(expressions, 0, 2))
hops = st.builds(ast.Hops, counts, st.none() | counts)
loops = st.builds(ast.ForIn, names, names, st.none() | names)


def can_have_a_condition(made: ast.Traversal) -> bool:
    """`$a in[…` begins a list, and a path by weight has no bounds."""
    first = made.words[0] in {"contains", "starts_with", "ends_with", "in"} and len(made.words) == 1
    reads_as_list = (
        first and made.only is not None and not made.undirected and made.edge_var is None
    )
    return not reads_as_list and (made.hops is None or made.by is None)


traversals = st.builds(
    ast.Traversal,
    variables,
    tuples_of(edge_words, 1, 2),
    variables,
    st.booleans(),
    st.none() | variables,
    st.none() | hops,
    st.none() | plain_conditions,
    st.none() | names,
    whens,
).filter(can_have_a_condition)


def is_clause(made: ast.Condition) -> bool:
    """Conditions with `and` between them are clauses of their own."""
    return not isinstance(made, ast.And)


simple_clauses = st.one_of(
    st.builds(ast.Binding, names, type_names),
    st.builds(ast.Traversal, variables, tuples_of(edge_words, 1, 2), variables),
    tests_of(leaves),
)
small_blocks = short(tuples_of(simple_clauses, 1, 2))
_flat = short(st.one_of(bindings, rows, traversals, loops, conditions.filter(is_clause)))


def _nested(inner: st.SearchStrategy[ast.Clause]) -> st.SearchStrategy[ast.Clause]:
    kinds = (ast.Not, ast.Exists, ast.Optional)
    return st.one_of(*(st.builds(kind, tuples_of(inner, 1, 2)) for kind in kinds))


clauses = short(st.one_of(_flat, _flat, _nested(_flat), _nested(_nested(simple_clauses))))
blocks = short(tuples_of(clauses, 1, 3))

# ------------------------------------------------------------------ bodies

NO_ITEMS = {*ast.WORD_OPERATORS, "is", "or", "and", "not", "case", "when", "null", "none", "nil"}
"""Bare words that are refused as items without an alias."""


def is_item(item: ast.Item) -> bool:
    """Whether the parser takes an item, which may be a word of a condition."""
    is_word = isinstance(item.expr, ast.Name) and item.expr.name in NO_ITEMS
    return item.alias is not None or not is_word


items = st.one_of(
    st.builds(ast.Item, expressions | shapes, st.none() | names).filter(is_item),
    st.builds(ast.Item, st.builds(ast.Star, names)),
)
outputs = short(tuples_of(items, 1, 3))


def _is_nearest(expr: ast.Expr) -> bool:
    return isinstance(expr, ast.Call) and expr.function == "nearest"


directions = st.sampled_from([None, "asc", "desc"])
sort_keys = st.one_of(
    st.builds(ast.SortKey, expressions),
    st.builds(ast.SortKey, expressions.filter(lambda expr: not _is_nearest(expr)), directions),
)
having = st.one_of(
    conditions.filter(is_clause), st.builds(ast.Bare, st.builds(ast.Name, bare_words))
)
reads = short(
    st.builds(
        ast.ReadBody,
        blocks,
        outputs,
        tuples_of(sort_keys, 0, 3),
        st.none() | counts | variables,
        st.none() | counts | variables,
        st.booleans(),
        tuples_of(having, 0, 2),
        st.none() | loops,
        whens,
    )
)

old_conditions = st.builds(
    ast.Comparison,
    st.builds(ast.Name, names),
    comparators,
    st.one_of(literals, variables, nows),
)
wheres = old_conditions | plain_conditions
assigned = st.one_of(
    st.builds(ast.Null),
    expressions.filter(lambda expr: expr != ast.Name("null")),
)
assignments = tuples_of(st.builds(ast.Entry, names, assigned), 1, 4)
moments = st.none() | expressions
statements = st.one_of(
    st.builds(ast.Insert, type_names, assignments, st.none() | variables, st.booleans()),
    st.builds(ast.Update, type_names, assignments, wheres),
    st.builds(ast.Update, st.none(), assignments, st.none(), variables),
    st.builds(ast.Delete, type_names, wheres),
    st.builds(ast.Delete, st.none(), st.none(), variables),
    st.builds(ast.End, type_names, wheres, st.none(), moments),
    st.builds(ast.End, st.none(), st.none(), variables, moments),
    st.builds(ast.Assert, type_names, assignments, st.none() | variables, moments),
)
some_statements = short(tuples_of(statements, 1, 3))
_each = st.none() | loops
writes = short(
    st.one_of(
        st.builds(ast.WriteBody, some_statements, each=_each),
        st.builds(ast.WriteBody, some_statements, blocks, each=_each, when=whens),
        st.builds(ast.WriteBody, some_statements, blocks, outputs, st.booleans(), _each, whens),
    )
)

# ------------------------------------------------------------------ files

param_types = st.one_of(
    st.builds(PropType, st.sampled_from(Scalar), st.booleans(), st.booleans()),
    st.builds(PropType, st.just(Scalar.F32), st.booleans(), dim=counts),
)
fields = st.lists(st.tuples(names, param_types), min_size=1, max_size=3, unique_by=lambda it: it[0])
records = st.builds(RecordList, fields.map(tuple), st.booleans())
params = st.builds(ast.Param, names, param_types | records)
queries = short(
    st.builds(
        ast.Query,
        names,
        tuples_of(params, 0, 3),
        reads | writes,
        st.none() | texts,
        st.none() | texts,
    )
)
anonymous_queries = st.builds(ast.Query, st.none(), tuples_of(params, 0, 3), reads | writes)
query_files = st.builds(
    lambda made, last: ast.QueryFile((*made, *last)),
    st.lists(queries, max_size=3, unique_by=lambda query: query.name),
    tuples_of(anonymous_queries, 0, 1),
)
