"""Search the files of a table for ids: rows and index pages by Lance's file reader, transactions as bytes.

Files are read, not versions: a file also holds rows that are deleted in every version, and a file of a
failed write belongs to no version at all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from omnigraph.cancel import look
from omnigraph.manifest.workspace import Workspace
from omnigraph.storage.tables.table import file_session
from omnigraph.storage.tables.table_errors import lance_errors

if TYPE_CHECKING:
    import pyarrow as pa

Columns = Mapping[str, "pa.Array"]
"""Some rows of a file, by column."""

BATCH_ROWS: Final = 1 << 18
_INDEX_COLUMNS: Final = ("values", "min", "max")
ROW_IDS: Final = "_rowid"
"""Texts and vectors have entries by row id."""
ADDRESSES: Final = "ids"
"""BTREEs have entries by the address of the row: its fragment and its place in it."""
_DATA, _INDEX = "/data/", "/_indices/"
INDEX_FILES: Final = (".lance", ".idx")
"""How the files of indexes are named."""
_BEFORE_TEXT: Final = (b" ", b"=", b"(", b",", b"<", b">")
"""What stands before a text in a condition."""


class Page(NamedTuple):
    """Texts of an index, in one array or several, and where their rows are, if the file says so."""

    texts: Sequence[pa.Array]
    addresses: pa.Array | None


class IdSet:
    """Ids to look for, in the forms that searching needs."""

    def __init__(self, ids: Collection[str]) -> None:
        self.texts = frozenset(ids)
        self._array: pa.Array | None = None

    def __bool__(self) -> bool:
        return bool(self.texts)

    def among(self, values: pa.Array) -> pa.Array:
        """Which of the values are among the ids, as booleans."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if len(values) < len(self.texts):
            # Arrow would go through all ids for each few values.
            return pa.array([one in self.texts for one in values.to_pylist()], pa.bool_())
        if self._array is None:
            self._array = pa.array(list(self.texts), pa.string())
        return pc.is_in(values, value_set=self._array)

    def found_in(self, values: pa.Array) -> set[str]:
        """Return the ids that are among the values."""
        if not self.texts:
            return set()
        return set(values.filter(self.among(values)).to_pylist())

    def is_named_in(self, data: bytes) -> bool:
        """Whether a condition in some bytes names an id, as ``id = 'ann'`` does."""
        parts = data.replace(b"''", b"\0\0").split(b"'")
        return any(
            before.endswith(_BEFORE_TEXT)
            and part.replace(b"\0\0", b"'").decode(errors="replace") in self.texts
            for before, part in pairwise(parts[:-1])
        )


def _is_read(kind: pa.DataType) -> bool:
    """Whether a column may have ids: texts of entities, or numbers of rows."""
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_uint64(kind))


class FileScan:
    """Reads files below the root of a graph; ``files`` and ``bytes`` count what was read."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self.files = 0
        self.bytes = 0
        self._sessions: dict[str, Any] = {}

    def rows(self, path: str, columns: Sequence[str]) -> Iterator[Columns]:
        """Yield those columns of a data file that it has, some rows at a time, deleted ones included.

        A file that has none of them, such as one that a write keeps rows in for itself, gives all its texts.
        """
        yield from self._columns(path, _DATA, columns, or_texts=True)

    def pages(self, path: str) -> Iterator[Page]:
        """Yield the texts in a file of a BTREE; nothing for other files of indexes."""
        wanted = (*_INDEX_COLUMNS, ADDRESSES)
        for batch in self._columns(path, _INDEX, wanted, or_texts=False):
            texts = [batch[name] for name in _INDEX_COLUMNS if name in batch]
            yield Page(texts, batch.get(ADDRESSES))

    def entries(self, path: str) -> Iterator[Columns]:
        """Yield the rows that a file of an index of any kind has entries of: ``ROW_IDS`` or ``ADDRESSES``."""
        yield from self._columns(path, _INDEX, (ROW_IDS, ADDRESSES), or_texts=False)

    def whole(self, path: str) -> Iterator[pa.RecordBatch]:
        """Yield all columns of a data file."""
        place, _, name = path.rpartition(_DATA)
        with lance_errors(f"reading {path}"):
            reader = self._session(place).open_reader(f"{_DATA[1:]}{name}")
            yield from reader.read_all(batch_size=BATCH_ROWS).to_batches()

    def read(self, path: str) -> bytes:
        """Return a small file, such as a transaction or the manifest of a version."""
        data = self.workspace.store.read_bytes(path)
        self._count(len(data))
        return data

    def _columns(
        self, path: str, mark: str, columns: Sequence[str], *, or_texts: bool
    ) -> Iterator[Columns]:
        import pyarrow as pa

        place, _, name = path.rpartition(mark)
        session = self._session(place)
        inner = f"{mark[1:]}{name}"
        with lance_errors(f"reading {path}"):
            stored = session.open_reader(inner).metadata().schema
            chosen = [one for one in columns if one in stored.names]
            if not chosen and or_texts:
                chosen = [one.name for one in stored if pa.types.is_string(one.type)]
            chosen = [one for one in chosen if _is_read(stored.field(one).type)]
            if not chosen:
                return
            reader = session.open_reader(inner, columns=chosen)
            for batch in reader.read_all(batch_size=BATCH_ROWS).to_batches():
                look()
                yield {name: batch.column(name) for name in chosen}

    def _session(self, place: str) -> Any:
        if place not in self._sessions:
            self._sessions[place] = file_session(self.workspace.ref(place))
        return self._sessions[place]

    def index_files(self, place: str) -> list[str]:
        """Return the files of a part of an index that rows may have entries in."""
        names = self.workspace.store.sizes(place)
        return sorted(name for name in names if name.endswith(INDEX_FILES))

    def _count(self, size: int) -> None:
        self.files += 1
        self.bytes += size

    def count(self, sizes: Mapping[str, int], path: str) -> None:
        """Count a file that was read by Lance."""
        self._count(sizes.get(path, 0))
