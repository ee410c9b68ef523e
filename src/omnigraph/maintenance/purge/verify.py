"""Search every file of a table for purged ids, once what held them is gone."""

from __future__ import annotations

from collections.abc import Collection

from omnigraph.errors import StorageError
from omnigraph.maintenance.purge.file_scan import FileScan, IdSet
from omnigraph.maintenance.purge.look import ID, TableLook, is_data_file
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
    of_ids = _index_places(scan, look)
    for path in sorted(sizes):
        if path in left and path in look.unreadable:
            raise _hit(path, "it cannot be read, and a write that may be alive can own it")
        if is_data_file(path):
            scan.count(sizes, path)
            for batch in scan.rows(path, [ID, *ends]):
                if any(ends.get(name, wanted).found_in(values) for name, values in batch.items()):
                    raise _hit(path, "it has a row of a purged entity")
        elif path.endswith(".lance"):
            scan.count(sizes, path)
            indexed = of_ids.get(path.rpartition("/")[0])
            among = wanted if indexed == ID else ends.get(indexed or "")
            if among and any(
                among.found_in(values) for batch in scan.pages(path) for values in batch.values()
            ):
                raise _hit(path, "it has a purged id")
        elif path.endswith((".txn", ".manifest")):
            if wanted.is_named_in(scan.read(path)):
                raise _hit(path, "it names a purged id")
        else:
            scan.count(sizes, path)


def _index_places(scan: FileScan, look: TableLook) -> dict[str, str]:
    """Return the columns of the indexes that the newest versions have, by the directories of their parts."""
    ref = scan.workspace.ref(look.found.table.location)
    found: dict[str, str] = {}
    try:
        forks = [ref.on(name, None, fork.identifier) for name, fork in list_branches(ref).items()]
        lineages = [open_table(place) for place in (ref, *forks)]
    except TableMissing:
        return {}
    for lineage in lineages:
        for version in lineage.versions():
            table = open_table(lineage.ref.at(version))
            for part in index_parts(table.ref, table.dataset):
                found[f"{place_of(part.base)}/{part.directory}"] = part.column
    return found


def _hit(path: str, why: str) -> StorageError:
    return StorageError(f"{path} is still there and {why}", file=path)
