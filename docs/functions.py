"""Write the page of operators and functions, `docs/user/functions.md`, from the table that the language uses."""

from __future__ import annotations

from pathlib import Path

from omnigraph.lang.query.aggregates import AGGREGATES
from omnigraph.lang.query.functions import FUNCTIONS, VARIABLE_FUNCTIONS, Function

PAGE = Path(__file__).parent / "user" / "functions.md"
HEAD = """# Operators and functions

What [expressions](queries.md#expressions) are made of. This page is written from the table that the checker uses.

A missing operand makes the result null, except in `coalesce` and `if`. Beyond that a result is null where the last
column says so: no expression of a read fails. An integer beside a float is a float.

| Form | Takes | Gives | Null when |
|---|---|---|---|
"""


def text() -> str:
    """Return what the page should hold."""
    rows = [_row(one) for one in FUNCTIONS.values() if one.word]
    variables = [
        f"| `{name}($x)` | a variable | {doc} | |" for name, doc in VARIABLE_FUNCTIONS.items()
    ]
    return HEAD + "\n".join([*rows, *variables]) + "\n" + _units() + _aggregates()


def _row(one: Function) -> str:
    names = "abcd"[: len(one.takes)]
    if one.is_operator:
        form = f"{one.word}a" if len(names) == 1 else f"a {one.word} b"
    else:
        given = ", ".join(names[: one.least])
        left_out = "".join(f" [, {name}]" for name in names[one.least :])
        form = f"{one.word}({given}{left_out}{', …' if one.repeats else ''})"
    takes = ", ".join(argument.words for argument in one.takes)
    return f"| `{form}` | {takes} | {one.doc} | {one.null_when or ''} |"


def _units() -> str:
    rows = [f"| `{one.word}` | {_listed(one.units)} |" for one in FUNCTIONS.values() if one.units]
    head = "\nA unit is written as a text. Those from the hour down are for a DateTime only.\n\n"
    return head + "| Function | Units |\n|---|---|\n" + "\n".join(rows) + "\n"


def _listed(words: tuple[str, ...]) -> str:
    return ", ".join(f'`"{word}"`' for word in words)


def _aggregates() -> str:
    names = ", ".join(f"`{name}`" for name in AGGREGATES)
    return f"\nAggregates ({names}) are in [Results](queries.md#results).\n"


if __name__ == "__main__":
    PAGE.write_text(text(), encoding="utf-8")
