"""What stands in the way of a purge: whatever must keep a state that holds a purged entity."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from omnigraph.maintenance.cleanup.cleanup import foresee
from omnigraph.maintenance.cleanup.keep_set import Policy, TableLineage, keep_set
from omnigraph.maintenance.cleanup.survey import Survey, facts_of
from omnigraph.maintenance.purge.look import TableLook
from omnigraph.manifest.branch_names import MAIN
from omnigraph.manifest.history.records import BranchRecords, first_parents
from omnigraph.manifest.manifest import BranchState, Manifest
from omnigraph.manifest.rows import TABLE_VERSION, TableState
from omnigraph.manifest.workspace import lance_branch
from omnigraph.storage.filters import Condition, filter_expression


class Obstacle(NamedTuple):
    """One thing that keeps a state: a `branch`, `tag`, `lease`, `lance_tag` or pending write (`sidecar`)."""

    kind: str
    name: str
    table_key: str

    def to_json(self) -> dict[str, str]:
        """Return the public form."""
        return self._asdict()


def find_obstacles(found: Survey, looks: Iterable[TableLook]) -> list[Obstacle]:
    """Return what keeps versions that hold purged entities, sorted; heads that can be moved on keep nothing."""
    kept = keep_set(facts_of(foresee(found), Policy()))
    obstacles = set()
    for one in looks:
        for branch, versions in one.versions.items():
            lineage = TableLineage(one.found.table.incarnation, branch)
            for version in versions:
                for reason in kept.get(lineage, {}).get(version, ()):
                    kind, _, name = reason.partition(":")
                    for named_kind, named in _named(kind, name, branch):
                        obstacles.add(Obstacle(named_kind, named, one.found.table.table_key))
    return sorted(obstacles)


def _named(kind: str, name: str, table_branch: str | None) -> Iterator[tuple[str, str]]:
    """Yield the obstacles that a reason to keep a version of a table branch stands for."""
    if kind == "head":
        if lance_branch(name) != table_branch:
            yield "branch", name
    elif kind == "merge_base":
        yield from (("branch", one) for one in name.split("..") if one != MAIN)
    elif kind == "fork":
        yield "branch", name
    elif kind in ("tag", "lease", "lance_tag", "sidecar"):
        yield kind, name


def own_pins(
    state: BranchState, looks: Iterable[TableLook]
) -> Iterator[tuple[TableState, TableLook]]:
    """Yield the tables of a branch whose pinned versions hold purged entities."""
    by_number = {one.found.table.incarnation: one for one in looks}
    for pin in state.head.tables.values():
        look = by_number.get(pin.incarnation)
        if (
            look is not None
            and look.identifier(pin.table_branch) == pin.table_branch_id
            and pin.table_version in look.versions.get(pin.table_branch, ())
        ):
            yield pin, look


def unreadable_commits(
    manifest: Manifest, states: Mapping[str, BranchState], looks: Iterable[TableLook]
) -> list[str]:
    """Return the commits that will be `history_reclaimed`: those that pin a version which goes, sorted."""
    doomed = {
        (one.found.table.incarnation, branch, version)
        for one in looks
        for branch, versions in one.versions.items()
        for version in versions
    }
    found: set[str] = set()
    for state in states.values():
        moved = _moved_by(manifest, state)
        records = BranchRecords(manifest, state)
        pins: dict[int, tuple[int, str | None, int]] = {}
        for commit in reversed(list(first_parents(records, records.head))):
            pins.update(moved.get(commit.graph_commit_id, {}))
            if not doomed.isdisjoint(pins.values()):
                found.add(commit.graph_commit_id)
    return sorted(found)


def _moved_by(
    manifest: Manifest, state: BranchState
) -> dict[str, dict[int, tuple[int, str | None, int]]]:
    """Return by commit which versions of tables it published."""
    where = filter_expression(state.table.schema, [Condition("object_type", "=", TABLE_VERSION)])
    assert where is not None, "the filter tests something"
    columns = ("object_id", "base_objects", "table_version", "table_branch")
    found: dict[str, dict[int, tuple[int, str | None, int]]] = {}
    for row in manifest.read_rows(state, where, columns):
        number = _incarnation(row)
        for one in row["base_objects"] or ():
            if one.startswith("commit:"):
                place = number, row["table_branch"], row["table_version"]
                found.setdefault(one.removeprefix("commit:"), {})[number] = place
    return found


def _incarnation(row: Mapping[str, Any]) -> int:
    return int(row["object_id"].removeprefix("version:").partition("@")[0])
