"""Which changes a diff or a feed shows: by kind, by type, by what happened."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

from omnigraph.errors import BadRequest
from omnigraph.lang.schema.catalog import Catalog
from omnigraph.types import shown

Kind = Literal["node", "edge"]
Op = Literal["insert", "update", "delete"]

KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
OPS: Final[tuple[Op, ...]] = get_args(Op)


@dataclass(frozen=True, slots=True)
class ChangeFilter:
    """Kinds, names of types and operations to show; an empty tuple shows all of them.

    Filters that mean the same are equal: names are sorted, each is there once, and a list of all
    kinds or all operations is none.
    """

    kinds: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    ops: tuple[str, ...] = ()

    @classmethod
    def of(cls, kinds: object = None, types: object = None, ops: object = None) -> ChangeFilter:
        """Return a checked filter; words that are no kind or operation are refused."""
        return cls(
            _words("kinds", kinds, KINDS), tuple(_listed("types", types)), _words("ops", ops, OPS)
        )

    def refuse_unknown_types(self, *catalogs: Catalog) -> None:
        """Refuse a name that is no type of any of these schemas."""
        known = {name for one in catalogs for names in (one.nodes, one.edges) for name in names}
        for name in self.types:
            if name not in known:
                raise BadRequest(
                    f"there is no type `{name}` on either side or in the accepted schema; give the "
                    "names of node or edge types"
                )

    def shows_kind(self, kind: str) -> bool:
        """Whether changes of nodes, or of edges, are shown."""
        return not self.kinds or kind in self.kinds

    def shows_type(self, names: Iterable[str]) -> bool:
        """Whether changes of a type are shown that has, or had, these names."""
        return not self.types or any(name in self.types for name in names)

    def to_json(self) -> dict[str, Any]:
        """Return the one form of all filters that mean the same."""
        return {"kinds": list(self.kinds), "types": list(self.types), "ops": list(self.ops)}


def _words(name: str, given: object, allowed: tuple[str, ...]) -> tuple[str, ...]:
    words = _listed(name, given)
    for word in words:
        if word not in allowed:
            raise BadRequest(f"{name} are {', '.join(allowed)}; {shown(word)} is none of them")
    return () if set(words) == set(allowed) else tuple(words)


def _listed(name: str, given: object) -> list[str]:
    """Return the texts of a list, sorted and each once; a single text is refused."""
    if given is None:
        return []
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise BadRequest(f"{name} is {given!r}; give a list of texts, or leave it out")
    texts = list(given)
    for text in texts:
        if not isinstance(text, str):
            raise BadRequest(f"{name} has {text!r}; give a list of texts")
    return sorted(set(texts))
