"""The internals of an open graph that `Graph` and its facets share."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from omnigraph.embeddings.pool import hold_clients
from omnigraph.errors import BadRequest
from omnigraph.graph.caches import AcceptedSchemas, PlanCache
from omnigraph.graph.turns import TURNS
from omnigraph.maintenance.keeper import Keeper, UpkeepMode
from omnigraph.manifest.manifest import Manifest
from omnigraph.manifest.workspace import Workspace
from omnigraph.policy.gate import Gate
from omnigraph.storage.blob_policy import NO_POLICY, BlobPolicy
from omnigraph.storage.local_files import LocalFiles
from omnigraph.storage.locks.locks import LockManager
from omnigraph.storage.objects.stores import open_store
from omnigraph.storage.uris import Root

# Imported by the first read, so that a process that only writes stays light.
if TYPE_CHECKING:
    from omnigraph.embeddings.embedder import Embedder
    from omnigraph.policy.checker import Checker
    from omnigraph.read.view.view import Reader
    from omnigraph.write.group_commit.queue import GroupQueue, Member, More
    from omnigraph.write.mutate import MutationResult, Request

Mode = Literal["rw", "r"]


class GraphState:
    """The workspace, caches and settings of one open graph, and whether it is still open."""

    def __init__(
        self,
        root: Root,
        mode: Mode,
        embedder: Embedder | None = None,
        blobs: BlobPolicy = NO_POLICY,
        upkeep: UpkeepMode = "inline",
        policy: Checker | None = None,
        *,
        group_commit: bool = False,
    ) -> None:
        self.gate = Gate(policy)
        store = open_store(root)
        self.keeper = Keeper(upkeep)
        self.workspace = Workspace(
            root,
            store,
            LockManager(root, of_graph=True),
            Manifest(root, store),
            self.keeper.after_commit,
        )
        self.mode = mode
        self.embedder = embedder
        self.group_commit = group_commit
        self._blobs = blobs
        self.schemas = AcceptedSchemas(self.workspace.manifest)
        self.plans = PlanCache()
        self.is_closed = False
        self._reader: Reader | None = None
        self._mutations: GroupQueue[Request, MutationResult] | None = None
        self._lock = threading.Lock()
        self._release_clients = hold_clients(self)
        # A handle that is dropped, or still open when the process ends, must not leave a thread at work.
        self._end_upkeep = weakref.finalize(self, self.keeper.close)

    @property
    def reader(self) -> Reader:
        """The reader shared by all reads, which caches open tables and what was read of them."""
        from omnigraph.read.view.view import Reader

        with self._lock:
            if self._reader is None:
                self._reader = Reader(self.workspace)
            return self._reader

    @property
    def mutations(self) -> GroupQueue[Request, MutationResult]:
        """Where mutations wait that may share a commit."""
        from omnigraph.commit.heal import heal
        from omnigraph.write.group_commit.queue import GroupQueue
        from omnigraph.write.group_commit.together import Groups
        from omnigraph.write.mutate import mutate_alone

        groups = Groups(self.workspace)

        def alone(request: Request) -> MutationResult:
            with TURNS.writing():
                return mutate_alone(self.workspace, request)

        def together(
            members: Sequence[Member[Request, MutationResult]],
            take_more: More[Request, MutationResult],
        ) -> None:
            with TURNS.writing():
                groups.run(members, take_more)

        with self._lock:
            if self._mutations is None:
                self._mutations = GroupQueue(
                    lambda: heal(self.workspace), alone, together, groups.others_commit
                )
            return self._mutations

    @property
    def cache_bytes(self) -> int:
        """How many bytes reads keep in memory."""
        return 0 if self._reader is None else self._reader.cache.nbytes

    @property
    def blob_policy(self) -> BlobPolicy:
        """Where blobs may come from.

        Behind a policy a record takes in no local file unless the graph was opened with
        ``local_files``: its author is not the owner of this machine. The way to its store goes along, because
        an executor may have another environment.
        """
        blobs = self._blobs.reached_from_here()
        if blobs.local is not None and not blobs.local.bounded:
            return replace(blobs, local=LocalFiles(str(Path.cwd()), bounded=False))
        return blobs if self.gate.is_open else replace(blobs, beside=False)

    def close(self) -> None:
        """Drop all caches; ``ensure_open`` refuses from now on."""
        self.is_closed = True
        self._end_upkeep()
        self._release_clients()
        self.workspace.manifest.forget()
        self.forget_reads()

    def forget_reads(self) -> None:
        """Drop what reads keep in memory, such as tables at versions that may be gone."""
        with self._lock:
            if self._reader is not None:
                self._reader.forget()

    def ensure_open(self) -> None:
        """Refuse a call on a closed handle."""
        if self.is_closed:
            raise BadRequest("this graph handle is closed; open the graph again")

    def ensure_writable(self) -> None:
        """Refuse a call on a closed or read-only handle."""
        self.ensure_open()
        if self.mode != "rw":
            raise BadRequest('this graph handle is read-only; open the graph with mode="rw"')
