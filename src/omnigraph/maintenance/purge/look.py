"""Look where entities are: in which data files, parts of indexes and transactions, and so in which versions.

A version holds an entity if one of its files has it in it, deleted or not. For example, a row that
version 3 wrote, version 5 deleted and version 8 left out of the compacted fragment is in the versions 3
to 7. Parts of indexes count for all their values as soon as one fragment that they cover holds it, or one of
their entries is of its row: version 8 goes on with the text index that version 4 built.

After a cleanup of the versions 3 to 7 no file says whose row that entry was. The manifest does to some extent:
a mark for each row that left the table (``history/version_marks.py``). Where an entity may be among them, entries of
unknown rows count as its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from omnigraph.errors import OmniGraphError
from omnigraph.maintenance.cleanup.survey import TableFound
from omnigraph.maintenance.purge.asked_entities import Sought
from omnigraph.maintenance.purge.file_scan import Columns, FileScan, IdSet
from omnigraph.maintenance.purge.row_sets import RowNumbers, addresses_of
from omnigraph.maintenance.verify.named_files import Naming, place_of
from omnigraph.manifest.rows import Purge
from omnigraph.storage.tables.indexing.index_health import index_parts
from omnigraph.storage.tables.indexing.table_indexes import part_fragments
from omnigraph.storage.tables.table import Table, open_table
from omnigraph.storage.tables.transactions import transaction_uuid

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

ID = "id"
MayHaveLeft = Callable[[Sought], bool]
"""Whether an entity that is looked for, or an edge of one, may have been in a table and left it."""


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
    rows: dict[str | None, RowNumbers] = field(default_factory=dict)
    """The rows of purged entities, by branch of the table: each numbers its own rows."""
    known: dict[str | None, RowNumbers] = field(default_factory=dict)
    """The rows in the files of all versions."""
    may_have_left: bool = False
    """Whether rows that are in no file any more may be of purged entities."""

    @property
    def is_clean(self) -> bool:
        """Whether nothing was found."""
        return not (self.files or self.parts or any(self.versions.values()))

    def may_be_in_indexes(self, branch: str | None, *, sure: bool) -> bool:
        """Whether there can be entries of purged rows; ``sure`` as for ``is_in``."""
        if branch not in self.rows:
            return False
        return bool(self.rows[branch]) or (self.may_have_left and not sure)

    def is_in(self, branch: str | None, entries: Columns, *, sure: bool) -> bool:
        """Whether an entry of an index may be of a purged row; ``sure``: only of those that are known to be."""
        if self.rows[branch].has(entries).any():
            return True
        unknown = self.may_have_left and not sure
        return unknown and not bool(self.known[branch].has(entries).all())

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
    def of(branch: str | None, table: Table, seen: dict[str, Any]) -> VersionFiles:
        """Read them from an open table; ``seen`` is told the fragment that each file belongs to."""
        naming = Naming(table)
        covers = part_fragments(table)
        fragments: dict[int, tuple[str, ...]] = {}
        for one in table.fragments():
            paths = tuple(file.path for file in naming.of_fragment(one) if file.kind == "data")
            fragments[one.id] = paths
            seen.update(dict.fromkeys(paths, one))
        return VersionFiles(
            branch,
            table.version,
            fragments,
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


def version_files(found: TableFound, seen: dict[str, Any]) -> Iterator[VersionFiles]:
    """Look at every version of every branch of a table, one after the other."""
    for branch, versions in found.versions.items():
        ref = found.opened[branch].ref
        for version in versions:
            yield VersionFiles.of(branch, open_table(ref.at(version)), seen)


class _Found(NamedTuple):
    """What the pages of a BTREE have of some ids: these, and where their rows are. ``is_btree``: there are pages."""

    ids: set[str]
    addresses: npt.NDArray[np.uint64]
    is_btree: bool


class Looker:
    """Looks into tables, each file once."""

    def __init__(self, scan: FileScan, may_have_left: MayHaveLeft) -> None:
        self.scan = scan
        self._may_have_left = may_have_left
        self._pages: dict[str, _Found] = {}
        self._entries: dict[tuple[str, str | None], bool] = {}

    def look(self, found: TableFound, sought: Sought) -> TableLook:
        """Find everything in one table: the entities that are sought, and the edges of nodes that are."""
        names = sorted(self.scan.workspace.store.sizes(found.table.location))
        data = [name for name in names if is_data_file(name)]
        made = TableLook(found, sought, may_have_left=self._may_have_left(sought))
        seen: dict[str, Any] = {}
        versions = list(version_files(found, seen))
        named = set(seen)
        ids = set(sought.ids)
        if sought.ends:
            ids |= self._edges(data, named, made)
        wanted = IdSet(ids)
        places: dict[str, npt.NDArray[np.int64]] = {}
        for path in data:
            here, at = self._ids_in(path, wanted, named, made)
            if here:
                made.ids |= here
                made.files.add(path)
                places[path] = at
        made.unnamed = (made.files | made.unreadable) - named
        self._look_at_indexes(versions, wanted, seen, places, made)
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

    def _ids_in(
        self, path: str, wanted: IdSet, named: set[str], made: TableLook
    ) -> tuple[set[str], npt.NDArray[np.int64]]:
        """Return the ids that a file has, and at which of its rows."""
        import numpy as np

        here: set[str] = set()
        places, begin = [np.array([], np.int64)], 0
        for batch in self._rows(path, [ID], named, made):
            for values in batch.values():
                chosen = wanted.among(values)
                found = set(values.filter(chosen).to_pylist())
                if found:
                    here |= found
                    places.append(np.flatnonzero(chosen.to_numpy(zero_copy_only=False)) + begin)
            begin += max(map(len, batch.values()))
        return here, np.concatenate(places)

    def _rows(
        self, path: str, columns: Sequence[str], named: set[str], made: TableLook
    ) -> Iterator[Columns]:
        try:
            yield from self.scan.rows(path, columns)
        except OmniGraphError:
            if path in named:
                raise
            made.unreadable.add(path)

    def _look_at_indexes(
        self,
        versions: Sequence[VersionFiles],
        wanted: IdSet,
        seen: dict[str, Any],
        places: dict[str, npt.NDArray[np.int64]],
        made: TableLook,
    ) -> None:
        """Find the parts of indexes that have something of purged rows.

        They cover a fragment with one, have an id in their pages, or an entry of such a row.
        """
        import numpy as np

        fragments: dict[str | None, dict[int, str]] = {}
        rows: dict[str | None, dict[str, npt.NDArray[np.uint64]]] = {}
        for one in versions:
            held = one.held(made.files)
            made.parts |= {part.uuid for part in one.parts if held & part.covers}
            fragments.setdefault(one.branch, {}).update(
                (number, files[0]) for number, files in one.fragments.items() if files
            )
            found = rows.setdefault(one.branch, {})
            for number in held:
                for path in places.keys() & one.fragments[number]:
                    found[path] = addresses_of(number, places[path])
            for part in one.parts:
                pages = self._search(part, wanted, made)
                found[part.place] = pages.addresses
                if pages.ids:
                    made.parts.add(part.uuid)
                    if part.column == ID:
                        made.ids |= pages.ids
        for branch, numbered in fragments.items():
            own = {number: seen[path] for number, path in numbered.items()}
            addresses = [np.array([], np.uint64), *rows[branch].values()]
            made.rows[branch] = RowNumbers.at(own, np.concatenate(addresses))
            made.known[branch] = RowNumbers.of_fragments(own)
        for one in versions:
            for part in one.parts:
                if part.uuid not in made.parts and self.has_entries(part, one.branch, wanted, made):
                    made.parts.add(part.uuid)

    def has_entries(
        self, part: IndexPart, branch: str | None, wanted: IdSet, made: TableLook
    ) -> bool:
        """Whether a part of an index has entries of purged rows, or of rows that may be such."""
        known = self._entries.get((part.place, branch))
        if known is None:
            # Where ids themselves are searched for, rows need not be known.
            sure = self._search(part, wanted, made).is_btree
            known = made.may_be_in_indexes(branch, sure=sure) and any(
                made.is_in(branch, entries, sure=sure)
                for name in self.scan.index_files(part.place)
                for entries in self.scan.entries(name)
            )
            self._entries[part.place, branch] = known
        return known

    def _search(self, part: IndexPart, wanted: IdSet, made: TableLook) -> _Found:
        """Search the pages of a part of an index on ids, or on ends of edges, for purged ones."""
        import numpy as np

        none = np.array([], np.uint64)
        known = self._pages.get(part.place)
        if known is None:
            ends = made.sought.ends.get(part.column)
            among = wanted if part.column == ID else None if ends is None else IdSet(ends)
            if not among:
                return _Found(set(), none, is_btree=part.column == ID)
            ids, rows, is_btree = set[str](), [none], False
            for name in self.scan.index_files(part.place):
                for page in self.scan.pages(name):
                    is_btree = is_btree or bool(page.texts)
                    for texts in page.texts:
                        here = among.found_in(texts)
                        ids |= here
                        if here and page.addresses is not None:
                            chosen = page.addresses.filter(among.among(texts))
                            rows.append(chosen.to_numpy(zero_copy_only=False))
            known = self._pages[part.place] = _Found(ids, np.concatenate(rows), is_btree)
        return known


def is_data_file(name: str) -> bool:
    """Whether a file below the root holds rows of a table."""
    return name.rpartition("/")[0].endswith("/data") and name.endswith(".lance")
