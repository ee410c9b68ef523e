"""Column names for engines that do not tell `userName` from `username`.

Property names are case-sensitive. DuckDB's columns are not, nor are Spark's unless its session is set
so. Inside an engine a capital letter is therefore written as `^` and its lower-case form, in the
columns of every frame and in every name in backticks: `userName` is `user^name` there.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any


def encoded(name: str) -> str:
    """Return a name as the engine sees it."""
    if name.islower():
        return name
    return re.sub("[A-Z]", lambda found: "^" + found[0].lower(), name)


def decoded(name: str) -> str:
    """Return a name as the caller wrote it."""
    return re.sub(r"\^([a-z])", lambda found: found[1].upper(), name) if "^" in name else name


def encoded_text(text: str) -> str:
    """Return a query with the names in backticks as the engine sees them."""
    return re.sub("`([^`]*)`", lambda found: f"`{encoded(found[1])}`", text)


def renamed(data: Any, change: Callable[[str], str]) -> Any:
    """Return a table or batch with every column name passed through ``change``."""
    names = data.schema.names
    changed = [change(name) for name in names]
    return data if changed == names else data.rename_columns(changed)
