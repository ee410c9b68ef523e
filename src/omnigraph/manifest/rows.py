"""The rows of `__manifest`, and the values they stand for.

One dataset holds ten kinds of rows (`object_type`). The head row of a branch carries its newest
commit and the pins of the whole snapshot, so opening a snapshot reads one row, however long the
history is. The `table_version` rows say the same, one published version at a time.

For a graph whose table ``node:Person`` (incarnation 7) is at version 2 after commit C2:

  object_id      object_type     holds
  head           graph_head      commit C2, pins {node:Person: version 2}
  schema         schema          the accepted schema
  identities     identities      the next free id of a type or property (on `main` only)
  table:7        table           key node:Person, its location
  version:7@@v=1 table_version   12 rows
  version:7@@v=2 table_version   13 rows
  commit:C2      graph_commit    parent C1, actor, time
  tag:v1         tag             commit C1, its pins (on `main` only)
  stream:orders  stream          batch 7, commit C2 (``manifest/history/stream_records.py``)
  purge:01J…     purge           who purged how many entities, when and why (``maintenance/purge``)
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from omnigraph.display.panel import Panel, Shown
from omnigraph.display.text import counted, moment_text, printable
from omnigraph.errors import StorageError
from omnigraph.manifest.branch_names import MAIN
from omnigraph.version import __version__

if TYPE_CHECKING:
    import pyarrow as pa

Value = TypeVar("Value")

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

HEAD_ID = "head"
SCHEMA_ID = "schema"
IDENTITIES_ID = "identities"

TABLE = "table"
TABLE_VERSION = "table_version"
TABLE_TOMBSTONE = "table_tombstone"
GRAPH_COMMIT = "graph_commit"
GRAPH_HEAD = "graph_head"
SCHEMA = "schema"
IDENTITIES = "identities"
TAG = "tag"
STREAM = "stream"
PURGE = "purge"
DEPTH_COLUMN = "row_count"
"""The column that holds the depth in rows of commits, which have no rows to count."""
MESSAGE = "message"
"""The fact of a commit that holds what its caller said about it."""
GROUP = "group"
"""The fact of a commit that several mutations share: who they were, and what each of them did."""
OF_TABLES = (TABLE, TABLE_VERSION, TABLE_TOMBSTONE)


TableIdentity = tuple[int, str | None, str | None, int]
"""Incarnation, table branch, its Lance identifier, version."""


@dataclass(frozen=True, slots=True, repr=False)
class TableState:
    """What a snapshot pins for one table: a version of one incarnation on one table branch.

    A branch name can be deleted and used again, and version numbers then repeat. So
    ``table_branch_id`` holds the Lance identifier of the branch, None on the main lineage.
    ``maintained_at`` is the version that its last maintenance commit made, None before the first.
    """

    table_key: str
    incarnation: int
    location: str
    table_version: int
    table_branch: str | None
    row_count: int
    table_branch_id: str | None = None
    maintained_at: int | None = None

    @property
    def identity(self) -> TableIdentity:
        """What distinguishes this state of the table from every other one, whatever its key is."""
        return self.incarnation, self.table_branch, self.table_branch_id, self.table_version

    def to_json(self) -> dict[str, Any]:
        """Return the public fields, as `snapshot` shows them."""
        return {
            "table_key": self.table_key,
            "table_path": self.location,
            "table_version": self.table_version,
            "table_branch": self.table_branch,
            "row_count": self.row_count,
        }

    def __repr__(self) -> str:
        at = "" if self.table_branch is None else f" on {self.table_branch}"
        state = f"version {self.table_version}{at}, {counted(self.row_count, 'row')}"
        return f"<omnigraph.TableState {self.table_key}: {state}>"


@dataclass(frozen=True, slots=True, repr=False)
class GraphCommit(Shown):
    """The record of one publish. ``branch`` is None for commits made on `main`.

    ``created_us`` are microseconds since the epoch. ``depth`` is the number of commits on the
    longest way from genesis to this one, both included; 0 where a graph was written before depths
    were recorded. ``operation_id`` is the one its caller chose, if any.
    """

    graph_commit_id: str
    branch: str | None
    manifest_version: int
    parent_commit_id: str | None
    merged_parent_commit_id: str | None
    actor_id: str | None
    created_us: int
    operation: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    depth: int = 0
    operation_id: str | None = None

    @property
    def created_at(self) -> datetime:
        """When the operation started, in UTC."""
        return EPOCH + timedelta(microseconds=self.created_us)

    @property
    def message(self) -> str | None:
        """What its caller said about it, if anything."""
        said: str | None = self.facts.get(MESSAGE)
        return said

    @property
    def members(self) -> Sequence[Mapping[str, Any]]:
        """The mutations that share this commit, in their order; none if it is of one operation."""
        return members_of(self.facts)

    @property
    def actors(self) -> tuple[str | None, ...]:
        """Who made it: its actor, or the actors of its members."""
        if not self.members:
            return (self.actor_id,)
        own = () if self.actor_id is None else (self.actor_id,)
        return (*own, *(one["actor_id"] for one in self.members))

    @property
    def operation_ids(self) -> tuple[str, ...]:
        """The ids that callers chose for it: its own, or those of its members."""
        return operation_ids(self.operation_id, self.facts)

    @property
    def parent_ids(self) -> tuple[str, ...]:
        """The ids of its parents: none, the first, or the first and the merged one."""
        both = (self.parent_commit_id, self.merged_parent_commit_id)
        return tuple(parent for parent in both if parent is not None)

    def to_json(self) -> dict[str, Any]:
        """Return the public record; `recovery` appears only in commits of a recovery."""
        record: dict[str, Any] = {
            "graph_commit_id": self.graph_commit_id,
            "branch": self.branch,
            "manifest_version": self.manifest_version,
            "parent_commit_id": self.parent_commit_id,
            "merged_parent_commit_id": self.merged_parent_commit_id,
            "actor_id": self.actor_id,
            "created_at": self.created_us,
            "operation": self.operation,
            "operation_id": self.operation_id,
            "facts": dict(self.facts),
        }
        if "recovery" in self.facts:
            record["recovery"] = self.facts["recovery"]
        return record

    def _panel(self) -> Panel:
        facts: list[tuple[str, Any]] = [
            ("branch", self.branch or MAIN),
            ("actor", self.actor_id),
            ("made", moment_text(self.created_us)),
            ("version", self.manifest_version),
            ("parent", self.parent_commit_id),
        ]
        if self.merged_parent_commit_id is not None:
            facts.append(("merged", self.merged_parent_commit_id))
        if self.operation_id is not None:
            facts.append(("operation id", self.operation_id))
        facts += [(name.replace("_", " "), value) for name, value in self.facts.items()]
        return Panel(f"commit {self.graph_commit_id}: {self.operation}", facts)

    def __repr__(self) -> str:
        by = "" if self.actor_id is None else f" by {printable(self.actor_id)}"
        made = f"{self.operation} on {self.branch or MAIN}{by}, {moment_text(self.created_us)}"
        return f"<omnigraph.GraphCommit {self.graph_commit_id}: {made}>"


@dataclass(frozen=True, slots=True)
class Purge:
    """What still has to be removed from disk: versions of a table below one of them.

    ``below`` is None if the whole table must go, because its type was dropped. A hard drop owes all
    versions of the main lineage below ``below``. A purge of entities owes those from ``first`` on, on
    one branch of the table (its name and its Lance identifier, both None on the main lineage), and the
    files that no version named at ``at`` (microseconds since 1970).
    """

    table_key: str
    incarnation: int
    location: str
    below: int | None
    first: int | None = None
    table_branch: str | None = None
    table_branch_id: str | None = None
    at: int | None = None

    @property
    def is_of_entities(self) -> bool:
        """Whether entities were purged; a hard drop of a type or a property otherwise."""
        return self.at is not None

    @property
    def place(self) -> str:
        """The directory of the branch of the table, below the root of the graph."""
        return self.location + ("" if self.table_branch is None else f"/tree/{self.table_branch}")

    def removes(self, state: TableState) -> bool:
        """Whether this version of a table has to go."""
        branch = state.table_branch, state.table_branch_id
        return self.incarnation == state.incarnation and (
            self.below is None or self.removes_version(*branch, state.table_version)
        )

    def removes_version(self, branch: str | None, branch_id: str | None, version: int) -> bool:
        """Whether a version on a branch of this table has to go."""
        if self.below is None:
            return True
        if self.first is None:
            return version < self.below
        own = self.table_branch, self.table_branch_id
        return own == (branch, branch_id) and self.first <= version < self.below

    def to_json(self) -> dict[str, Any]:
        """Return the public form, as `status` shows it."""
        shown = {
            "table_key": self.table_key,
            "table_path": self.location,
            "below_version": self.below,
        }
        if self.is_of_entities:
            shown |= {"table_branch": self.table_branch, "first_version": self.first}
        return shown


@dataclass(frozen=True, slots=True)
class Head:
    """The head row of one branch: its newest commit and everything a snapshot needs.

    ``root`` is where the forks of the graph find their files, and ``product`` the version of omnigraph
    that wrote at the last publish. ``former_ids`` are those of the graphs it is a copy of, oldest
    first. ``purges`` are owed by hard drops and by purges of entities on this branch. Of ``unsettled`` only
    that of `main` counts.
    """

    graph_id: str
    root: str
    product: str
    ir_hash: str
    commit: GraphCommit
    tables: Mapping[str, TableState]
    purges: tuple[Purge, ...] = ()
    former_ids: tuple[str, ...] = ()
    is_copy: bool = False
    """Whether it got its id where it lies now, as a copy of the last one of ``former_ids``."""
    purged: bool = False
    """Whether entities were ever purged, as far as this branch knows: states in the middle may be gone."""
    unsettled: bool = False
    """Whether some forks may already look for their files elsewhere: the graph is being moved."""


@dataclass(frozen=True, slots=True)
class SchemaRow:
    """The accepted schema: source text, IR document and both hashes."""

    source: str
    ir: Mapping[str, Any]
    shape_hash: str
    ir_hash: str


@dataclass(frozen=True, slots=True)
class Row:
    """One row of `__manifest`, columns by name."""

    object_id: str
    object_type: str
    location: str | None = None
    metadata: str | None = None
    base_objects: tuple[str, ...] = ()
    table_key: str | None = None
    table_version: int | None = None
    table_branch: str | None = None
    row_count: int | None = None


def arrow_schema(internal_version: int) -> pa.Schema:
    """Return the schema of `__manifest`, stamped with the internal schema version and this release."""
    import pyarrow as pa

    primary_key = {"lance-schema:unenforced-primary-key": "true"}
    fields = [
        pa.field("object_id", pa.string(), nullable=False, metadata=primary_key),
        pa.field("object_type", pa.string(), nullable=False),
        pa.field("location", pa.string()),
        pa.field("metadata", pa.string()),
        pa.field("base_objects", pa.list_(pa.string())),
        pa.field("table_key", pa.string()),
        pa.field("table_version", pa.uint64()),
        pa.field("table_branch", pa.string()),
        pa.field("row_count", pa.uint64()),
    ]
    return pa.schema(fields, metadata=format_stamp(internal_version))


INTERNAL_VERSION_KEY = "omnigraph:internal_schema_version"
WRITTEN_BY_KEY = "omnigraph:written_by"


def format_stamp(internal_version: int) -> dict[str, str]:
    """Return how `__manifest` says which format it has, and which release gave it that format."""
    return {INTERNAL_VERSION_KEY: str(internal_version), WRITTEN_BY_KEY: __version__}


def to_table(rows: Iterable[Row], schema: pa.Schema) -> pa.Table:
    """Return the rows as an Arrow table of the manifest's schema."""
    import pyarrow as pa

    listed = list(rows)
    columns = {
        name: [getattr(row, name) for row in listed]
        for name in Row.__slots__
        if name != "base_objects"
    }
    columns["base_objects"] = [list(row.base_objects) for row in listed]
    arrays = [pa.array(columns[f.name], f.type) for f in schema]
    return pa.Table.from_arrays(arrays, schema=schema)


