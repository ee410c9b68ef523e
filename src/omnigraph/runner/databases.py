"""DuckDB databases: new ones, and used ones that wait for the next runner.

Opening a database takes 25 ms, because DuckDB lists all its functions anew: as long as a small mutation takes without
it. A database that only read a few rows of Arrow tables is as good as a new one afterwards, so runners bring it back.
"""

from __future__ import annotations

import atexit
import os
from collections import deque
from typing import Any

MEMORY_LIMIT = "1GB"
MOST_IDLE = 1
"""Each has threads of its own. A process seldom has two small writes at once."""

_idle: deque[Any] = deque()


def new_database(memory_limit: str = MEMORY_LIMIT, threads: int | None = None) -> Any:
    """Connect to a new, empty database in memory, which cannot spill until it gets a directory."""
    import duckdb

    connection = duckdb.connect(
        ":memory:",
        config={
            "memory_limit": memory_limit,
            "temp_directory": "",
            "preserve_insertion_order": "false",
            # A name that is not a frame is a mistake; DuckDB would look for a Python variable.
            "python_enable_replacements": "false",
            "autoinstall_known_extensions": "false",
            **({} if threads is None else {"threads": str(threads)}),
        },
    )
    # A progress bar on stdout would mix with results.
    connection.execute("SET enable_progress_bar = false")
    # Results must not depend on the machine's time zone.
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def take_database() -> Any:
    """Connect to an empty database with the usual settings: one that was brought back, or a new one."""
    try:
        return _idle.pop()
    except IndexError:
        return new_database()


def bring_back(connection: Any) -> None:
    """Give a database of `take_database` back once it is empty again, for the next caller."""
    if len(_idle) < MOST_IDLE:
        _idle.append(connection)
    else:
        connection.close()


def close_idle() -> None:
    """Close the databases that wait for a caller."""
    while _idle:
        _idle.pop().close()


atexit.register(close_idle)
if hasattr(os, "register_at_fork"):
    # A child has none of the threads of a database, and could not even close it.
    os.register_at_fork(before=close_idle)
