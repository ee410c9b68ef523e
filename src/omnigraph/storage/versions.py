"""Versions of a table: the newest, found without a listing, and those that nobody needs, removed.

Lance lists all versions to find the newest, and that takes longer with each of them. Beside them it keeps a
file with the number of the last one that was written (``{"version": 911}``), which it does not read on a disk.
That number may be a little old: two writers may have written the file in the other order, or one may have died
before it did. But where there are no gaps, a version that is there and has no successor is the newest.
`__manifest` is such a table, because cleanup trims it from the oldest version on.

Which files only the removed versions used, Lance says; it keeps what its own branches and tags need. The files
are removed here, in an order that Lance's own cleanup does not keep to: first the versions, the oldest first,
and then what they named. So a version is there as a whole or not at all, wherever this is interrupted, and a
reader that looks for the successor of the version it knows never meets a gap. Files that no version names
(left behind by a crash, or by a write that failed) go once the caller knows that nobody will commit them, and
when they are a week old.

Other tools may have switched on Lance's own cleanup for a table. It deletes old versions while it commits, and
knows nothing of those that the graph still needs; so its settings are found and unset.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from omnigraph import failpoints
from omnigraph.errors import StorageError
from omnigraph.storage.tables.lance_import import lance
from omnigraph.storage.tables.staging import RowCounts, Staged
from omnigraph.storage.tables.table import Table, manifest_path, open_table
from omnigraph.storage.tables.table_errors import VersionMissing, is_not_found, lance_errors
from omnigraph.storage.tables.table_ref import TableRef
from omnigraph.storage.tables.transactions import TransactionKind

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


BEFORE_VERSION = failpoints.declare("cleanup.before_version")
BEFORE_FILES = failpoints.declare("cleanup.before_files")

_ALL_FILES = 2**31 - 1
_THREADS = 8
_NO_VERSION = timedelta(days=36_500)
"""No version is older than this."""
_VERSIONS = "_versions/"
_LANCE_FILE = re.compile(r".*/((?:_versions|_transactions|_deletions|_indices|data)/.+)")


@dataclass(frozen=True, slots=True)
class Removal:
    """What removing versions takes away: how many bytes, and the files below the table's directory.

    ``versions`` are those of the versions themselves, the oldest first; ``files`` are all others.
    """

    bytes: int
    versions: tuple[str, ...]
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LanceTag:
    """A version that somebody tagged with Lance's own tools; ``branch`` is None on the main lineage."""

    name: str
    branch: str | None
    version: int


def lance_tags(ref: TableRef) -> list[LanceTag]:
    """The Lance tags of a table and of all its branches."""
    table = open_table(ref.on(None))
    with lance_errors(f"listing the tags of {ref.uri}"):
        found = table.dataset.tags.list()
    return [LanceTag(name, tag["branch"], tag["version"]) for name, tag in sorted(found.items())]


def version_times(table: Table) -> dict[int, float]:
    """When each version of the table's branch was made, in seconds since 1970. Reads all of them."""
    with lance_errors(f"listing the versions of {table.ref.dataset_uri}"):
        return {one["version"]: one["timestamp"].timestamp() for one in table.dataset.versions()}


Chosen = Callable[[Sequence[str]], Collection[str]]
"""Gets files that no version names and that may be young; returns those that nobody will commit."""


def plan_removal(table: Table, versions: Sequence[int], abandoned: Chosen | None = None) -> Removal:
    """What removing these versions of the table's branch would take away. No effect.

    The newest version cannot be removed, nor one that a Lance branch or a Lance tag needs. Files that
    no version uses go with them, also if there is no version to remove: those that are a week old, and those
    that ``abandoned`` chooses.
    """
    names = _candidates(table, versions)
    if abandoned is not None:
        # Lance spares files of the last week, whose writer may live; our marks know which of them are dead.
        unnamed = _candidates(table, versions, delete_unverified=True)
        young = [name for name in unnamed if name not in names and not name.startswith(_VERSIONS)]
        names |= {name: unnamed[name] for name in abandoned(young)} if young else {}
    manifests = (manifest_path(version) for version in sorted(versions))
    return Removal(
        sum(names.values()),
        tuple(name for name in manifests if name in names),
        tuple(name for name in names if not name.startswith(_VERSIONS)),
    )


def unnamed_files(table: Table) -> list[str]:
    """The files below the directory of the table's branch that no version names, whoever made them."""
    found = _candidates(table, (), delete_unverified=True)
    return sorted(name for name in found if not name.startswith(_VERSIONS))


def _candidates(table: Table, versions: Sequence[int], **more: bool) -> dict[str, int]:
    """The files that Lance would remove with these versions, below the table's directory, and their sizes."""
    which = {"versions": sorted(versions)} if versions else {"older_than": _NO_VERSION}
    with lance_errors(f"looking for what old versions of {table.ref} use"):
        explained = open_table(table.ref.at(None)).dataset.explain_cleanup_old_versions(
            **which,
            **more,
            error_if_tagged_old_versions=False,
            include_files=True,
            max_files=_ALL_FILES,
        )
        # Lance names files from the root of the store.
        return {_below_table(one.path): one.size_bytes for one in explained.candidate_files}


def _below_table(path: str) -> str:
    """The path of a file of a table below the table's directory, or that of its branch."""
    found = _LANCE_FILE.fullmatch(path)
    if found is None:
        raise StorageError(
            f"Lance would remove {path}, which is no file of a table; report this as a bug"
        )
    return found[1]


def remove_versions(
    table: Table,
    versions: Sequence[int],
    check: Callable[[], object] = lambda: None,
    abandoned: Chosen | None = None,
) -> int:
    """Remove exactly these versions of the table's branch; return how many bytes went.

    As for ``plan_removal``; versions that the graph pins must not be listed, for Lance does not know
    them. ``check`` is called before each step and may raise to stop.
    """
    removal = plan_removal(table, versions, abandoned)
    # Versions first and the oldest first: a crash leaves files that nothing names, never a version without its
    # files or a gap.
    for name in removal.versions:
        check()
        BEFORE_VERSION.hit()
        _remove(table, name)
    check()
    BEFORE_FILES.hit()
    _remove_all(table, removal.files)
    return removal.bytes


def _remove_all(table: Table, names: Sequence[str]) -> None:
    if not names:
        return
    # On an object store each removal is a request of its own, and there may be thousands.
    with ThreadPoolExecutor(min(_THREADS, len(names))) as pool:
        for _ in pool.map(lambda name: _remove(table, name), names):
            pass


def _remove(table: Table, name: str) -> None:
    with lance_errors(f"removing {name} of {table.ref.dataset_uri}"):
        try:
            table.files.delete_file(name)
        except (OSError, ValueError) as error:
            if not is_not_found(error):
                raise


PREFIX = "lance.auto_cleanup"


def find_auto_cleanup(table: Table) -> tuple[str, ...]:
    """Return the names of the settings that switch it on; none as a rule."""
    with lance_errors(f"reading the settings of {table.ref}"):
        return tuple(sorted(name for name in table.dataset.config() if name.startswith(PREFIX)))


def stage_unset(table: Table, names: Iterable[str]) -> Staged:
    """Stage the removal of settings of a table."""
    operation = lance().LanceOperation
    change = operation.UpdateConfig(operation.UpdateMap(dict.fromkeys(names)))
    transaction = lance().Transaction(table.version, change)
    return Staged(table.ref, transaction, TransactionKind.UPDATE_CONFIG, RowCounts())
