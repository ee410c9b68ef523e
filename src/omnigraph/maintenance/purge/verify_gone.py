"""Search every file of a table for purged ids, once what held them is gone."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from omnigraph.errors import StorageError
from omnigraph.maintenance.purge.file_scan import INDEX_FILES, FileScan, IdSet
from omnigraph.maintenance.purge.look import ID, TableLook, is_data_file
from omnigraph.maintenance.purge.row_sets import RowNumbers
from omnigraph.maintenance.verify.named_files import place_of
from omnigraph.storage.tables.indexing.index_health import index_parts
from omnigraph.storage.tables.table import open_table
from omnigraph.storage.tables.table_branches import list_branches
from omnigraph.storage.tables.table_errors import TableMissing


def verify(scan: FileScan, look: TableLook, left: Collection[str]) -> None:
    """Read all files of a table; ``StorageError`` names one that still has a purged id.

    ``left`` are files that no version names and that a write may own; they must not hold one either.
    """
    wanted = IdSet(look.ids)
    ends = {column: IdSet(ids) for column, ids in look.sought.ends.items()}
    sizes = scan.workspace.store.sizes(look.found.table.location)
    indexes = _index_places(scan, look)
    for path in sorted(sizes):
        if path in left and path in look.unreadable:
            raise _hit(path, "it cannot be read, and a write that may be alive can own it")
        if is_data_file(path):
            scan.count(sizes, path)
            for batch in scan.rows(path, [ID, *ends]):
                if any(ends.get(name, wanted).found_in(values) for name, values in batch.items()):
                    raise _hit(path, "it has a row of a purged entity")
        elif path.endswith(INDEX_FILES):
            scan.count(sizes, path)
            if _is_hit(scan, path, look, indexes.get(path.rpartition("/")[0]), wanted, ends):
                raise _hit(path, "it has a purged id, or an entry of a purged row")
        elif path.endswith((".txn", ".manifest")):
            if wanted.is_named_in(scan.read(path)):
                raise _hit(path, "it names a purged id")
        else:
            scan.count(sizes, path)


class _Index(NamedTuple):
    """What a part of an index is on, and the branches of the table that have it."""

    column: str
    branches: set[str | None]


def _is_hit(
    scan: FileScan,
    path: str,
    look: TableLook,
    index: _Index | None,
    wanted: IdSet,
    ends: Mapping[str, IdSet],
) -> bool:
    """Return whether a file of an index has something of a purged entity."""
    if index is None:
        return False
    among = wanted if index.column == ID else ends.get(index.column)
    # Where ids themselves are searched for, rows need not be known.
    is_sure = not among and index.column == ID
    for page in scan.pages(path) if among else ():
        is_sure = True
        if any(among is not None and among.found_in(texts) for texts in page.texts):
            return True
    branches = [one for one in index.branches if look.may_be_in_indexes(one, sure=is_sure)]
    return bool(branches) and any(
        look.is_in(branch, entries, sure=is_sure)
        for entries in scan.entries(path)
        for branch in branches
    )


def _index_places(scan: FileScan, look: TableLook) -> dict[str, _Index]:
    """Return the parts of indexes that the versions which are left have, by their directories.

    What these versions hold is known from now on: the purge has made fragments, too.
    """
    ref = scan.workspace.ref(look.found.table.location)
    found: dict[str, _Index] = {}
    try:
        forks = [ref.on(name, None, fork.identifier) for name, fork in list_branches(ref).items()]
        lineages = [open_table(place) for place in (ref, *forks)]
    except TableMissing:
        return {}
    for lineage in lineages:
        fragments: dict[int, Any] = {}
        for version in lineage.versions():
            table = open_table(lineage.ref.at(version))
            fragments.update((one.id, one) for one in table.fragments())
            for part in index_parts(table.ref, table.dataset):
                place = f"{place_of(part.base)}/{part.directory}"
                found.setdefault(place, _Index(part.column, set())).branches.add(lineage.ref.branch)
        if lineage.ref.branch in look.known:
            look.known[lineage.ref.branch] |= RowNumbers.of_fragments(fragments)
    return found


def _hit(path: str, why: str) -> StorageError:
    return StorageError(f"{path} is still there and {why}", file=path)
