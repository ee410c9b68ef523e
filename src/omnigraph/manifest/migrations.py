"""The internal schema version: the shape of what is on disk, and the steps that raise it.

There is one constant, one dispatcher and one step function for each version. A step is idempotent
and survives a crash between its writes; the version stamp is raised last, so a step that was
interrupted runs again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from omnigraph.errors import NewerFormat, StorageError
from omnigraph.manifest import rows
from omnigraph.manifest.row_reads import read_head_row, read_identities_text, read_schema_text
from omnigraph.manifest.rows import INTERNAL_VERSION_KEY, WRITTEN_BY_KEY, GraphCommit, format_stamp
from omnigraph.storage.filters import Condition, filter_expression
from omnigraph.storage.tables.inline_residual import set_field_metadata, set_schema_metadata
from omnigraph.storage.tables.table import Table
from omnigraph.storage.tables.table_commits import merge_insert_exclusive
from omnigraph.version import INTERNAL_SCHEMA_VERSION


def read_internal_version(table: Table) -> int:
    """Return the internal schema version a manifest was written with; 0 if it carries none."""
    metadata = table.schema.metadata or {}
    text = metadata.get(INTERNAL_VERSION_KEY.encode(), b"0").decode()
    if not text.isascii() or not text.isdigit():
        raise StorageError(
            f"the manifest's internal schema version is {text!r}, which is no number; "
            "restore the graph from a copy"
        )
    return int(text)


def refuse_newer(table: Table) -> None:
    """Refuse to write to a graph that a newer product made."""
    stamp = read_internal_version(table)
    if stamp > INTERNAL_SCHEMA_VERSION:
        release = (table.schema.metadata or {}).get(WRITTEN_BY_KEY.encode(), b"").decode()
        by = f", written by omnigraph {release}," if release else ""
        raise NewerFormat(
            f"the graph has internal schema version {stamp}{by} and this omnigraph knows "
            f"{INTERNAL_SCHEMA_VERSION}: upgrade omnigraph first",
            found=stamp,
            known=INTERNAL_SCHEMA_VERSION,
            written_by=release or None,
        )


def migrate(table: Table) -> Table:
    """Raise a manifest to the current version, one step at a time; a current one is left alone."""
    refuse_newer(table)
    while (stamp := read_internal_version(table)) < INTERNAL_SCHEMA_VERSION:
        table = STEPS[stamp](table)
        table = set_schema_metadata(table, format_stamp(stamp + 1))
    return table


def _annotate_primary_key(table: Table) -> Table:
    """Step 0 to 1: mark `object_id` as the unenforced primary key.

    Lance's row-level compare-and-set needs the mark.
    """
    known = table.schema.field("object_id").metadata or {}
    if known.get(b"lance-schema:unenforced-primary-key") == b"true":
        return table
    return set_field_metadata(table, "object_id", {"lance-schema:unenforced-primary-key": "true"})


def _record_depths(table: Table) -> Table:
    """Step 1 to 2: give every commit its depth, in its record and in the column pages are read by.

    The commits and the head are written at once. A publish that comes in between wins, and raises
    ``RowCollision`` here.
    """
    where = filter_expression(table.schema, [Condition("object_type", "=", rows.GRAPH_COMMIT)])
    found = table.read(["metadata"], where).column("metadata").to_pylist()
    commits = with_depths(rows.read_commit(metadata) for metadata in found)
    head = read_head_row(table)
    head = replace(head, commit=commits[head.commit.graph_commit_id])
    changed = [*(rows.commit_row(commit) for commit in commits.values()), rows.head_row(head)]
    return merge_insert_exclusive(table, rows.to_table(changed, table.schema))


def with_depths(records: Iterable[GraphCommit]) -> dict[str, GraphCommit]:
    """Return records by id, each with its depth. All their ancestors must be among them."""
    known = {record.graph_commit_id: record for record in records}
    depths: dict[str, int] = {}
    waiting = list(known)
    while waiting:
        name = waiting[-1]
        missing = [parent for parent in known[name].parent_ids if parent not in depths]
        if missing:
            waiting += missing
            continue
        waiting.pop()
        depths[name] = 1 + max((depths[parent] for parent in known[name].parent_ids), default=0)
    return {name: replace(record, depth=depths[name]) for name, record in known.items()}


def _count_identities(table: Table) -> Table:
    """Step 2 to 3: write the counter that all branches take the ids of types and properties from.

    Only `main` has it. All ids so far were given on one line of schemas, which did not record what it
    dropped; the row says up to where. The head is written again, so that a publish that comes in between
    wins, and raises ``RowCollision`` here.
    """
    if table.ref.branch is not None or read_identities_text(table) is not None:
        return table
    accepted = read_schema_text(table)
    if accepted is None:
        raise StorageError("the manifest has no schema row; restore the graph from a copy")
    number = rows.read_schema(accepted).ir["next_identity_id"]
    changed = [rows.identities_row(number, number), rows.head_row(read_head_row(table))]
    return merge_insert_exclusive(table, rows.to_table(changed, table.schema))


def _allow_periods(table: Table) -> Table:
    """Step 3 to 4: schemas may say `@valid`. Only the stamp changes: older releases do not read those."""
    return table


STEPS: Mapping[int, Callable[[Table], Table]] = {
    0: _annotate_primary_key,
    1: _record_depths,
    2: _count_identities,
    3: _allow_periods,
}