# ------------------------------------------------------------------ encoding


def table_row(state: TableState, former: Iterable[str] = (), purge: int | None = None) -> Row:
    """Return the row that registers a table incarnation under its current key.

    ``former`` are the keys it had before. ``purge``: versions below that one must be removed.
    """
    return Row(
        f"table:{state.incarnation}",
        TABLE,
        location=state.location,
        table_key=state.table_key,
        metadata=dump(
            {
                "incarnation": state.incarnation,
                **({"former": list(former)} if former else {}),
                **({} if purge is None else {"purge": purge}),
            }
        ),
    )


def version_row(state: TableState, graph_commit_id: str, gone: Iterable[str] = ()) -> Row:
    """Return the row of one published version of a table.

    It names the commit that published it, and has the marks of the rows that left the table then
    (``history/version_marks.py``). Rows of older releases have neither.
    """
    return Row(
        f"version:{state.incarnation}@{state.table_branch or ''}@v={state.table_version}",
        TABLE_VERSION,
        location=state.location,
        base_objects=(f"table:{state.incarnation}", f"commit:{graph_commit_id}", *gone),
        table_key=state.table_key,
        table_version=state.table_version,
        table_branch=state.table_branch,
        row_count=state.row_count,
        metadata=dump(
            {
                "incarnation": state.incarnation,
                "table_branch_id": state.table_branch_id,
                **({} if state.maintained_at is None else {"maintained_at": state.maintained_at}),
            }
        ),
    )


