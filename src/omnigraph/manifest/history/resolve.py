"""From a target to the snapshot it names, and to the schema of that snapshot, which may be an older one.

For example, with `main` at commit C3 (parents C3 -> C2 -> C1), ``resolve(Target(snapshot="C2"))``
returns the tables as C2 pinned them.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from contextlib import suppress
from typing import Final, NamedTuple, Protocol

from omnigraph.clock import is_ulid
from omnigraph.errors import (
    BranchNotFound,
    CommitNotFound,
    HistoryReclaimed,
    OmniGraphError,
    VersionNotFound,
)
from omnigraph.lang.schema.catalog import Catalog
from omnigraph.lang.schema.catalog_of import catalog_of
from omnigraph.lang.schema.ir import Ir
from omnigraph.lang.schema.read_ir import read_ir
from omnigraph.manifest.branch_names import MAIN
from omnigraph.manifest.history.records import (
    BranchRecords,
    find_by_prefix,
    find_commit,
    first_parents,
)
from omnigraph.manifest.history.tags import find_tag
from omnigraph.manifest.manifest import BranchState, Manifest, branch_not_found
from omnigraph.manifest.rows import Head, SchemaRow
from omnigraph.manifest.snapshot import Snapshot, Target
from omnigraph.storage.tables.table_errors import TableMissing, VersionMissing
from omnigraph.types.temporal import format_moment


def resolve(manifest: Manifest, target: Target) -> Snapshot:
    """Return the snapshot that a target names."""
    return resolve_on(manifest, target)[1]


def resolve_on(manifest: Manifest, target: Target) -> tuple[BranchState, Snapshot]:
    """Return the snapshot that a target names, and the state in which its branch was found."""
    if target.snapshot is not None:
        find = find_by_prefix if target.is_prefix else find_commit
        return resolve_commit(manifest, find(manifest, target.snapshot))
    if target.tag is not None:
        return resolve_commit(manifest, find_tag(manifest, target.tag, target.tagged))
    state = named_branch(manifest, target.branch or MAIN)
    if target.version is not None:
        return state, Snapshot.of(state.name, _head_up_to(manifest, state, target.version))
    if target.time is not None:
        return _resolve_time(manifest, state, target.time)
    return state, Snapshot.of(state.name, state.head)


def named_branch(manifest: Manifest, name: str) -> BranchState:
    """Return a branch that a caller named; if there is only a tag or a commit of that name, say so."""
    try:
        return manifest.state(name)
    except BranchNotFound:
        raise no_such_branch(manifest, name) from None


def no_such_branch(manifest: Manifest, name: str) -> BranchNotFound:
    """Return the error for a name that is no branch, with what else it names."""
    hint = None
    if is_ulid(name.upper()):
        hint = f"it looks like the id of a commit, which is named commit:{name.upper()}"
    with suppress(OmniGraphError):
        hint = f"there is a tag of that name: tag:{find_tag(manifest, name).name}"
    if hint is None:
        return branch_not_found(name)
    return BranchNotFound(f"there is no branch `{name}`; {hint}", branch=name)


def _head_up_to(manifest: Manifest, state: BranchState, version: int) -> Head:
    """Return the newest head of a branch up to a version, which must be one of its versions."""
    newest, oldest = state.head.commit.manifest_version, state.fork_version
    if oldest <= version <= newest:
        return head_at(manifest, state.name, version)
    # The fork may lie at a later version than its commit: tags and compaction make versions, too.
    try:
        fork = head_at(manifest, state.name, oldest)
    except HistoryReclaimed:
        if 1 <= version <= max(newest, oldest):
            raise
        raise VersionNotFound(
            f"branch `{state.name}` has no version {version}; its newest one is {newest}",
            branch=state.name,
            version=version,
        ) from None
    if fork.commit.manifest_version <= version <= max(newest, oldest):
        return fork
    raise VersionNotFound(
        f"branch `{state.name}` has no version {version}; its versions are "
        f"{fork.commit.manifest_version} to {newest}",
        branch=state.name,
        version=version,
    )


def _resolve_time(
    manifest: Manifest, state: BranchState, time: int
) -> tuple[BranchState, Snapshot]:
    """Return the newest commit of a branch up to a time; times need not grow from commit to commit."""
    records = BranchRecords(manifest, state)
    for commit in first_parents(records, records.head):
        if commit.created_us <= time:
            if commit is records.head:
                return state, Snapshot.of(state.name, state.head)
            return resolve_commit(manifest, commit)
    raise CommitNotFound(
        f"branch `{state.name}` has no commit up to {format_moment(time)}; its first one was made at "
        f"{format_moment(commit.created_us)}",
        graph_commit_id=None,
        branch=state.name,
    )


class _Commit(Protocol):
    """A commit that a branch made: its record, or the tag that names it."""

    @property
    def graph_commit_id(self) -> str: ...
    @property
    def branch(self) -> str | None: ...
    @property
    def manifest_version(self) -> int: ...


def resolve_commit(manifest: Manifest, commit: _Commit) -> tuple[BranchState, Snapshot]:
    """Return the snapshot of a commit; raise ``HistoryReclaimed`` if its branch is gone."""
    branch = commit.branch or MAIN
    try:
        state = manifest.state(branch)
        head = head_at(manifest, branch, commit.manifest_version)
    except BranchNotFound:
        raise gone_with_branch(commit) from None
    if head.commit.graph_commit_id != commit.graph_commit_id:
        # The branch was deleted and made again; its version of that number is another commit.
        raise gone_with_branch(commit)
    return state, Snapshot.of(branch, head)


def gone_with_branch(commit: _Commit) -> HistoryReclaimed:
    """Return the error for a commit whose branch was deleted."""
    return HistoryReclaimed(
        f"the data of commit `{commit.graph_commit_id}` is gone with its branch "
        f"`{commit.branch or MAIN}`; read a state of a live branch",
        table_key="__manifest",
        version=commit.manifest_version,
    )


def head_at(manifest: Manifest, branch: str, version: int) -> Head:
    """Return the head of a branch at one version; raise ``HistoryReclaimed`` if cleanup removed it."""
    try:
        return manifest.at_version(branch, version)
    except (VersionMissing, TableMissing):
        raise HistoryReclaimed(
            f"version {version} of branch `{branch}` was removed by cleanup; read a newer state of the graph",
            table_key="__manifest",
            version=version,
        ) from None


class SchemaThen(NamedTuple):
    """The schema of a past state: its identities and its types."""

    ir: Ir
    catalog: Catalog


_MAX_CATALOGS: Final = 128
_catalogs: OrderedDict[tuple[str, str], SchemaThen] = OrderedDict()
_lock = threading.Lock()


def catalog_at(manifest: Manifest, snapshot: Snapshot) -> Catalog:
    """Return the types that were accepted when the head commit of a snapshot was made."""
    return schema_at(manifest, snapshot).catalog


def schema_at(manifest: Manifest, snapshot: Snapshot) -> SchemaThen:
    """Return the schema that was accepted when the head commit of a snapshot was made."""
    key = snapshot.graph_id, snapshot.ir_hash
    with _lock:
        known = _catalogs.get(key)
        if known is not None:
            _catalogs.move_to_end(key)
            return known
    ir = read_ir(schema_row_at(manifest, snapshot).ir)
    built = SchemaThen(ir, catalog_of(ir))
    with _lock:
        _catalogs[key] = built
        if len(_catalogs) > _MAX_CATALOGS:
            _catalogs.popitem(last=False)
    return built


def schema_row_at(manifest: Manifest, snapshot: Snapshot) -> SchemaRow:
    """Return the schema under which the head commit of a snapshot was made.

    Raises ``HistoryReclaimed`` if that version of the manifest is gone.
    """
    commit = snapshot.commit
    try:
        row = manifest.schema_at(commit.branch or MAIN, commit.manifest_version)
    except (BranchNotFound, VersionMissing, TableMissing):
        row = None
    # A branch of that name that was made again has other commits at these versions.
    if row is None or row.ir_hash != snapshot.ir_hash:
        raise HistoryReclaimed(
            f"the schema of commit `{commit.graph_commit_id}` was removed with its version of the "
            "manifest; read a newer state of the graph",
            table_key="__manifest",
            version=commit.manifest_version,
        )
    return row
