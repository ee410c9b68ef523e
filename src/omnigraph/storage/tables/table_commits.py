"""The ways to commit to a table: one staged transaction, or an exclusive write of rows.

Lance alone does not keep "one writer wins". It rebases a stale transaction over foreign versions
(an append always, an upsert or delete when it touches other rows, an index build), even with
``max_retries=0``, and a stale overwrite is refused only then. So ``commit_staged`` looks at HEAD
before it commits and at its own version and UUID after. That leaves the instant between look and
commit: the table lock keeps the product's own writers out, and a foreign writer who slips in is
noticed by the check afterwards (``CommitMisplaced``); the sidecar and the drift guard then act.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from omnigraph.errors import StorageError
from omnigraph.storage.store_kinds.known import shown_cause
from omnigraph.storage.tables.lance_import import lance, lance_module
from omnigraph.storage.tables.row_places import RowPlace
from omnigraph.storage.tables.staging import Staged, stage_replace_row
from omnigraph.storage.tables.table import (
    PRIMARY_KEY,
    Table,
    open_table,
    opened_at,
    table_of,
)
from omnigraph.storage.tables.table_errors import (
    CommitMisplaced,
    RowCollision,
    TableMoved,
    failed,
    is_panic,
    lance_errors,
)
from omnigraph.storage.tables.transactions import transaction_uuid

if TYPE_CHECKING:
    import pyarrow as pa

_COMMIT_TIMEOUT = timedelta(minutes=5)


def commit_staged(staged: Staged, opened: Table | None = None, *, collides: bool = False) -> Table:
    """Advance the table by exactly one version with exactly this transaction, or raise.

    ``opened`` is the table at the version it was staged on, where the caller has it open. ``collides``: Lance
    itself refuses the transaction after any other of this table, so nobody need ask whether there was one.

    ``TableMoved``: another writer was first, and nothing was committed. ``CommitMisplaced``: the
    transaction was committed, but later than it should be. Other failures change nothing.
    """
    base = opened_at(staged.ref.at(staged.read_version), opened)
    expected = staged.read_version + 1
    # Lance compares a transaction with the versions that came meanwhile and are still there. Cleanup removes the
    # oldest first: where the version it was staged on is gone, those after it may be gone, too.
    is_late = not collides and base.has_version(expected)
    if is_late or not base.has_version(staged.read_version):
        raise _moved(base, expected)
    try:
        dataset = lance().LanceDataset.commit(
            base.dataset, staged.transaction, max_retries=0, commit_timeout=_COMMIT_TIMEOUT
        )
    except BaseException as error:  # whatever it was, the table knows what happened
        if not isinstance(error, Exception) and not is_panic(error):
            raise
        return _after_failure(base, staged, error)
    with lance_errors(f"opening what was written to {staged.ref}"):
        table = table_of(staged.ref, dataset)
    return _checked(table, staged)


def _checked(table: Table, staged: Staged) -> Table:
    expected = staged.read_version + 1
    if table.version != expected or transaction_uuid(table) != staged.uuid:
        raise CommitMisplaced(
            f"a write to {staged.ref} became version {table.version} instead of {expected}: "
            "another program writes to this table; run omnigraph repair",
            table=staged.ref.dataset_uri,
            expected=expected,
            actual=table.version,
            transaction_uuid=staged.uuid,
        )
    return table


def _after_failure(base: Table, staged: Staged, error: BaseException) -> Table:
    """Look at the table: the store may have written the manifest and lost the answer."""
    expected = staged.read_version + 1
    with lance_errors(f"checking what became of a write to {staged.ref}"):
        if base.has_version(expected):
            table = open_table(base.ref.at(expected))
            if transaction_uuid(table) == staged.uuid:
                return table
            raise _moved(base, expected) from error
    if isinstance(error, lance_module("commit").CommitConflictError):
        raise _moved(base, expected) from error
    raise failed(f"writing to {staged.ref} failed", error) from shown_cause(error)


def _moved(base: Table, expected: int) -> TableMoved:
    head = base.head_version()
    return TableMoved(
        f"{base.ref} has moved on to version {head}; repeat the write",
        table=base.ref.dataset_uri,
        expected=expected - 1,
        actual=head,
    )


def merge_insert_exclusive(table: Table, rows: pa.Table, *, on: str = "object_id") -> Table:
    """Upsert rows by primary key so that of two writers of one key exactly one succeeds.

    The key must be the table's unenforced primary key. Only Lance's own ``execute`` records which
    keys were inserted; the same upsert staged and committed would insert a new key twice. Writers
    of other rows do not collide, so the version returned may skip some numbers.
    """
    if PRIMARY_KEY.items() - (table.schema.field(on).metadata or {}).items():
        raise StorageError(
            f"{on} is not marked as the key of {table.ref}: two writers could both win"
        )
    with lance_errors(f"publishing to {table.ref}"):
        try:
            writer = open_table(table.ref).dataset
            (
                writer.merge_insert(on)
                .when_matched_update_all()
                .when_not_matched_insert_all()
                .conflict_retries(0)
                .execute(rows)
            )
        except OSError as error:
            if _is_collision(error):
                raise RowCollision(
                    f"another writer changed the same rows of {table.ref}; read again and repeat",
                    table=table.ref.dataset_uri,
                ) from error
            raise
        return table_of(table.ref, writer)


def replace_row_exclusive(table: Table, place: RowPlace, rows: pa.Table) -> tuple[Table, RowPlace]:
    """Put the first of some rows in the place of one and add the others; return where that row is then.

    All writers of the table must replace this row or merge its fragment, in whatever way: of two that do, exactly
    one succeeds. Nothing looks for the keys of the other rows, which must be new. It costs a third of
    ``merge_insert_exclusive``, and no key filter is stored with the version.
    """
    base = open_table(table.ref)
    try:
        written = commit_staged(stage_replace_row(base, place, rows), base, collides=True)
    except TableMoved as error:
        raise RowCollision(
            f"another writer changed the same rows of {table.ref}; read again and repeat",
            table=table.ref.dataset_uri,
        ) from error
    return written, RowPlace(place.row_id, written.fragments()[-1].id << 32)


def _is_collision(error: OSError) -> bool:
    conflict: Any = lance_module("commit").CommitConflictError
    return isinstance(error, conflict) or "Too many concurrent writers" in str(error)
