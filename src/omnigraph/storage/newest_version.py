"""Open a table without gaps between its versions at the newest one, however many there are.

Lance lists all versions, and that takes longer with each of them. Beside them it keeps a file with the number
of the last one that was written (``{"version": 911}``), which it does not read on a disk. That number may be a
little old: two writers may have written the file in the other order, or one may have died before it did. But
where there are no gaps, a version that is there and has no successor is the newest. `__manifest` is such a
table, because cleanup trims it from the oldest version on.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

from omnigraph.storage.tables.table import Table, manifest_path, open_table
from omnigraph.storage.tables.table_errors import VersionMissing
from omnigraph.storage.tables.table_ref import TableRef

PROBE_AHEAD = 16
"""How many newer versions are probed one by one before the directory is listed instead."""
HINT = "_versions/latest_version_hint.json"
HINT_BYTES = 100
"""More than the hint of any version takes."""


def open_newest(ref: TableRef) -> Table:
    """Open a table, or a branch of it, at its newest version; there must be no gaps between versions."""
    place = ref.dataset_uri
    # A store lists the newest version first; asking it for two files would take longer.
    version = None
    if place.startswith("/"):
        with suppress(OSError):  # Lance says better what is wrong
            version = _newest_on_disk(Path(place))
    if version is not None:
        with suppress(VersionMissing):  # cleanup took it meanwhile
            return open_table(ref.at(version))
    return open_table(ref.at(None))


def _newest_on_disk(place: Path) -> int | None:
    """Return the newest version that the hint leads to; None where it leads nowhere."""
    try:
        with (place / HINT).open("rb") as file:
            version = json.loads(file.read(HINT_BYTES))["version"]
    except (FileNotFoundError, ValueError, LookupError, TypeError):
        return None
    if type(version) is not int or not 0 < version < 2**63:
        return None
    for _ in range(PROBE_AHEAD):
        if not (place / manifest_path(version + 1)).exists():
            return version if (place / manifest_path(version)).exists() else None
        version += 1
    return None
