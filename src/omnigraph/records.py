"""Frozen dataclasses that are made in a quarter of the time.

The languages declare some eighty of them, and the standard decorator compiles six methods for each:
a tenth of the time in which a fresh process answers a question. Here ``__init__`` alone is compiled;
the other methods are shared. To a type checker, and to ``fields``, ``replace`` and ``asdict``, such a
class is what ``dataclasses.dataclass(frozen=True, slots=True)`` makes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

__all__ = ["dataclass"]

T = TypeVar("T")

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(*, frozen: bool, slots: bool) -> Callable[[type[T]], type[T]]:
        """Decorate a class; ``frozen`` and ``slots`` are there to be said, and must be true."""
        assert frozen
        assert slots
        return _record


def _record(cls: type[T]) -> type[T]:
    make: Any = dataclasses.dataclass(init=False, repr=False, eq=False, slots=True)
    made: Any = make(cls)
    fields = dataclasses.fields(made)
    made.__init__ = _init(made, fields)
    compared = _values(tuple(one.name for one in fields if one.compare))
    shown = tuple(one.name for one in fields if one.repr)

    def __eq__(self: Any, other: object) -> bool:  # noqa: N807
        if other.__class__ is not self.__class__:
            return NotImplemented
        return compared(self) == compared(other)

    def __hash__(self: Any) -> int:  # noqa: N807
        return hash(compared(self))

    def __repr__(self: Any) -> str:  # noqa: N807
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in shown)
        return f"{self.__class__.__qualname__}({values})"

    for method in (__eq__, __hash__, __repr__):
        if method.__name__ not in cls.__dict__ or cls.__dict__[method.__name__] is None:
            setattr(made, method.__name__, method)
    made.__setattr__, made.__delattr__ = _refuse_assignment, _refuse_deletion
    made.__getstate__, made.__setstate__ = _state, _set_state
    return made  # type: ignore[no-any-return]


def _values(names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    if len(names) > 1:
        return attrgetter(*names)
    return lambda one: tuple(getattr(one, name) for name in names)


def _init(made: Any, fields: tuple[dataclasses.Field[Any], ...]) -> Any:
    """The one method that is compiled: it is called often, and its signature is looked at."""
    known: dict[str, Any] = {"_absent": dataclasses.MISSING}
    parameters, body = [], []
    for one in fields:
        name = one.name
        if not one.init:  # ``__post_init__`` gives it a value
            continue
        # What a slot is set with: the class itself refuses.
        known[f"_set_{name}"] = getattr(made, name).__set__
        value = name
        if one.default is not dataclasses.MISSING:
            known[f"_default_{name}"] = one.default
            parameters.append(f"{name}=_default_{name}")
        elif one.default_factory is not dataclasses.MISSING:
            known[f"_make_{name}"] = one.default_factory
            parameters.append(f"{name}=_absent")
            value = f"_make_{name}() if {name} is _absent else {name}"
        else:
            parameters.append(name)
        body.append(f"_set_{name}(self, {value})")
    if hasattr(made, "__post_init__"):
        body.append("self.__post_init__()")
    text = f"def __init__({', '.join(['self', *parameters])}):\n {'; '.join(body) or 'pass'}"
    exec(text, known)  # noqa: S102 - names of fields, from our own source
    known["__init__"].__qualname__ = f"{made.__qualname__}.__init__"
    return known["__init__"]


def _refuse_assignment(self: object, name: str, value: object) -> None:
    del self, value
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_deletion(self: object, name: str) -> None:
    del self
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, one.name) for one in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for one, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, one.name, value)
