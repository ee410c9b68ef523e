"""Words, signs and functions of other query languages, and what to write here instead."""

from __future__ import annotations

from typing import Final

_NULL = "a missing value is found with `$x.p is null`; only an assignment takes `null`"
_TEXT_TESTS = "test text with `contains`, `starts_with`, `ends_with` or `search(…)`"
_UPSERT = "`upsert Type { … }` changes what is there by its key, and inserts it otherwise"
_OFFSET = "rows are left out with `limit 10 offset 20`"
_IF = "a value by a condition is `if(condition, value, otherwise)`"
_SOURCE = "a second step reads the rows of a query before it: `query first() { … } match { $r: first() … }`"
_LOOP = "a list gives its elements one by one with `for $x in $list`"
_OBJECT = "all properties are the object `$x { * }`, or the columns `$x.*`"
_PATH = "the shortest path is a variable: `$a $p:edge{1,} $b`, its length `length($p)`"

_WORDS: Final[dict[str, str]] = {
    "null": _NULL,
    "none": _NULL,
    "nil": _NULL,
    "between": "write two comparisons: `$x.p >= 1 and $x.p <= 2`",
    "skip": _OFFSET,
    "optional": "what may be missing stands in a block inside `match`: `optional { … }`",
    "where": "a `where` stands only in `update Type` and `delete Type`; in `match` write the condition alone",
    "by": "leave out `by`: sort keys stand in `order { … }`",
    "distinct": "equal rows become one with `return distinct { … }`",
    "group": "leave out `group by`: beside aggregates the other items of `return` are the group",
    "select": "a query reads with `match { … } return { … }`",
    "from": "a query reads with `match { $x: Type } return { … }`",
    "create": "new nodes and edges are written with `insert`",
    "merge": _UPSERT,
    "replace": _UPSERT,
    "set": "a change is written `update $x set { … }`, or `update Type set { … } where …`",
    "remove": "a property is cleared with `update $x set { p: null }`; `delete $x` removes nodes and edges",
    "detach": "leave out `detach`: `delete $x` removes the edges of a node too",
    "for": _LOOP,
    "foreach": _LOOP,
    "with": _SOURCE,
    "unwind": _LOOP,
    "union": "there is no union: use `or`, alternatives `$a knows|likes $b`, or run two queries",
    "case": _IF,
    "when": _IF,
    "call": _SOURCE,
    "returning": "what changed is given by `return { … }` after the statements",
    "join": "two things are joined by an edge, `$a edge $b`, or by a comparison of their properties",
    "xor": "one of two conditions is `($x.p = 1) != ($x.q = 2)`",
    "mod": "the remainder is `a % b`",
    "ascending": "write `asc`, or nothing: ascending is the default",
    "descending": "write `desc`",
    "like": _TEXT_TESTS,
    "ilike": _TEXT_TESTS,
    "matches": _TEXT_TESTS,
    "regexp": _TEXT_TESTS,
    "rlike": _TEXT_TESTS,
    "similar": _TEXT_TESTS,
}
_SIGNS: Final[dict[str, str]] = {
    ";": "leave out `;`: nothing separates clauses, statements or queries",
    "!": "inequality is written `!=`, negation `not`",
    "&": "both must hold: write `and`",
    "|": "one of two conditions is written `or`; texts are joined with `+`",
    "~": _TEXT_TESTS,
    "^": "there is no power; write the product `a * a`",
}
_PAIRS: Final[dict[tuple[str, str], str]] = {
    (
        "{",
        "*",
    ): "name what to return: `$x { * }` is an object of all properties, `$x.*` their columns",
    ("Vector", "("): "a list holds scalars, not vectors",
    ("enum", "("): "the parameter for an enum property is a `String`",
    ("=", "="): "equality is written with one `=`",
    ("<", ">"): "inequality is written `!=`",
    ("insert", "into"): "leave out `into`: `insert Type { … }`",
    ("delete", "from"): "leave out `from`: `delete Type where …`",
    ("is", "distinct"): "write `not ($x.p = $y.p)`, which also holds where one of them is missing",
    ("not", "distinct"): "write `$x.p = $y.p or ($x.p is null and $y.p is null)`",
    ("is", "true"): "a Bool stands alone: `$x.p`",
    ("is", "false"): "a Bool that is false: `$x.p = false`",
    ("update", "merge"): _UPSERT,
}
_CALLS: Final[dict[str, str]] = {
    "exists": "what must exist stands in a block: `exists { … }`; a value that is there `is not null`",
    "size": "the number of elements or characters is `length(…)`",
    "len": "the number of elements or characters is `length(…)`",
    "tolower": "write `lower(…)`",
    "lcase": "write `lower(…)`",
    "toupper": "write `upper(…)`",
    "ucase": "write `upper(…)`",
    "substr": "write `substring(text, start, length)`; the first character is 0",
    "concat": "texts are joined with `+`",
    "ceiling": "write `ceil(…)`",
    "ifnull": "write `coalesce(a, b)`",
    "nvl": "write `coalesce(a, b)`",
    "isnull": "write `$x.p is null`",
    "iif": _IF,
    "case": _IF,
    **{
        unit: f'write `part(date, "{unit}")`'
        for unit in ("year", "month", "day", "weekday", "hour", "minute", "second")
    },
    "date_trunc": 'write `floor(date, "month")`',
    "dateadd": 'write `shift(date, 1, "day")`',
    "datediff": 'write `elapsed(from, to, "day")`',
    "age": 'write `elapsed($x.born, date(now()), "year")`',
    "tostring": "write `text(…)`",
    "cast": "a value becomes text with `text(…)`, a Date a DateTime with `datetime(…)`",
    "label": "the name of the type is `type($x)`",
    "labels": "the name of the type is `type($x)`",
    "properties": _OBJECT,
    "keys": _OBJECT,
    "relationships": "the edges of a path are `edges($p)`",
    "shortestpath": _PATH,
    "allshortestpaths": _PATH,
    "array_agg": "the values of a group are `collect($x.p)`",
    "list": "the values of a group are `collect($x.p)`",
    "mean": "write `avg(…)`",
}


def is_foreign(word: str, before: str = "") -> bool:
    """Whether a word after ``before``, in any case, belongs to another language and is written differently."""
    return word.lower() in _WORDS or (before, word.lower()) in _PAIRS


def instead_of(found: str, before: str = "") -> str | None:
    """What to write instead of a word or sign that follows ``before``; None when not known."""
    return _PAIRS.get((before, found.lower())) or _WORDS.get(found.lower()) or _SIGNS.get(found)


def for_bare_word(word: str) -> str:
    """What to write instead of a bare word in the place of a value."""
    return instead_of(word) or f'text is written in double quotes: "{word}"'


def for_function(word: str) -> str | None:
    """What to write instead of a function that the language does not have; None when not known."""
    return _CALLS.get(word.lower())
