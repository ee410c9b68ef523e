"""Finds the transaction behind a version: its UUID, its operation, the version it was based on.

Recovery proves ownership by UUID, so this must work for every version Lance can write. pylance 14
cannot: ``read_transaction`` and ``get_transactions`` raise ``TypeError`` once history holds the
compaction of an indexed table, and name no kind for ``ReserveFragments``. So the few facts are read
from the protobuf messages of the Lance table format: the manifest names its transaction file
``<read version>-<uuid>.txn`` (field 12) and says where in the manifest file the transaction itself
is stored (field 23: a little-endian length, then the message). Only the head of that message is
read, because an operation can hold megabytes of fragments.
"""

from __future__ import annotations

import enum
import hashlib
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from omnigraph.errors import StorageError
from omnigraph.storage.lance_format.protobuf import last_values, read_fields
from omnigraph.storage.tables.table import Table, manifest_path, open_table
from omnigraph.storage.tables.table_errors import lance_errors

ManifestFields = dict[int, int | bytes]


class TransactionKind(enum.StrEnum):
    """The kinds of operation a Lance transaction can hold."""

    APPEND = "Append"
    DELETE = "Delete"
    OVERWRITE = "Overwrite"
    CREATE_INDEX = "CreateIndex"
    REWRITE = "Rewrite"
    MERGE = "Merge"
    RESTORE = "Restore"
    RESERVE_FRAGMENTS = "ReserveFragments"
    UPDATE = "Update"
    PROJECT = "Project"
    UPDATE_CONFIG = "UpdateConfig"
    DATA_REPLACEMENT = "DataReplacement"
    UPDATE_MEM_WAL_STATE = "UpdateMemWalState"
    CLONE = "Clone"
    UPDATE_BASES = "UpdateBases"
    UNKNOWN = "Unknown"


TRACKED: Final = frozenset(
    {
        TransactionKind.APPEND,
        TransactionKind.DELETE,
        TransactionKind.OVERWRITE,
        TransactionKind.CREATE_INDEX,
        TransactionKind.REWRITE,
        TransactionKind.MERGE,
        TransactionKind.RESERVE_FRAGMENTS,
        TransactionKind.UPDATE,
        TransactionKind.PROJECT,
        TransactionKind.UPDATE_CONFIG,
    }
)
"""After these, the versions recorded in rows and the row counts tell what was inserted, updated and deleted.

Not after a restore: it brings back rows whose recorded versions are older than it, and reuses row ids.
"""


_BY_FIELD = {
    100: TransactionKind.APPEND,
    101: TransactionKind.DELETE,
    102: TransactionKind.OVERWRITE,
    103: TransactionKind.CREATE_INDEX,
    104: TransactionKind.REWRITE,
    105: TransactionKind.MERGE,
    106: TransactionKind.RESTORE,
    107: TransactionKind.RESERVE_FRAGMENTS,
    108: TransactionKind.UPDATE,
    109: TransactionKind.PROJECT,
    110: TransactionKind.UPDATE_CONFIG,
    111: TransactionKind.DATA_REPLACEMENT,
    112: TransactionKind.UPDATE_MEM_WAL_STATE,
    113: TransactionKind.CLONE,
    114: TransactionKind.UPDATE_BASES,
}
_FIRST_OPERATION_FIELD = 100
_FRAGMENT = 2
_VERSION = 3
_TIMESTAMP = 7
_MAX_FRAGMENT = 11
_TRANSACTION_FILE = 12
_NEXT_ROW_ID = 14
_TRANSACTION_SECTION = 23
# Not all fields: maps come in any order.
_ASKED = frozenset({_MAX_FRAGMENT, _TRANSACTION_FILE, _TRANSACTION_SECTION})
_OF_CONTENT = frozenset({_FRAGMENT, _VERSION, _TIMESTAMP, _TRANSACTION_FILE, _NEXT_ROW_ID})
_HEAD_BYTES = 1024
_FILE_NAME = re.compile(rb"([0-9]{1,20})-([\x21-\x7e]+)\.txn")


@dataclass(frozen=True, slots=True)
class TransactionFacts:
    """What made a version of a table."""

    version: int
    uuid: str
    operation: TransactionKind
    read_version: int


