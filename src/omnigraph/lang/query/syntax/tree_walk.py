"""Walks over syntax trees without recursion, so that no text can be too deep for them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from omnigraph.lang.query.syntax import ast
from omnigraph.lang.query.syntax.parse_state import fail

DEPTH_LIMIT: Final = 160
"""How many conditions, operators, calls and blocks may stand in each other, for the recursive passes."""


def nodes_of(tree: Any) -> Iterator[tuple[Any, int]]:
    """Every node of a tree and how deep it stands, in no particular order."""
    waiting = [(tree, 0)]
    while waiting:
        node, depth = waiting.pop()
        if type(node) is tuple:
            waiting += [(part, depth) for part in node]
        elif type(node).__module__ == ast.__name__:
            yield node, depth
            waiting += [(getattr(node, name), depth + 1) for name in node.__slots__]


def first_of(tree: Any, *kinds: type[Any]) -> Any:
    """A node of one of the kinds; None without one."""
    return next((node for node, _ in nodes_of(tree) if isinstance(node, kinds)), None)


def refuse_depth(file: ast.QueryFile) -> None:
    """Refuse a tree too deep for a pass that recurs."""
    for node, depth in nodes_of(file):
        if depth > DEPTH_LIMIT:
            fail(
                f"conditions and expressions nest at most {DEPTH_LIMIT} deep",
                node.span,
                "split it: operators of one chain, such as `a + b + c`, nest as well",
            )
