"""Messages for schemas that break the grammar: words for terminals, and hints."""

from __future__ import annotations

from typing import Final

from omnigraph.lang.parse_failures import Advice, quoted
from omnigraph.spelling import did_you_mean
from omnigraph.types import Scalar

NAMES: Final[dict[str, str]] = {
    "$END": "the end of the source",
    "TYPE_NAME": "a type name",
    "ENDPOINT": "the name of a node type",
    "INTERFACE_NAME": "the name of an interface",
    "PROPERTY": "a property name",
    "MEMBER": "a property name",
    "ANNOTATION": "the name of an annotation",
    "CONSTRAINT": "the name of an annotation",
    "RANGE": "the name of an annotation",
    "CHECK": "the name of an annotation",
    "VALID": "the name of an annotation",
    "DEFAULT": "the name of an annotation",
    "DEFAULT_WORD": "a word",
    "LIST_OPEN": "a list",
    "LIST_END": "`]`",
    "KEYWORD": "a keyword such as `model`",
    "WORD": "a word",
    "ENUM_WORD": "an enum value",
    "SCALAR": "a type",
    "_VECTOR_OPEN": "`(` and the Vector dimension",
    "DIMENSION": "the Vector dimension",
    "LOWER": "the lower cardinality bound",
    "UPPER": "the upper cardinality bound",
    "_CARD_OPEN": "`(` and the cardinality bounds",
    "_CARD_TO": "`..` between the cardinality bounds",
    "FLOAT": "a number",
    "INT": "a number",
    "STRING": "a string",
    "BOOL": "`true` or `false`",
    "AT": "`@`",
    "TO": "`..`",
    "MINUS": "a number",
    "NULLABLE": "`?`",
    "_CARD": "`card`",
    "_INTERFACE": "`interface`",
    "_NODE": "`node`",
    "_EDGE": "`edge`",
    "_IMPLEMENTS": "`implements`",
    "_ENUM": "a type",
    "_VECTOR": "a type",
    "_LSQB": "a type",
    "_RSQB": "`]`",
    "_LBRACE": "`{`",
    "_RBRACE": "`}`",
    "_LPAR": "`(`",
    "_RPAR": "`)`",
    "_COLON": "`:`",
    "_COMMA": "`,`",
    "_ARROW": "`->`",
    "_EQUALS": "`=`",
}

_TYPE_WORDS = (*(scalar.value for scalar in Scalar), "Vector", "enum")
# Words of other languages that are not similar to ours, so that spelling hints miss them.
_FOREIGN_TYPES = {
    "int": "I64",
    "integer": "I64",
    "long": "I64",
    "float": "F64",
    "double": "F64",
    "number": "F64",
    "text": "String",
    "str": "String",
    "boolean": "Bool",
    "timestamp": "DateTime",
    "bytes": "Blob",
    "binary": "Blob",
}
_CARD_HELP = "`@card(min..max)`, or `@card(min..)` with the top open"


def advise(found: str, expected: frozenset[str]) -> Advice:
    """A better message or a hint for the most common mistakes."""
    if "SCALAR" in expected:
        return _bad_type(found, expected)
    if expected & {"_CARD_OPEN", "LOWER", "UPPER", "_CARD_TO"}:
        return None, f"a cardinality is written {_CARD_HELP}"
    if found == "card" and expected & {"ANNOTATION", "CONSTRAINT"}:
        return (
            "`@card` gives the cardinality of an edge and cannot stand here",
            "write it once, on an edge, right after the target type",
        )
    if _is_name(found):
        return _misnamed(found, expected)
    return None, _about_symbol(found, expected)


def _bad_type(found: str, expected: frozenset[str]) -> Advice:
    inside_list = "_ENUM" not in expected
    if inside_list and (found == "[" or found in {"Vector", "enum"}):
        return "a list holds plain scalars only", "for example `[String]` or `[I64]`"
    if not _is_name(found):
        return None, None
    known = _FOREIGN_TYPES.get(found.lower())
    hint = f"did you mean `{known}`?" if known else did_you_mean(found, _TYPE_WORDS)
    return f"unknown type {quoted(found)}", hint or f"the types are {', '.join(_TYPE_WORDS)}"


def _misnamed(found: str, expected: frozenset[str]) -> Advice:
    if expected & {"TYPE_NAME", "ENDPOINT", "INTERFACE_NAME"}:
        return None, "type names start with a capital letter"
    if expected & {"PROPERTY", "MEMBER"}:
        return None, "property names start with a lower-case letter or `_`"
    if "ANNOTATION" in expected:
        return None, "annotation names start with a lower-case letter or `_`"
    if "WORD" in expected:
        return (
            None,
            f"a word starts with a lower-case letter or `_`: write `{found.lower()}`, or quote it",
        )
    if "_LBRACE" in expected and found == "implements":
        return None, "only nodes implement interfaces, and annotations come before `implements`"
    if "_NODE" in expected:
        if found == "enum":
            return None, "there are no named enums: write `enum(a, b)` as the type of a property"
        return None, did_you_mean(found, ("node", "edge", "interface"))
    return None, None


def _about_symbol(found: str, expected: frozenset[str]) -> str | None:
    if "MEMBER" in expected:
        return "a constraint starts with names of properties: `@unique(a, b)`, `@range(a, 0..9)`"
    if found in {",", ";"} and "PROPERTY" in expected:
        return f"members are not separated by `{found}`"
    if found == "=" and "PROPERTY" in expected:
        return "there are no default values"
    if found == "@" and "_LBRACE" in expected:
        return "an interface takes no annotations; a node's come before `implements`"
    if "KEYWORD" in expected or (found == "=" and "_COMMA" in expected):
        return "the first argument of an annotation has no keyword, every other one has"
    return None


def _is_name(found: str) -> bool:
    return found.isidentifier()
