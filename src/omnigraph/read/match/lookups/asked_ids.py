"""The nodes a test asks for by their ids, keys or values: what can be looked up instead of being scanned for.

$a.slug = "ada" or $a.slug in ["bob", "cy"]   ->   the ids "ada", "bob", "cy"
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from omnigraph.lang.query import ir
from omnigraph.lang.schema.catalog import NodeType
from omnigraph.types import key_text


@dataclass(frozen=True, slots=True)
class AskedIds:
    """The ids that satisfy a test. If it is not ``exact``, some of them may fail it."""

    ids: frozenset[str]
    exact: bool = True


def ids_asked(node: NodeType, test: ir.Condition, params: Mapping[str, Any]) -> AskedIds | None:
    """The ids a test asks for: its key or id is one value, one of a list, or satisfies such tests.

    Only values of the key's own type are looked up; None for any other test.
    """
    match test:
        case ir.Or():
            found = [ids_asked(node, part, params) for part in test.parts]
            if not found or None in found:
                return None
            all_of = [one for one in found if one is not None]
            ids = frozenset().union(*(one.ids for one in all_of))
            return AskedIds(ids, all(one.exact for one in all_of))
        case ir.And():
            parts = [ids_asked(node, part, params) for part in test.parts]
            known = [one for one in parts if one is not None]
            if not known:
                return None
            exact = len(known) == len(parts) and all(one.exact for one in known)
            return AskedIds(frozenset.intersection(*(one.ids for one in known)), exact)
        case ir.Compare():
            return _ids_compared(node, test, params)
    return None


def _ids_compared(node: NodeType, test: ir.Compare, params: Mapping[str, Any]) -> AskedIds | None:
    side = side_asked(test)
    if side is None:
        return None
    is_key = isinstance(side, ir.NodeId) or (side.property,) == node.key
    found = values_asked(test, params) if is_key else None
    if found is None:
        return None
    _, values = found
    if isinstance(side, ir.NodeId):
        return AskedIds(frozenset(value for value in values if isinstance(value, str)))
    kind = side.type
    if not kind.scalar.is_found_by_id:
        return None
    if any(isinstance(value, float | bool) for value in values):
        return None
    if kind.is_text:
        return AskedIds(frozenset(values))
    return AskedIds(frozenset(key_text(kind, value) for value in values))


def side_asked(test: ir.Compare) -> ir.PropertyOf | ir.NodeId | None:
    """The property or id that must have one value, or one of a list."""
    left, right = test.left, test.right
    if (
        test.op == "="
        and isinstance(right, ir.Value)
        and isinstance(left, ir.PropertyOf | ir.NodeId)
    ):
        return left
    if test.op in {"=", "member"} and isinstance(left, ir.Value):
        return right if isinstance(right, ir.PropertyOf | ir.NodeId) else None
    return None


def values_asked(
    test: ir.Compare, params: Mapping[str, Any]
) -> tuple[ir.PropertyOf | ir.NodeId, list[Any]] | None:
    """A property or id, and the values one of which it must have; null is none of them."""
    side = side_asked(test)
    if side is None:
        return None
    given = test.left if side is test.right else test.right
    assert isinstance(given, ir.Value)
    value = ir.value_of(given, params)
    if test.op == "=":
        return side, [] if value is None else [value]
    return side, [one for one in value or () if one is not None]


def is_asked_by_id(
    node: NodeType, tests: Iterable[ir.Condition], params: Mapping[str, Any]
) -> bool:
    """Whether one of the tests asks for ids."""
    return any(ids_asked(node, test, params) is not None for test in tests)
