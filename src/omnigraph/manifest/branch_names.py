"""Branch names: which are acceptable, which are internal, which clash."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final
from urllib.parse import quote

from omnigraph.errors import BadRequest, BranchNameClash

MAIN = "main"
# `\w` without the underscore's friends: letters and digits in the Unicode sense, and `. - _`.
_SEGMENT = re.compile(r"[\w.\-]+")
# Lance keeps a branch in a file called by its percent-encoded name, and writes that under a longer
# one in which the percent signs are encoded again; a file name ends at 255 bytes.
_LONGEST_ENCODED: Final = 200


def trimmed(name: object) -> str:
    """A branch argument as every surface reads it: white space trimmed, never empty."""
    if not isinstance(name, str):
        raise BadRequest(f"a branch is named by a text, not by {type(name).__name__}")
    text = name.strip()
    if not text:
        raise BadRequest("the branch name is empty; give a name, or leave it out for `main`")
    return text


def is_internal(name: str) -> bool:
    """Names starting `__` belong to the product, except `__run__…`, which are ordinary."""
    return name.startswith("__") and not name.startswith("__run__")


def is_possible(name: str) -> bool:
    """Whether a branch of that name can exist at all."""
    return name == MAIN or is_internal(name) or _fault(name) is None


def checked(name: object) -> str:
    """A name a branch may be created or deleted under; `BadRequest` says what is wrong with it."""
    text = trimmed(name)
    reason = _fault(text)
    if reason is not None:
        raise BadRequest(f"`{text}` cannot name a branch: {reason}", branch=text, reason=reason)
    return text


def _fault(text: str) -> str | None:
    if text == MAIN:
        return "`main` always exists and cannot be created or deleted"
    if is_internal(text):
        return "names starting with `__` are internal"
    if "\\" in text:
        return "it has a backslash in it"
    if ".." in text:
        return "it has `..` in it"
    if text.endswith(".lock"):
        return "it ends in `.lock`"
    segments = text.split("/")
    if not all(segments):
        return "a `/` must have a name on both sides"
    if not all(_SEGMENT.fullmatch(segment) for segment in segments):
        return "only letters, digits, `.`, `-`, `_` and `/` may stand in it"
    if "." in segments:
        # To a file system this is the directory of all branches.
        return "`.` alone is no name"
    if len(quote(quote(text, safe=""), safe="")) > _LONGEST_ENCODED:
        return "it is too long"
    return None


def refuse_clash(name: str, live: Iterable[str]) -> None:
    """Lance nests branch directories: no live name may be a path prefix of another."""
    for other in live:
        if name.startswith(f"{other}/") or other.startswith(f"{name}/"):
            raise BranchNameClash(
                f"`{name}` and the live branch `{other}` are path prefixes of one another; "
                "choose a name beside it",
                branch=name,
                other=other,
            )