def transaction_at(table: Table, version: int | None = None) -> TransactionFacts:
    """The transaction behind a version of the table's branch (by default the open one).

    The first version of a branch is a ``Clone``; older ones belong to the parent branch.
    """
    if version is not None and version != table.version:
        table = open_table(table.ref.at(version))
    fields = _manifest_fields(table)
    read_version, uuid = _transaction_file(table, fields)
    return TransactionFacts(table.version, uuid, _operation(table, fields), read_version)


def transactions_after(table: Table, version: int, head: int) -> list[TransactionFacts]:
    """The transactions of the versions ``version + 1`` to ``head``, in order."""
    return [transaction_at(table, number) for number in range(version + 1, head + 1)]


def transaction_uuid(table: Table) -> str:
    """The UUID of the transaction that made the open version. Reads nothing from the store."""
    return _transaction_file(table, _manifest_fields(table))[1]


def content_fingerprint(table: Table) -> str:
    """A hash of what makes the open version the one it is. Reads nothing from the store.

    It covers the files of every fragment, whose names are never used again, their row ids and deleted
    rows, and the transaction and time of the commit: a version of the same number in a copy of the
    table, or in one that was made again, has another one.
    """
    found = hashlib.sha256()
    for number, value in read_fields(table.dataset._ds.serialized_manifest()):  # noqa: SLF001
        if number in _OF_CONTENT:
            part = value if isinstance(value, bytes) else str(value).encode()
            found.update(b"%d:%d:" % (number, len(part)) + part)
    return found.hexdigest()


def last_fragment_number(table: Table) -> int:
    """The highest number a fragment of the table ever had; -1 when it never had one."""
    number = _manifest_fields(table).get(_MAX_FRAGMENT)
    return number if isinstance(number, int) else -1


def _transaction_file(table: Table, fields: ManifestFields) -> tuple[int, str]:
    """(read version, UUID), from the file name in the manifest."""
    name = fields.get(_TRANSACTION_FILE)
    found = _FILE_NAME.fullmatch(name) if isinstance(name, bytes) else None
    if found is None:
        raise StorageError(
            f"{table.ref} does not name the transaction that made it, so its history cannot be "
            "checked; run omnigraph repair"
        )
    return int(found[1]), found[2].decode()


def _operation(table: Table, fields: ManifestFields) -> TransactionKind:
    for number, _ in read_fields(_transaction_head(table, fields)):
        if number >= _FIRST_OPERATION_FIELD:
            return _BY_FIELD.get(number, TransactionKind.UNKNOWN)
    return TransactionKind.UNKNOWN


def _transaction_head(table: Table, fields: ManifestFields) -> bytes:
    """The start of the transaction message, long enough to reach its operation."""
    position = fields.get(_TRANSACTION_SECTION)
    if not isinstance(position, int):
        return _transaction_file_bytes(table, fields)
    with lance_errors(f"reading the transaction of {table.ref}"):
        # A ranged read past the end of a file may fail: ask only for what is there.
        length = int.from_bytes(_read_manifest(table, position, 4), "little")
        head = _read_manifest(table, position + 4, min(length, _HEAD_BYTES))
        if length <= _HEAD_BYTES or any(n >= _FIRST_OPERATION_FIELD for n, _ in read_fields(head)):
            return head
        # Long transaction properties come first in the message.
        return _read_manifest(table, position + 4, length)


def _read_manifest(table: Table, position: int, length: int) -> bytes:
    """Read a part of the manifest file. A plain path by itself: Lance would take ten times as long."""
    address, name = table.ref.dataset_uri, manifest_path(table.version)
    if not address.startswith("/"):
        return bytes(table.files.read_range(name, position, length))
    with Path(address, name).open("rb", buffering=0) as file:
        file.seek(position)
        return file.read(length) or b""


def _transaction_file_bytes(table: Table, fields: ManifestFields) -> bytes:
    read_version, uuid = _transaction_file(table, fields)
    with tempfile.TemporaryDirectory() as directory:
        local = Path(directory) / "transaction"
        with lance_errors(f"reading the transaction of {table.ref}"):
            table.files.download_file(f"_transactions/{read_version}-{uuid}.txn", str(local))
        return local.read_bytes()


def _manifest_fields(table: Table) -> ManifestFields:
    """Those fields of the manifest that are asked for here."""
    return last_values(table.dataset._ds.serialized_manifest(), _ASKED)  # noqa: SLF001 - no public way
