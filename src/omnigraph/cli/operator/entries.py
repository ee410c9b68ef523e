"""Typed access to one mapping of a configuration file.

Each entry that is asked for is known; the rest are unknown keys, which only warn, so that a file
written for a newer release still works.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from omnigraph.errors import BadRequest

T = TypeVar("T")

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
"""What profiles, servers, clusters and aliases may be called."""


class Entries:
    """The entries of a mapping at a place of a file, such as `defaults` or `servers.prod`."""

    def __init__(self, path: Path, place: str, value: Any, unknown: list[str]) -> None:
        """``unknown`` collects the keys that the product does not know; see ``finish``."""
        self._path = path
        self._place = place
        self._unknown = unknown
        self._known: set[str] = set()
        if value is None:
            value = {}
        if not isinstance(value, Mapping):
            raise self._refused("", "a mapping")
        self._values: Mapping[Any, Any] = value

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        return iter(self._values.items())

    def text(self, key: str) -> str | None:
        """Return a text, or None if there is none."""
        value = self._value(key)
        if value is None:
            return None
        if not isinstance(value, str) or not value.strip():
            raise self._refused(key, "a text")
        return value.strip()

    def choice(self, key: str, options: tuple[str, ...]) -> str | None:
        """Return one of the words, or None if there is none."""
        text = self.text(key)
        if text is not None and text not in options:
            raise self._refused(key, f"one of {', '.join(options)}")
        return text

    def number(self, key: str, least: int) -> int | None:
        """Return a whole number, or None if there is none."""
        value = self._value(key)
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise self._refused(key, f"a whole number, {least} or more")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of texts; empty if there is none."""
        value = self._value(key)
        if value is None:
            return ()
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            raise self._refused(key, "a list of texts")
        return tuple(value)

    def mapping(self, key: str) -> Mapping[str, Any]:
        """Return a mapping as it is, whose keys are texts; empty if there is none."""
        value = self._value(key)
        if value is None:
            return {}
        if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
            raise self._refused(key, "a mapping")
        return value

    def inner(self, key: str) -> Entries:
        """Return the entries of a mapping; none if there is no such key."""
        return Entries(self._path, self._at(key), self._value(key), self._unknown)

    def named(
        self, key: str, read: Callable[[str, Entries], T], faults: dict[str, BadRequest]
    ) -> dict[str, T]:
        """Return what ``read`` makes of each entry of a mapping from names to mappings.

        An entry that cannot be used is left out, and what is wrong with it put into ``faults`` under
        its place: it must not stop commands that use another one.
        """
        found = {}
        for name, value in self.inner(key):
            place = f"{self._at(key)}.{name}"
            try:
                self._check_name(name, place)
                found[name] = read(name, Entries(self._path, place, value, self._unknown))
            except BadRequest as fault:
                faults[place] = fault
        return found

    def _check_name(self, name: Any, place: str) -> None:
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise BadRequest(
                f"{self._path}: `{place}` is no name; use letters, digits, _ and -, and begin with a "
                "letter or _",
                path=str(self._path),
            )

    def finish(self) -> None:
        """Note the keys that the product does not know."""
        self._unknown += [self._at(str(key)) for key in self._values if key not in self._known]

    def _value(self, key: str) -> Any:
        self._known.add(key)
        return self._values.get(key)

    def _at(self, key: str) -> str:
        return ".".join(part for part in (self._place, key) if part)

    def _refused(self, key: str, wanted: str) -> BadRequest:
        at = self._at(key)
        what = f"`{at}`" if at else "the file"
        return BadRequest(f"{self._path}: {what} must be {wanted}; mend it", path=str(self._path))
