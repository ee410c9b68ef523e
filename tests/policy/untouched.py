"""Showing that a refused call did nothing: no write, no lock, no table opened, no file changed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from omnigraph.storage.tables import table
from omnigraph.storage.tables.table_ref import TableRef
from tests.faults.calls.counting import Calls, counting
from tests.policy.world import World

NOTHING = Calls(*[0] * len(Calls._fields))


@contextmanager
def untouched(world: World, *, looks_up: bool = False) -> Iterator[None]:
    """Fail if the block, in any thread, writes to the graph or reads a table of it.

    If it ``looks_up`` something, the manifest may be read: a commit must be found before its branch is known.
    """
    before = world.files()
    with counting(str(world.place)) as counted, _only_manifests():
        yield
    done = counted()
    assert (done.writes, done.locks, done.versions) == (0, 0, 0)
    assert looks_up or done == NOTHING
    assert world.files() == before


@contextmanager
def _only_manifests() -> Iterator[None]:
    """Fail if a table of the graph is opened."""
    plain = table._open
    opened: list[str] = []

    def open_table(ref: TableRef) -> Any:
        if not ref.uri.endswith("/__manifest"):
            opened.append(ref.uri)
        return plain(ref)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table, "_open", open_table)
        yield
    # After the block: what a thread of a server raises would be an answer, not a failure.
    assert opened == []
