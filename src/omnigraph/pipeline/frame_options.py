"""How the columns of a frame, or of a file of columns, are read: names, and what a CSV file looks like."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypedDict

from omnigraph.errors import BadRequest
from omnigraph.pipeline.load_options import CommitKeywords, LoadKeywords

COMMA = ","
UTF_8 = "utf-8"


@dataclass(frozen=True, slots=True)
class FrameOptions:
    """What ``load_nodes`` and ``load_edges`` take besides the options of a load.

    ``columns`` renames: a column of the frame to a name of the type. ``ignore_extra`` leaves out
    columns that the type does not declare. The others are for CSV files: the ``delimiter``;
    ``header=False`` for a file that begins with its first row, whose columns ``names`` names; ``null``,
    texts that mean no value, as an empty cell always does; and the ``encoding``.
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    ignore_extra: bool = False
    delimiter: str = COMMA
    header: bool = True
    names: tuple[str, ...] | None = None
    null: tuple[str, ...] = ()
    encoding: str = UTF_8
    shared: bool = False
    """Whether several frames are read with these options: not each of them has every column."""

    @classmethod
    def of(
        cls,
        columns: object = None,
        ignore_extra: object = False,
        delimiter: object = COMMA,
        header: object = True,
        names: object = None,
        null: object = None,
        encoding: object = UTF_8,
        *,
        shared: bool = False,
    ) -> FrameOptions:
        """Return the checked options; a wrong one is refused."""
        for name, flag in (("ignore_extra", ignore_extra), ("header", header)):
            if not isinstance(flag, bool):
                raise BadRequest(f"{name} is {flag!r}; give True or False")
        named = None if names is None else _texts("names", names)
        if header and named is not None:
            raise BadRequest(
                "names are for a file without a header; add header=False (--no-header), or rename "
                "columns with columns (--map)"
            )
        if not header and not named:
            raise BadRequest(
                "a file without a header needs the names of its columns: give names (--names)"
            )
        return cls(
            columns=_renames(columns),
            ignore_extra=bool(ignore_extra),
            delimiter=_delimiter(delimiter),
            header=bool(header),
            names=named,
            null=() if null is None else _texts("null", null),
            encoding=_encoding(encoding),
            shared=shared,
        )

    def csv_only(self) -> list[str]:
        """Return the options given that make sense for CSV files alone."""
        given = {
            "delimiter": self.delimiter != COMMA,
            "header": not self.header,
            "null": bool(self.null),
            "encoding": self.encoding != UTF_8,
        }
        return [name for name, is_given in given.items() if is_given]


class _OfFrames(TypedDict, total=False):
    """``FrameOptions`` as keyword arguments."""

    columns: Mapping[str, str]
    ignore_extra: bool
    delimiter: str
    header: bool
    names: Iterable[str]
    null: Iterable[str]
    encoding: str


class FrameKeywords(LoadKeywords, _OfFrames, total=False):
    """``FrameOptions`` and ``LoadOptions`` as keyword arguments, for type checkers."""


class FrameCommitKeywords(CommitKeywords, _OfFrames, total=False):
    """The same of a load that commits: all but ``check``."""


FRAME_OPTIONS = tuple(one.name for one in fields(FrameOptions) if one.name != "shared")


def split_options(options: Mapping[str, Any]) -> tuple[FrameOptions, dict[str, Any]]:
    """Return the options of the frame, checked, and the rest, which are those of a load."""
    mine = {name: value for name, value in options.items() if name in FRAME_OPTIONS}
    rest = {name: value for name, value in options.items() if name not in mine}
    return FrameOptions.of(**mine), rest


def _texts(name: str, given: object) -> tuple[str, ...]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise BadRequest(f"{name} is {given!r}; give a list of texts")
    texts = tuple(given)
    if not all(isinstance(text, str) for text in texts):
        raise BadRequest(f"{name} holds something else than texts; give a list of texts")
    return texts


def _renames(given: object) -> dict[str, str]:
    if given is None:
        return {}
    if not isinstance(given, Mapping) or not all(
        isinstance(text, str) and text for pair in given.items() for text in pair
    ):
        raise BadRequest(
            f"columns is {given!r}; give a dict from the names in the file to those of the type"
        )
    targets = list(given.values())
    for target in targets:
        if targets.count(target) > 1:
            raise BadRequest(f"columns gives the name `{target}` to two columns; rename one")
    return dict(given)


def _delimiter(given: object) -> str:
    if not isinstance(given, str) or len(given) != 1 or not given.isascii() or given in '"\r\n':
        raise BadRequest(f"delimiter is {given!r}; give one ASCII character, such as ; or a tab")
    return given


def _encoding(given: object) -> str:
    import pyarrow as pa

    try:
        found = codecs.lookup(given)  # type: ignore[arg-type]
        # As Arrow will call it. Python counts compression and ciphers among its encodings.
        is_text = isinstance(found.incrementaldecoder().decode(pa.py_buffer(b"")), str)
    except (LookupError, TypeError, ValueError, AttributeError):
        is_text = False
    if not is_text:
        raise BadRequest(
            f"encoding is {given!r}, which is no encoding of text that Python knows; give one such "
            "as latin-1"
        )
    return found.name
