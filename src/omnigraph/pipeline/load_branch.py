"""The branch that a load writes to: checked before the records are read, and created if it is missing."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import contextmanager

from omnigraph.commit.attempts import check_precondition
from omnigraph.errors import (
    BranchExists,
    BranchNotFound,
    OmniGraphError,
    SchemaConflict,
    StorageError,
)
from omnigraph.lang.schema.catalog import Catalog
from omnigraph.manifest import refs
from omnigraph.manifest.lost_races import branch_remade, schema_changed, version_removed
from omnigraph.manifest.workspace import Workspace, lance_branch
from omnigraph.pipeline.engine import LoadTarget
from omnigraph.pipeline.load_options import LoadOptions
from omnigraph.pipeline.load_plan import LoadPlan
from omnigraph.pipeline.rows.bad_records import prepare_rejects
from omnigraph.storage.tables.table_errors import VersionMissing
from omnigraph.storage.tables.table_ref import TableRef
from omnigraph.write.branches import discard_branch, fork_head


def refuse_early(workspace: Workspace, request: LoadPlan) -> None:
    """Refuse what can be seen before the records are read, which may take long."""
    options = request.options
    live = refs.list_refs(workspace.manifest)
    if options.from_branch is not None and options.from_branch not in live:
        raise BranchNotFound(
            f"there is no branch `{options.from_branch}` to load from; name a live one with "
            "from_branch (--from), or leave it out",
            branch=options.from_branch,
        )
    if options.branch not in live and options.from_branch is None:
        raise BranchNotFound(
            f"there is no branch `{options.branch}`; make it first, or let the load make it with "
            "from_branch (--from)",
            branch=options.branch,
        )
    base = workspace.manifest.state(base_branch(workspace, options))
    check_precondition(workspace, base, options.if_commit)
    if request.rejects is not None:
        prepare_rejects(request.rejects, request.inputs.sources, workspace.root)


def base_branch(workspace: Workspace, options: LoadOptions) -> str:
    """The branch whose rows the records meet: the load's own, or the one it will be created from."""
    if options.from_branch is None or options.branch in refs.list_refs(workspace.manifest):
        return options.branch
    return options.from_branch


@contextmanager
def created_branch(workspace: Workspace, request: LoadPlan) -> Iterator[bool]:
    """Create the branch of a load if it is missing, and yield whether that was done.

    A branch that was created is removed again if the load fails.
    """
    options, made = request.options, None
    if options.from_branch is not None and options.branch not in refs.list_refs(workspace.manifest):
        if request.before_fork is not None:
            request.before_fork()
        # Another load may make it first, and then it is there.
        with contextlib.suppress(BranchExists):
            made = fork_head(workspace, options.branch, options.from_branch)
    try:
        yield made is not None
    except BaseException:
        if made is not None:
            with contextlib.suppress(OmniGraphError):
                discard_branch(workspace, made)
        raise


class RowsPlace:
    """Where the rows of a load can be written while its records are still read."""

    def __init__(
        self, workspace: Workspace, request: LoadPlan, catalog: Catalog, ir_hash: str
    ) -> None:
        self.workspace = workspace
        self.request = request
        self.catalog = catalog
        self.ir_hash = ir_hash
        self.branch_id: str | None = None
        """The identifier of the branch that rows are written for; None: for none yet."""
        self._tables: dict[str, TableRef] = {}

    def find(self) -> LoadTarget:
        """The tables that the rows will meet, and whether rows may be written to them while they are read.

        They may not if rows may still change: the records of a patch are not whole rows, and where bad
        records are skipped, rules may leave rows out. A branch that has no fragments of its own of a table
        has no place for them yet.
        """
        options, manifest = self.request.options, self.workspace.manifest
        state = manifest.state(base_branch(self.workspace, options))
        if state.head.ir_hash != self.ir_hash:
            raise SchemaConflict("the schema changed while the records were read; load them again")
        pins = state.head.tables
        keys = self.request.inputs.table_keys(self.catalog)
        is_final = (
            options.mode != "patch"
            and not options.skips
            and not options.check
            and options.branch in refs.list_refs(manifest)
            and all(pins[key].table_branch == lance_branch(options.branch) for key in keys)
        )
        tables = {key: self.workspace.pinned(pins[key]) for key in keys}
        if is_final:
            self.branch_id, self._tables = state.identifier, tables
        largest = max((pin.row_count for pin in pins.values()), default=0)
        return LoadTarget(tables, is_final, largest)

    @contextmanager
    def unless_remade(self) -> Iterator[None]:
        """Raise a clearer error where rows cannot be written because their branch or its version is gone."""
        try:
            yield
        except StorageError as error:
            if not self._tables:
                raise
            branch = self.request.options.branch
            state = self.workspace.manifest.state(branch)
            if self.branch_id is not None and state.identifier != self.branch_id:
                raise branch_remade(branch) from None
            if not isinstance(error, VersionMissing):
                raise
            if state.head.ir_hash != self.ir_hash:
                raise schema_changed() from None
            where = {ref.dataset_uri: key for key, ref in self._tables.items()}
            table = error.details["table"]
            raise version_removed(where.get(table, table), error.details["version"]) from None
