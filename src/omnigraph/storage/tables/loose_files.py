"""Data files beside a table that no version of it names (yet): written, read back, removed.

They lie among the table's own data files, where Lance's cleanup finds what a dead writer left.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from omnigraph.errors import OmniGraphError
from omnigraph.storage.tables.table import DATA_STORAGE_VERSION, file_session, open_table
from omnigraph.storage.tables.table_errors import BranchReplaced, TableMissing, lance_errors
from omnigraph.storage.tables.table_ref import TableRef

if TYPE_CHECKING:
    import pyarrow as pa

logger = logging.getLogger(__name__)

_BATCH_ROWS = 1 << 14


class LooseFile:
    """A file being written, of batches of one schema, whatever it is; made with the first."""

    def __init__(self, ref: TableRef) -> None:
        self.ref = ref
        self.name: str | None = None
        self._writer: Any = None

    def add(self, batch: pa.RecordBatch) -> None:
        """Append rows."""
        with lance_errors(f"writing rows for {self.ref}"):
            if self._writer is None:
                self.name = f"{uuid.uuid4().hex}.lance"
                self._writer = file_session(self.ref).open_writer(
                    _path(self.name), schema=batch.schema, version=DATA_STORAGE_VERSION
                )
            self._writer.write_batch(batch)

    def close(self) -> None:
        """End the writing; from now on the file can be read, if there is one."""
        with lance_errors(f"writing rows for {self.ref}"):
            if self._writer is not None:
                self._writer.close()
                self._writer = None


def read_data_file(
    ref: TableRef, name: str, columns: Sequence[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of a data file in their order: a loose one, or one of a fragment without blobs.

    Lance counts the columns of a file wrongly where a blob column is among them.
    """
    with lance_errors(f"reading rows written for {ref}"):
        reader = file_session(ref).open_reader(
            _path(name), columns=None if columns is None else list(columns)
        )
        yield from reader.read_all(batch_size=_BATCH_ROWS).to_batches()


def data_files(fragments: Iterable[Any]) -> list[str]:
    """The names of the files that hold the rows of fragments."""
    return [file.path for fragment in fragments for file in fragment.files]


def remove_loose_files(ref: TableRef, names: Iterable[str]) -> None:
    """Remove files written since the version of ``ref``, except those that a version names.

    What cannot be removed stays for cleanup; so does everything when the versions cannot be read.
    """
    doomed = set(names)
    if not doomed:
        return
    try:
        doomed -= _named_since(ref)
        session = file_session(ref)
        for name in sorted(doomed):
            # The bytes of large blobs lie in a directory of the file's name.
            for path in [_path(name), *session.list(_path(name.removesuffix(".lance")) + "/")]:
                with lance_errors(f"removing {path} of {ref.dataset_uri}"):
                    session.delete_file(path)
    except (TableMissing, BranchReplaced):
        return
    except OmniGraphError as error:
        logger.warning("files of a write that failed stay until cleanup: %s", error)


def _named_since(ref: TableRef) -> set[str]:
    newest = open_table(ref.at(None))
    versions = [number for number in newest.versions() if number > (ref.version or 0)]
    return {
        name
        for number in versions
        for name in data_files(open_table(ref.at(number)).fragments())
    }  # fmt: skip


def _path(name: str) -> str:
    return f"data/{name}"
