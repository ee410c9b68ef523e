"""Files that lie in the directory of a graph, where anybody may have written."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

from omnigraph import errors
from omnigraph.commit.changes import WRITERS
from omnigraph.commit.sidecar import Sidecar, TableEntry, read_sidecar
from omnigraph.lang.schema import compile_schema
from omnigraph.lang.schema.read_ir import read_ir
from omnigraph.manifest import schema_row
from omnigraph.manifest.manifest import BranchPin
from omnigraph.manifest.publisher import Intent
from omnigraph.manifest.rows import GraphCommit, TableState
from omnigraph.storage import layout
from omnigraph.storage.lance_format.row_versions import decoded
from omnigraph.storage.locks.leases import Leases
from omnigraph.storage.locks.lock_files import LockFiles
from omnigraph.storage.locks.read_leases import live_leases, remove_dead_leases
from omnigraph.storage.objects.object_store import ObjectStore
from omnigraph.storage.tables import transactions
from omnigraph.storage.tables.branch_refs import read_branch
from omnigraph.storage.tables.transactions import (
    content_fingerprint,
    last_fragment_number,
    transaction_uuid,
)
from tests.faults.fuzz.inputs import ODD_BYTES, ODD_TEXTS, damaged, damaged_json
from tests.faults.fuzz.parser import GRAPH, ULID, Parser, parser

SCHEMA = """
interface Named { name: String }
node P implements Named { name: String @key  age: I32? @range(age, 0..200)  at: [DateTime]? }
node D { body: String  vec: Vector(2) @embed(body) @index }
edge E: P -> D @card(0..3) { w: F32? }
"""


def _pin(key: str, incarnation: int) -> TableState:
    return TableState(key, incarnation, f"nodes/{incarnation}", 3, "b", 5, "0b9f")


def _sidecars() -> list[Any]:
    one, two = _pin("node:Person", 1), _pin("edge:Knows", 2)
    commit = GraphCommit(ULID, "b", 4, ULID, None, "ada", 1, "load", {"x": [1]}, 3, ULID)
    full = Sidecar(
        operation_id=ULID,
        graph_id=GRAPH,
        writer="load",
        pin=BranchPin("b", "0b9f", ULID),
        intent=Intent(ULID, "load", 1, "ada", ULID, {"rows": 3}, ULID),
        tables=(TableEntry(one, "b", 4, ("u1",), ("u2",), created_fork=True),),
        expected=(one, two),
        locks=("graph", "table"),
        owner={"host": "h", "pid": 1},
        registered=(7,),
        taken_over=(two,),
        renamed={1: "node:Human"},
        dropped=(9,),
        purged=(9,),
        schema=_schema_row(),
        adopted=(commit,),
        exact_head=True,
    )
    return [json.loads(full.to_text())]


@cache
def _schema_row(source: str = "node P { name: String @key }") -> schema_row.SchemaRow:
    return schema_row.first_schema(source, compile_schema(source))[0]


@parser
def _sidecar(_place: Path) -> Parser:
    documents = _sidecars()
    name = f"__recovery/{ULID}.json"

    def read(text: str) -> None:
        found = read_sidecar(name, text)
        assert found.writer in WRITERS
        assert read_sidecar(name, found.to_text()) == found

    return Parser(lambda chance: damaged_json(chance, documents), read, (errors.CorruptSidecar,))


@parser
def _schema_ir(_place: Path) -> Parser:
    documents = [_schema_row(SCHEMA).ir]

    def read(text: str) -> None:
        found = read_ir(text)
        assert read_ir(found.to_json()) == found

    return Parser(lambda chance: damaged_json(chance, documents), read, (errors.IdentityError,))


def _put(store: ObjectStore, name: str, text: str) -> None:
    """Put any bytes, as another program may."""
    store._replace(name, text.encode("utf-8", "surrogatepass"))


@parser
def _mirror_files(_place: Path) -> Parser:
    """Damaged mirrors are written again, or refused where somebody may have edited the source."""
    store, row = ObjectStore.in_memory(), _schema_row()
    schema_row.write_mirrors(store, row)
    good = {name: store.read_text(name) for name in layout.SCHEMA_MIRRORS}
    documents = {
        layout.SCHEMA_IR: row.ir,
        layout.SCHEMA_STATE: json.loads(good[layout.SCHEMA_STATE]),
    }

    def make(chance: Random) -> tuple[str, str]:
        name = chance.choice(layout.SCHEMA_MIRRORS)
        if name in documents:
            return name, damaged_json(chance, [documents[name]])
        return name, damaged(chance, [good[name]], ODD_TEXTS)

    def read(given: tuple[str, str]) -> None:
        name, text = given
        _put(store, name, text)
        try:
            schema_row.settle_mirrors(store, row)
            assert schema_row.mirrors_agree(store, row)
        finally:
            _put(store, name, good[name])

    return Parser(make, read, (errors.SchemaConflict,))


LEASE = {
    "holder": "h1",
    "owner": "process 1 on host",
    "operation": "load",
    "slow": False,
    "period_ms": 15000,
    "mark": "0b9f",
}


@parser
def _lock_lease(_place: Path) -> Parser:
    """A lease that cannot be read is nobody's, and expires like any other."""
    store = ObjectStore.in_memory()

    def read(text: str) -> None:
        _put(store, "lock", text)
        leases = Leases(store, 0.0)
        holder = leases.holder_of("lock")
        assert holder.owner is None or isinstance(holder.owner, str)
        assert isinstance(holder.purpose.operation, str)
        leases.watch(["lock"])
        leases.is_held("lock")
        leases.attempt("lock", "mine")

    return Parser(lambda chance: damaged_json(chance, [LEASE]), read, (errors.StorageError,))


