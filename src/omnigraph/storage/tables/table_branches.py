"""Branches of one table: create, list, delete, and clean up after an unfinished one."""

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
from omnigraph.storage.tables.branch_refs import TableBranch, branch_names, branch_of
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
    # A separate handle: the call borrows it exclusively, and other threads read from `source`.
    own = open_table(source.ref)
    with lance_errors(f"creating the branch {name} of {source.ref}"):
        try:
            own.dataset.create_branch(name, reference)
        except OSError as error:
            if _DIRECTORY_TAKEN in str(error):
                raise _taken(source, name) from error
            # A branch that is here now and was not before is ours, although the answer was lost:
            # Lance creates the directory first, which only one can, and then the ref.
            found = None
            with contextlib.suppress(OmniGraphError):
                found = branch_of(source.ref.on(name))
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


def _branches_if_known(ref: TableRef) -> dict[str, TableBranch] | None:
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
            for name, entry in _with_refs_vanishing(table.dataset.branches.list).items()
        }


def _with_refs_vanishing(call: Callable[[], T]) -> T:
    """Run a call that lists all refs and then reads them, again when one was deleted in between."""
    for attempt in itertools.count(1):
        try:
            return call()
        except (OSError, ValueError) as error:
            if attempt == _ATTEMPTS or not is_not_found(error):
                raise
    raise AssertionError


def delete_branch(ref: TableRef, name: str) -> None:
    """Delete a branch and its files; nothing happens when there is none.

    The ref is removed first, and with it the branch. Files that writers add meanwhile may stay
    behind and do no harm: see ``remove_residue``.
    """
    with lance_errors(f"deleting the branch {name} of {ref.uri}"):
        table = open_table(ref.on(None))
        try:
            _with_refs_vanishing(lambda: table.dataset.branches.delete(name))
        except (OSError, ValueError) as error:
            if "does not exist" in str(error):
                return
            live = _branches_if_known(ref)
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
    """Remove leftover files as far as possible: writers of the deleted branch may still add some."""
    try:
        for _ in range(_SWEEPS):
            if not remove_residue(ref, name):
                return
    except OmniGraphError as error:
        logger.debug("files of the deleted branch %s of %s stay: %s", name, ref.uri, error)


def remove_residue(ref: TableRef, name: str) -> int:
    """Remove the files of an unfinished or partly deleted branch, and return their number.

    Refuses a live branch, and keeps live branches nested below the name: Lance stores ``x/y``
    inside the directory of ``x`` and therefore deletes ``x`` only in part. Another process may
    remove the same files at the same time.
    """
    if not all(name.split("/")) or {".", ".."} & set(name.split("/")):
        raise StorageError(f"`{name}` is no branch but a directory of branches")
    residue = ref.on(name)
    if branch_of(residue) is not None:
        raise StorageError(f"the branch {name} of {ref.uri} is live; delete it instead")
    with lance_errors(f"removing what is left of the branch {name} of {ref.uri}"):
        files = file_session(residue)
        try:
            paths = _with_refs_vanishing(lambda: list(files.list()))
        except (OSError, ValueError) as error:
            if is_not_found(error):
                return 0
            raise
        if not paths:
            return 0
        inside = _nested(ref, name)
        doomed = [path for path in paths if not any(path.startswith(f"{b}/") for b in inside)]
        # Manifests last: until they are gone the residue is still found by the next attempt.
        for path in sorted(doomed, key=lambda path: path.startswith("_versions/")):
            _remove_file(files, path)
    _remove_empty_directories(residue.dataset_uri)
    return len(doomed)


def _nested(ref: TableRef, name: str) -> list[str]:
    """The live branches in the directory of a branch, relative to it."""
    live = branch_names(ref)
    return [branch.removeprefix(f"{name}/") for branch in live if branch.startswith(f"{name}/")]


def _remove_file(files: Any, path: str) -> None:
    try:
        files.delete_file(path)
    except (OSError, ValueError) as error:
        if not is_not_found(error):
            raise


def _remove_empty_directories(uri: str) -> None:
    """Remove the empty directories that stay on a disk; object stores have none."""
    scheme, _, path = uri.rpartition("://")
    if scheme not in {"", "file", "file-object-store"}:
        return
    top = Path(unquote(path) if scheme else path)
    for directory, _, _ in os.walk(top, topdown=False):
        # Not empty, or gone: another process is working there.
        with contextlib.suppress(OSError):
            Path(directory).rmdir()