def tombstone_row(state: TableState, *, purge: bool = False) -> Row:
    """Return the row that deletes a table logically; it hides versions up to the pinned one.

    ``purge``: all versions must be removed, so the row carries the one after the last.
    """
    document = {"incarnation": state.incarnation}
    if purge:
        document["purge"] = state.table_version + 1
    return Row(
        f"tombstone:{state.incarnation}",
        TABLE_TOMBSTONE,
        location=state.location,
        base_objects=(f"table:{state.incarnation}",),
        table_key=state.table_key,
        table_version=state.table_version,
        table_branch=state.table_branch,
        metadata=dump(document),
    )


def commit_row(commit: GraphCommit) -> Row:
    """Return the record of a publish; its parents are the objects it is based on.

    Its depth is also in a column, so that a page of history can be read without all the others.
    """
    return Row(
        f"commit:{commit.graph_commit_id}",
        GRAPH_COMMIT,
        base_objects=tuple(f"commit:{parent}" for parent in commit.parent_ids),
        metadata=dump(_commit_document(commit)),
        row_count=commit.depth,
    )


def head_row(head: Head) -> Row:
    """Return the head row of a branch."""
    # Pins are stored as tuples, so the order of TableState's fields is part of the format on disk.
    tables = [_values(state) for state in head.tables.values()]
    document: dict[str, Any] = {
        "graph_id": head.graph_id,
        "root": head.root,
        "product": head.product,
        "ir_hash": head.ir_hash,
        "commit": _commit_document(head.commit),
        "tables": tables,
    }
    if head.purges:
        document["purges"] = [_values(purge) for purge in head.purges]
    if head.former_ids:
        document["former_ids"] = list(head.former_ids)
    for flag in ("is_copy", "purged", "unsettled"):
        if getattr(head, flag):
            document[flag] = True
    commit_id = f"commit:{head.commit.graph_commit_id}"
    return Row(HEAD_ID, GRAPH_HEAD, base_objects=(commit_id,), metadata=dump(document))


