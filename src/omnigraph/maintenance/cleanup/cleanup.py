"""Remove versions that nothing needs any more, under the graph lock.

1. Finish the purges that are owed, forget dead read leases, and remove table branches whose graph
   branch is gone, which all would keep versions alive, and tables that no branch has.
2. Look at everything (``survey``), and decide what stays (``keep_set``).
3. Remove the other versions of each table, one lineage at a time. What fails is recorded on its row.
4. Trim `__manifest` and the audit table (``removal``): a commit whose tables are gone is of no use.

A crash anywhere leaves a graph in which some old versions are gone and the others are whole; running it
again does the rest. A preview takes none of these steps, and reckons with what they will leave.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial

from omnigraph import failpoints
from omnigraph.clock import now_us
from omnigraph.commit.forks import reclaim_leftover
from omnigraph.commit.heal import heal
from omnigraph.commit.phases.marking import marked
from omnigraph.errors import BadRequest, OmniGraphError
from omnigraph.maintenance.cleanup.keep_set import Policy, Reasons, TableLineage, keep_set
from omnigraph.maintenance.cleanup.orphans import orphaned_tables
from omnigraph.maintenance.cleanup.removal import (
    AFTER_TABLE,
    BEFORE_TABLE,
    Survivors,
    clean_lineage,
    pass_point,
    trim_audit,
    trim_manifest,
)
from omnigraph.maintenance.cleanup.survey import (
    Registered,
    Survey,
    TableFound,
    dropped_since,
    facts_of,
    published_forks,
    registered_tables,
    survey,
)
from omnigraph.maintenance.reports import CleanupReport, CleanupRow
from omnigraph.manifest.rows import Purge
from omnigraph.manifest.workspace import Workspace
from omnigraph.storage.full_disk import keep_reserve, with_reserve
from omnigraph.storage.locks.locks import HeldLocks
from omnigraph.storage.locks.read_leases import remove_dead_leases
from omnigraph.storage.locks.waiting import Purpose
from omnigraph.storage.locks.write_marks import Abandoned, find_abandoned, forget_dead
from omnigraph.storage.tables.inline_residual import purge_table
from omnigraph.storage.tables.table_branches import list_branches
from omnigraph.storage.tables.table_errors import TableMissing
from omnigraph.types import shown
from omnigraph.write.purges import is_leased, purge_all, remove_orphans


def foresee(found: Survey) -> Survey:
    """Return a survey as it will be once purges are finished and orphaned table branches are gone."""
    owed = dict.fromkeys(one for state in found.states.values() for one in state.head.purges)
    due = [purge for purge in owed if not is_leased(purge, found.leases)]
    return _without_purged(_without_orphans(found), due)


def _without_purged(found: Survey, due: Iterable[Purge]) -> Survey:
    """Leave out what purges remove: whole tables, or versions of their branches."""
    purges: dict[int, list[Purge]] = {}
    for purge in due:
        purges.setdefault(purge.incarnation, []).append(purge)
    tables = []
    for one in found.tables:
        owed = purges.get(one.table.incarnation, ())
        if not owed or one.error is not None:
            tables.append(one)
        elif all(purge.below is not None for purge in owed):
            tables.append(replace(one, versions=dict(_left(one, owed))))
    return replace(found, tables=tuple(tables))


def _left(table: TableFound, owed: Iterable[Purge]) -> Iterator[tuple[str | None, list[int]]]:
    """Yield the branches of a table, each with the versions that no purge removes."""
    # Lance keeps a version that somebody tagged.
    tagged = {(tag.branch, tag.version) for tag in table.tags}
    for branch, versions in table.versions.items():
        known = None if branch is None else table.forks[branch].identifier
        yield (
            branch,
            [
                version
                for version in versions
                if (branch, version) in tagged
                or not any(
                    purge.removes_version(branch, known, version)
                    for purge in owed
                    if purge.is_of_entities or branch is None
                )
            ],
        )


def _without_orphans(found: Survey) -> Survey:
    """Leave out table branches that no branch needs."""
    pins = {
        (name, pin.incarnation, pin.table_branch_id)
        for name, state in found.states.items()
        for pin in state.head.tables.values()
    }
    claimed = {
        (entry.base.incarnation, entry.table_branch)
        for sidecar in found.sidecars
        for entry in sidecar.tables
    }

    published = {name: published_forks(state) for name, state in found.states.items()}

    def is_needed(table: TableFound, name: str) -> bool:
        number, identifier = table.table.incarnation, table.forks[name].identifier
        if (name, number, identifier) in pins or identifier in published.get(name, ()):
            return True
        return name in found.states and (number, name) in claimed

    tables = []
    for table in found.tables:
        orphans = {name for name in table.forks if not is_needed(table, name)}
        tables.append(
            replace(
                table,
                forks={name: fork for name, fork in table.forks.items() if name not in orphans},
                versions={n: there for n, there in table.versions.items() if n not in orphans},
                tags=[tag for tag in table.tags if tag.branch not in orphans],
            )
        )
    return replace(found, tables=tuple(tables))


BEFORE_PURGES = failpoints.declare("cleanup.before_purges")
BEFORE_ORPHANS = failpoints.declare("cleanup.before_orphans")
BEFORE_TRIM = failpoints.declare("cleanup.before_trim")
AFTER_TRIM = failpoints.declare("cleanup.after_trim")

LONGEST = 10**11
"""The longest age in seconds, some 3,000 years: everything is younger."""
PREVIEWS = 5
"""How often a preview starts over at most: it holds no lock, so what it reads may change."""
FEW_VERSIONS = 3
"""A cleanup that keeps fewer versions than this warns."""

logger = logging.getLogger(__name__)


def check_policy(keep_versions: object, older_than: object) -> Policy:
    """Return the policy that the arguments of a cleanup mean; at least one must be given."""
    if keep_versions is None and older_than is None:
        raise BadRequest(
            "say what a cleanup may remove: give keep_versions=<how many> or older_than=<timedelta "
            "or seconds>"
        )
    if keep_versions is not None and (
        isinstance(keep_versions, bool) or not isinstance(keep_versions, int) or keep_versions < 1
    ):
        raise BadRequest(f"keep_versions is a whole number, at least 1, not {keep_versions!r}")
    return Policy(keep_versions, None if older_than is None else _seconds(older_than))


def _seconds(older_than: object) -> float:
    if isinstance(older_than, timedelta):
        seconds = older_than.total_seconds()
    elif isinstance(older_than, int | float) and not isinstance(older_than, bool):
        seconds = older_than
    else:
        raise BadRequest(f"older_than is a timedelta or a number of seconds, not {older_than!r}")
    if not 0 <= seconds <= LONGEST:
        raise BadRequest(
            f"older_than is {shown(older_than)}; give at least 0 seconds and at most {LONGEST:,}"
        )
    return seconds


def cleanup(workspace: Workspace, policy: Policy, *, dry_run: bool = False) -> CleanupReport:
    """Remove what nothing needs; with ``dry_run`` only say what would go, without any effect."""
    if dry_run:
        return _preview(workspace, policy)
    heal(workspace)

    def run() -> CleanupReport:
        purpose = Purpose("cleanup", slow=True)
        graph_lock = workspace.locks.graph_lock()
        with (
            workspace.locks.acquire(graph_lock, None, purpose) as held,
            marked(workspace, "cleanup") as mark,
        ):
            # Before anything is looked at: a write that ends meanwhile counts as alive.
            left = find_abandoned(workspace.root, workspace.store, mark)
            report = _run(workspace, policy, held, left)
            if not report.failed:
                forget_dead(workspace.store, left)
            return report

    report = with_reserve(workspace.root, run)
    keep_reserve(workspace.root)
    return report


def _preview(workspace: Workspace, policy: Policy) -> CleanupReport:
    """Say what would go. No lock is held, so a branch that is looked at may be deleted meanwhile."""
    for _ in range(PREVIEWS - 1):
        before = workspace.manifest.branches()
        try:
            report = _look(workspace, policy)
        except OmniGraphError:
            if workspace.manifest.branches() == before:
                raise
        else:
            if not report.failed or workspace.manifest.branches() == before:
                return report
    return _look(workspace, policy)


def _look(workspace: Workspace, policy: Policy) -> CleanupReport:
    left = find_abandoned(workspace.root, workspace.store, None)
    return _run(workspace, policy, None, left)


def _run(
    workspace: Workspace, policy: Policy, held: HeldLocks | None, left: Abandoned
) -> CleanupReport:
    """Clean up under the graph lock; without it, only look."""
    warnings = list(_warn_of_few(policy))
    rows = []
    if held is not None:
        warnings += _prepare(workspace, held)
    found = survey(workspace, policy)
    if held is None:
        found = foresee(found)
    lately = set()
    if policy.older_than is not None and any(one.table.is_dropped for one in found.tables):
        lately = dropped_since(workspace, found.now - policy.older_than)
    kept = keep_set(facts_of(found, policy, lately))
    survivors = Survivors()
    for table in found.tables:
        rows += _clean_table(workspace, table, kept, survivors, held, left)
    pass_point(held, BEFORE_TRIM)
    rows += trim_manifest(workspace, found, survivors, held)
    rows += trim_audit(workspace, policy, found.now, held)
    pass_point(held, AFTER_TRIM)
    return CleanupReport(tuple(rows), policy, held is None, tuple(warnings))


def _warn_of_few(policy: Policy) -> Sequence[str]:
    if policy.keep_versions is None or policy.keep_versions >= FEW_VERSIONS:
        return ()
    text = (
        f"only the newest {policy.keep_versions} of each table's versions stay, so states of the graph "
        "that one might want to go back to may go"
    )
    return (text,)


# ------------------------------------------------------------------ what keeps versions alive needlessly


def _prepare(workspace: Workspace, held: HeldLocks) -> list[str]:
    """Finish purges, forget dead leases, remove orphaned tables and table branches; return warnings."""
    pass_point(held, BEFORE_PURGES)
    warnings = list(purge_all(workspace, held))
    for lease in remove_dead_leases(workspace.store, now_us()):
        logger.info("removed the read lease %s, which nobody renews any more", lease.id)
    pass_point(held, BEFORE_ORPHANS)
    manifest = workspace.manifest
    live = {name: published_forks(manifest.state(name)) for name in manifest.branch_names()}
    for table in registered_tables(workspace):
        try:
            _remove_orphans(workspace, table, live)
        except TableMissing:
            continue
        except OmniGraphError as error:
            warnings.append(f"a table branch of {table.table_key} that nobody needs stays: {error}")
    for place in orphaned_tables(workspace):
        try:
            held.check()
            purge_table(workspace.ref(place))
            logger.info("removed the table at %s, which no branch has", place)
        except OmniGraphError as error:
            warnings.append(f"the table at {place}, which no branch has, stays: {error}")
    return warnings


def _remove_orphans(
    workspace: Workspace, table: Registered, live: Mapping[str, frozenset[str]]
) -> None:
    """Remove table branches whose graph branch is gone, or never got to publish them.

    No branch can be made meanwhile, for that needs the graph lock. A branch that lives may have a
    writer, so its leftovers are removed under the lock of the table, unless somebody holds it.
    """
    ref = workspace.ref(table.location)
    for name in remove_orphans(ref, set(live)):
        logger.info("removed branch %s of %s, which no branch needs", name, table.table_key)
    for name, fork in list_branches(ref).items():
        if fork.identifier not in live.get(name, ()) and reclaim_leftover(
            workspace, table.location, name
        ):
            logger.info("removed a leftover branch %s of %s", name, table.table_key)


# ------------------------------------------------------------------ the versions of one table


def _clean_table(
    workspace: Workspace,
    found: TableFound,
    kept: Mapping[TableLineage, Reasons],
    survivors: Survivors,
    held: HeldLocks | None,
    left: Abandoned,
) -> list[CleanupRow]:
    """Remove the versions of every lineage of a table that have no reason to stay."""
    key = found.table.table_key
    if found.error is not None:
        survivors.add_unknown(found.table.incarnation)
        return [CleanupRow(key, None, error=found.error)]
    if found.table.is_dropped and not any(kept[lineage] for lineage, _ in found.lineages()):
        return [_remove_dropped(workspace, found, held)]
    made = []
    for lineage, branch in found.lineages():
        table, reasons = found.opened[branch], kept[lineage]
        place = found.table.location + ("" if branch is None else f"/tree/{branch}")
        doomed = [version for version in found.versions[branch] if version not in reasons]
        chosen = partial(_abandoned, workspace, place, left)
        cleaned = clean_lineage(table, doomed, held, chosen if left.spans else None)
        fork = None if branch is None else found.forks[branch].identifier
        survivors.add(lineage, fork, {*reasons, *cleaned.spared})
        made.append(cleaned.row(key, branch, reasons))
    return made


def _abandoned(
    workspace: Workspace, place: str, left: Abandoned, names: Sequence[str]
) -> list[str]:
    """Return those files below the directory of a table, or of its branch, that dead writes left."""
    made = workspace.store.modified(place)
    return [name for name in names if left.includes(made.get(f"{place}/{name}", left.until))]


def _remove_dropped(workspace: Workspace, found: TableFound, held: HeldLocks | None) -> CleanupRow:
    """Remove a table that was dropped, and of which nothing is needed, its newest version included."""
    place, error = found.table.location, None
    size = workspace.store.total_size(place)
    if held is not None:
        try:
            BEFORE_TABLE.hit()
            held.check()
            purge_table(workspace.ref(place))
        except OmniGraphError as failure:
            size, error = 0, str(failure)
        pass_point(held, AFTER_TABLE)
    count = 0 if error else sum(len(versions) for versions in found.versions.values())
    return CleanupRow(found.table.table_key, None, size, count, {}, error)
