"""Remove versions of a table that nobody needs, with the files only they used.

Lance says which files those are, and keeps what its own branches and tags need. The files are removed
here, in an order that Lance's own cleanup does not keep to: first the versions, the oldest first, and
then what they named. So a version is there as a whole or not at all, wherever this is interrupted, and a
reader that looks for the successor of the version it knows never meets a gap. Files that no version names
(left behind by a crash, or by a write that failed) go once the caller knows that nobody will commit them, and
when they are a week old.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta

from omnigraph import failpoints
from omnigraph.errors import StorageError
from omnigraph.storage.tables.table import Table, manifest_path, open_table
from omnigraph.storage.tables.table_errors import is_not_found, lance_errors
from omnigraph.storage.tables.table_ref import TableRef

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
        unnamed = _candidates(table, versions, delete_unverified=True)
        young = [name for name in unnamed if name not in names and not name.startswith(_VERSIONS)]
        names |= {name: unnamed[name] for name in abandoned(young)} if young else {}
    manifests = (manifest_path(version) for version in sorted(versions))
    return Removal(
        sum(names.values()),
        tuple(name for name in manifests if name in names),
        tuple(name for name in names if not name.startswith(_VERSIONS)),
    )


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
