"""A table at one version of one branch: open it, create it, read it.

A table is one Lance dataset. A branch of it lives in ``tree/<branch>`` below it and is opened by
that address: one step, where ``checkout_version((branch, n))`` would first open main.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from omnigraph.cancel import aside, current, look
from omnigraph.errors import StorageError
from omnigraph.storage.filters import Pushdown
from omnigraph.storage.tables.branch_refs import refuse_replaced
from omnigraph.storage.tables.indexing.index_health import with_or_without
from omnigraph.storage.tables.lance_import import admits, lance, lance_module, session
from omnigraph.storage.tables.table_errors import (
    TableMissing,
    VersionMissing,
    is_not_found,
    lance_errors,
)
from omnigraph.storage.tables.table_ref import TableRef

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")

# The oldest format with blob columns. Every table gets it, whatever its columns today: a schema
# change may add a Blob later, and a dataset cannot change its format. It is also what pylance 14
# writes by itself; saying so keeps a newer default from slipping in unnoticed.
DATA_STORAGE_VERSION = "2.2"

PRIMARY_KEY = {b"lance-schema:unenforced-primary-key": b"true"}

_MAX_VERSION = 2**64 - 1
# Caches may be dropped by other threads again and again.
_OPEN_ATTEMPTS = 8
_MANIFEST = re.compile(r"_versions/([0-9]{20})\.manifest")


class Table:
    """A table opened at one version. Reads only; writes are staged (``staging``)."""

    __slots__ = ("_files", "_schema", "dataset", "ref")

    def __init__(self, ref: TableRef, dataset: Any) -> None:
        self.ref = ref.at(dataset.version)
        self.dataset = dataset
        """The Lance handle, for reads this class has no method for."""
        self._files: Any = None
        self._schema: pa.Schema | None = None

    @property
    def version(self) -> int:
        """The version this handle reads."""
        version = self.ref.version
        assert version is not None
        return version

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema, field metadata included."""
        if self._schema is None:  # Lance makes another one whenever it is asked
            self._schema = self.dataset.schema
        return self._schema

    def field_ids(self) -> dict[str, int]:
        """Lance's number of each column of this version by its name.

        It says nothing about other versions and branches: two branches give one number to different
        columns, and the number of a dropped column is given again.
        """
        return {field.name(): field.id() for field in self.dataset.lance_schema.fields()}

    def __repr__(self) -> str:
        return f"Table({self.ref})"

    # -- versions

    @property
    def files(self) -> Any:
        """A Lance file session on this dataset's directory: existence checks and ranged reads."""
        if self._files is None:
            self._files = file_session(self.ref)
        return self._files

    def has_version(self, version: int) -> bool:
        """Whether the manifest of that version exists. One existence check, whatever the history.

        A ``False`` for ``version + 1`` means "this is the newest" only as long as cleanup never
        removes a version and keeps an older one that a reader starts from.
        """
        address = self.ref.dataset_uri
        with lance_errors(f"looking for version {version} of {address}"):
            if not address.startswith("/"):
                return bool(self.files.contains(manifest_path(version)))
            # A plain path. Every read of a graph comes here first; Lance would take ten times as long.
            try:
                os.stat(f"{address}/{manifest_path(version)}")  # noqa: PTH116
            except (FileNotFoundError, NotADirectoryError):
                return False
            return True

    def is_head(self) -> bool:
        """Whether no newer version follows this one (see ``has_version``)."""
        return not self.has_version(self.version + 1)

    def head_version(self) -> int:
        """The newest version. It lists all versions, so its cost grows with their number."""
        with lance_errors(f"finding the newest version of {self.ref.dataset_uri}"):
            return int(self.dataset.latest_version)

    def versions(self) -> list[int]:
        """Every version of this branch that still exists, ascending; none from before its fork."""
        with lance_errors(f"listing the versions of {self.ref.dataset_uri}"):
            return sorted(entry["version"] for entry in self.dataset.version_refs())

    # -- reads

    def scan(
        self,
        columns: Sequence[str] | None = None,
        where: Pushdown | None = None,
        *,
        with_row_id: bool = False,
        with_row_address: bool = False,
        batch_size: int | None = None,
        limit: int | None = None,
        fragment_ids: Sequence[int] | None = None,
        **options: Any,
    ) -> pa.RecordBatchReader:
        """Stream rows. ``options`` go to Lance's scanner as they are (``nearest``, ``prefilter``…).

        Blob columns arrive as descriptors unless ``blob_handling`` says otherwise.
        """
        import pyarrow as pa

        if fragment_ids is not None:
            options["fragments"] = self._fragments(fragment_ids)
        options |= {
            "with_row_id": with_row_id,
            "with_row_address": with_row_address,
            "batch_size": batch_size,
            "limit": limit,
        }

        def first_read(use_index: bool) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
            with lance_errors(doing):
                reader = self._scanner(columns, where, use_index, **options).to_reader()
            # A generator, because Lance raises its own errors while it is being read.
            batches = _translated(reader, doing)
            if not use_index:
                return reader.schema, batches
            # Indexes are searched before the first batch.
            begun = list(itertools.islice(batches, 1))
            return reader.schema, itertools.chain(begun, batches)

        doing = f"reading {self.ref}"
        schema, batches = self._perhaps_indexed(where, options, first_read)
        return pa.RecordBatchReader.from_batches(schema, batches)

    def read(
        self, columns: Sequence[str] | None = None, where: Pushdown | None = None, **options: Any
    ) -> pa.Table:
        """All rows a ``scan`` with the same arguments would stream."""
        if "fragment_ids" in options:
            options["fragments"] = self._fragments(options.pop("fragment_ids"))

        def read(use_index: bool) -> pa.Table:
            with lance_errors(f"reading {self.ref}"):
                scanner = self._scanner(columns, where, use_index, **options)
                if where is None and "nearest" not in options:
                    return _whole(scanner)
                # There may be no batch for long.
                return aside(lambda: _whole(scanner), minds_signals=True)

        return self._perhaps_indexed(where, options, read)

    def _perhaps_indexed(
        self, where: Pushdown | None, options: Mapping[str, Any], read: Callable[[bool], T]
    ) -> T:
        """Read with the indexes that could serve, or without them where one cannot be read."""
        nearest = options.get("nearest")
        if (where is None or where.never) and nearest is None:
            return read(False)
        columns = set() if nearest is None else {nearest["column"]}
        if where is None:
            return with_or_without(self.ref, self.dataset, columns, read)
        tested = None if where.columns is None else where.columns | columns
        return with_or_without(self.ref, self.dataset, tested, read)

    def _scanner(
        self,
        columns: Sequence[str] | None,
        where: Pushdown | None,
        use_index: bool,
        **options: Any,
    ) -> Any:
        if where is not None and where.never:
            options["limit"] = 0
        if not use_index:
            options["use_scalar_index"] = False
            if (nearest := options.get("nearest")) is not None:
                options["nearest"] = {**nearest, "use_index": False}
        return self.dataset.scanner(
            columns=None if columns is None else list(columns),
            filter=None if where is None else where.lance_filter,
            **options,
        )

    def count_rows(self, where: Pushdown | None = None) -> int:
        """The number of rows, or of those that satisfy the filter."""
        if where is not None and where.never:
            return 0

        def count(use_index: bool) -> int:
            with lance_errors(f"counting the rows of {self.ref}"):
                if where is None or use_index:
                    return int(
                        self.dataset.count_rows(None if where is None else where.lance_filter)
                    )
                return int(self._scanner([], where, use_index, with_row_id=True).count_rows())

        return self._perhaps_indexed(where, {}, count)

    def take(self, row_ids: Sequence[int], columns: Sequence[str] | None = None) -> pa.Table:
        """The rows with these stable row ids, in the order asked for, repeats included."""
        with lance_errors(f"taking rows of {self.ref}"):
            wanted = None if columns is None else list(columns)
            rows = aside(
                lambda: self.dataset._take_rows(row_ids, wanted),  # noqa: SLF001 - `take` is by position
                minds_signals=True,
            )
        if rows.num_rows != len(row_ids):
            # Lance leaves out rows it does not find, which would shift every later one.
            raise StorageError(
                f"{self.ref} has only {rows.num_rows} of the {len(row_ids)} rows asked for; "
                "reopen the graph and repeat the read"
            )
        return rows

    def find(self, row_ids: pa.Array, columns: Sequence[str]) -> pa.Table:
        """The rows with these stable row ids, as far as there are any, with ``_rowid``."""
        with lance_errors(f"taking rows of {self.ref}"):
            if columns:
                found = self.dataset._take_rows(row_ids, list(columns))  # noqa: SLF001 - as `take`
                if found.num_rows == len(row_ids):  # all of them, in the order asked for
                    return found.append_column("_rowid", row_ids)
            # To read row ids takes a while in a table whose rows were updated all over.
            return self.dataset._take_rows(row_ids, [*columns, "_rowid"])  # noqa: SLF001

    def fragments(self) -> list[Any]:
        """The metadata of every fragment (``lance.FragmentMetadata``), in order."""
        with lance_errors(f"listing the fragments of {self.ref}"):
            return [fragment.metadata for fragment in self.dataset.get_fragments()]

    def count_fragments(self) -> int:
        """How many fragments there are. Reads nothing from the store."""
        return int(self.dataset._ds.count_fragments())  # noqa: SLF001 - the public way makes all of them

    def _fragments(self, ids: Sequence[int]) -> list[Any]:
        found = [self.dataset.get_fragment(number) for number in ids]
        missing = [number for number, fragment in zip(ids, found, strict=True) if fragment is None]
        if missing:
            raise StorageError(f"{self.ref} has no fragment {missing[0]}; reopen the graph")
        return found

    def delta(self, base: int) -> Delta:
        """What changed after version ``base``, at the cost of what changed.

        Exact since the newest versions. Since an older one, rows that fragments were merged with may count as
        updated although they did not change, or are new (``lance_format/row_versions.py``).

        On a branch ``base`` cannot lie before its fork: compare the parent's handle for that part.
        """
        with lance_errors(f"comparing {self.ref} with version {base}"):
            return Delta(self, base, self.dataset.delta(compared_against=base))


