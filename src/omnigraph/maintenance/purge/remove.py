"""Take entities out of the heads of branches: fragments and parts of indexes that hold them are made anew.

For each table of a branch, up to four kinds of steps, in one commit of the graph:

1. delete the rows, by their addresses: a condition would name them in the transaction
2. put fragments that were written without them in the place of those that hold them; no row changes
3. drop the parts of indexes that cover such fragments
4. build what is missing of these indexes again, if possible

The commit records which versions have to go, up to the last one before its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from omnigraph.commit.changes import StagedStep, Step, TableChange
from omnigraph.maintenance.purge.file_scan import IdSet
from omnigraph.maintenance.purge.look import ID, TableLook, VersionFiles
from omnigraph.manifest.rows import TableState
from omnigraph.manifest.workspace import Workspace
from omnigraph.storage.columns.without_columns import rewrite_rows
from omnigraph.storage.tables.blobs.blob_columns import blob_columns
from omnigraph.storage.tables.blobs.carry import ADDRESS, is_external
from omnigraph.storage.tables.indexing.table_indexes import (
    list_indexes,
    stage_drop_parts,
    stage_missing_part,
)
from omnigraph.storage.tables.staging import Staged, stage_replace_rows
from omnigraph.storage.tables.table import Table, open_table
from omnigraph.storage.versions import stage_unset

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_NO_SETTING = "omnigraph.purged"
"""A setting that no table has: unsetting it makes a version and changes nothing."""


class TablePurge:
    """What has to happen to one table of a branch; ``external_blobs`` are references in its rows."""

    def __init__(self, workspace: Workspace, pin: TableState, look: TableLook) -> None:
        self.pin = pin
        self.external_blobs = 0
        self._look = look
        self._table = open_table(workspace.pinned(pin))

    def change(self) -> TableChange:
        """Write the new fragments, and return the steps that put them in place."""
        files = VersionFiles.of(self.pin.table_branch, self._table, {})
        held = sorted(files.held(self._look.files))
        addresses = self._addresses(held)
        steps: list[Step] = []
        if len(addresses):
            steps.append(StagedStep(partial(_delete, addresses)))
        rewritten = rewrite_rows(self._table, held, addresses) if held else None
        if rewritten is not None:
            steps.append(StagedStep(rewritten))
        dropped = {part.uuid for part in files.parts} & self._look.parts
        if dropped:
            steps.append(StagedStep(partial(stage_drop_parts, uuids=dropped)))
            steps += self._builds({part.column for part in files.parts if part.uuid in dropped})
        if not steps:
            # No row of the head is purged, but the transaction of its version names a purged entity.
            steps.append(StagedStep(partial(stage_unset, names=(_NO_SETTING,))))
        return TableChange(self.pin, tuple(steps))

    def _addresses(self, fragment_ids: list[int]) -> npt.NDArray[np.uint64]:
        """Return the addresses of the rows that are not deleted yet."""
        import numpy as np
        import pyarrow as pa

        if not fragment_ids:
            return np.array([], np.uint64)
        wanted = IdSet(self._look.ids)
        blobs = blob_columns(self._table.schema)
        found = [np.array([], np.uint64)]
        for batch in self._table.scan(
            [ID, *blobs], with_row_address=True, fragment_ids=fragment_ids
        ):
            rows = batch.filter(wanted.among(batch.column(ID)))
            found.append(rows.column(ADDRESS).to_numpy(zero_copy_only=False))
            for name in blobs:
                marks: pa.BooleanArray = is_external(rows.column(name))
                self.external_blobs += int(np.sum(marks.to_numpy(zero_copy_only=False)))
        return np.concatenate(found)

    def _builds(self, columns: set[str]) -> Iterator[Step]:
        for state in list_indexes(self._table):
            if state.kind is not None and state.column in columns:
                build = partial(stage_missing_part, column=state.column, kind=state.kind)
                yield StagedStep(build, best_effort=True)


def _delete(addresses: npt.NDArray[np.uint64], table: Table) -> Staged:
    return stage_replace_rows(table, addresses, ())