def _values(state: TableState | Purge) -> list[Any]:
    return [getattr(state, one.name) for one in fields(state)]


def schema_row(schema: SchemaRow) -> Row:
    """Return the row of the accepted schema."""
    document = {
        "source": schema.source,
        "ir": schema.ir,
        "shape_hash": schema.shape_hash,
        "ir_hash": schema.ir_hash,
    }
    return Row(SCHEMA_ID, SCHEMA, metadata=dump(document))


def purge_row(audit: Mapping[str, Any]) -> Row:
    """Return the row that says what a purge of entities did, without naming any of them."""
    return Row(f"{PURGE}:{audit['operation_id']}", PURGE, metadata=dump(audit))


def identities_row(next_id: int, single_line_below: int = 0) -> Row:
    """Return the row of the counter that ids of types and properties are taken from.

    Ids below ``single_line_below`` were given while all branches had one schema.
    """
    document = {"next": next_id}
    if single_line_below:
        document["single_line_below"] = single_line_below
    return Row(IDENTITIES_ID, IDENTITIES, metadata=dump(document))


def members_of(facts: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return what the facts of a commit say about the mutations that share it."""
    members: Sequence[Mapping[str, Any]] = facts.get(GROUP, {}).get("members", ())
    return members


def operation_ids(operation_id: str | None, facts: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the ids that callers chose for an operation, or for the mutations that share its commit."""
    chosen = (operation_id, *(one.get("operation_id") for one in members_of(facts)))
    return tuple(one for one in chosen if one is not None)


def _commit_document(commit: GraphCommit) -> dict[str, Any]:
    document: dict[str, Any] = {name: getattr(commit, name) for name in GraphCommit.__slots__}
    document["created_at"] = document.pop("created_us")
    document["facts"] = dict(commit.facts)
    return document


def dump(document: Mapping[str, Any]) -> str:
    """Return a document as the text of a metadata column."""
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))


