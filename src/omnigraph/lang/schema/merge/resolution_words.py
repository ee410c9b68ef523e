"""The words of `resolve_schema`: which side wins where two schemas conflict."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from omnigraph.errors import BadRequest
from omnigraph.spelling import did_you_mean
from omnigraph.types import shown

Word = Literal["ours", "theirs"]
ResolveSchema = Word | Mapping[str, Word]


class Words:
    """The given words, and the elements that were decided by one."""

    def __init__(self, given: object = None) -> None:
        self._for_all: Word | None = None
        self._by_element: dict[str, Word] = {}
        self._asked: set[str] = set()
        if isinstance(given, Mapping):
            for element, word in given.items():
                if not isinstance(element, str):
                    raise BadRequest(
                        "resolve_schema is keyed by elements such as node:Ship.flag, got "
                        f"{shown(element)}"
                    )
                self._by_element[element] = _word(word)
        elif given is not None:
            self._for_all = _word(given)

    def decide(self, element: str) -> Word | None:
        """The word for an element in conflict; None leaves the conflict."""
        self._asked.add(element)
        return self._by_element.get(element, self._for_all)

    @property
    def resolved(self) -> tuple[str, ...]:
        """The elements in conflict that a word decided, sorted."""
        return tuple(sorted(each for each in self._asked if self.decide(each) is not None))

    def refuse_unused(self, conflicts: Iterable[str] = ()) -> None:
        """Refuse a word for an element that is not in conflict.

        ``conflicts`` are elements in conflict that no word can decide; a word for one of them has no
        effect and is refused, too.
        """
        unused = sorted(self._by_element.keys() - self._asked)
        if not unused:
            return
        first = unused[0]
        if first in set(conflicts):
            raise BadRequest(
                f"resolve_schema names {first}, and no word decides that conflict; change one of "
                "the branches, and try again",
                element=first,
            )
        hint = did_you_mean(first, self._asked)
        known = ", ".join(sorted(self._asked)) or "none"
        raise BadRequest(
            f"resolve_schema names {shown(first)}, which is not in conflict"
            f"{f' ({hint})' if hint else ''}; leave it out (elements in conflict: {known})",
            element=first,
        )


def theirs_is_gone(element: str) -> BadRequest:
    """The error for `theirs` where the target dropped what the source changed."""
    return BadRequest(
        f"resolve_schema cannot take {element} from the source: the target dropped it, and its rows "
        'no longer have the values; decide "ours", or add it to the target again and load them',
        element=element,
    )


def _word(given: object) -> Word:
    if given == "ours":
        return "ours"
    if given == "theirs":
        return "theirs"
    raise BadRequest(
        f'{shown(given)} decides nothing; resolve_schema knows "ours" (the target\'s) and "theirs" '
        "(the source's), or a mapping of elements to these words"
    )
