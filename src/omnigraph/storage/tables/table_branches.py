"""Branches of one table: make, list, delete, and remove what a half-made one left behind."""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import unquote

from omnigraph.errors import BranchExists, BranchInUse, OmniGraphError, StorageError
from omnigraph.storage.tables.branch_refs import TableBranch, branch_of
from omnigraph.storage.tables.table import Table, file_session, open_table, table_exists
from omnigraph.storage.tables.table_errors import is_not_found, lance_errors, reason
from omnigraph.storage.tables.table_ref import TableRef

T = TypeVar("T")

logger = logging.getLogger(__name__)

_ATTEMPTS: Final = 20
_SWEEPS: Final = 3
# What pylance 14 says when the directory of a new branch already holds a dataset.
_DIRECTORY_TAKEN: Final = "Clone operation"


def create_branch(source: Table, name: str) -> Table:
    """Fork the table at the open version and branch; the fork starts with that same version number.

    Its directory must be free: see ``remove_residue``.
    """
    reference = (source.ref.branch or "main", source.version)
    if table_exists(source.ref.on(name)):
        raise _taken(source, name)
    # A handle of our own: the call borrows it whole, and other threads read from `source`.
    own = open_table(source.ref)
    with lance_errors(f"creating the branch {name} of {source.ref}"):
        try:
            own.dataset.create_branch(name, reference)
        except OSError as error:
            if _DIRECTORY_TAKEN in str(error):
                raise _taken(source, name) from error
            # What is there now, where nothing was, is ours although the answer was lost: Lance
            # makes the directory first, which only one can, and then the ref.
            found = (_asked(source.ref) or {}).get(name)
            if found is None:
                raise
            if (found.parent, found.parent_version) != (source.ref.branch, source.version):
                raise _taken(source, name) from error
    made = branch_of(source.ref.on(name))
    identifier = None if made is None else made.identifier
    return open_table(source.ref.on(name, source.version, identifier))


def _taken(source: Table, name: str) -> BranchExists:
    return BranchExists(
        f"the table {source.ref.uri} already has something at its branch {name}", branch=name
    )


def _asked(ref: TableRef) -> dict[str, TableBranch] | None:
    """The branches of a table after a failure; None when the store fails again."""
    try:
        return list_branches(ref)
    except OmniGraphError:
        return None


def list_branches(ref: TableRef) -> dict[str, TableBranch]:
    """The branches of a table by name; main is not among them."""
    with lance_errors(f"listing the branches of {ref.uri}"):
        table = open_table(ref.on(None))
        return {
            name: TableBranch(
                name,
                entry["branch_identifier"][-1][1],
                entry["parent_branch"],
                entry["parent_version"],
            )
            for name, entry in _among_others(table.dataset.branches.list).items()
        }


def _among_others(call: Callable[[], T]) -> T:
    """Run a call that names all refs first and then reads them: one may be gone by then."""
    for attempt in itertools.count(1):
        try:
            return call()
        except (OSError, ValueError) as error:
            if attempt == _ATTEMPTS or not is_not_found(error):
                raise
    raise AssertionError


def delete_branch(ref: TableRef, name: str) -> None:
    """Delete a branch and its files; nothing happens when there is none.

    Its ref goes first, and with that the branch is deleted. Files that writers put down meanwhile
    may stay behind, in nobody's way: see ``remove_residue``.
    """
    with lance_errors(f"deleting the branch {name} of {ref.uri}"):
        table = open_table(ref.on(None))
        try:
            _among_others(lambda: table.dataset.branches.delete(name))
        except (OSError, ValueError) as error:
            if "does not exist" in str(error):
                return
            live = _asked(ref)
            if live is None or (name in live and "referenced by" not in str(error)):
                raise
            if name in live:
                raise BranchInUse(
                    f"the branch {name} of {ref.uri} cannot be deleted: {reason(error)}",
                    branch=name,
                    by=next((other.name for other in live.values() if other.parent == name), None),
                ) from error
            _remove_what_stayed(ref, name)


def _remove_what_stayed(ref: TableRef, name: str) -> None:
    """Best effort: writers of the deleted branch may put more down as fast as it is removed."""
    try:
        for _ in range(_SWEEPS):
            if not remove_residue(ref, name):
                return
    except OmniGraphError as error:
        logger.debug("files of the deleted branch %s of %s stay: %s", name, ref.uri, error)


def remove_residue(ref: TableRef, name: str) -> int:
    """Remove the files of a branch that was never finished, or not deleted whole. Returns how many.

    Refuses a live branch, and leaves live branches nested below the name alone: Lance keeps
    ``x/y`` inside the directory of ``x``, and for that reason deletes ``x`` only in part. What
    somebody else removes at the same time is fine.
    """
    if not all(name.split("/")) or {".", ".."} & set(name.split("/")):
        raise StorageError(f"`{name}` is no branch but a directory of branches")
    live = list_branches(ref)
    if name in live:
        raise StorageError(f"the branch {name} of {ref.uri} is live; delete it instead")
    inside = [branch.removeprefix(f"{name}/") for branch in live if branch.startswith(f"{name}/")]
    residue = ref.on(name)
    with lance_errors(f"removing what is left of the branch {name} of {ref.uri}"):
        files = file_session(residue)
        try:
            paths = _among_others(lambda: list(files.list()))
        except (OSError, ValueError) as error:
            if is_not_found(error):
                return 0
            raise
        doomed = [path for path in paths if not any(path.startswith(f"{b}/") for b in inside)]
        # Manifests last: until they are gone the residue is still found by the next attempt.
        for path in sorted(doomed, key=lambda path: path.startswith("_versions/")):
            _remove_file(files, path)
    _remove_empty_directories(residue.dataset_uri)
    return len(doomed)


def _remove_file(files: Any, path: str) -> None:
    try:
        files.delete_file(path)
    except (OSError, ValueError) as error:
        if not is_not_found(error):
            raise


def _remove_empty_directories(uri: str) -> None:
    """Object stores have no directories; on a disk the skeleton would stay."""
    scheme, _, path = uri.rpartition("://")
    if scheme not in {"", "file", "file-object-store"}:
        return
    top = Path(unquote(path) if scheme else path)
    for directory, _, _ in os.walk(top, topdown=False):
        # Not empty, or gone: somebody else is at work there.
        with contextlib.suppress(OSError):
            Path(directory).rmdir()
