"""Look where entities are: in which data files, parts of indexes and transactions, and so in which versions.

A version holds an entity if one of its files has it in it, deleted or not. For example, a row that
version 3 wrote, version 5 deleted and version 8 left out of the compacted fragment is in the versions 3
to 7. Parts of indexes count for all their values as soon as one fragment that they cover holds it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

from omnigraph.errors import OmniGraphError
from omnigraph.maintenance.cleanup.survey import TableFound
from omnigraph.maintenance.purge.file_scan import Columns, FileScan, IdSet
from omnigraph.maintenance.purge.request import Sought
from omnigraph.maintenance.verify.named_files import Naming, place_of
from omnigraph.manifest.rows import Purge
from omnigraph.storage.tables.indexing.index_health import index_parts
from omnigraph.storage.tables.indexing.table_indexes import part_fragments
from omnigraph.storage.tables.table import Table, open_table
from omnigraph.storage.tables.transactions import transaction_uuid

ID = "id"


@dataclass(slots=True)
class TableLook:
    """What was found in one table.

    ``files`` are data files with rows of purged entities, and ``parts`` the UUIDs of parts of indexes over
    them. ``versions`` has for each branch of the table those that hold some. ``unnamed`` are those of the
    files that no version names.
    """

    found: TableFound
    sought: Sought
    ids: set[str] = field(default_factory=set)
    files: set[str] = field(default_factory=set)
    parts: set[str] = field(default_factory=set)
    versions: dict[str | None, list[int]] = field(default_factory=dict)
    unnamed: set[str] = field(default_factory=set)
    unreadable: set[str] = field(default_factory=set)
    """Files that no version names and that cannot be read: another process may be writing them."""

    @property
    def is_clean(self) -> bool:
        """Whether nothing was found."""
        return not (self.files or self.parts or any(self.versions.values()))

    def identifier(self, branch: str | None) -> str | None:
        """Return the Lance identifier of a branch of the table; None on the main lineage."""
        fork = None if branch is None else self.found.forks.get(branch)
        return None if fork is None else fork.identifier

    def runs(self, at: int) -> Iterator[Purge]:
        """Yield what to remove from each branch of the table: runs of versions, and files that no version names."""
        table = self.found.table
        for branch, versions in self.found.versions.items():
            doomed = set(self.versions.get(branch, ()))
            identifier = self.identifier(branch)
            owed = [
                (run[0], run[-1] + 1)
                for is_doomed, grouped in groupby(versions, doomed.__contains__)
                if is_doomed and (run := list(grouped))
            ]
            place = f"{table.location}/" if branch is None else f"{table.location}/tree/{branch}/"
            own = {name for name in self.unnamed if _is_below(name, place)}
            for first, below in owed or ([(0, 0)] if own else []):
                yield Purge(
                    table.table_key,
                    table.incarnation,
                    table.location,
                    below=below,
                    first=first,
                    table_branch=branch,
                    table_branch_id=identifier,
                    at=at,
                )


def _is_below(path: str, place: str) -> bool:
    """Whether a data file lies in the directory of a table, or of a branch of it, itself."""
    return path.startswith(place) and path[len(place) :].startswith("data/")


class IndexPart(NamedTuple):
    """A part of an index as a version lists it."""

    uuid: str
    column: str
    place: str
    covers: frozenset[int]


class VersionFiles(NamedTuple):
    """What a version of a table names: the files of each fragment, parts of indexes, and its transaction."""

    branch: str | None
    version: int
    fragments: dict[int, tuple[str, ...]]
    parts: tuple[IndexPart, ...]
    transaction: str

    @staticmethod
    def of(branch: str | None, table: Table) -> VersionFiles:
        """Read them from an open table."""
        naming = Naming(table)
        covers = part_fragments(table)
        return VersionFiles(
            branch,
            table.version,
            {
                one.id: tuple(file.path for file in naming.of_fragment(one) if file.kind == "data")
                for one in table.fragments()
            },
            tuple(
                IndexPart(
                    one.uuid, one.column, f"{place_of(one.base)}/{one.directory}", covers[one.uuid]
                )
                for one in index_parts(table.ref, table.dataset)
            ),
            transaction_uuid(table),
        )

    def held(self, files: set[str]) -> set[int]:
        """Return the fragments that have one of these files."""
        return {number for number, own in self.fragments.items() if not files.isdisjoint(own)}


def version_files(found: TableFound) -> Iterator[VersionFiles]:
    """Look at every version of every branch of a table, one after the other."""
    for branch, versions in found.versions.items():
        ref = found.opened[branch].ref
        for version in versions:
            yield VersionFiles.of(branch, open_table(ref.at(version)))


class Looker:
    """Looks into tables, each file once."""

    def __init__(self, scan: FileScan) -> None:
        self.scan = scan
        self._pages: dict[str, set[str]] = {}

    def look(self, found: TableFound, sought: Sought) -> TableLook:
        """Find everything in one table: the entities that are sought, and the edges of nodes that are."""
        names = sorted(self.scan.workspace.store.sizes(found.table.location))
        data = [name for name in names if is_data_file(name)]
        made = TableLook(found, sought)
        versions = list(version_files(found))
        named = {path for one in versions for files in one.fragments.values() for path in files}
        ids = set(sought.ids)
        if sought.ends:
            ids |= self._edges(data, named, made)
        wanted = IdSet(ids)
        for path in data:
            here = self._ids_in(path, wanted, named, made)
            if here:
                made.ids |= here
                made.files.add(path)
        made.unnamed = (made.files | made.unreadable) - named
        for one in versions:
            self._look_at_parts(one, wanted, made)
        told = {
            name.rpartition("/")[2].partition("-")[2].removesuffix(".txn")
            for name in names
            if name.endswith(".txn") and wanted.is_named_in(self.scan.read(name))
        }
        for one in versions:
            if (
                one.held(made.files)
                or any(part.uuid in made.parts for part in one.parts)
                or one.transaction in told
            ):
                made.versions.setdefault(one.branch, []).append(one.version)
        return made

    def _edges(self, data: Sequence[str], named: set[str], made: TableLook) -> set[str]:
        """Return the ids of edges that begin or end at sought nodes in any file."""
        ends = {column: IdSet(ids) for column, ids in made.sought.ends.items()}
        edges: set[str] = set()
        for path in data:
            for batch in self._rows(path, [ID, *ends], named, made):
                for column, wanted in ends.items():
                    if column in batch and ID in batch:
                        edges.update(batch[ID].filter(wanted.among(batch[column])).to_pylist())
        return edges

    def _ids_in(self, path: str, wanted: IdSet, named: set[str], made: TableLook) -> set[str]:
        here: set[str] = set()
        for batch in self._rows(path, [ID], named, made):
            for values in batch.values():
                here |= wanted.found_in(values)
        return here

    def _rows(
        self, path: str, columns: Sequence[str], named: set[str], made: TableLook
    ) -> Iterator[Columns]:
        try:
            yield from self.scan.rows(path, columns)
        except OmniGraphError:
            if path in named:
                raise
            made.unreadable.add(path)

    def _look_at_parts(self, version: VersionFiles, wanted: IdSet, made: TableLook) -> None:
        """Find the parts of indexes that cover a fragment with purged rows, or have an id in their pages."""
        held = version.held(made.files)
        made.parts |= {part.uuid for part in version.parts if held & part.covers}
        for part in version.parts:
            if part.uuid in made.parts:
                continue
            among = wanted if part.column == ID else self._ends(part.column, made)
            here = self._in_pages(part.place, among) if among else set()
            if here:
                if part.column == ID:
                    made.ids |= here
                # Of rows that no fragment holds any longer, the parts of indexes built at the time still have the ids.
                made.parts |= {one.uuid for one in version.parts}
                return

    def _ends(self, column: str, made: TableLook) -> IdSet | None:
        ids = made.sought.ends.get(column)
        return None if ids is None else IdSet(ids)

    def _in_pages(self, place: str, among: IdSet) -> set[str]:
        known = self._pages.get(place)
        if known is None:
            known = set()
            for name in self.scan.workspace.store.sizes(place):
                if name.endswith(".lance"):
                    for batch in self.scan.pages(name):
                        for values in batch.values():
                            known |= among.found_in(values)
            self._pages[place] = known
        return known


def is_data_file(name: str) -> bool:
    """Whether a file below the root holds rows of a table."""
    return name.rpartition("/")[0].endswith("/data") and name.endswith(".lance")
