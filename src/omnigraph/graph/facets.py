"""`graph.branches`, `graph.commits` and `graph.schema`."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING

from omnigraph.lang.schema.catalog import Catalog
from omnigraph.manifest import commits, refs
from omnigraph.manifest.actors import checked_actor
from omnigraph.manifest.branch_names import MAIN, trimmed
from omnigraph.manifest.manifest import BranchState
from omnigraph.manifest.rows import GraphCommit, SchemaRow
from omnigraph.manifest.schema_row import read_catalog
from omnigraph.manifest.snapshot import Target

if TYPE_CHECKING:
    from omnigraph.graph.graph import Graph


class Branches:
    """`graph.branches`."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def create(
        self,
        name: str,
        from_: str | Target = MAIN,
        actor: str | None = None,
    ) -> refs.BranchCreated:
        """Make a branch at the head of another one. No data is copied and no commit is made.

        ``actor`` is who asks; a branch records nobody, since it makes no commit.
        """
        from omnigraph.write.branches import create_branch

        self._graph.ensure_writable()
        checked_actor(actor)
        return create_branch(self._graph.workspace, name, from_)

    def list(self) -> list[str]:
        """`main` first, then the others in code-point order."""
        self._graph.ensure_open()
        return refs.list_refs(self._graph.manifest)

    def delete(
        self,
        name: str,
        actor: str | None = None,
    ) -> None:
        """Remove a branch and its commits; not undoable. ``actor`` is who asks."""
        from omnigraph.write.branches import delete_branch

        self._graph.ensure_writable()
        checked_actor(actor)
        delete_branch(self._graph.workspace, name)


class Commits:
    """`graph.commits`."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def list(
        self,
        branch: str = MAIN,
        filter: str | Iterable[str] | None = None,
        limit: int | None = None,
    ) -> list[GraphCommit]:
        """The first-parent chain, newest first. Filters are `actor=<id>` and `branch=<name>`."""
        self._graph.ensure_open()
        return commits.list_commits(self._graph.manifest, trimmed(branch), filter, limit)

    def show(self, graph_commit_id: str) -> GraphCommit:
        """One commit, whichever live branch holds it."""
        self._graph.ensure_open()
        return commits.find_commit(self._graph.manifest, graph_commit_id)


class Schema:
    """`graph.schema`: the accepted schema of the newest commit."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._lock = threading.Lock()
        self._known: tuple[str, SchemaRow, Catalog] | None = None

    def row(self) -> SchemaRow:
        """The accepted schema as the manifest keeps it."""
        return self._current()[1]

    @property
    def source(self) -> str:
        """The accepted source text."""
        return self._current()[1].source

    @property
    def catalog(self) -> Catalog:
        """The accepted types."""
        return self._current()[2]

    def pinned(self) -> tuple[str, Catalog]:
        """The accepted types and the hash that names exactly them."""
        ir_hash, _, catalog = self._current()
        return ir_hash, catalog

    def at(self, main: BranchState) -> Catalog:
        """The accepted types of a state of `main` that was just read."""
        return self._known_at(main)[2]

    def _current(self) -> tuple[str, SchemaRow, Catalog]:
        self._graph.ensure_open()
        return self._known_at(self._graph.manifest.state(MAIN))

    def _known_at(self, state: BranchState) -> tuple[str, SchemaRow, Catalog]:
        with self._lock:
            if self._known is None or self._known[0] != state.head.ir_hash:
                row = self._graph.manifest.schema(state)
                self._known = (state.head.ir_hash, row, read_catalog(row))
            return self._known
