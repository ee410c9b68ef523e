"""Whether a document is what an operation answers with.

Anything may listen at an address and speak JSON. A document is checked against the type of its answer before
anybody reads it: so an answer of another program is reported as such, and does not fail somewhere else as a missing
member. A newer server may say more than the types know: further members, and other words where a member is one of
several.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from types import UnionType
from typing import (
    Any,
    Final,
    Literal,
    NotRequired,
    TypedDict,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

import msgspec

from omnigraph.service.answers import answer_type
from omnigraph.service.operations import INVOKE_MUTATION, OPERATIONS

_OF_SERVER: Final = {"graphs": ("GraphsAnswer",), "health": ("HealthAnswer",)}


def misfit(name: str, document: Mapping[str, Any]) -> str | None:
    """Return why a document is no answer of this operation; None if it is one."""
    checked = dict(document)
    if isinstance(rows := checked.get("rows"), list):
        # There may be many, and anything may stand in them.
        if not all(isinstance(row, dict) for row in rows):
            return "a row is no object"
        checked["rows"] = []
    faults = list(_faults(_types(name), checked))
    return faults[0] if len(faults) == len(_types(name)) else None


def _faults(types: Iterable[Any], document: dict[str, Any]) -> Iterator[str]:
    for kind in types:
        try:
            msgspec.convert(document, kind)
        except msgspec.ValidationError as error:
            yield str(error)


@cache
def _types(name: str) -> tuple[Any, ...]:
    """The types that an answer may have."""
    if name in _OF_SERVER:
        names: tuple[str, ...] = _OF_SERVER[name]
    elif name == "invoke":
        names = (OPERATIONS[name].answer, INVOKE_MUTATION.answer)
    else:
        names = (OPERATIONS[name].answer,)
    return tuple(_widened(answer_type(one)) for one in names)


def _widened(hint: Any, *inside: Any) -> Any:
    """Return a type with any text in place of the texts it lists; what holds itself is an object there."""
    origin, parts = get_origin(hint), get_args(hint)
    if hint in inside:
        return dict[str, Any]
    if is_typeddict(hint):
        members = get_type_hints(hint, include_extras=True)
        shown = {key: _widened(member, hint, *inside) for key, member in members.items()}
        return TypedDict(hint.__name__, shown)  # type: ignore[operator]
    if origin is Literal:
        return _any_of(type(part) for part in parts)
    if origin in {Union, UnionType}:
        return _any_of(_widened(part, *inside) for part in parts)
    if origin in {list, dict, NotRequired}:
        inner = tuple(_widened(part, *inside) for part in parts)
        return origin[inner if len(inner) > 1 else inner[0]]
    return hint


def _any_of(kinds: Iterable[Any]) -> Any:
    return Union[tuple(kinds)]  # noqa: UP007 - made at run time
