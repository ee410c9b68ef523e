"""Look at a graph: its tables with all their lineages and versions, and everything that needs them.

The order matters, because writers go on meanwhile. First come the versions and branches that lie there,
then the pending sidecars, and the heads of the branches last. So whatever a writer put there before
its table was looked at is claimed by its sidecar, or pinned by a head.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise, takewhile

from omnigraph.clock import now_us
from omnigraph.commit.sidecar import Sidecar, list_sidecars
from omnigraph.errors import OmniGraphError
from omnigraph.maintenance.cleanup.keep_set import (
    Claim,
    Facts,
    Fork,
    Policy,
    PublishedVersion,
    TableLineage,
)
from omnigraph.maintenance.cleanup.pair_bases import pair_bases
from omnigraph.manifest import rows
from omnigraph.manifest.branch_names import MAIN
from omnigraph.manifest.history.records import BranchRecords, first_parents
from omnigraph.manifest.history.registrations import all_registrations
from omnigraph.manifest.history.tags import Tag, list_tags
from omnigraph.manifest.manifest import BranchState
from omnigraph.manifest.rows import TableState
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.manifest.workspace import Workspace
from omnigraph.storage.filters import Condition, filter_expression
from omnigraph.storage.locks.read_leases import ReadLease, live_leases
from omnigraph.storage.tables.branch_refs import TableBranch
from omnigraph.storage.tables.table import Table, open_table
from omnigraph.storage.tables.table_branches import list_branches
from omnigraph.storage.tables.table_errors import TableMissing
from omnigraph.storage.versions import LanceTag, lance_tags, version_times


@dataclass(frozen=True, slots=True)
class Registered:
    """A table that some branch has or had. ``is_dropped``: no branch has it any more."""

    incarnation: int
    table_key: str
    location: str
    is_dropped: bool


@dataclass(slots=True)
class TableFound:
    """What lies at the place of a table. ``error``: why it could not be looked at."""

    table: Registered
    forks: Mapping[str, TableBranch] = field(default_factory=dict)
    opened: dict[str | None, Table] = field(default_factory=dict)
    versions: dict[str | None, list[int]] = field(default_factory=dict)
    times: dict[str | None, dict[int, float]] = field(default_factory=dict)
    tags: list[LanceTag] = field(default_factory=list)
    error: str | None = None

    def lineages(self) -> Iterator[tuple[TableLineage, str | None]]:
        """Yield the lineages that were listed, main first, with the names of their branches."""
        for branch in self.versions:
            yield TableLineage(self.table.incarnation, branch), branch


@dataclass(frozen=True, slots=True)
class Survey:
    """Everything cleanup knows. ``bases`` maps a pair of branches `a..b` to what a merge reads."""

    tables: tuple[TableFound, ...]
    states: Mapping[str, BranchState]
    sidecars: tuple[Sidecar, ...]
    leases: tuple[ReadLease, ...]
    tags: tuple[Tag, ...]
    bases: Mapping[str, tuple[Snapshot, ...]]
    now: float


def registered_tables(workspace: Workspace) -> list[Registered]:
    """Return every table that a live branch has or had, by key; those that none has any more come last.

    A table has the key that it has on `main`, or on the first branch that knows it.
    """
    manifest = workspace.manifest
    states = [manifest.state(name) for name in (MAIN, *manifest.branch_names())]
    pinned = {table.incarnation for state in states for table in state.head.tables.values()}
    tables = [
        Registered(one.incarnation, one.table_key, one.location, one.incarnation not in pinned)
        for one in all_registrations(manifest, states).values()
    ]
    return sorted(tables, key=lambda one: (one.table_key, one.is_dropped, one.incarnation))


def survey(workspace: Workspace, policy: Policy) -> Survey:
    """Look at everything. A table that cannot be looked at is reported, and left alone."""
    now = now_us()
    tables = []
    for registered in registered_tables(workspace):
        found = _look_at(workspace, registered, with_times=policy.older_than is not None)
        if found is not None:
            tables.append(found)
    manifest = workspace.manifest
    graph_id = manifest.state(MAIN).head.graph_id
    sidecars = tuple(list_sidecars(workspace, graph_id))
    leases = tuple(live_leases(workspace.store, now))
    states = {name: manifest.state(name) for name in (MAIN, *manifest.branch_names())}
    return Survey(
        tuple(tables),
        states,
        sidecars,
        leases,
        tuple(list_tags(manifest)),
        dict(pair_bases(workspace, states)),
        now / 1_000_000,
    )


def _look_at(
    workspace: Workspace, registered: Registered, *, with_times: bool
) -> TableFound | None:
    """List the lineages and versions of one table; None if there is no table, as after a purge."""
    found = TableFound(registered)
    ref = workspace.ref(registered.location)
    try:
        main = open_table(ref)
        found.forks = list_branches(ref)
        found.tags = lance_tags(ref)
        refs = {name: ref.on(name, None, fork.identifier) for name, fork in found.forks.items()}
        opened: dict[str | None, Table] = {None: main}
        opened.update({name: open_table(place) for name, place in refs.items()})
        versions = {name: table.versions() for name, table in opened.items()}
        if with_times:
            found.times = {name: version_times(table) for name, table in opened.items()}
    except TableMissing:
        if registered.is_dropped:
            return None
        found.error = "there is no table at its place; restore the graph from a copy"
    except OmniGraphError as error:
        found.error = str(error)
    else:
        found.opened, found.versions = opened, versions
    return found


# ------------------------------------------------------------------ as facts


def facts_of(found: Survey, policy: Policy, manifest_dropped: Iterable[int] = ()) -> Facts:
    """Return what decides. ``manifest_dropped``: tables dropped within the time to be kept."""
    forks = {one.table.incarnation: one.forks for one in found.tables}
    places = {one.table.location: one.table.incarnation for one in found.tables}

    def live(pins: Iterable[TableState]) -> list[TableState]:
        """Leave out pins of a table branch that was deleted, whatever has its name now."""
        return [
            pin
            for pin in pins
            if pin.table_branch is None
            or _identifier(forks.get(pin.incarnation, {}), pin.table_branch) == pin.table_branch_id
        ]

    return Facts(
        present={
            lineage: one.versions[name] for one in found.tables for lineage, name in one.lineages()
        },
        policy=policy,
        now=found.now,
        published=dict(_published(found, set(manifest_dropped))),
        heads={name: live(state.head.tables.values()) for name, state in found.states.items()},
        merge_bases={
            pair: [pin for snapshot in snapshots for pin in live(snapshot.tables.values())]
            for pair, snapshots in found.bases.items()
        },
        forks=[
            Fork(TableLineage(one.table.incarnation, name), fork.parent, fork.parent_version)
            for one in found.tables
            for name, fork in one.forks.items()
        ],
        tags={tag.name: live(tag.tables) for tag in found.tags},
        sidecars={one.operation_id: list(_claims(one)) for one in found.sidecars},
        leases={lease.id: live(_leased(lease, places)) for lease in found.leases},
        lance_tags=_tagged(found.tables),
    )


def _identifier(forks: Mapping[str, TableBranch], branch: str) -> str | None:
    fork = forks.get(branch)
    return None if fork is None else fork.identifier


def _claims(sidecar: Sidecar) -> Iterator[Claim]:
    for state in sidecar.expected:
        yield Claim(TableLineage(state.incarnation, state.table_branch), state.table_version)
    for entry in sidecar.tables:
        lineage = TableLineage(entry.base.incarnation, entry.table_branch)
        yield Claim(lineage, entry.base.table_version)


def _leased(lease: ReadLease, places: Mapping[str, int]) -> Iterator[TableState]:
    for table in lease.tables:
        if table.location in places:
            yield TableState(
                table.table_key,
                places[table.location],
                table.location,
                table.table_version,
                table.table_branch,
                0,
                table.table_branch_id,
            )


def _tagged(tables: Iterable[TableFound]) -> dict[str, list[tuple[TableLineage, int]]]:
    found: dict[str, list[tuple[TableLineage, int]]] = {}
    for one in tables:
        for tag in one.tags:
            place = TableLineage(one.table.incarnation, tag.branch), tag.version
            found.setdefault(tag.name, []).append(place)
    return found


# ------------------------------------------------------------------ what was published, and when


def _published(
    found: Survey, dropped_lately: set[int]
) -> Iterator[tuple[TableLineage, list[PublishedVersion]]]:
    numbers: dict[TableLineage, set[int]] = {}
    forks = {one.table.incarnation: one.forks for one in found.tables}
    for state in found.states.values():
        for lineage, identifier, version in version_rows(state):
            fork = None if lineage.branch is None else forks.get(lineage.incarnation, {})
            if fork is None or _identifier(fork, lineage.branch or "") == identifier:
                numbers.setdefault(lineage, set()).add(version)
    for one in found.tables:
        for lineage, name in one.lineages():
            versions = sorted(numbers.get(lineage, ()))
            times = one.times.get(name, {})
            following = {earlier: times.get(later, 0.0) for earlier, later in pairwise(versions)}
            last = None
            if one.table.is_dropped:
                last = found.now if lineage.incarnation in dropped_lately else 0.0
            yield (
                lineage,
                [
                    PublishedVersion(version, times.get(version, 0.0), following.get(version, last))
                    for version in versions
                ],
            )


def version_rows(state: BranchState) -> Iterator[tuple[TableLineage, str | None, int]]:
    """Yield what a branch published on its own lineage: lineage, identifier of its branch, version."""
    own = None if state.name == MAIN else state.name
    conditions = [Condition("object_type", "=", rows.TABLE_VERSION)]
    if own is not None:
        conditions.append(Condition("table_branch", "=", own))
    where = filter_expression(state.table.schema, conditions)
    read = state.table.read(["table_branch", "table_version", "metadata"], where)
    for row in read.to_pylist():
        if row["table_branch"] == own:
            document = json.loads(row["metadata"])
            lineage = TableLineage(document["incarnation"], own)
            yield lineage, document["table_branch_id"], row["table_version"]


def published_forks(state: BranchState) -> frozenset[str]:
    """Return the table branches that a branch has published, by their identifiers.

    One stays needed when the branch drops its type: by its own history, by tags, and by branches made from it.
    """
    return frozenset(identifier for _, identifier, _ in version_rows(state) if identifier)


def dropped_since(workspace: Workspace, moment: float) -> set[int]:
    """Return the tables that were part of a live branch at a moment or later, dropped ones among them.

    Only commits that change a schema drop tables. So what the first of them found there was there at
    that moment.
    """
    manifest = workspace.manifest
    found: set[int] = set()
    for name in (MAIN, *manifest.branch_names()):
        state = manifest.state(name)
        records = BranchRecords(manifest, state)
        young = takewhile(
            lambda commit: commit.created_us / 1_000_000 > moment,
            first_parents(records, records.head),
        )
        for commit in young:
            if "schema" in commit.facts and (commit.branch or MAIN) == name:
                try:
                    before = manifest.at_version(name, commit.manifest_version - 1)
                except OmniGraphError:
                    break  # trimmed already, with all that came before it
                found |= {table.incarnation for table in before.tables.values()}
    return found