@parser
def _lock_file(place: Path) -> Parser:
    """What a lock file says is shown to those who wait, and decides nothing."""
    files = LockFiles(str(place))
    good = [
        'process 1 on host (0b9f) ["load", false]\n',
        'process 1 on h (x) (y) ["merge", true]\n',
    ]

    def read(text: str) -> None:
        (place / "lock").write_bytes(text.encode("utf-8", "surrogatepass"))
        holder = files.holder_of("lock")
        assert holder.owner is None or isinstance(holder.owner, str)
        assert isinstance(holder.purpose.operation, str)
        taken = files.attempt("lock", "mine")
        assert taken is not None
        taken.release()

    return Parser(lambda chance: damaged(chance, good, ODD_TEXTS), read, ())


READ_LEASE = {
    "id": ULID,
    "graph_id": GRAPH,
    "operation": "export",
    "created_at": 1,
    "renewed_at": 2**60,
    "owner": {"host": "h", "pid": 1, "process_start": "0"},
    "tables": [
        {
            "table_key": "node:Person",
            "location": "nodes/1",
            "table_version": 8,
            "table_branch": None,
            "table_branch_id": None,
        }
    ],
}


@parser
def _read_lease(_place: Path) -> Parser:
    store = ObjectStore.in_memory()

    def read(text: str) -> None:
        _put(store, f"__leases/{ULID}.json", text)
        for lease in live_leases(store, 2**60):
            assert all(isinstance(one.location, str) for one in lease.tables)
            assert all(type(one.table_version) is int for one in lease.tables)
        remove_dead_leases(store, 2**60)

    return Parser(lambda chance: damaged_json(chance, [READ_LEASE]), read, (errors.StorageError,))


BRANCH_REF = {
    "identifier": {"version_mapping": [[3, "0b9f"], [4, "7c1e"]]},
    "parentBranch": None,
    "parentVersion": 3,
    "createAt": 1,
    "manifestSize": 100,
}


@parser
def _branch_ref(_place: Path) -> Parser:
    """The file in which Lance keeps a branch of a table."""
    store = ObjectStore.in_memory()

    def read(text: str) -> None:
        _put(store, "t/_refs/branches/b.json", text)
        found = read_branch(store, "t", "b")
        assert found is not None
        assert isinstance(found.identifier, str)
        assert type(found.parent_version) is int
        assert found.parent is None or isinstance(found.parent, str)

    return Parser(lambda chance: damaged_json(chance, [BRANCH_REF]), read, (errors.StorageError,))


def _field(number: int, value: int | bytes) -> bytes:
    """One field of a protobuf message."""
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _varint(number: int) -> bytes:
    if number < 0x80:
        return bytes([number])
    return bytes([number & 0x7F | 0x80]) + _varint(number >> 7)


MANIFESTS = (
    _field(1, b"schema") + _field(3, 7) + _field(11, 3) + _field(12, b"6-0b9f-7c1e.txn"),
    _field(12, b"6-0b9f-7c1e.txn") + _field(23, 300) + _field(108, b"x" * 300),
)


@parser
def _lance_manifest(_place: Path) -> Parser:
    """The protobuf in which Lance keeps what made a version."""

    def read(data: bytes) -> None:
        opened = SimpleNamespace(serialized_manifest=lambda: data)
        table: Any = SimpleNamespace(ref="t", dataset=SimpleNamespace(_ds=opened))
        assert last_fragment_number(table) >= -1
        assert len(content_fingerprint(table)) == 64
        version, uuid = transactions._transaction_file(table, transactions._manifest_fields(table))
        assert version >= 0
        assert uuid == transaction_uuid(table)
        assert uuid

    words = (
        *ODD_BYTES,
        b"\x80",
        b"\xff" * 11,
        b".txn",
        b"-",
        _field(12, b"x.txn"),
        _field(11, 2**64),
    )
    return Parser(lambda chance: damaged(chance, MANIFESTS, words), read, (errors.StorageError,))


_SPANS = (
    _field(1, _field(1, 3) + _field(2, 9)),
    _field(2, _field(2, 9) + _field(3, _field(1, _field(1, 2) + _field(2, b"\1\0\2\0")))),
    _field(3, _field(1, 1) + _field(2, 4) + _field(3, b"\5")),
    _field(4, _field(2, _field(2, bytes(8)))),
    _field(5, _field(3, _field(2, bytes(16)))),
)
RUNS = tuple(
    _field(1, _field(1, span) + _field(2, 7)) + _field(1, _field(1, _SPANS[0])) for span in _SPANS
)


@parser
def _version_runs(_place: Path) -> Parser:
    """The versions of rows, as a fragment lists them in runs."""

    def read(data: bytes) -> None:
        runs = decoded(json.dumps({"inline": list(data)}))
        if runs is not None:
            assert runs.rows >= 0
            assert (runs.versions >= 0).all()

    words = (*ODD_BYTES, b"\x80", b"\xff" * 9, *_SPANS, _field(2, 2**63))
    return Parser(lambda chance: damaged(chance, RUNS, words), read, (errors.StorageError,))
