"""What a cleanup will find after its first steps, for a preview that takes none of them.

The versions that a purge removes, and table branches that no branch needs, are not there any more when a
cleanup looks for versions to remove.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from omnigraph.maintenance.cleanup.survey import Survey, TableFound
from omnigraph.manifest.branch_names import MAIN
from omnigraph.manifest.rows import Purge
from omnigraph.write.purges import is_leased


def foresee(found: Survey) -> Survey:
    """Return a survey as it will be once purges are finished and orphaned table branches are gone."""
    owed = found.states[MAIN].head.purges
    due = [purge for purge in owed if not is_leased(purge, found.leases)]
    return _without_purged(_without_orphans(found), due)


def _without_purged(found: Survey, due: Iterable[Purge]) -> Survey:
    """Leave out what purges remove: whole tables, or the versions below one."""
    purges = {purge.incarnation: purge for purge in due}
    tables = []
    for one in found.tables:
        purge = purges.get(one.table.incarnation)
        if purge is None or one.error is not None:
            tables.append(one)
        elif purge.below is not None:
            # Lance keeps a version that somebody tagged.
            tagged = {tag.version for tag in one.tags if tag.branch is None}
            below = range(purge.below)
            left = [v for v in one.versions[None] if v not in below or v in tagged]
            tables.append(replace(one, versions={**one.versions, None: left}))
    return replace(found, tables=tuple(tables))


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

    def is_needed(table: TableFound, name: str) -> bool:
        number = table.table.incarnation
        pin = name, number, table.forks[name].identifier
        return pin in pins or (name in found.states and (number, name) in claimed)

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
