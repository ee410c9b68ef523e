"""Messages for queries that break the grammar: words for terminals, and hints."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from omnigraph.lang.failures import END, Advice, quoted
from omnigraph.lang.query.syntax import ast
from omnigraph.lang.query.syntax.foreign import instead_of, is_foreign
from omnigraph.lang.query.syntax.parse_state import Reading
from omnigraph.lang.source import one_of
from omnigraph.spelling import did_you_mean

NAMES: Final[dict[str, str]] = {
    END: "the end of the source",
    "NAME": "a name",
    "TYPE": "a type name",
    "VAR": "a variable",
    "INT": "a number",
    "FLOAT": "a number",
    "STRING": "a string",
    "TRUE": "`true`",
    "FALSE": "`false`",
    "DATED": "a date",
    "LBRACKET": "`[`",
    "RBRACKET": "`]`",
    "LBRACE": "`{`",
    "RBRACE": "`}`",
    "LPAR": "`(`",
    "RPAREN": "`)`",
    "COLON": "`:`",
    "COMMA": "`,`",
    "DOT": "`.`",
    "AT": "`@`",
    "OPTIONAL": "`?`",
    "COMPARE": "a comparison",
    "LESS": "`<`",
    "GREATER": "`>`",
    "CONTAINS": "`contains`",
    "STARTS_WITH": "`starts_with`",
    "FUNCTION": "a function",
    "NOW": "`now()`",
    "NOT": "`not`",
    "QUERY": "`query`",
    "MATCH": "`match`",
    "RETURN": "`return`",
    "ORDER": "`order`",
    "LIMIT": "`limit`",
    "AS": "`as`",
    "ASC": "`asc`",
    "DESC": "`desc`",
    "INSERT": "`insert`",
    "UPDATE": "`update`",
    "DELETE": "`delete`",
    "SET": "`set`",
    "WHERE": "`where`",
}

_KEYWORDS = tuple(word.strip("`") for name, word in NAMES.items() if word == f"`{name.lower()}`")
_OPERATORS = frozenset({"COMPARE", "LESS", "GREATER", "CONTAINS", "STARTS_WITH"})
_LITERALS = frozenset({"STRING", "INT", "FLOAT", "TRUE", "FALSE", "DATED", "LBRACKET"})
_VALUES = _LITERALS | {"VAR", "NOW"}
_NAMES = frozenset(
    {"NAME", "AS", "ASC", "DESC", "CONTAINS", "STARTS_WITH", "INSERT", "UPDATE", "DELETE"}
)
_EXPRESSIONS = _VALUES | _NAMES | {"FUNCTION"}

# Sets of terminals that people see as one thing, the largest first.
_GROUPS = (
    (_EXPRESSIONS | {"NOT"}, "a clause"),
    (_EXPRESSIONS, "an expression"),
    (_NAMES | {"TRUE", "FALSE"}, "a name"),
    (_VALUES, "a value (a literal, a parameter or `now()`)"),
    (_LITERALS, "a literal"),
    (_OPERATORS, "an operator"),
)

_ONE_KIND = "a query either reads or writes; make them two queries"
_DESTINATION = "a traversal ends in a variable; `$_` stands for any entity"
_FUNCTIONS = ", ".join(ast.FUNCTIONS)
_ANNOTATIONS = frozenset({"description", "instruction"})
_UNNAMED = frozenset({"match", "insert", "update", "delete", "{"})
_SECTIONS = "the order is `match`, `return`, `order`, `limit`"
_ONE_CONDITION = "a `where` takes exactly one comparison"
_PARENTHESES = "parentheses stand only after a function"

_JOINING = frozenset({"and", "or", ",", "&", "|"})


class _Fault(NamedTuple):
    """Where parsing stopped: the token before, the text found, and what was expected there."""

    before: str
    found: str
    expected: frozenset[str]


def advise(reading: Reading, found: str, expected: frozenset[str]) -> Advice:
    """A message, and a hint for the faults people make most."""
    token = reading.before if found else reading.last
    before = "" if token is None else str(token)
    fault = _Fault(before, found, expected)
    message, hint = None, None
    for rule in _RULES:
        advice = rule(fault)
        if advice is not None:
            message, hint = advice
            break
    return message or f"expected {_listed(expected)}, found {quoted(found)}", hint


def _listed(expected: frozenset[str]) -> str:
    rest = set(expected - {END} or expected)
    words: list[str] = []
    for group, word in _GROUPS:
        # An operator can be a name too, so a set must match whole and is replaced only once.
        if group <= expected and group & rest:
            words.append(word)
            rest -= group
    return one_of([*words, *(NAMES[name] for name in rest)])


def _section(at: _Fault) -> Advice | None:
    """A part of the query that is missing, empty or out of place."""
    if "RETURN" in at.expected and at.found in {"order", "limit"}:
        return f"`{at.found}` stands after `return`", _SECTIONS
    if "RETURN" in at.expected and at.found in {"}", ""}:
        return "the `return` block is missing", "a read ends with `return { … }`"
    if at.found == "order" and at.expected == {"RBRACE"}:
        return "`order` stands before `limit`", _SECTIONS
    if (at.before, at.found) == ("{", "}") and "MATCH" in at.expected:
        return "the query is empty", "it holds `match … return …`, or mutation statements"
    if (at.before, at.found) == ("{", "}") and at.expected == _EXPRESSIONS:
        return "the `order` block is empty", "leave it out, or give it a sort key"
    if at.expected <= {"QUERY", END} and at.found.lower() in _UNNAMED:
        return None, "a source holds named queries: `query name() { match { … } return { … } }`"
    if at.before == "query" and at.found in {"{", "("}:
        return None, "a query has a name: `query name() { … }`"
    if at.before in {"match", "return", "order"} and at.expected == {"LBRACE"}:
        hint = instead_of(at.found) or f"it stands in a block: `{at.before} {{ … }}`"
        return None, hint
    if at.found == "{" and at.expected == {"LPAR"} and at.before not in _ANNOTATIONS:
        return None, f"parameters stand in parentheses, also when there are none: `{at.before}()`"
    if at.before == "set" and at.expected == {"LBRACE"}:
        return None, "what is set stands in a block: `set { name: value }`"
    if at.expected == {"SET"}:
        return None, "an update is written `update Type set { … } where …`"
    if "WHERE" in at.expected:
        return None, "`update` and `delete` take a `where` with one comparison"
    if at.found in {"match", "return"} and _between_statements(at):
        return None, _ONE_KIND
    if at.found in {"insert", "update", "delete"} and at.expected <= {"ORDER", "LIMIT", "RBRACE"}:
        return None, _ONE_KIND
    return None


def _between_statements(at: _Fault) -> bool:
    return {"RBRACE", "DELETE"} <= at.expected and "NAME" not in at.expected


def _brackets(at: _Fault) -> Advice | None:
    """Brackets and commas that do not pair up or separate."""
    if at.found == "" and "RBRACE" in at.expected:
        return None, "a `{` is not closed"
    if at.found == "}" and "QUERY" in at.expected:
        return None, "there is one `}` too many"
    if at.before == "," and at.found in {"}", "]", ")"}:
        return None, "no comma may stand before the end here"
    if at.found == "," and "NOT" in at.expected:
        return None, "clauses are not separated by commas"
    return None


def _letter_case(at: _Fault) -> Advice | None:
    """A name whose first letter says it is of the other kind."""
    is_keyword = at.found.upper() in at.expected and at.found.lower() in _KEYWORDS
    if not at.found.isidentifier() or (is_foreign(at.found, at.before) and not is_keyword):
        return None
    if at.found[0].isupper() and "TYPE" not in at.expected:
        if is_keyword:
            return None, f"keywords are lower-case: `{at.found.lower()}`"
        return _misnamed_type(at) if "NAME" in at.expected else None
    if not at.found[0].isupper() and "TYPE" in at.expected and "NAME" not in at.expected:
        upper = at.found[0].upper() + at.found[1:]
        return None, f"type names start with an upper-case letter: `{upper}`"
    return None


def _misnamed_type(at: _Fault) -> Advice:
    lower = at.found[0].lower() + at.found[1:]
    if at.before == "<" or ("LESS" in at.expected and "FUNCTION" not in at.expected):
        return (
            f"expected an edge, found the type name `{at.found}`",
            f"edge words start with a lower-case letter: `{lower}`",
        )
    return None, f"names start with a lower-case letter: `{lower}`"


def _variable(at: _Fault) -> Advice | None:
    """A `$` that is missing or has no proper name; a parameter where only a number is allowed."""
    names_parameter = {"VAR", "RPAREN"} <= at.expected and at.before in {"(", ","}
    if names_parameter and at.found.isidentifier():
        return None, f"parameters and variables start with `$`: `${at.found}`"
    if at.found == ":" and at.before.isidentifier() and "COMPARE" in at.expected:
        return None, f"variables start with `$`: `${at.before}: Type`"
    if not at.found.startswith("$"):
        return None
    if at.found[1:2].islower() or at.found[1:2] == "_":
        number = at.expected == {"INT", "FLOAT"}
        return (None, "a parameter cannot stand here; write the number") if number else None
    return (
        f"{quoted(at.found)} is not a variable",
        "a variable is `$` and a name that starts with a lower-case letter or `_`",
    )


def _number(at: _Fault) -> Advice | None:
    """A number in a form the language does not have."""
    if at.found == "." and ("STRING" in at.expected or at.before.isdigit()):
        return None, "a float has digits on both sides of the point"
    if re.fullmatch(r"e[0-9]*", at.before) and "COMPARE" in at.expected:
        return None, "numbers have no exponent"
    if at.found in {"+", "-"} and at.expected in (_EXPRESSIONS, _VALUES, _LITERALS):
        return None, "a number is its digits, with a `-` right before them when negative"
    return None


def _hops(at: _Fault) -> Advice | None:
    """Hop bounds in the style of another language."""
    if at.expected == {"COMMA"} and at.found == "}":
        return None, f"hop bounds are written `{{min,max}}`: `{{{at.before},{at.before}}}`"
    if at.expected == {"COMMA"}:
        return None, "hop bounds are written `{min,max}`"
    if at.expected == {"LBRACE", "VAR"} and at.found == "|":
        return None, "a traversal follows one kind of edge; run a query for each"
    if at.expected == {"LBRACE", "VAR"}:
        bounds = at.found in {"*", "+", "["} or at.found.isdigit()
        return None, "hop bounds are written `{min,max}`" if bounds else _DESTINATION
    if at.expected == {"INT", "FLOAT"} and at.before == "{":
        return None, "hop bounds are written `{min,max}`, the lower one always"
    return None


def _value(at: _Fault) -> Advice | None:
    """A place that takes literals, parameters and `now()` only."""
    if at.expected == _VALUES and at.found.isidentifier() and not is_foreign(at.found):
        return None, f'text is written in double quotes: "{at.found}"; a property cannot stand here'
    if at.found == "." and at.before.startswith("$") and "RBRACE" in at.expected:
        return (
            f"a property of `{at.before}` cannot be the value here",
            "a value is a literal, a parameter or `now()`",
        )
    if at.expected == {"COLON"} and at.found in {"=", "!", "<", ">"}:
        return None, "an entry is an equality, written `name: value`"
    return None


def _foreign(at: _Fault) -> Advice | None:
    """A word or sign that another query language would have here."""
    if at.before != "}" and _between_statements(at) and at.found in _JOINING:
        return None, _ONE_CONDITION
    after_word = at.before.isidentifier()
    if (
        at.found == "("
        and after_word
        and at.before.islower()
        and at.expected & {"FUNCTION", "COMPARE"}
    ):
        return None, f"there is no function `{at.before}`; there are {_FUNCTIONS}"
    if at.found == "(" and "NOT" in at.expected:
        return None, f"{_PARENTHESES}: a node is `$a: Type`, a traversal `$a edge $b`"
    if at.found == "(" and "FUNCTION" in at.expected:
        return None, _PARENTHESES
    if at.found in {"-", "<"} and at.before.startswith("$") and "COLON" in at.expected:
        return None, "a traversal is written `$a edge $b`"
    hint = instead_of(at.found, at.before)
    # `and not { … }`, `count(distinct $x)`: the word before was read as a name.
    if after_word and (hint is None or at.found == "not") and at.expected & {"COMPARE", "RPAREN"}:
        hint = instead_of(at.before) or hint
    return None if hint is None else (None, hint)


def _misspelt(at: _Fault) -> Advice | None:
    """A word that looks like one that would be allowed there."""
    words = [word for word in _KEYWORDS if word.upper() in at.expected]
    hint = did_you_mean(at.found, words) if at.found.isidentifier() else None
    if hint is None and at.before != "}" and _between_statements(at) and at.found.isidentifier():
        hint = _ONE_CONDITION  # a statement that ends without a brace ends with its `where`
    return None if hint is None else (None, hint)


_Rule = Callable[[_Fault], Advice | None]
_RULES: Final[tuple[_Rule, ...]] = (
    _section,
    _brackets,
    _letter_case,
    _variable,
    _number,
    _hops,
    _value,
    _foreign,
    _misspelt,
)