class Delta:
    """Rows inserted, updated and deleted between two versions of one branch."""

    def __init__(self, table: Table, base: int, delta: Any) -> None:
        self._table = table
        self._base = base
        self._delta = delta

    def inserted(self) -> pa.RecordBatchReader:
        """New rows: all columns, ``_rowid`` and the two row version columns."""
        return _opened("reading inserted rows", self._delta.get_inserted_rows)

    def updated(self) -> pa.RecordBatchReader:
        """Rows that were there before and changed, as they are now; same columns."""
        return _opened("reading updated rows", self._delta.get_updated_rows)

    def count_deleted(self, inserted: int) -> int | None:
        """How many rows are gone, given how many are new: what ``deleted_row_ids`` would find, from row counts.

        None where cleanup has removed the base. Wrong where a restore brought back rows that were gone at
        the base: they are not new.
        """
        try:
            before = open_table(self._table.ref.at(self._base)).count_rows()
        except VersionMissing:
            return None
        return before + inserted - self._table.count_rows()

    def deleted_row_ids(self) -> pa.RecordBatchReader:
        """``_rowid`` of the rows that are gone. Takes long where large fragments lost rows."""
        return _opened("reading deleted row ids", self._delta.get_deleted_row_ids)


def _opened(doing: str, opened: Callable[[], pa.RecordBatchReader]) -> pa.RecordBatchReader:
    """A reader of Lance whose batches fail with our errors, too."""
    import pyarrow as pa

    with lance_errors(doing):
        reader = opened()
    return pa.RecordBatchReader.from_batches(reader.schema, _translated(reader, doing))


