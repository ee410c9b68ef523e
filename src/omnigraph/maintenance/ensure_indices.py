"""`ensure_indices`: build the declared indexes that are missing, and extend those that are not complete.

It is the part of ``optimize`` that concerns indexes. On a branch it builds missing indexes of inherited
tables too, which forks them; to extend an index is the parent's business as long as the table is shared.
"""

from __future__ import annotations

from collections.abc import Callable

from omnigraph.commit.attempts import Attempt, Attempts
from omnigraph.commit.changes import TableChange
from omnigraph.commit.heal import heal
from omnigraph.commit.staging import needs_fork
from omnigraph.lang.schema.catalog import Catalog
from omnigraph.maintenance.committing import commit_changed
from omnigraph.maintenance.effort import Effort
from omnigraph.maintenance.rebuilding import Rebuild, check_rebuild, indexes_to_rebuild
from omnigraph.maintenance.table_work import table_work
from omnigraph.maintenance.work_steps import Outcome, PreparedWork
from omnigraph.maintenance.workers import Workers
from omnigraph.manifest.manifest import BranchState
from omnigraph.manifest.workspace import Workspace
from omnigraph.storage.tables.table import open_table
from omnigraph.write.index_builds import IndexReport


def ensure_indices(
    workspace: Workspace,
    catalog_at: Callable[[BranchState], Catalog],
    branch: str,
    actor_id: str | None = None,
    workers: Workers | None = None,
    rebuild: Rebuild = False,
) -> IndexReport:
    """Give every table with rows its declared indexes, all rows covered, in one commit.

    ``catalog_at`` as for ``optimize``. An index that fails is reported and does not stop the others.
    If nothing was done, there is no commit. One that is damaged is built anew, and so are those of
    ``rebuild``, whatever they are like.
    """
    again = check_rebuild(rebuild)
    heal(workspace)
    chosen = workers or Workers()

    def work(attempt: Attempt) -> IndexReport:
        catalog = catalog_at(attempt.state)
        anew = indexes_to_rebuild(catalog, again)
        report = IndexReport()
        changes = []
        for pin in attempt.state.head.tables.values():
            if pin.row_count == 0:
                continue
            table = open_table(workspace.pinned(pin))
            due = table_work(table, catalog.entity(pin.table_key), Effort.INDEXES)
            due = due.building(anew.get(pin.table_key, ()))
            report.pending += [(pin.table_key, name) for name in due.pending]
            if not due.is_due or (needs_fork(pin, branch) and not due.missing):
                continue
            outcome = Outcome(pin.table_key, indexes=report)
            steps = PreparedWork(due).steps(outcome, chosen.builds(pin))
            changes.append(TableChange(pin, steps))
        report.commit = commit_changed(attempt, "ensure_indices", changes, actor_id)
        report.engine, report.note = chosen.engine, chosen.note
        return report

    return Attempts(workspace, branch).run(work)
