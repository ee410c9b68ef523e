"""The rows of a node table that changed since a numbered state, by id.

For example, since version 7 `bob` was inserted, `ada` updated and `eve` deleted:

    base version 7   changed {"bob": row 0 of a batch, "ada": row 0 of another, "eve": None}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.read.view.nodes import NodeIds
from omnigraph.read.view.pinned_table import ColumnKey, Identity, columns_by_key
from omnigraph.read.view.row_changes import RowChanges

# What an entry costs beside its values: two dict entries, a tuple, the texts and numbers they hold.
_ENTRY_BYTES: Final = 512


def is_kept(kind: pa.DataType) -> bool:
    """Whether changed rows keep the values of a column of this type; others are fetched when asked for."""
    return not pa.types.is_nested(kind) and not pa.types.is_large_binary(kind)


class ChangedRow(NamedTuple):
    """A row as it is now: its place in the rows that one commit wrote.

    ``columns`` are the names that their columns had then; a schema change may have come since.
    """

    rows: pa.RecordBatch
    columns: Mapping[ColumnKey, str]
    place: int

    @property
    def row_id(self) -> int:
        """The stable row id."""
        found: int = self.rows.column("_rowid")[self.place].as_py()
        return found

    def value(self, key: ColumnKey) -> pa.Array:
        """The value of one of ``columns``, as an array of one."""
        return self.rows.column(self.columns[key]).slice(self.place, 1)


class NodeChanges:
    """What changed in a node table since ``base``, which is numbered; never modified.

    ``changed`` has the newest row by id, None for a node that is gone. ``size`` is the number of rows now.
    """

    def __init__(
        self,
        base: Identity,
        size: int,
        changed: Mapping[str, ChangedRow | None],
        ids: Mapping[int, str],
        values_nbytes: int,
    ) -> None:
        self.base = base
        self.size = size
        self.changed = changed
        self._ids = ids
        self._values_nbytes = values_nbytes

    @staticmethod
    def none(base: Identity, ids: NodeIds) -> NodeChanges:
        """Nothing changed since this numbered state."""
        return NodeChanges(base, ids.size, {}, {}, 0)

    @property
    def count(self) -> int:
        """How many nodes changed."""
        return len(self.changed)

    @property
    def nbytes(self) -> int:
        """About the bytes of the changed rows."""
        return self._values_nbytes + _ENTRY_BYTES * len(self.changed)

    def after(self, changes: Sequence[RowChanges], base: NodeIds) -> NodeChanges:
        """These changes and later ones; ``base`` are the ids of the numbered state."""
        size, nbytes = self.size, self._values_nbytes
        changed, ids = dict(self.changed), dict(self._ids)
        for change in changes:
            size += change.inserted.num_rows - change.gone.size
            # First what is gone: a node may be deleted and inserted again by one commit.
            replaced = np.concatenate([change.gone, change.updated["_rowid"].to_numpy()])
            codes = base.rows.codes(replaced).tolist()
            for row_id, code in zip(replaced.tolist(), codes, strict=True):
                known = ids.pop(row_id, None)
                if known is None and code >= 0:
                    known = base.id_array[code].as_py()
                if known is not None:
                    changed[known] = None
            for rows in (change.inserted, change.updated):
                columns = columns_by_key(rows.schema)
                for batch in rows.to_batches():
                    nbytes += batch.nbytes
                    row_ids = batch.column("_rowid").to_pylist()
                    for place, name in enumerate(batch.column("id").to_pylist()):
                        changed[name] = ChangedRow(batch, columns, place)
                        ids[row_ids[place]] = name
        return NodeChanges(self.base, size, changed, ids, nbytes)

    def as_rows(self, base: NodeIds) -> RowChanges:
        """The same changes for numbering this state out of the base: ids and row ids."""
        now = [(name, row.row_id) for name, row in self.changed.items() if row is not None]
        row_ids = np.array([row_id for _, row_id in now], np.uint64)
        ids = np.array([name for name, _ in now], object)
        codes = base.rows.codes(row_ids)
        # A row whose id changed is another node.
        known = codes >= 0
        before = base.id_array.take(codes[known]).to_numpy(zero_copy_only=False)
        known[known] = before == ids[known]
        replaced = base.find(pa.array(list(self.changed), base.id_array.type))
        gone = np.setdiff1d(base.rows.row_ids[replaced[replaced >= 0]], row_ids[known])
        return RowChanges(
            _table(ids[~known], row_ids[~known]),
            _table(ids[known], row_ids[known]),
            gone,
            columns_too=False,
        )


def _table(ids: npt.NDArray[np.object_], row_ids: npt.NDArray[np.uint64]) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.string()), "_rowid": pa.array(row_ids)})