def _translated(reader: pa.RecordBatchReader, doing: str) -> Iterator[pa.RecordBatch]:
    with lance_errors(doing):
        for batch in reader:
            look()
            yield batch


def _whole(scanner: Any) -> pa.Table:
    """All rows at once, or batch by batch if the read can be cancelled."""
    if current() is None:
        return scanner.to_table()
    import pyarrow as pa

    reader, batches = scanner.to_reader(), []
    for batch in reader:
        look()
        batches.append(batch)
    return pa.Table.from_batches(batches, reader.schema)


def manifest_path(version: int) -> str:
    """The manifest of a version, below the dataset: numbered downwards, so the newest lists first."""
    return f"_versions/{_MAX_VERSION - version}.manifest"


def version_at(path: str) -> int | None:
    """The version whose manifest a path below the dataset is; None if it is another file."""
    found = _MANIFEST.fullmatch(path)
    return None if found is None else _MAX_VERSION - int(found[1])


def file_session(ref: TableRef) -> Any:
    """A Lance file session on the dataset's directory, with the table's store options."""
    with lance_errors(f"reaching {ref.dataset_uri}"):
        return lance_module("file").LanceFileSession(
            ref.dataset_uri,
            storage_options=None if ref.storage_options is None else dict(ref.storage_options),
        )


