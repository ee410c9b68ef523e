"""`init`, `open` and `at`: create a graph, open one, and name a state of it."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from omnigraph.errors import AlreadyInitialised, BadRequest, OmniGraphError
from omnigraph.graph.arguments import check_embedder, check_flag, check_policy, check_upkeep
from omnigraph.graph.checks import (
    check_graph,
    finish_drops,
    probe,
    recorded_alias,
    verify_mirrors,
)
from omnigraph.graph.graph import Graph, state_of
from omnigraph.graph.state import Mode
from omnigraph.language import read_source
from omnigraph.maintenance.keeper import UpkeepMode
from omnigraph.manifest.actors import check_actor, check_message
from omnigraph.manifest.branch_names import MAIN
from omnigraph.manifest.create import already_initialised, create_manifest, first_tables
from omnigraph.manifest.schema_row import first_schema, write_mirrors
from omnigraph.manifest.snapshot import Target
from omnigraph.storage import layout
from omnigraph.storage.blob_policy import blob_policy
from omnigraph.storage.locks.locks import LockManager
from omnigraph.storage.objects.object_store import ObjectStore
from omnigraph.storage.objects.stores import open_store
from omnigraph.storage.store_kinds.known import parse_store_options
from omnigraph.storage.tables.table import table_exists
from omnigraph.storage.tables.table_ref import TableRef
from omnigraph.storage.uris import Root

if TYPE_CHECKING:
    from omnigraph.embeddings.embedder import Embedder
    from omnigraph.policy.checker import Checker

logger = logging.getLogger(__name__)


def init(
    uri: str | Path,
    schema: str | Path,
    *,
    actor: str | None = None,
    policy: Checker | None = None,
    embedder: Embedder | None = None,
    upkeep: UpkeepMode = "inline",
    external_blobs: Iterable[str] | None = None,
    local_files: str | os.PathLike[str] | bool | None = None,
    storage_options: Mapping[str, str] | None = None,
    force: bool = False,
    message: str | None = None,
    group_commit: bool = False,
) -> Graph:
    """Create a graph and open it read-write. ``schema`` is source text, or a ``Path`` to a file.

    ``force`` replaces schema files that lie at the root without a graph; it never replaces a graph.
    The first commit records ``actor`` and ``message``.
    The other arguments are those of ``open``.
    """
    from omnigraph.lang.schema import compile_schema
    from omnigraph.lang.schema.catalog_of import catalog_of

    maker, said = check_actor(actor), check_message(message)
    check_policy(policy)
    check_embedder(embedder)
    check_upkeep(upkeep)
    check_flag("group_commit", group_commit)
    options = parse_store_options(storage_options, uri)
    blobs = blob_policy(external_blobs, local_files, options)
    source, filename = read_source(schema)
    compiled = compile_schema(source, filename)
    root = Root.parse(uri, options)
    _refuse_unusable(root)
    store = open_store(root)
    _refuse_existing(root, store, force)
    probe(store)
    locks = LockManager(root)
    with locks.acquire(locks.graph_lock()):
        _refuse_existing(root, store, force)
        row, ir = first_schema(source, compiled)
        catalog = catalog_of(ir)
        create_manifest(root, row, first_tables(catalog), maker, said)
        try:
            write_mirrors(store, row)
        except OmniGraphError as error:
            # The graph is there. Opening it writes them, or says why that cannot be.
            logger.warning("the files that mirror the schema are written again: %s", error)
    return open(
        uri,
        actor=actor,
        policy=policy,
        embedder=embedder,
        external_blobs=blobs.bases,
        local_files=local_files,
        upkeep=upkeep,
        storage_options=storage_options,
        group_commit=group_commit,
    )


def _refuse_unusable(root: Root) -> None:
    """Refuse the top of a file system, and a path below a file."""
    if not root.is_local:
        return
    path = Path(root.path)
    if path.parent == path:
        raise BadRequest(
            f"{path} is the top of the file system, and a graph has a directory to itself; choose "
            "one below it"
        )
    there = next((place for place in (path, *path.parents) if os.path.lexists(place)), path)
    if not there.is_dir():
        raise BadRequest(
            f"{there} is no directory, so no graph can be made at {root}; choose another root"
        )


def _refuse_existing(root: Root, store: ObjectStore, force: bool) -> None:
    """Refuse a root that holds a graph or, without ``force``, schema files."""
    ref = TableRef(root.child(layout.MANIFEST), storage_options=root.lance_options())
    if table_exists(ref):
        raise already_initialised(root)
    strays = [name for name in layout.SCHEMA_MIRRORS if store.exists(name)]
    if strays and not force:
        raise AlreadyInitialised(
            f"there is no graph at {root.canonical}, but {', '.join(strays)} already; remove what "
            "is left there, or replace it with force",
            root=root.canonical,
            files=strays,
        )


def open(
    uri: str | Path,
    mode: Mode = "rw",
    actor: str | None = None,
    policy: Checker | None = None,
    embedder: Embedder | None = None,
    upkeep: UpkeepMode = "inline",
    external_blobs: Iterable[str] | None = None,
    local_files: str | os.PathLike[str] | bool | None = None,
    storage_options: Mapping[str, str] | None = None,
    moved: bool = False,
    group_commit: bool = False,
) -> Graph:
    """Open a graph. ``"rw"`` checks it and recovers unfinished writes; ``"r"`` never writes anything.

    A graph that was copied or moved here is settled by the first ``"rw"`` and gets an id of its own;
    with ``moved`` it keeps its id, because the original is gone.

    ``actor`` is recorded by the commits of calls that name none. ``embedder`` makes the vectors of
    ``@embed`` properties and of searches by text. ``external_blobs`` are the addresses below which
    external blobs and files to take in may lie, none by default. ``local_files`` is the directory below
    which files of this machine must lie that records take in (``{"$file": …}``), links followed; True
    allows all, False none, not even below such an address. By default the records of a file may take in what lies below its directory,
    and other records nothing; with a policy none may. ``upkeep``: now and then a write puts
    the tables it wrote in shape, as ``optimize`` does but only what the latest writes left; with
    ``"background"`` a thread of the handle does so, with ``"off"`` nobody. ``policy`` is asked before
    every call what its actor may do (``omnigraph.policy``); without one, everybody may do everything.
    ``storage_options`` says how S3 is reached by this handle, its sources and exports included:
    `endpoint`, `region`, `access_key_id`, `secret_access_key`, `session_token`, `path_style`,
    `allow_http`; each wins over the `AWS_*` variable. ``group_commit``: mutations of several threads
    that wait for the commit of another one share the next one; a commit costs much the same whatever it
    holds.
    """
    if mode not in ("rw", "r"):
        raise BadRequest(f'mode is {mode!r}; give "rw" or "r"')
    check_policy(policy)
    check_embedder(embedder)
    options = parse_store_options(storage_options, uri)
    blobs = blob_policy(external_blobs, local_files, options)
    check_flag("moved", moved)
    check_flag("group_commit", group_commit)

    def handle(root: Root) -> Graph:
        kept = check_upkeep(upkeep)
        return Graph(root, mode, actor, embedder, blobs, kept, policy, group_commit=group_commit)

    graph = handle(Root.parse(uri, options))
    recorded = recorded_alias(state_of(graph).workspace)
    if recorded is not None:
        graph.close()
        graph = handle(recorded)
    state = state_of(graph)
    check_graph(state.workspace, mode, moved=moved)
    if mode == "rw":
        from omnigraph.commit.heal import sweep

        sweep(state.workspace)
        finish_drops(state)
        verify_mirrors(state.workspace, state.schemas.of(MAIN).row)
    logger.info("opened %s (%s)", state.workspace.root.canonical, mode)
    return graph


def at(
    branch: str | None = None,
    snapshot: str | None = None,
    version: int | None = None,
    tag: str | None = None,
    time: datetime | date | str | None = None,
) -> Target:
    """Return a read target: a branch head, a commit id, a tag, or a branch at a version or a time.

    A time reads the newest commit made up to that moment. A naive datetime is UTC, and a date means
    its end of day UTC.
    """
    return Target.of(branch, snapshot, version, tag, time)
