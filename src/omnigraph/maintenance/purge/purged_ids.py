"""Purged ids in the manifest: in marks of deleted rows, and in the records of commits.

A mark `gone:5f0a` becomes `gone:*`. The ids that mutations of a shared commit touched (``facts.group``) lose those
that are purged, and so does the selector of a Blob that was written under an operation id (``facts.request``).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from omnigraph import failpoints
from omnigraph.maintenance.cleanup.survey import Registered
from omnigraph.maintenance.purge.asked_entities import Sought
from omnigraph.maintenance.purge.file_scan import FileScan
from omnigraph.maintenance.purge.look import is_data_file
from omnigraph.manifest.history.version_marks import ANY_GONE, gone_mark
from omnigraph.manifest.manifest import BranchState, Manifest
from omnigraph.manifest.row_reads import former_keys
from omnigraph.manifest.rows import GROUP, TABLE, TABLE_VERSION, dump, members_of
from omnigraph.manifest.workspace import Workspace
from omnigraph.storage import layout
from omnigraph.storage.lance_format.file_ends import with_data_files
from omnigraph.storage.tables.lance_import import forget_sessions
from omnigraph.storage.tables.loose_files import LooseFile

if TYPE_CHECKING:
    import pyarrow as pa

BEFORE_VERSION = failpoints.declare("purge.before_version")

PURGED: Final = "(purged)"
"""What stands for the id of a purged entity where one must stand."""
Former = Mapping[str, Collection[str]]
_METADATA, _BASES = "metadata", "base_objects"
_WORDS: Final = (f'"{GROUP}"', '"selector"')
"""One of them is in every record of a commit that names ids."""


class GoneMarks:
    """The marks of the rows that left tables, on some branches; they are read once."""

    def __init__(self, manifest: Manifest, states: Iterable[BranchState]) -> None:
        self._manifest = manifest
        self._states = tuple(states)
        self._marks: dict[str, set[str]] | None = None

    def may_have(self, sought: Sought) -> bool:
        """Return whether something that is looked for may have been in a table and left it.

        Of the edges of a node the ids are not known: any row that left may have been one.
        """
        if self._marks is None:
            self._marks = self._read()
        marks = self._marks.get(f"table:{sought.table.incarnation}", set())
        if sought.ends or not marks.isdisjoint(ANY_GONE):
            return bool(marks)
        return any(gone_mark(one) in marks for one in sought.ids)

    def _read(self) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for state in self._states:
            for row in self._manifest.table_rows(state, [TABLE_VERSION]):
                # Rows of older releases name no commit, and have no marks although rows may have left.
                has_marks = len(row.base_objects) > 1
                gone = [one for one in row.base_objects if one.startswith("gone:")]
                found.setdefault(row.base_objects[0], set()).update(gone if has_marks else ANY_GONE)
        return found


@dataclass(frozen=True, slots=True)
class Blur:
    """What of purged entities the manifest may name: ids by the keys of their tables, and marks."""

    ids: Mapping[str, frozenset[str]]
    marks: Mapping[str, frozenset[str]]
    """By the name of the table's row, such as `table:7`."""

    @staticmethod
    def of(found: Iterable[tuple[Registered, Collection[str]]], former: Former) -> Blur:
        """Return what to look for. ``former`` has the keys that tables had before, by their row."""
        ids, marks = dict[str, frozenset[str]](), dict[str, frozenset[str]]()
        for table, own in found:
            row = f"table:{table.incarnation}"
            marks[row] = frozenset(map(gone_mark, own))
            for key in (table.table_key, *former.get(row, ())):
                ids[key] = ids.get(key, frozenset()) | frozenset(own)
        return Blur(ids, marks)

    def of_marks(self, names: Sequence[str]) -> list[str]:
        """Return the names that the row of a version of a table is based on, without marks of purged rows."""
        known = self.marks.get(names[0]) if names else None
        if not known or known.isdisjoint(names):
            return list(names)
        return list(dict.fromkeys([*(one for one in names if one not in known), *ANY_GONE]))

    def of_text(self, text: str) -> str:
        """Return the record of a commit, or of a head, without purged ids."""
        document = json.loads(text)
        commit = document.get("commit", document)
        facts = commit.get("facts")
        if not isinstance(facts, dict) or not self._blur(facts):
            return text
        return dump(document)

    def _blur(self, facts: dict[str, Any]) -> bool:
        """Take purged ids out of the facts of a commit; return whether there were some."""
        changed = False
        for member in members_of(facts):
            ids = member.get("ids", {})
            for key, named in ids.items():
                kept = [one for one in named if one not in self.ids.get(key, ())]
                changed = changed or len(kept) < len(named)
                ids[key] = kept
        selector = facts.get("request", {}).get("selector")
        if isinstance(selector, dict) and self._selects(selector):
            selector["id"] = PURGED
            changed = True
        return changed

    def _selects(self, selector: Mapping[str, Any]) -> bool:
        key = f"{selector.get('kind')}:{selector.get('type')}"
        return selector.get("id") in self.ids.get(key, ())