def open_table(ref: TableRef) -> Table:
    """Open a table; without a version, at its newest one (which lists its versions).

    ``BranchReplaced`` when the address names the identifier of a branch that is gone.
    """
    with lance_errors(f"opening {ref}"):
        try:
            table = table_of(ref, _open(ref))
        except (ValueError, OSError) as error:
            refuse_replaced(ref)
            if not is_not_found(error):
                raise
            raise _missing(ref) from error
    refuse_replaced(ref)
    return table


def opened_at(ref: TableRef, opened: Table | None) -> Table:
    """Return a table at an address: the one that is open already if it is there, else opened anew."""
    if opened is None or opened.ref != ref:
        return open_table(ref)
    refuse_replaced(ref)
    return opened


def table_of(ref: TableRef, dataset: Any) -> Table:
    """The table of a handle that Lance gave, opened anew if what Lance caches belongs to another one."""
    for _ in range(_OPEN_ATTEMPTS):
        if admits(ref.dataset_uri, ref.branch_id, dataset):
            break
        dataset = _open(ref.at(dataset.version))
    return Table(ref, dataset)


def _open(ref: TableRef) -> Any:
    return lance().dataset(
        ref.dataset_uri,
        version=ref.version,
        storage_options=None if ref.storage_options is None else dict(ref.storage_options),
        session=session(ref.dataset_uri, ref.branch_id),
    )


def _missing(ref: TableRef) -> StorageError:
    if ref.version is not None and table_exists(ref):
        return VersionMissing(
            f"version {ref.version} of {ref.at(None)} is not there any more",
            table=ref.dataset_uri,
            version=ref.version,
        )
    return TableMissing(f"there is no table at {ref.dataset_uri}", table=ref.dataset_uri)


def table_exists(ref: TableRef) -> bool:
    """Whether the table (or the branch of it) is there with at least one version."""
    with lance_errors(f"looking for {ref.dataset_uri}"):
        try:
            _open(ref.at(None))
        except (ValueError, OSError) as error:
            if is_not_found(error):
                return False
            raise
        return True


def create_table(ref: TableRef, schema: pa.Schema, rows: pa.Table | None = None) -> Table:
    """Create a table (version 1), empty or with first rows. Refused when there is one already.

    Stable row ids cannot be switched on later; merges, changes and late fetches need them.
    """
    with lance_errors(f"creating the table {ref.dataset_uri}"):
        dataset = lance().write_dataset(
            schema.empty_table() if rows is None else rows,
            ref.dataset_uri,
            mode="create",
            enable_stable_row_ids=True,
            data_storage_version=DATA_STORAGE_VERSION,
            storage_options=None if ref.storage_options is None else dict(ref.storage_options),
            session=session(ref.dataset_uri),
        )
        return table_of(ref, dataset)
