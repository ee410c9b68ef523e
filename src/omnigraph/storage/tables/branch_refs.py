"""The refs of a table's branches: which branch a name means today.

A branch can be deleted and its name used again, and the new branch has versions with the same
numbers. Only the identifier in the ref distinguishes the two. So a caller that remembers a version
of a branch remembers the identifier too, and checks here that the branch is still the same.
"""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, unquote

from omnigraph.errors import StorageError
from omnigraph.storage.decoded import has_type
from omnigraph.storage.store_kinds.known import kind_of
from omnigraph.storage.tables.table_errors import BranchReplaced
from omnigraph.storage.tables.table_ref import TableRef
from omnigraph.storage.uris import Root, split_address

# Control objects are imported when one is read: code that only names tables does not need them.
if TYPE_CHECKING:
    from omnigraph.storage.objects.object_store import ObjectStore


_SUFFIX: Final = ".json"


@dataclass(frozen=True, slots=True)
class TableBranch:
    """A branch of a table. ``identifier`` is never used again, although ``name`` may be.

    Its versions continue the numbers of ``parent_version``, so two branches share numbers.
    """

    name: str
    identifier: str
    parent: str | None
    parent_version: int


def read_branch(store: ObjectStore, location: str, name: str) -> TableBranch | None:
    """Read one branch of the table at `location` under the store's root; None when there is none.

    Lance 14 keeps a branch as `_refs/branches/{percent-encoded name}.json`.
    """
    from omnigraph.storage.objects.store_errors import ObjectNotFound

    try:
        text = store.read_text(f"{_directory(location)}/{quote(name, safe='')}{_SUFFIX}")
    except ObjectNotFound:
        return None
    try:
        entry = json.loads(text)
        branch = TableBranch(
            name,
            entry["identifier"]["version_mapping"][-1][1],
            entry["parentBranch"],
            entry["parentVersion"],
        )
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise _unreadable(store, location, name, repr(error)) from error
    if not has_type(branch, TableBranch):
        raise _unreadable(store, location, name, f"a value has the wrong type in {branch}")
    return branch


def _unreadable(store: ObjectStore, location: str, name: str, why: str) -> StorageError:
    return StorageError(
        f"the branch {name} of {location or store.address} has a ref this omnigraph cannot read: {why}"
    )


def read_branch_names(store: ObjectStore, location: str) -> list[str]:
    """The names of all branches of the table at `location`, sorted; one listing reads no ref at all."""
    files = (name.rpartition("/")[2] for name in store.list(f"{_directory(location)}/"))
    # A ref that is being written has a longer name.
    return sorted(unquote(name.removesuffix(_SUFFIX)) for name in files if name.endswith(_SUFFIX))


def _directory(location: str) -> str:
    return f"{location}/_refs/branches" if location else "_refs/branches"


def branch_names(ref: TableRef) -> list[str]:
    """The names of all branches of a table; none if there is no table."""
    return read_branch_names(_store_of(ref), "")


def branch_of(ref: TableRef) -> TableBranch | None:
    """The branch that an address means today; None when there is none of that name."""
    assert ref.branch is not None
    return read_branch(_store_of(ref), "", ref.branch)


def refuse_replaced(ref: TableRef) -> None:
    """Raise ``BranchReplaced`` unless the branch is the one whose identifier the address carries.

    Identifiers are never used again, so what was opened before this check was that branch too.
    """
    if ref.branch is None or ref.branch_id is None:
        return
    found = branch_of(ref)
    if found is None or found.identifier != ref.branch_id:
        what = "deleted" if found is None else "deleted and made again"
        raise BranchReplaced(
            f"the branch {ref.branch} of {ref.uri} was {what} since it was pinned",
            table=ref.uri,
            branch=ref.branch,
        )


def _store_of(ref: TableRef) -> ObjectStore:
    return _store(ref.uri, tuple(sorted((ref.storage_options or {}).items())))


@functools.lru_cache(maxsize=256)
def _store(uri: str, options: tuple[tuple[str, str], ...]) -> ObjectStore:
    """Open the control objects of one table by the address that Lance opens."""
    from omnigraph.storage.objects.stores import open_store

    if kind_of(uri) is not None:
        bucket, key = split_address(uri)
        return open_store(replace(bucket, path=unquote(key)), given=dict(options))
    scheme, _, rest = uri.rpartition("://")
    return open_store(Root("file", "", unquote(rest) if scheme else uri))
