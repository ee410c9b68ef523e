"""`Graph`: one open graph, and the calls users make on it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Self

from omnigraph.graph.access import Access
from omnigraph.graph.arguments import check_flag, check_progress
from omnigraph.graph.checks import check_graph, verify_mirrors
from omnigraph.graph.session import Session
from omnigraph.graph.state import GraphState, Mode
from omnigraph.graph.unknown_here import advised_to_merge, names_what_main_has
from omnigraph.maintenance.keeper import UpkeepMode
from omnigraph.manifest.actors import check_actor
from omnigraph.manifest.branch_names import MAIN, trim_branch_name
from omnigraph.storage.blob_policy import NO_POLICY, BlobPolicy
from omnigraph.storage.uris import Root

# Writes import what they need inside their methods, so that a process that only reads stays light.
if TYPE_CHECKING:
    from omnigraph.embeddings.embedder import Embedder
    from omnigraph.maintenance.ensure_indices import Rebuild
    from omnigraph.maintenance.reports import CleanupReport, OptimizeReport, RepairReport
    from omnigraph.maintenance.verify.report import VerifyReport
    from omnigraph.policy.checker import Checker
    from omnigraph.runner.executors import EngineName
    from omnigraph.write.index_builds import IndexReport


class Graph(Session):
    """One open graph: the session of its own actor, and what keeps the graph in shape.

    A call on it may name another actor, which is the same as a call on the session of that one.
    """

    def __init__(
        self,
        root: Root,
        mode: Mode,
        actor: str | None = None,
        embedder: Embedder | None = None,
        blobs: BlobPolicy = NO_POLICY,
        upkeep: UpkeepMode = "inline",
        policy: Checker | None = None,
        *,
        group_commit: bool = False,
    ) -> None:
        state = GraphState(root, mode, embedder, blobs, upkeep, policy, group_commit=group_commit)
        super().__init__(Access(state, check_actor(actor)))

    def session(self, actor: str | None) -> Session:
        """Return this graph as an actor uses it; a call on it that names another actor is refused."""
        self._state.ensure_open()
        return Session(Access(self._state, check_actor(actor), is_bound=True))

    @property
    def upkeep(self) -> UpkeepMode:
        """Who waits while tables are put in shape: the writer, a thread, or nobody because it is off."""
        return self._state.keeper.mode

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        closed = ", closed" if self._state.is_closed else ""
        return f"<omnigraph.Graph {self.uri} ({self.mode}{closed})>"

    def close(self) -> None:
        """Let upkeep in the background finish, drop all caches; later calls are refused."""
        self._state.close()

    def refresh(self) -> None:
        """Check the graph again and finish what dead writers left. Reads are fresh without this.

        Indexes that could not be read are tried again, because their files may have been put back.
        """
        from omnigraph.commit.heal import heal
        from omnigraph.storage.tables.indexing.index_health import forget_damage

        self._state.ensure_open()
        forget_damage()
        check_graph(self._state.workspace, self.mode)
        if self.mode == "rw":
            heal(self._state.workspace)
            verify_mirrors(self._state.workspace, self._state.schemas.of(MAIN).row)

    def ensure_indices(
        self,
        branch: str = MAIN,
        actor: str | None = None,
        engine: EngineName = "auto",
        *,
        rebuild: Rebuild = False,
    ) -> IndexReport:
        """Build every declared index that is missing on a table with rows, and complete the others.

        One whose files are lost or damaged is built anew. With ``rebuild`` so are others: all (True), or
        those of a type (`"Person"`) or of a property (`"Person.name"`), or of a list of them.

        With ``engine="spark"`` executors build the parts; ``auto`` does so for large tables if a
        session is running or a master is configured.
        """
        from omnigraph.maintenance.ensure_indices import ensure_indices
        from omnigraph.maintenance.workers import Workers

        self._state.ensure_writable()
        name = trim_branch_name(branch)
        with advised_to_merge(self._access, name, names_what_main_has):
            return ensure_indices(
                self._state.workspace,
                lambda at: self._state.schemas.at(at).catalog,
                name,
                self._access.acting(actor).actor,
                Workers(engine),
                rebuild,
            )

    def optimize(
        self,
        branch: str = MAIN,
        engine: EngineName = "auto",
        *,
        progress: Callable[[int, int], object] | None = None,
    ) -> OptimizeReport:
        """Merge small fragments, complete indexes and build missing ones; rows and answers stay.

        On a branch only the tables that it wrote to are looked at. ``engine`` as for
        ``ensure_indices``. ``progress`` is called with how much is done and how much there is to do.
        """
        from omnigraph.maintenance.optimize import optimize
        from omnigraph.maintenance.workers import Workers

        self._state.ensure_writable()
        return optimize(
            self._state.workspace,
            lambda at: self._state.schemas.at(at).catalog,
            trim_branch_name(branch),
            Workers(engine),
            check_progress(progress) or (lambda _done, _total: None),
        )

    def verify(
        self,
        deep: bool = False,
        *,
        progress: Callable[[int, int], object] | None = None,
    ) -> VerifyReport:
        """Read every file that a kept state names, and say what is lost, damaged or against the rules.

        Without ``deep`` files are looked at by size and by their ends; with it they are decoded, and indexes
        compared with their columns. Nothing is changed and no writer waits. ``progress`` is called with
        how many files are read, and how many there are.
        """
        from omnigraph.maintenance.verify.verify import verify

        self._state.ensure_open()
        return verify(
            self._state.workspace,
            lambda at: self._state.schemas.at(at).catalog,
            deep=check_flag("deep", deep),
            progress=check_progress(progress) or (lambda _done, _total: None),
        )

    def cleanup(
        self,
        keep_versions: int | None = None,
        older_than: timedelta | float | None = None,
        dry_run: bool = False,
    ) -> CleanupReport:
        """Remove versions of tables that nothing needs: no branch, merge, tag or running export.

        Besides those, the newest ``keep_versions`` of each table stay, and what was current within
        ``older_than`` (a timedelta, or seconds); give at least one. With ``dry_run`` nothing goes.
        """
        from omnigraph.maintenance.cleanup.cleanup import check_policy, cleanup

        dry = check_flag("dry_run", dry_run)
        if dry:
            self._state.ensure_open()
        else:
            self._state.ensure_writable()
        report = cleanup(
            self._state.workspace, check_policy(keep_versions, older_than), dry_run=dry
        )
        if not dry:
            self._state.forget_reads()
        return report

    def repair(
        self,
        confirm: bool = False,
        force: bool = False,
        moved: bool = False,
        *,
        undo: bool = False,
    ) -> RepairReport:
        """Pin again the newest versions of tables that another program committed to.

        Without ``confirm`` nothing changes, and the rows say what was found. With it, tables on which
        only maintenance happened are repaired, and with ``force`` all others too. No row is written.
        With ``undo`` every such table goes back to what the graph knows of it, by a new version on top.

        ``moved``: the original of this graph is gone, so this is no copy of it. It gets the id back that
        it had before it was opened here (``open(moved=True)`` keeps it from the start).
        """
        from omnigraph.maintenance.repair import check_repair, repair

        check_repair(confirm, force, undo)
        if check_flag("moved", moved):
            self._state.ensure_writable()
            self._take_back_id()
        if confirm:
            self._state.ensure_writable()
        else:
            self._state.ensure_open()
        return repair(self._state.workspace, confirm=confirm, force=force, undo=undo)

    def _take_back_id(self) -> None:
        from omnigraph.commit.relocation import take_back_id

        if take_back_id(self._state.workspace) is not None:
            self._state.forget_reads()


def state_of(graph: Session) -> GraphState:
    """Return the internals of a handle, for other modules of the package and for tests."""
    return graph._state  # noqa: SLF001
