"""Names of branches and tags: which are valid, which are internal, and which branches clash."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final
from urllib.parse import quote

from omnigraph.errors import BadRequest, BranchNameClash

MAIN = "main"
# Letters and digits of any script, and `. - _` (the underscore is part of `\w`).
_SEGMENT = re.compile(r"[\w.\-]+")
# Lance stores a branch in a file named by its percent-encoded name. While writing it, Lance uses a
# longer name in which the percent signs are encoded once more, and file names end at 255 bytes.
_LONGEST_ENCODED: Final = 200
_INTERNAL: Final = "names starting with `__` are internal"


def trim_branch_name(name: object) -> str:
    """Return a branch argument without surrounding white space; refuse an empty one."""
    text = _trim(name, "branch")
    if not text:
        raise BadRequest("the branch name is empty; give a name, or leave it out for `main`")
    return text


def trim_written_branch(name: object) -> str:
    """Return the trimmed name of a branch that is to be written to; refuse an internal one."""
    text = trim_branch_name(name)
    if is_internal(text):
        raise BadRequest(
            f"branch `{text}` cannot be written to: {_INTERNAL}; name another branch",
            branch=text,
            reason=_INTERNAL,
        )
    return text


def trim_tag_name(name: object) -> str:
    """Return a tag argument without surrounding white space; refuse an empty one."""
    text = _trim(name, "tag")
    if not text:
        raise BadRequest("the tag name is empty; give a name")
    return text


def _trim(name: object, kind: str) -> str:
    if not isinstance(name, str):
        raise BadRequest(f"a {kind} is named by a text, not by {type(name).__name__}")
    return name.strip()


def is_internal(name: str) -> bool:
    """Return whether a name belongs to the product: it starts with `__`, but not with `__run__`."""
    return name.startswith("__") and not name.startswith("__run__")


def is_possible_name(name: str) -> bool:
    """Return whether a branch of that name can exist at all."""
    return name == MAIN or is_internal(name) or _name_fault(name) is None


def check_branch_name(name: object) -> str:
    """Return the trimmed name if a branch may be created or deleted under it.

    Otherwise raise ``BadRequest``, which says what is wrong with the name.
    """
    text = trim_branch_name(name)
    reason = _name_fault(text)
    if reason is not None:
        raise BadRequest(f"`{text}` cannot name a branch: {reason}", branch=text, reason=reason)
    return text


def check_tag_name(name: object) -> str:
    """Return the trimmed name if a tag may have it; the rules are those of branches.

    Tags are not nested, so `a` and `a/b` may both exist.
    """
    text = trim_tag_name(name)
    reason = "`main` is the name of a branch" if text == MAIN else _name_fault(text)
    if reason is not None:
        raise BadRequest(f"`{text}` cannot name a tag: {reason}", tag=text, reason=reason)
    return text


def _name_fault(text: str) -> str | None:
    """Return what is wrong with a name, or None."""
    if text == MAIN:
        return "`main` always exists and cannot be created or deleted"
    if is_internal(text):
        return _INTERNAL
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
        # A file system would read `.` as the directory that holds all branches.
        return "`.` alone is no name"
    if len(quote(quote(text, safe=""), safe="")) > _LONGEST_ENCODED:
        return "it is too long"
    return None


def refuse_clash(name: str, live: Iterable[str]) -> None:
    """Refuse a name that is a path prefix of a live branch, or the other way round.

    Lance nests branch directories, so `a` and `a/b` cannot both exist.
    """
    for other in live:
        if name.startswith(f"{other}/") or other.startswith(f"{name}/"):
            raise BranchNameClash(
                f"`{name}` and the live branch `{other}` are path prefixes of one another; "
                "choose a name beside it",
                branch=name,
                other=other,
            )