# ------------------------------------------------------------------ decoding


def read_commit(metadata: str) -> GraphCommit:
    """Decode the commit of a `graph_commit` row."""
    return decode(GRAPH_COMMIT, metadata, _commit)


def _commit(document: dict[str, Any]) -> GraphCommit:
    return GraphCommit(created_us=document.pop("created_at"), **document)


def read_head(metadata: str) -> Head:
    """Decode the head of a `graph_head` row."""
    return decode(GRAPH_HEAD, metadata, _head)


def _head(document: Mapping[str, Any]) -> Head:
    states = (TableState(*fields) for fields in document["tables"])
    return Head(
        graph_id=document["graph_id"],
        root=document["root"],
        product=document["product"],
        ir_hash=document["ir_hash"],
        commit=_commit(document["commit"]),
        tables={state.table_key: state for state in sorted(states, key=lambda s: s.table_key)},
        purges=tuple(Purge(*fields) for fields in document.get("purges", ())),
        former_ids=tuple(document.get("former_ids", ())),
        is_copy=document.get("is_copy", False),
        purged=document.get("purged", False),
        unsettled=document.get("unsettled", False),
    )


def read_schema(metadata: str) -> SchemaRow:
    """Decode the accepted schema of a `schema` row."""
    return decode(SCHEMA, metadata, lambda document: SchemaRow(**document))


def decode(kind: str, metadata: str, read: Callable[[Any], Value]) -> Value:
    """Return what ``read`` makes of the document of a row; one that it cannot read is named."""
    try:
        return read(json.loads(metadata))
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise StorageError(
            f"a {kind} row of the manifest cannot be read ({error!r}); restore the graph from a copy"
        ) from error
