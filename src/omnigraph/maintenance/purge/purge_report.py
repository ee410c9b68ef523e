"""The report of a purge: as the caller gets it, and as the graph stores it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from omnigraph.display.panel import Panel, Shown
from omnigraph.display.text import counted, size_text
from omnigraph.maintenance.purge.obstacles import Obstacle

NOT_REACHED: Final = (
    "memory of other processes that have the graph open",
    "cache directories of other machines and users",
    "exports and other files made from the graph",
    "backups and copies of the graph",
    "older versions of objects that a bucket keeps",
    "files that external Blobs refer to",
    "actors and messages of commits",
)


@dataclass(frozen=True, slots=True)
class Verified:
    """What was read and searched after a purge; ``at``: microseconds since 1970."""

    files: int
    bytes: int
    at: int

    def to_json(self) -> dict[str, int]:
        """Return the public form."""
        return {"files": self.files, "bytes": self.bytes, "at": self.at}


@dataclass(frozen=True, slots=True, repr=False)
class PurgeReport(Shown):
    """What a purge removed, or would remove: ``purged`` by type, and how many named ids are nowhere.

    ``commits`` are those it made, one for each branch that had some. Of a dry run ``obstacles`` stand in
    the way, and the commits ``unreadable`` can not be read afterwards. ``salt`` is in this report only: with
    it, its holder can prove which entities the audit of the graph speaks of. ``not_reached`` names what a purge
    cannot reach.
    """

    operation_id: str
    purged: Mapping[str, int]
    not_found: int
    dry_run: bool = False
    obstacles: tuple[Obstacle, ...] = ()
    unreadable: tuple[str, ...] = ()
    commits: tuple[str, ...] = ()
    versions_removed: int = 0
    files_removed: int = 0
    bytes_removed: int = 0
    external_blobs: int = 0
    verified: Verified | None = None
    salt: str | None = None
    not_reached: tuple[str, ...] = field(default=NOT_REACHED)

    def to_json(self) -> dict[str, Any]:
        """Return the public form; a dry run has no more than it found."""
        document: dict[str, Any] = {"purged": dict(self.purged), "not_found": self.not_found}
        if self.dry_run:
            return {
                "dry_run": True,
                **document,
                "obstacles": [one.to_json() for one in self.obstacles],
                "unreadable": list(self.unreadable),
            }
        return {
            "operation_id": self.operation_id,
            "dry_run": False,
            "commits": list(self.commits),
            **document,
            "versions_removed": self.versions_removed,
            "files_removed": self.files_removed,
            "bytes_removed": self.bytes_removed,
            "external_blobs": self.external_blobs,
            "verified": None if self.verified is None else self.verified.to_json(),
            "salt": self.salt,
            "not_reached": list(self.not_reached),
        }

    def _panel(self) -> Panel:
        count = sum(self.purged.values())
        facts: list[tuple[str, Any]] = [("not found", self.not_found)]
        if not self.purged:
            return Panel("nothing to purge", facts)
        if self.dry_run:
            facts.append(("commits that become unreadable", len(self.unreadable)))
            facts.append(("obstacles", len(self.obstacles)))
            title = f"{counted(count, 'entity', 'entities')} would be purged"
        else:
            facts += [
                ("operation", self.operation_id),
                ("commits", ", ".join(self.commits) or None),
                ("versions removed", self.versions_removed),
                ("files removed", f"{self.files_removed}, {size_text(self.bytes_removed)}"),
                ("salt of the audit", self.salt),
            ]
            if self.verified is not None:
                facts.append(("files searched", self.verified.files))
            title = f"{counted(count, 'entity', 'entities')} purged"
        rows = [(name, number) for name, number in self.purged.items()]
        notes = [f"{one.kind} {one.name} keeps rows of {one.table_key}" for one in self.obstacles]
        return Panel.of_rows(title, ("type", "entities"), rows, facts=facts, notes=notes)


def hashes(salt: bytes, found: Mapping[str, Iterable[str]]) -> list[str]:
    """Return what the audit keeps of each entity: sha256(salt, type, a zero byte, id), sorted."""
    return sorted(
        hashlib.sha256(salt + name.encode() + b"\0" + one.encode()).hexdigest()
        for name, ids in found.items()
        for one in ids
    )
