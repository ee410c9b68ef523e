"""Where each file is kept under a graph root. Names are relative to the root, `/`-separated."""

from __future__ import annotations

import re
from typing import Final, Literal

TableKind = Literal["node", "edge"]

MANIFEST: Final = "__manifest"
MANIFEST_VERSIONS: Final = f"{MANIFEST}/_versions"
RECOVERY_AUDIT: Final = "_graph_commit_recoveries.lance"
RECOVERY_DIR: Final = "__recovery"
TOMBSTONE: Final = f"{RECOVERY_DIR}/deleted.json"
PURGING: Final = f"{RECOVERY_DIR}/purging.json"
"""There while a purge of entities is under way or was interrupted."""
LOCKS_DIR: Final = "__locks"
LEASES_DIR: Final = "__leases"
PROBE_DIR: Final = "__probe"
STAGING_DIR: Final = "__staging"
RESERVE: Final = "__reserve"

SCHEMA_SOURCE: Final = "_schema.pg"
SCHEMA_IR: Final = "_schema.ir.json"
SCHEMA_STATE: Final = "__schema_state.json"
SCHEMA_MIRRORS: Final = (SCHEMA_SOURCE, SCHEMA_IR, SCHEMA_STATE)

_DIR_OF: Final[dict[TableKind, str]] = {"node": "nodes", "edge": "edges"}
TABLE_DIRS: Final = tuple(_DIR_OF.values())

_ULID_JSON: Final = r"[0-7][0-9A-HJKMNP-TV-Z]{25}\.json"
_SIDECAR: Final = re.compile(f"{RECOVERY_DIR}/{_ULID_JSON}")
_LEASE: Final = re.compile(f"{LEASES_DIR}/{_ULID_JSON}")

_FNV_OFFSET: Final = 0xCBF29CE484222325
_FNV_PRIME: Final = 0x100000001B3
_MASK_64: Final = (1 << 64) - 1


def fnv1a64(data: bytes) -> int:
    """The 64-bit FNV-1a hash."""
    state = _FNV_OFFSET
    for byte in data:
        state = ((state ^ byte) * _FNV_PRIME) & _MASK_64
    return state


def table_location(
    kind: TableKind, type_name: str, incarnation_id: str, *, used_before: bool
) -> str:
    """Choose the directory of a new table.

    The first type of a name in a graph gets the bare hash. When the name was used before (a type
    was dropped and added again, or renamed) the incarnation id keeps the two apart. Readers
    follow the manifest's ``location`` and never compute this again.
    """
    base = f"{_DIR_OF[kind]}/{fnv1a64(type_name.encode()):016x}"
    return f"{base}-{incarnation_id}" if used_before else base


def sidecar_name(operation_id: str) -> str:
    """The control object that holds the recovery sidecar of an operation."""
    return f"{RECOVERY_DIR}/{operation_id}.json"


def is_sidecar(name: str) -> bool:
    """Whether a control object is named like a recovery sidecar: after a ULID."""
    return _SIDECAR.fullmatch(name) is not None


def lease_name(lease_id: str) -> str:
    """The control object that holds a read lease."""
    return f"{LEASES_DIR}/{lease_id}.json"


def is_lease(name: str) -> bool:
    """Whether a control object is named like a read lease: after a ULID."""
    return _LEASE.fullmatch(name) is not None
