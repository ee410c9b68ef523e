"""Write, read and remove data files that no version of a table refers to (yet).

They are kept among the table's own data files, where Lance's cleanup finds those of dead writers.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from omnigraph.errors import OmniGraphError
from omnigraph.storage.tables.table import DATA_STORAGE_VERSION, file_session, open_table
from omnigraph.storage.tables.table_errors import (
    BranchReplaced,
    TableMissing,
    VersionMissing,
    lance_errors,
)
from omnigraph.storage.tables.table_ref import TableRef

if TYPE_CHECKING:
    import pyarrow as pa

logger = logging.getLogger(__name__)

_BATCH_ROWS = 1 << 14


class LooseFile:
    """A file being written: batches of one schema, any schema. The first batch creates the file."""

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
        """Finish writing; the file can be read from now on, if any batch was added."""
        with lance_errors(f"writing rows for {self.ref}"):
            if self._writer is not None:
                self._writer.close()
                self._writer = None


def read_data_file(
    ref: TableRef, name: str, columns: Sequence[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """Read the rows of a data file in order: a loose one, or that of a fragment without blobs.

    Lance miscounts the columns of a file that has a blob column.
    """
    with lance_errors(f"reading rows written for {ref}"):
        reader = file_session(ref).open_reader(
            _path(name), columns=None if columns is None else list(columns)
        )
        yield from reader.read_all(batch_size=_BATCH_ROWS).to_batches()


def data_files(fragments: Iterable[Any]) -> list[str]:
    """The names of the files that hold the rows of fragments."""
    return [file.path for fragment in fragments for file in fragment.files]


def remove_loose_files(ref: TableRef, names: Iterable[str], fragments: Iterable[Any] = ()) -> None:
    """Remove loose files, and the files of fragments that were written since the version of ``ref``.

    Fragments that a version refers to keep their files. What cannot be removed is left for cleanup; so is
    everything when the versions cannot be read.
    """
    doomed = set(names)
    try:
        doomed |= _unnamed(ref, set(data_files(fragments)))
        if not doomed:
            return
        session = file_session(ref)
        for name in sorted(doomed):
            # The bytes of large blobs are in a directory with the file's name.
            for path in [_path(name), *session.list(_path(name.removesuffix(".lance")) + "/")]:
                with lance_errors(f"removing {path} of {ref.dataset_uri}"):
                    session.delete_file(path)
    except (TableMissing, BranchReplaced):
        return
    except OmniGraphError as error:
        logger.warning("files of a write that failed stay until cleanup: %s", error)


def _unnamed(ref: TableRef, names: set[str]) -> set[str]:
    """Return those files that no version after that of ``ref`` refers to."""
    if names and ref.version is not None:
        # Mostly it is the very write that the files are of. To list all versions takes longer with each.
        with suppress(VersionMissing):
            names -= _files_at(ref, ref.version + 1)
    if names:
        newer = (one for one in open_table(ref.at(None)).versions() if one > (ref.version or 0))
        names = names.difference(*(_files_at(ref, version) for version in newer))
    return names


def _files_at(ref: TableRef, version: int) -> set[str]:
    return set(data_files(open_table(ref.at(version)).fragments()))


def _path(name: str) -> str:
    return f"data/{name}"
