"""Whether a table has rows with some ids, found out quickly while small writes come one after the other.

Every small write leaves a small fragment that the index of the ids does not cover yet. To look into all of them takes
several milliseconds, most of what a commit of one row costs. So the ids of small fragments are remembered, and only
the large ones are searched, which the index covers:

    fragments        ids are          a new id
    0, 1 (large)     in the index     is searched for there
    2 … 61 (small)   in a set         is not in the set

A fragment is known by the name of its data file, which no other one ever has. After a write of this handle nothing is
listed: its ids are added to the set. The set may hold ids of rows that are gone, and never lacks one that is there.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any

from omnigraph.storage.filters import Condition, filter_expression
from omnigraph.storage.tables.table import Table

SMALL_ROWS = 1_000
"""The ids of fragments with no more rows are remembered."""
MOST_IDS = 50_000
"""Of a table with more rows in small fragments nothing is remembered."""
REMEMBERED = 32
"""This many tables are remembered, those that were written last."""
MOST_ASKED = 1_000
"""More ids are not looked up."""

Place = Hashable
"""Names a table and the branch it is on."""


@dataclass(slots=True)
class _Known:
    """What is known of the fragments of a table, and of which state of it."""

    state: Hashable = None
    files: set[str] = field(default_factory=set)
    """The data files of fragments whose ids are in the set."""
    ids: set[str] = field(default_factory=set)
    large: tuple[int, ...] = ()
    """The numbers of the other fragments."""


class RecentIds:
    """The ids in small fragments of the tables of one handle; safe to share between threads.

    ``state`` is a value that no other state of the table has.
    """

    def __init__(self) -> None:
        self._known: dict[Place, _Known] = {}
        self._lock = threading.Lock()

    def lacks_all(self, place: Place, state: Hashable, table: Table, ids: Iterable[str]) -> bool:
        """Return True if the table certainly has no row with one of these ids."""
        asked = list(ids)
        if len(asked) > MOST_ASKED:
            return False
        with self._lock:
            known = self._known.pop(place, None) or _Known()
            if known.state != state and not _listed(known, table):
                return False
            known.state = state
            self._remember(place, known)
            if not known.ids.isdisjoint(asked):
                return False
            large = known.large
        return not _has_any(table, large, asked)

    def note(self, place: Place, before: Hashable, after: Hashable, written: Iterable[str]) -> None:
        """Note that a write which wrote rows with these ids, and no others, followed a state directly."""
        with self._lock:
            known = self._known.get(place)
            if known is None or known.state != before:
                return
            known.ids.update(written)
            known.state = after
            if len(known.ids) > MOST_IDS:
                del self._known[place]

    def forget(self) -> None:
        """Forget all ids."""
        with self._lock:
            self._known.clear()

    def _remember(self, place: Place, known: _Known) -> None:
        self._known[place] = known
        while len(self._known) > REMEMBERED:
            del self._known[next(iter(self._known))]


def _listed(known: _Known, table: Table) -> bool:
    """Bring what is known up to the fragments of a table; False if there are too many small ones."""
    small, large, rows = {}, [], 0
    for one in table.fragments():
        if one.physical_rows > SMALL_ROWS:
            large.append(one.id)
        else:
            small[_file(one)] = one.id
            rows += one.physical_rows
    if rows > MOST_IDS:
        return False
    if len(known.ids) > rows + MOST_IDS // 2:
        known.files, known.ids = set(), set()  # most of them are gone
    new = {file: number for file, number in small.items() if file not in known.files}
    if new:
        found = table.read(["id"], fragment_ids=list(new.values())).column("id")
        known.ids.update(found.to_pylist())
    known.files = set(small)
    known.large = tuple(large)
    return True


def _file(fragment: Any) -> str:
    """Return the name of a fragment's data file. Lance's own property defines a class whenever it is asked."""
    file = fragment.files[0]
    return str(vars(file).get("_path") or file.path)


def _has_any(table: Table, fragments: tuple[int, ...], ids: list[str]) -> bool:
    """Search the ids in large fragments, as far as these are still there."""
    there = [one for one in fragments if table.dataset.get_fragment(one) is not None]
    if not there:
        return False
    where = filter_expression(table.schema, [Condition("id", "in", ids)])
    return bool(table.read(["id"], where, fragment_ids=there).num_rows)
