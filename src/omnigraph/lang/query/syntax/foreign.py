"""Words and signs of other query languages, and what to write here instead."""

from __future__ import annotations

from typing import Final

_NOT_YET = "is not in the language yet"
_NULL = (
    "there is no null literal: missing values are found with `not { $x.p = $x.p }`, and written "
    "through an optional parameter"
)
_ALL_HOLD = "clauses are simply written one after the other, and all of them must hold"
_TEXT_TESTS = "test text with `contains`, `starts_with` or `search(…)`"
_REPLACES = "`insert` of a node whose key exists replaces it"

_WORDS: Final[dict[str, str]] = {
    "or": f"`or` {_NOT_YET}; run a query for each case",
    "and": f"leave out `and`: {_ALL_HOLD}",
    "in": f"`in` {_NOT_YET}; run a query for each value, or test a list property with `contains`",
    "is": f"`is null` {_NOT_YET}; missing values are found with `not {{ $x.p = $x.p }}`",
    "null": _NULL,
    "none": _NULL,
    "nil": _NULL,
    "between": "write two comparisons, one after the other: `$x.p >= 1  $x.p <= 2`",
    "distinct": f"`distinct` {_NOT_YET}; return the property beside an aggregate to get a row for each value",
    "offset": f"`offset` {_NOT_YET}",
    "skip": f"`skip` {_NOT_YET}",
    "having": f"`having` {_NOT_YET}",
    "optional": f"`optional` {_NOT_YET}; ask for those without in a second query, with `not {{ … }}`",
    "exists": "what must exist needs no word: put its clauses into `match`",
    "where": "a `where` stands only in `update` and `delete`; in `match` write the predicate alone",
    "by": "leave out `by`: sort keys stand in `order { … }`",
    "group": "leave out `group by`: beside aggregates the other items of `return` are the group",
    "select": "a query reads with `match { … } return { … }`",
    "create": "new nodes and edges are written with `insert`",
    "merge": _REPLACES,
    "upsert": _REPLACES,
    "not": "a negation is a block: `not { … }`",
    "set": "a change is written `update Type set { … } where …`",
    "remove": "nodes and edges are removed with `delete Type where …`",
    "with": "a query has one `match` and one `return`; run a second query with parameters of the first's rows",
    "unwind": f"`unwind` {_NOT_YET}; run the query for each value",
    "union": f"`union` {_NOT_YET}; run a query for each case",
    "join": "two things are joined by an edge, `$a edge $b`, or by a comparison of their properties",
    "ascending": "write `asc`, or nothing: ascending is the default",
    "descending": "write `desc`",
    "like": _TEXT_TESTS,
    "matches": _TEXT_TESTS,
}
_SIGNS: Final[dict[str, str]] = {
    ";": "leave out `;`: nothing separates clauses, statements or queries",
    "!": "inequality is written `!=`, negation `not { … }`",
    "&": f"leave out `&&`: {_ALL_HOLD}",
    "|": f"`or` {_NOT_YET}; run a query for each case",
    "~": _TEXT_TESTS,
    **dict.fromkeys("+-*/%", f"arithmetic {_NOT_YET}"),
}
_PAIRS: Final[dict[tuple[str, str], str]] = {
    ("(", "*"): "count the rows of the match with `count($x)`",
    (".", "*"): "name each property to return",
    ("{", "*"): "name each property to return",
    ("Vector", "("): "a list holds scalars, not vectors",
    ("enum", "("): "the parameter for an enum property is a `String`",
    ("=", "="): "equality is written with one `=`",
    ("<", ">"): "inequality is written `!=`",
    ("insert", "into"): "leave out `into`: `insert Type { … }`",
    ("delete", "from"): "leave out `from`: `delete Type where …`",
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
