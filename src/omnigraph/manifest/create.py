"""Create a graph: first the empty tables, then the manifest with its first commit in one write."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph import failpoints
from omnigraph.clock import new_ulid, stamp_us
from omnigraph.errors import AlreadyInitialised, StorageError
from omnigraph.lang.schema.catalog import Catalog, Entity
from omnigraph.manifest import rows
from omnigraph.manifest.branch_names import MAIN
from omnigraph.manifest.manifest import Manifest
from omnigraph.manifest.rows import MESSAGE, GraphCommit, Head, SchemaRow, TableState
from omnigraph.storage import layout
from omnigraph.storage.tables.blobs.blob_columns import blob_field
from omnigraph.storage.tables.encodings import for_ids
from omnigraph.storage.tables.table import create_table, open_table, table_exists
from omnigraph.storage.tables.table_ref import TableRef
from omnigraph.storage.uris import Root
from omnigraph.version import INTERNAL_SCHEMA_VERSION, __version__

if TYPE_CHECKING:
    import pyarrow as pa

AFTER_TABLES = failpoints.declare("init.after_tables")
AFTER_MANIFEST = failpoints.declare("init.after_manifest")


@dataclass(frozen=True, slots=True)
class NewTable:
    """A table to create."""

    table_key: str
    incarnation: int
    location: str
    arrow: pa.Schema


def table_schema(entity: Entity) -> pa.Schema:
    """Return the columns of a type's table as Lance stores them, with blob columns for Blobs."""
    schema = entity.arrow_schema()
    for at in range(len(entity.implicit_columns)):
        schema = schema.set(at, for_ids(schema.field(at)))
    for name in entity.blob_properties:
        at = schema.get_field_index(name)
        logical = schema.field(at)
        stored = blob_field(name, nullable=logical.nullable)
        metadata = {**(stored.metadata or {}), **(logical.metadata or {})}
        schema = schema.set(at, stored.with_metadata(metadata))
    return schema


def first_tables(catalog: Catalog) -> list[NewTable]:
    """Return the tables of a new graph. No table name was in use before."""
    kinds: tuple[tuple[layout.TableKind, Mapping[str, Entity]], ...] = (
        ("node", catalog.nodes),
        ("edge", catalog.edges),
    )
    return [
        NewTable(
            entity.table_key,
            entity.table_incarnation_id,
            layout.table_location(
                kind, entity.name, str(entity.table_incarnation_id), used_before=False
            ),
            table_schema(entity),
        )
        for kind, entities in kinds
        for entity in entities.values()
    ]


def create_manifest(
    root: Root,
    schema: SchemaRow,
    tables: Iterable[NewTable],
    actor_id: str | None = None,
    message: str | None = None,
) -> Head:
    """Create the tables and then the manifest; return the head of the new graph.

    The manifest comes last and in one write, so the graph exists completely or not at all. Empty
    tables that an interrupted create left behind are reused; anything else in the way is refused.
    """
    states = {}
    for new in tables:
        version = _empty_table(root, new.location, new.arrow)
        states[new.table_key] = TableState(
            new.table_key, new.incarnation, new.location, version, None, 0
        )
    failpoints.hit(AFTER_TABLES)
    # The first write of a Lance dataset is its version 1.
    facts = {} if message is None else {MESSAGE: message}
    commit = GraphCommit(
        graph_commit_id=new_ulid(),
        branch=None,
        manifest_version=1,
        parent_commit_id=None,
        merged_parent_commit_id=None,
        actor_id=actor_id,
        created_us=stamp_us(),
        operation="init",
        facts=facts,
        depth=1,
    )
    head = Head(
        graph_id=str(uuid.uuid4()),
        root=root.canonical,
        product=__version__,
        ir_hash=schema.ir_hash,
        commit=commit,
        tables=dict(sorted(states.items())),
    )
    shape = rows.arrow_schema(INTERNAL_SCHEMA_VERSION)
    # In the first two places, where readers look for them.
    first = [rows.schema_row(schema), rows.identities_row(schema.ir["next_identity_id"])]
    first += [rows.table_row(state) for state in states.values()]
    first += [rows.version_row(state, commit.graph_commit_id) for state in states.values()]
    first += [rows.commit_row(commit), rows.head_row(head)]
    ref = TableRef(root.child(layout.MANIFEST), storage_options=root.lance_options())
    try:
        create_table(ref, shape, rows.to_table(first, shape))
    except StorageError:
        if not table_exists(ref):
            raise
        # The store may have failed after the write landed; then this is the manifest that is there.
        if Manifest(root).state(MAIN).head.graph_id != head.graph_id:
            raise already_initialised(root) from None
    failpoints.hit(AFTER_MANIFEST)
    return head


def _empty_table(root: Root, location: str, arrow: pa.Schema) -> int:
    """Create an empty table, or reuse one; return its version."""
    ref = TableRef(root.child(location), storage_options=root.lance_options())
    if table_exists(ref):
        left = open_table(ref)
        if left.version == 1 and left.count_rows() == 0 and left.schema.equals(arrow):
            return 1
        raise AlreadyInitialised(
            f"there is foreign data at {location} under {root.canonical}; choose another root",
            root=root.canonical,
            location=location,
        )
    return create_table(ref, arrow).version


def already_initialised(root: Root) -> AlreadyInitialised:
    """Return the error for a root that already holds a graph."""
    return AlreadyInitialised(
        f"there is a graph at {root.canonical} already; use that one, or choose another root",
        root=root.canonical,
    )
