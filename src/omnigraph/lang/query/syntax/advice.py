"""Messages for queries that break the grammar: words for terminals, and hints."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from omnigraph.lang.parse_failures import END, Advice, quoted
from omnigraph.lang.query.syntax import ast
from omnigraph.lang.query.syntax.foreign import for_function, instead_of, is_foreign
from omnigraph.lang.query.syntax.parse_state import Reading
from omnigraph.lang.source import one_of
from omnigraph.spelling import did_you_mean

_KEYWORDS = (
    *("query", "for", "match", "return", "distinct", "having", "order", "limit", "offset"),
    *(
        "insert",
        "upsert",
        "update",
        "delete",
        "end",
        "assert",
        "set",
        "where",
        "as",
        "asc",
        "desc",
        "by",
    ),
    *("and", "or", "not", "in", "is", "null", "contains", "starts_with", "ends_with"),
    *("true", "false", "of", "during", "to", "ever"),
)
NAMES: Final[dict[str, str]] = {
    END: "the end of the source",
    **{word.upper(): f"`{word}`" for word in _KEYWORDS},
    "NAME": "a name",
    "TYPE": "a type name",
    "VAR": "a variable",
    "INT": "a number",
    "FLOAT": "a number",
    "STRING": "a string",
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
    "AT_WORD": "`at`",
    "OPTIONAL": "`?`",
    "COMPARE": "a comparison",
    "LESS": "`<`",
    "GREATER": "`>`",
    "VBAR": "`|`",
    "PLUS": "`+`",
    "MINUS": "`-`",
    "STAR": "`*`",
    "SLASH": "`/`",
    "PERCENT": "`%`",
    "FUNCTION": "a function",
    "COUNTING": "a function",
    "NOW": "`now()`",
    "NOT_NULL": "`not`",
    "EXISTS": "`exists`",
    "OPTIONALLY": "`optional`",
}

_ARITHMETIC = frozenset({"PLUS", "MINUS", "STAR", "SLASH", "PERCENT"})
_TESTS = frozenset(
    {"COMPARE", "LESS", "GREATER", "CONTAINS", "STARTS_WITH", "ENDS_WITH", "IN", "IS"}
)
_LITERALS = frozenset({"STRING", "INT", "FLOAT", "TRUE", "FALSE", "DATED", "LBRACKET", "MINUS"})
_NUMBERS = frozenset({"INT", "FLOAT", "MINUS"})
_NAMES = frozenset(
    {"NAME", "AS", "ASC", "DESC", "CONTAINS", "STARTS_WITH", "ENDS_WITH", "IN", "IS", "OR", "AND"}
    | {"FOR", "INSERT", "UPSERT", "UPDATE", "DELETE", "RETURN", "END", "ASSERT", "AT_WORD"}
    | {"OF", "DURING", "TO", "EVER"}
)
_WORDS = _NAMES | {"TRUE", "FALSE", "EXISTS", "OPTIONALLY"}
_EXPRESSIONS = _LITERALS | _NAMES | {"VAR", "NOW", "FUNCTION", "COUNTING", "LPAR", "EXISTS"}
_CLAUSES = _EXPRESSIONS | {"NOT", "OPTIONALLY"}
_CHANGES = frozenset({"INSERT", "UPSERT", "UPDATE", "DELETE", "END", "ASSERT"})
_WHEN = frozenset({"AS", "DURING", "EVER"})
"""What may follow a match or a clause and hardly ever does: it is not offered beside what must."""

# Sets of terminals that people see as one thing, the largest first.
_GROUPS = (
    (_CHANGES | {"QUERY", "FOR", "MATCH", "LPAR"}, "a query"),
    (_CLAUSES, "a clause"),
    (_EXPRESSIONS, "an expression"),
    (_WORDS, "a name"),
    (_NAMES, "a name"),
    (_TESTS | _ARITHMETIC | {"AND", "OR"}, "an operator"),
    (_TESTS | _ARITHMETIC, "an operator"),
    (_TESTS, "an operator"),
    (_LITERALS, "a literal"),
    (_ARITHMETIC, "an operator"),
    (_CHANGES, "a statement"),
    (_NUMBERS, "a number"),
)

_DESTINATION = "a traversal ends in a variable; `$_` stands for any entity"
_PATTERN = "a node is `$a: Type`, a traversal `$a edge $b`"
_FUNCTIONS = ", ".join(ast.FUNCTIONS)
_ANNOTATIONS = frozenset({"description", "instruction"})
_STATEMENTS = ("insert", "upsert", "update", "delete", "end", "assert")
_SECTIONS = ("for", "match", "return", "having", "order", "limit", "offset")
_SECTION_ORDER = "the order is " + ", ".join(f"`{name}`" for name in _SECTIONS)
_BOUNDS = "hop bounds are written `{min,max}`"
_ONE_ANONYMOUS = "a text holds at most one query without a name, at its end; declare the others: `query name() { … }`"
_AS_VALUE = "a condition as a value stands in parentheses: `($x.p > 1) as name`"


class _Fault(NamedTuple):
    """Where parsing stopped: the text and token before, the text found, and what was expected there."""

    text: str
    before: str
    found: str
    expected: frozenset[str]


def advise(reading: Reading, found: str, expected: frozenset[str]) -> Advice:
    """A message, and a hint for the faults people make most."""
    token = reading.before if found else reading.last
    before = "" if token is None else str(token)
    text = reading.source.text[: 0 if token is None else token.end_pos]
    fault = _Fault(text, before, found, expected)
    message, hint = None, None
    for rule in _RULES:
        advice = rule(fault)
        if advice is not None:
            message, hint = advice
            break
    return message or f"expected {_listed(fault)}, found {quoted(found)}", hint


def _listed(at: _Fault) -> str:
    rest = set(at.expected - {END} or at.expected)
    if rest > _WHEN and "NAME" not in rest:
        rest -= _WHEN
    words: list[str] = []
    for group, word in _GROUPS:
        # An operator can be a name too, so a set must match whole and is replaced only once.
        if group <= at.expected and group & rest:
            is_condition = group is _CLAUSES and "RBRACE" not in at.expected and at.before != "{"
            words.append("a condition" if is_condition else word)
            rest -= group
    return one_of([*dict.fromkeys(words), *(NAMES[name] for name in rest)])


def _section(at: _Fault) -> Advice | None:
    """A part of the query that is missing, empty or out of place."""
    ends = {"RBRACE", "NAME", END}
    if "TO" in at.expected and "NAME" not in at.expected:
        return None, "a window of moments is `during` its beginning `to` its end"
    if "RETURN" in at.expected and at.found in {"}", ""} and not at.expected & ends:
        return "the `return` block is missing", "a read ends with `return { … }`"
    if at.found in _SECTIONS and not at.expected & {"LBRACE", "NAME"}:
        return _out_of_order(at)
    if at.found in _STATEMENTS and {"HAVING", "OFFSET"} & at.expected:
        return None, "the `return` of a mutation stands after its statements"
    if (at.before, at.found) == ("{", "}") and "MATCH" in at.expected:
        return "the query is empty", "it holds `match … return …`, or mutation statements"
    if (at.before, at.found) == ("{", "}") and at.expected == _EXPRESSIONS:
        return "the `order` block is empty", "leave it out, or give it a sort key"
    if at.before == "query" and at.found in {"{", "("}:
        return None, "leave out `query`, or give it a name: `query name() { … }`"
    if at.before in {"match", "return", "order", "having"} and "LBRACE" in at.expected:
        hint = instead_of(at.found) or f"it stands in a block: `{at.before} {{ … }}`"
        return None, hint
    if at.expected == {"LPAR"} and re.search(r"\$\w+\s*:\s*\w+$", at.text):
        upper = at.before[0].upper() + at.before[1:]
        return None, f"type names start with an upper-case letter: `{upper}`"
    if at.found == "{" and at.expected == {"LPAR"} and at.before not in _ANNOTATIONS:
        return None, f"parameters stand in parentheses, also when there are none: `{at.before}()`"
    if at.before == "set" and at.expected == {"LBRACE"}:
        return None, "what is set stands in a block: `set { name: value }`"
    if at.expected == {"SET"}:
        return (
            None,
            "an update is written `update Type set { … } where …`, or `update $x set { … }`",
        )
    if "WHERE" in at.expected:
        return (
            None,
            "of a type, say which: `where …`; what a `match` found is changed by its variable",
        )
    return None


def _out_of_order(at: _Fault) -> Advice | None:
    """A section after one that it stands before, or a second one."""
    place = _SECTIONS.index(at.found)
    if END in at.expected and at.found in {"for", "match"}:
        return None, _ONE_ANONYMOUS
    if "MATCH" in at.expected and at.found not in {"for", "match"}:
        return f"`{at.found}` has no `match` before it", "a read is `match { … } return { … }`"
    later = [name for name in _SECTIONS if name.upper() in at.expected]
    if at.found == "match" and later[:1] == ["return"] and not at.expected & {"RBRACE", END}:
        return "`match` is given twice", "one `match` holds all clauses"
    if {"INSERT", "RETURN"} <= at.expected and at.expected & {"RBRACE", END}:
        return (
            f"`{at.found}` cannot stand here",
            "a mutation is `for`, `match`, statements, `return`",
        )
    if at.before == "}" and not later and at.found not in {"return", "match", "for"}:
        return f"a mutation takes no `{at.found}`", "its rows come in the order of its `match`"
    end = _SECTIONS.index(later[0]) if later else len(_SECTIONS)
    if place >= end:
        return f"`{at.found}` stands after `{_SECTIONS[end]}`", _SECTION_ORDER
    if place == end - 1:
        return f"`{at.found}` is given twice", "keep one of them"
    return f"`{at.found}` stands before `{_SECTIONS[end - 1]}`", _SECTION_ORDER


def _anonymous(at: _Fault) -> Advice | None:
    """What cannot stand beside a query without a name."""
    if END not in at.expected or "QUERY" in at.expected:
        return None
    if at.found == "query":
        return "a declaration stands before the query without a name", _ONE_ANONYMOUS
    if at.found in _STATEMENTS or at.found == "(":
        return None, _ONE_ANONYMOUS
    if at.found == "@":
        return (
            None,
            'an annotation belongs to a declaration: `query name() @description("…") { … }`',
        )
    return None


def _brackets(at: _Fault) -> Advice | None:
    """Brackets and commas that do not pair up or separate."""
    for closing, opening in (("RBRACE", "{"), ("RPAREN", "("), ("RBRACKET", "[")):
        missing = at.found == "" or (at.found in "}])" and "RBRACE" not in at.expected)
        if missing and closing in at.expected and at.before != ",":
            return None, f"a `{opening}` is not closed"
    if at.found == "}" and at.expected & {"QUERY", END}:
        return None, "there is one `}` too many"
    if at.before == "," and at.found in {"}", "]", ")"}:
        return None, "no comma may stand before the end here"
    if at.found == "," and {"NOT", "RBRACE"} <= at.expected:
        return None, "clauses are not separated by commas"
    if at.found == "," and "OFFSET" in at.expected:
        return None, "rows are left out with `limit 10 offset 20`"
    if at.before in {"and", "or"} and at.found in {"}", ")", "]"} and "NOT" in at.expected:
        return f"`{at.before}` stands between two conditions", f"leave out this `{at.before}`"
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
    if at.before in {"<", "|"} or re.search(r"\$[a-z_]\w*\s*(?:\$\w+\s*:\s*)?$", at.text):
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
        if at.text.removesuffix(at.before).rstrip().endswith("("):
            return None, _PATTERN
        return None, f"variables start with `$`: `${at.before}: Type`"
    if at.before == "in" and at.expected == {"VAR"}:
        return None, "`for` takes a list parameter or a list property: `for $x in $list`"
    if not at.found.startswith("$"):
        return None
    if at.found[1:2].islower() or at.found[1:2] == "_":
        if at.expected == _NUMBERS:
            return None, "a parameter cannot stand here; write the number"
        if at.expected >= _LITERALS and "VAR" not in at.expected:
            return (
                None,
                "a list holds literals; pass the whole list as a parameter, `$x.p in $list`",
            )
        return None
    return (
        f"{quoted(at.found)} is not a variable",
        "a variable is `$` and a name that starts with a lower-case letter or `_`",
    )


def _number(at: _Fault) -> Advice | None:
    """A number in a form the language does not have."""
    if at.found == "." and ("STRING" in at.expected or at.before.isdigit()):
        return None, "a float has digits on both sides of the point"
    if re.search(r"[0-9][eE][0-9]*$", at.text):
        return None, "numbers have no exponent"
    if at.found == "+" and "STRING" in at.expected:
        return None, "a number is its digits, with a `-` before them when negative"
    return None


def _hops(at: _Fault) -> Advice | None:
    """Hop bounds in the style of another language, or a traversal without its end."""
    if at.expected == {"COMMA"} and at.found == "}":
        return None, f"{_BOUNDS}: `{{{at.before},{at.before}}}`"
    if at.expected == {"COMMA"}:
        return None, _BOUNDS
    if at.expected == _NUMBERS and at.before == "{":
        return None, f"{_BOUNDS}, the lower one always"
    if not {"BY", "VAR"} <= at.expected:
        return None
    if at.found in {"*", "+"} or at.found.isdigit():
        return None, _BOUNDS
    # `$flag or (…)`, `$flag and exists { … }`: a word after a variable is an edge.
    if at.before in _KEYWORDS and at.found in {"(", "not", "exists", "{"}:
        return (
            None,
            f"put the variable before `{at.before}` in parentheses; a word after it is an edge",
        )
    return None, _DESTINATION


def _value(at: _Fault) -> Advice | None:
    """A place that takes literals only, or a condition where a value is due."""
    if re.search(r"-\s*\[:?$", at.text) or (at.found == ">" and at.text.endswith("-")):
        return None, "a traversal is written `$a edge $b`"
    is_word = at.found.isidentifier() and not is_foreign(at.found)
    if is_word and at.expected & _LITERALS == _LITERALS and "VAR" not in at.expected:
        return None, f'text is written in double quotes: "{at.found}"'
    if at.expected == {"COLON"} and at.found in {"=", "!", "<", ">"}:
        return None, "an entry is an equality, written `name: value`"
    compares = at.found in {"=", "!", "<", ">", "is", "not"}
    ends = at.expected & {"COMMA", "RBRACE"} and at.before not in {"{", ","}
    if compares and "COMPARE" not in at.expected and (ends or at.expected >= _ARITHMETIC):
        return None, instead_of(at.found, at.before) if at.found == "!" else _AS_VALUE
    is_condition = at.found == "not" and at.expected >= _EXPRESSIONS and "NOT" not in at.expected
    if is_condition or (at.expected == {"COLON"} and re.search(r":\s*not\s+\w*$", at.text)):
        return None, _AS_VALUE
    return None


def _foreign(at: _Fault) -> Advice | None:
    """A word, a sign or a function that another query language would have here."""
    after_word = at.before.isidentifier()
    if at.found == "(" and after_word and at.before.islower() and at.expected & {"COMPARE", "PLUS"}:
        known = for_function(at.before) or f"there are {_FUNCTIONS}"
        return f"there is no function `{at.before}`", known
    if re.search(r"\boptional\s+match$", at.text):
        return None, instead_of("optional")
    if at.before == "distinct" and "RPAREN" in at.expected:
        return None, "only `count` and `collect` take `distinct`"
    if at.found in {"-", "<"} and at.before.startswith("$") and "COLON" in at.expected:
        return None, "a traversal is written `$a edge $b`"
    if at.found == "*" and at.before == "(":
        return None, "only `count` takes `*`"
    if at.found == "{" and at.before.startswith("$") and "RPAREN" in at.expected:
        return None, "only `count` and `collect` take an object, `$x { … }`"
    hint = instead_of(at.found, at.before)
    if hint is None and _ends_a_where(at):
        misspelt = did_you_mean(at.found, _STATEMENTS) if at.found.isidentifier() else None
        return None, misspelt or "conditions of a `where` are joined with `and` or `or`"
    if hint is None and after_word and at.expected & {"COMPARE", "RPAREN", "PLUS"}:
        hint = instead_of(at.before)
    return None if hint is None else (None, hint)


def _ends_a_where(at: _Fault) -> bool:
    """Whether a statement may end here, and without a brace: so with its `where`."""
    ends = bool(at.expected & {"RBRACE", END}) and "DELETE" in at.expected
    elsewhere = bool(at.expected & {"NAME", "QUERY"}) or at.before == "}"
    return ends and not elsewhere and (at.found == "," or at.found.isidentifier())


def _misspelt(at: _Fault) -> Advice | None:
    """A word that looks like one that would be allowed there."""
    words = [word for word in _KEYWORDS if word.upper() in at.expected]
    hint = did_you_mean(at.found, words) if at.found.isidentifier() else None
    return None if hint is None else (None, hint)


_Rule = Callable[[_Fault], Advice | None]
_RULES: Final[tuple[_Rule, ...]] = (
    _section,
    _anonymous,
    _brackets,
    _letter_case,
    _variable,
    _number,
    _hops,
    _value,
    _foreign,
    _misspelt,
)
