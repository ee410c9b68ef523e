"""What an embedder is: an object of the caller, or one of the built-in providers, that makes vectors."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Literal, Protocol, TypeAlias

Role: TypeAlias = Literal["document", "query"]
"""What a text is: one that is stored and found, or one that is searched with."""

Vectors: TypeAlias = Iterable[Iterable[float]]


class Embedder(Protocol):
    """An object that turns each text into one vector."""

    @property
    def model(self) -> str:
        """The name of the model that makes the vectors."""
        ...

    @property
    def embed(self) -> Callable[..., Vectors]:
        """The method ``embed(texts, dimension, role)``: one vector of that many dimensions per text.

        ``texts`` is a list and the vectors come in its order. ``role`` is ``"document"`` for a text
        that is stored and ``"query"`` for one that is searched with; it is left out for an
        ``embed(texts, dimension)`` that has no such parameter.
        """
        ...


def takes_role(embedder: Embedder) -> bool:
    """Whether ``embed`` has a parameter ``role``."""
    try:
        return "role" in inspect.signature(embedder.embed).parameters
    except (TypeError, ValueError):  # written in C, without a signature
        return False


def is_embedder(thing: object) -> bool:
    """Whether it has a ``model`` and an ``embed`` that can be called as an embedder's is."""
    embed = getattr(thing, "embed", None)
    if not hasattr(thing, "model") or not callable(embed):
        return False
    try:
        signature = inspect.signature(embed)
    except (TypeError, ValueError):
        return True
    role = {"role": "document"} if "role" in signature.parameters else {}
    try:
        signature.bind([], 1, **role)
    except TypeError:
        return False
    return True
