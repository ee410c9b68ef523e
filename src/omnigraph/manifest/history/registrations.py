"""The tables that the branches of a graph register, those they dropped included.

A branch has every registration of the branch it was made from, as of then, and those it made itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from omnigraph.manifest import rows
from omnigraph.manifest.branch_names import MAIN
from omnigraph.manifest.manifest import BranchState, Manifest


@dataclass(frozen=True, slots=True)
class Registration:
    """A table that a branch has or had: its number, its present key and its place."""

    incarnation: int
    table_key: str
    location: str


def registrations(manifest: Manifest, state: BranchState) -> dict[int, Registration]:
    """Return the tables that a branch registers, by number."""
    found = {}
    for row in manifest.table_rows(state, [rows.TABLE]):
        number = int(json.loads(row.metadata or "{}")["incarnation"])
        found[number] = Registration(number, row.table_key or "", row.location or "")
    return found


def all_registrations(manifest: Manifest, states: Iterable[BranchState]) -> dict[int, Registration]:
    """Return the tables that any of these branches registers, under the key that the first one knows."""
    found: dict[int, Registration] = {}
    for state in states:
        found = {**registrations(manifest, state), **found}
    return found


def registered_alone(manifest: Manifest, state: BranchState) -> list[Registration]:
    """Return the tables that no other live branch registers: those that were made on this one."""
    own = registrations(manifest, state)
    for name in (MAIN, *manifest.branch_names()):
        if own and name != state.name:
            others = registrations(manifest, manifest.state(name))
            own = {number: one for number, one in own.items() if number not in others}
    return list(own.values())