def former_keys_of(manifest: Manifest, states: Iterable[BranchState]) -> Former:
    """Return the keys that tables had before, by the names of their rows."""
    found: dict[str, set[str]] = {}
    for state in states:
        for row in manifest.table_rows(state, [TABLE]):
            keys = {*former_keys(row), *([row.table_key] if row.table_key else [])}
            found.setdefault(row.object_id, set()).update(keys)
    return found


def blur(workspace: Workspace, what: Blur) -> int:
    """Take ids and marks out of all files of the manifest, of old states too; return how many files changed.

    The new files have the same rows at the same places, so every version of the manifest goes on with them: its
    own file is replaced by one that names them. Repeating is harmless, whenever this is interrupted. The caller
    holds the locks of all branches.
    """
    store, scan = workspace.store, FileScan(workspace)
    new: dict[str, tuple[str, int]] = {}
    old = []
    for path in sorted(store.sizes(layout.MANIFEST)):
        if is_data_file(path):
            written = _blurred_file(workspace, scan, path, what)
            if written is not None:
                old.append(path)
                new[path.rpartition("/")[2]] = written
    if not new:
        return 0
    for name in store.list(layout.MANIFEST):
        if name.endswith(".manifest"):
            changed = with_data_files(store.read_bytes(name), new.get)
            if changed is not None:
                BEFORE_VERSION.hit()
                store.replace_bytes(name, changed)
    for path in old:
        store.delete(path)
    # What was read of the old files must not be looked for in the new ones.
    forget_sessions()
    workspace.manifest.forget()
    return len(old)


def _blurred_file(
    workspace: Workspace, scan: FileScan, path: str, what: Blur
) -> tuple[str, int] | None:
    """Write a file of the manifest again without purged ids; return its name and size, or None if it has none."""
    batches, changes = [], False
    for stored in scan.whole(path):
        batch = stored
        texts = batch.column(_METADATA).to_pylist() if _METADATA in batch.schema.names else []
        names = batch.column(_BASES).to_pylist() if _BASES in batch.schema.names else []
        blurred = [
            what.of_text(one) if one and any(word in one for word in _WORDS) else one
            for one in texts
        ]
        based = [what.of_marks(one) if one else one for one in names]
        if blurred != texts or based != names:
            changes = True
            batch = _with(batch, {_METADATA: blurred, _BASES: based})
        batches.append(batch)
    if not changes:
        return None
    place = path.rpartition("/data/")[0]
    file = LooseFile(workspace.ref(place))
    for batch in batches:
        file.add(batch)
    file.close()
    assert file.name is not None, "a file that changed has rows"
    return file.name, workspace.store.sizes(f"{place}/data")[f"{place}/data/{file.name}"]


def _with(batch: pa.RecordBatch, columns: Mapping[str, Sequence[Any]]) -> pa.RecordBatch:
    """Return a batch with other values in some of its columns."""
    import pyarrow as pa

    for name, values in columns.items():
        at = batch.schema.get_field_index(name)
        field = batch.schema.field(at)
        batch = batch.set_column(at, field, pa.array(values, field.type))
    return batch
