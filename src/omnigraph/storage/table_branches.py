"""Branches of one table: make, list, delete, and remove what a half-made one left behind."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import unquote

from omnigraph.errors import BranchExists, BranchInUse, StorageError
from omnigraph.storage.branch_refs import TableBranch
from omnigraph.storage.handles import Table, TableRef, file_session, open_table
from omnigraph.storage.table_errors import is_not_found, lance_errors, reason

T = TypeVar("T")

_ATTEMPTS: Final = 20


def create_branch(source: Table, name: str) -> Table:
    """Fork the table at the open version and branch; the fork starts with that same version number.

    Its directory must be free: see ``remove_residue``.
    """
    reference = (source.ref.branch or "main", source.version)
    # A handle of our own: the call borrows it whole, and other threads read from `source`.
    own = open_table(source.ref)
    with lance_errors(f"creating the branch {name} of {source.ref}"):
        try:
            own.dataset.create_branch(name, reference)
        except OSError as error:
            # What pylance 14 says when the directory already holds a dataset.
            if "already exists" in str(error) or "Clone operation" in str(error):
                raise BranchExists(
                    f"the table {source.ref.uri} already has something at its branch {name}",
                    branch=name,
                ) from error
            raise
    return open_table(source.ref.on(name, source.version))


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
    """Delete a branch and its files; nothing happens when there is none."""
    with lance_errors(f"deleting the branch {name} of {ref.uri}"):
        try:
            table = open_table(ref.on(None))
            _among_others(lambda: table.dataset.branches.delete(name))
        except (OSError, ValueError) as error:
            if "does not exist" in str(error):
                return
            if "referenced by" in str(error):
                raise BranchInUse(
                    f"the branch {name} of {ref.uri} cannot be deleted: {reason(error)}",
                    branch=name,
                    by=next(
                        (
                            other.name
                            for other in list_branches(ref).values()
                            if other.parent == name
                        ),
                        None,
                    ),
                ) from error
            raise


def remove_residue(ref: TableRef, name: str) -> int:
    """Remove the files of a branch that was never finished, or not deleted whole. Returns how many.

    Refuses a live branch, and leaves live branches nested below the name alone: Lance keeps
    ``x/y`` inside the directory of ``x``, and for that reason deletes ``x`` only in part.
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
            paths = list(files.list())
        except (OSError, ValueError) as error:
            if is_not_found(error):
                return 0
            raise
        doomed = [path for path in paths if not any(path.startswith(f"{b}/") for b in inside)]
        # Manifests last: until they are gone the residue is still found by the next attempt.
        for path in sorted(doomed, key=lambda path: path.startswith("_versions/")):
            files.delete_file(path)
    _remove_empty_directories(residue.dataset_uri)
    return len(doomed)


def _remove_empty_directories(uri: str) -> None:
    """Object stores have no directories; on a disk the skeleton would stay."""
    scheme, _, path = uri.rpartition("://")
    if scheme not in {"", "file", "file-object-store"}:
        return
    top = Path(unquote(path) if scheme else path)
    for directory in sorted((p for p in top.rglob("*") if p.is_dir()), reverse=True):
        if not any(directory.iterdir()):
            directory.rmdir()
    if top.is_dir() and not any(top.iterdir()):
        top.rmdir()
