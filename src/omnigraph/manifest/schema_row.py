"""The accepted schema: the manifest's `schema` row is the authority, and three files mirror it.

The files are for people and tools. They are written after the publish that accepts a schema, so a
crash can leave them one schema behind. The state file says which schema they mirror:

* the source matches the row: fine, the other two are rewritten if they differ;
* the source matches the state file but not the row: stale, all three are rewritten;
* the source matches neither: a person edited it, and the edit is refused.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from omnigraph.errors import OmniGraphError, SchemaConflict, StorageError
from omnigraph.lang.schema.catalog import Catalog
from omnigraph.lang.schema.catalog_of import catalog_of
from omnigraph.lang.schema.ir import Ir
from omnigraph.lang.schema.read_ir import read_ir
from omnigraph.manifest.rows import Head, SchemaRow
from omnigraph.storage import layout
from omnigraph.storage.objects.object_store import ObjectStore
from omnigraph.storage.objects.store_errors import InvalidText, ObjectNotFound

if TYPE_CHECKING:
    from omnigraph.lang.schema import Compiled

logger = logging.getLogger(__name__)

STATE_FORMAT = 1


class ContractBroken(SchemaConflict):
    """Schema row and tables do not fit together; trying again does not help."""


def first_schema(source: str, compiled: Compiled) -> tuple[SchemaRow, Ir]:
    """Return the row and the identities of the schema a graph is created with."""
    from omnigraph.lang.schema.identities import create

    ir = create(compiled.shape)
    row = SchemaRow(source, ir.to_json(), compiled.shape.shape_hash, ir.ir_hash)
    return row, ir


def read_accepted(row: SchemaRow, head: Head) -> tuple[Ir, Catalog]:
    """Return the identities and types of the schema row of a branch, after checking its hashes."""
    ir = read_ir(row.ir)
    if not row.ir_hash == head.ir_hash == ir.ir_hash or row.shape_hash != ir.shape.shape_hash:
        raise ContractBroken(
            "the accepted schema does not fit the hashes it was recorded with; restore the graph "
            "from a copy"
        )
    return ir, catalog_of(ir)


def check_contract(catalog: Catalog, head: Head) -> None:
    """Refuse unless the live tables are exactly those of the schema, by identity and location."""
    live = {key: table.incarnation for key, table in head.tables.items()}
    shared = len({table.location for table in head.tables.values()}) < len(live)
    differing = sorted(live) if shared else unlike_tables(catalog, live)
    if differing:
        raise ContractBroken(
            f"the tables of the graph are not those of its accepted schema: {', '.join(differing)}; "
            "restore the graph from a copy",
            tables=differing,
        )


def unlike_tables(catalog: Catalog, live: Mapping[str, int]) -> list[str]:
    """Return the keys of tables that a schema has and a graph has not, or has another of, or the reverse."""
    wanted = {
        entity.table_key: entity.table_incarnation_id
        for entities in (catalog.nodes, catalog.edges)
        for entity in entities.values()
    }
    return sorted(key for key in {*live, *wanted} if live.get(key) != wanted.get(key))


# ------------------------------------------------------------------ mirrors


def write_mirrors(store: ObjectStore, row: SchemaRow, *, source: bool = True) -> None:
    """Write the mirror files, the state file last; ``source`` says whether to write the text too."""
    if source:
        store.write_text(layout.SCHEMA_SOURCE, row.source)
    store.write_text(layout.SCHEMA_IR, json.dumps(row.ir, ensure_ascii=False, indent=2) + "\n")
    # Last, because the state file vouches for the other two.
    store.write_text(layout.SCHEMA_STATE, json.dumps(_state_document(row), indent=2) + "\n")


def mirror_main(store: ObjectStore, row: SchemaRow) -> tuple[str, ...]:
    """Write the mirror files after a commit of `main`. It is durable, so a failure is only a warning."""
    try:
        write_mirrors(store, row)
    except OmniGraphError as error:
        logger.warning("the files that mirror the schema are stale: %s", error)
        text = (
            f"the files that mirror the schema could not be written ({error}); the next "
            "read-write open writes them"
        )
        return (text,)
    return ()


def _state_document(row: SchemaRow) -> dict[str, Any]:
    return {
        "format": STATE_FORMAT,
        "ir_version": row.ir["ir_version"],
        "schema_identity_domain": row.ir["schema_identity_domain"],
        "shape_hash": row.shape_hash,
        "ir_hash": row.ir_hash,
    }


def mirrors_agree(store: ObjectStore, row: SchemaRow) -> bool:
    """Return whether all three files mirror this schema."""
    text = _read(store, layout.SCHEMA_SOURCE)
    return _mirrored_shape(text, row) == row.shape_hash and _others_agree(store, row)


def settle_mirrors(store: ObjectStore, row: SchemaRow) -> None:
    """Bring stale mirrors up to date; raise ``SchemaConflict`` for an edit that changes the meaning."""
    text = _read(store, layout.SCHEMA_SOURCE)
    mirrored = _mirrored_shape(text, row)
    if mirrored == row.shape_hash:
        if not _others_agree(store, row):
            write_mirrors(store, row, source=False)
        return
    state = _read_state(store)
    stale = state is not None and mirrored is not None and mirrored == state.get("shape_hash")
    if text is None or stale:
        write_mirrors(store, row)
        return
    raise SchemaConflict(
        f"{layout.SCHEMA_SOURCE} was edited and no longer means the accepted schema; undo the edit, "
        "or delete the file, and it is written again",
        file=layout.SCHEMA_SOURCE,
    )


def _others_agree(store: ObjectStore, row: SchemaRow) -> bool:
    return _read_state(store) == _state_document(row) and _read_ir_hash(store) == row.ir_hash


def _read(store: ObjectStore, name: str) -> str | None:
    """Return the text of a control object; None if it is missing."""
    try:
        return store.read_text(name)
    except ObjectNotFound:
        return None
    except InvalidText:
        return "\ufffd"  # a text that is neither a schema nor a JSON document


def _read_state(store: ObjectStore) -> dict[str, Any] | None:
    state = _document(store, layout.SCHEMA_STATE)
    return state if isinstance(state, dict) else None


def _read_ir_hash(store: ObjectStore) -> str | None:
    try:
        return read_ir(_document(store, layout.SCHEMA_IR)).ir_hash
    except OmniGraphError:
        return None


def _document(store: ObjectStore, name: str) -> Any:
    text = _read(store, name)
    try:
        return None if text is None else json.loads(text)
    except (ValueError, RecursionError):
        return None


def _mirrored_shape(text: str | None, row: SchemaRow) -> str | None:
    """Return the shape hash of a mirrored schema text; None if there is none, or it does not compile.

    The text of the row itself needs no compiling, which is most of what opening a graph would cost.
    """
    if text is None or text == row.source:
        return None if text is None else row.shape_hash
    from omnigraph.lang.schema import compile_schema

    try:
        return compile_schema(text).shape.shape_hash
    except StorageError:
        raise
    except OmniGraphError:
        return None
