"""`verify`: is every file of every state there, can it be read, and does it agree with what is known of it?

The states are all versions that are there of all tables, on all branches: the heads, what tags name, and the
past that no cleanup has removed. Files are read in a process of their own (``apart``), because damage can
end the process that reads it, and because caches of this one would hide it. No lock is taken. What a
cleanup removes meanwhile is no problem: it is looked at again before it is reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import unquote

from omnigraph.commit.heal import dead_writers
from omnigraph.errors import HistoryReclaimed, OmniGraphError
from omnigraph.lang.schema.catalog import Catalog
from omnigraph.maintenance.verify.apart import CheckProcess
from omnigraph.maintenance.verify.lineage_check import LineageTask, PinnedVersion, paths_below
from omnigraph.maintenance.verify.report import RESTORE, Problem, VerifiedTable, VerifyReport
from omnigraph.maintenance.verify.rules_check import broken_rules
from omnigraph.manifest.branch_names import MAIN
from omnigraph.manifest.history.resolve import resolve_commit
from omnigraph.manifest.history.tags import list_tags
from omnigraph.manifest.manifest import BranchState
from omnigraph.manifest.row_reads import read_table_states
from omnigraph.manifest.rows import OF_TABLES, TableState
from omnigraph.manifest.schema_row import mirrors_agree
from omnigraph.manifest.workspace import Workspace
from omnigraph.storage import layout
from omnigraph.storage.table_files import TableFiles, table_files
from omnigraph.storage.tables.branch_refs import read_branch
from omnigraph.storage.tables.table import manifest_path

GRAPH = "graph"
Progress = Callable[[int, int], object]
Key = tuple[str, str | None]
"""A branch of a table: its location and the name of the branch, None on the main lineage."""


@dataclass
class _Known:
    """What the graph says of its tables: who pins which version, and how tables are called."""

    pins: dict[Key, dict[int, PinnedVersion]] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)
    heads: dict[str, BranchState] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def pin(self, table: TableState, state: str) -> None:
        """Note that a state needs a version of a table."""
        self.keys[table.location] = table.table_key
        versions = self.pins.setdefault((table.location, table.table_branch), {})
        known = versions.get(table.table_version)
        states = (state,) if known is None else (*known.states, state)
        versions[table.table_version] = PinnedVersion(states, table.row_count)


def verify(
    workspace: Workspace,
    catalog_at: Callable[[BranchState], Catalog],
    *,
    deep: bool = False,
    progress: Progress = lambda _done, _total: None,
) -> VerifyReport:
    """Verify a graph; whatever is damaged becomes a problem of a row, and no error."""
    known = _look(workspace)
    files = _lineages(workspace)
    # Listed after the versions: what a version names was there before it.
    sizes = _sizes(workspace)
    keys = sorted(files, key=lambda key: (known.keys.get(key[0], ""), key[0], key[1] or ""))
    rows: list[VerifiedTable] = []
    seen: dict[str, frozenset[str]] = {}
    total = sum(path.endswith((".lance", ".manifest", ".txn", ".idx")) for path in sizes)
    done = 0

    def step(_: str) -> None:
        nonlocal done
        done += 1
        progress(min(done, total), total)

    with CheckProcess(step) as reader:
        for key in keys:
            location, branch = key
            task = LineageTask(
                table_key=known.keys.get(location, GRAPH),
                ref=workspace.ref(location).on(branch),
                location=location,
                versions=tuple(files[key]),
                sizes=paths_below(sizes, location),
                deep=deep,
                pins=known.pins.get(key, {}),
                seen=seen.get(location, frozenset()),
            )
            row, met = _checked(workspace, reader, task)
            seen[location] = task.seen | met
            rows.append(row)
    rows = _with_lost(workspace, rows, known, files)
    rows = _with_rules(workspace, catalog_at, known, rows)
    problems = [*known.problems, *_of_graph(workspace, known)]
    rows.append(VerifiedTable(GRAPH, MAIN, problems=tuple(problems)))
    return VerifyReport(deep, tuple(_merged(rows)))


def _checked(
    workspace: Workspace, reader: CheckProcess, task: LineageTask
) -> tuple[VerifiedTable, frozenset[str]]:
    row = VerifiedTable(task.table_key, task.ref.branch or MAIN, len(task.versions))
    try:
        checked, problems = reader.check(task)
    except OmniGraphError as error:
        return row.with_problems([_problem(error)]), frozenset()
    still = [one for one in problems if _still_matters(workspace, task, one)]
    row = replace(
        row,
        files=sum(path in task.sizes for path in checked.files - task.seen),
        bytes=checked.bytes,
        rows=checked.rows,
        problems=tuple(still),
    )
    return row, frozenset(checked.files)


def _still_matters(workspace: Workspace, task: LineageTask, problem: Problem) -> bool:
    """Whether the version that needs a file is still there; a cleanup may have removed both."""
    first = next((one for one in problem.states if one.startswith("version ")), None)
    if first is None or problem.kind != "lost":
        return True
    branch = task.ref.branch
    where = task.location if branch is None else f"{task.location}/tree/{branch}"
    return workspace.store.exists(f"{where}/{manifest_path(int(first.split()[1]))}")


def _merged(rows: list[VerifiedTable]) -> Iterator[VerifiedTable]:
    """One row for each table and branch: what was a table of that name before counts with it."""
    together: dict[tuple[str, str], VerifiedTable] = {}
    for row in rows:
        key = row.table_key, row.branch
        one = together.get(key)
        together[key] = row if one is None else _sum(one, row)
    yield from (together[key] for key in sorted(together))


def _sum(a: VerifiedTable, b: VerifiedTable) -> VerifiedTable:
    return replace(
        a,
        versions=a.versions + b.versions,
        files=a.files + b.files,
        bytes=a.bytes + b.bytes,
        rows=a.rows + b.rows,
        problems=(*a.problems, *b.problems),
    )


# ------------------------------------------------------------------ what the graph knows


def _look(workspace: Workspace) -> _Known:
    """Read the heads of all branches, and the states of all tags."""
    known = _Known()
    manifest = workspace.manifest
    try:
        names = [MAIN, *manifest.branch_names()]
    except OmniGraphError as error:
        known.problems.append(_problem(error))
        names = [MAIN]
    for name in names:
        try:
            state = manifest.state(name)
            known.heads[name] = state
            for table in state.head.tables.values():
                known.pin(table, f"head:{name}")
            rows = read_table_states(manifest.table_rows(state, OF_TABLES))
            if {one.identity for one in rows.values()} != {
                one.identity for one in state.head.tables.values()
            }:
                what = f"the rows about tables on `{name}` do not add up to the head of the branch"
                known.problems.append(Problem("state", what, RESTORE, layout.MANIFEST))
        except (OmniGraphError, ValueError, LookupError, TypeError) as error:
            known.problems.append(_problem(error, f"head:{name}"))
    try:
        for tag in list_tags(manifest):
            _look_at_tag(workspace, known, tag)
    except (OmniGraphError, ValueError, LookupError, TypeError) as error:
        known.problems.append(_problem(error))
    return known


def _look_at_tag(workspace: Workspace, known: _Known, tag: Any) -> None:
    name = f"tag:{tag.name}"
    try:
        _, snapshot = resolve_commit(workspace.manifest, tag)
        for table in snapshot.tables.values():
            known.pin(table, name)
    except HistoryReclaimed as error:
        detail = f"its state is gone: {error.message}"
        known.problems.append(
            Problem("state", detail, f"omnigraph tag delete {tag.name}", None, (name,))
        )
    except (OmniGraphError, ValueError, LookupError, TypeError) as error:
        known.problems.append(_problem(error, name))


def _problem(error: Exception, *states: str) -> Problem:
    text = error.message if isinstance(error, OmniGraphError) else repr(error)
    return Problem("state", text, RESTORE, None, states)


# ------------------------------------------------------------------ what lies on the store


_PLACES = (*layout.TABLE_DIRS, layout.MANIFEST, layout.RECOVERY_AUDIT)


def _sizes(workspace: Workspace) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for place in _PLACES:
        sizes |= workspace.store.sizes(place)
    return sizes


def _lineages(workspace: Workspace) -> dict[Key, list[int]]:
    """The versions that are there of each branch of each table."""
    sizes = _sizes(workspace)
    audit = {
        f"{layout.MANIFEST}/{path.removeprefix(f'{layout.RECOVERY_AUDIT}/')}": size
        for path, size in sizes.items()
        if path.startswith(f"{layout.RECOVERY_AUDIT}/")
    }
    own = {path: size for path, size in sizes.items() if not path.startswith(layout.RECOVERY_AUDIT)}
    found: dict[str, TableFiles] = table_files(own)
    if audit:
        found[layout.RECOVERY_AUDIT] = table_files(audit)[layout.MANIFEST]
    return {
        (location, branch): sorted(one.versions)
        for location, table in found.items()
        for branch, one in table.items()
        if one.versions
    }


def _with_lost(
    workspace: Workspace,
    rows: list[VerifiedTable],
    known: _Known,
    files: Mapping[Key, list[int]],
) -> list[VerifiedTable]:
    """Add the versions that a head or a tag needs and that are not there."""
    for (location, branch), pins in known.pins.items():
        there = set(files.get((location, branch), ()))
        where = location if branch is None else f"{location}/tree/{branch}"
        for version, pinned in pins.items():
            path = f"{where}/{manifest_path(version)}"
            if version in there or workspace.store.exists(path):
                continue
            mend = f"{RESTORE}, or go back to a state that is there: omnigraph log"
            problem = Problem("lost", "it is not there", mend, path, pinned.states)
            row = VerifiedTable(known.keys[location], branch or MAIN, problems=(problem,))
            rows = [*rows, row]
    return rows


# ------------------------------------------------------------------ rules, and the graph itself


def _with_rules(
    workspace: Workspace,
    catalog_at: Callable[[BranchState], Catalog],
    known: _Known,
    rows: list[VerifiedTable],
) -> list[VerifiedTable]:
    """Check the rules of each branch over the tables that can be read."""
    bad = {row.table_key for row in rows if any(one.kind != "index" for one in row.problems)}
    judged: set[frozenset[Any]] = set()
    for name, state in known.heads.items():
        pins = {key: pin for key, pin in state.head.tables.items() if key not in bad}
        same = frozenset(pin.identity for pin in pins.values())
        if not pins or same in judged:
            continue
        judged.add(same)
        try:
            found = list(broken_rules(workspace, catalog_at(state), pins))
        except OmniGraphError as error:
            rows = [*rows, VerifiedTable(GRAPH, name, problems=(_problem(error, f"head:{name}"),))]
            continue
        for one in found:
            mend = (
                f"change the rows, or {RESTORE.replace('the file', 'the data files of the table')}"
            )
            problem = Problem("rule", one.detail, mend, None, (f"head:{name}",))
            rows = [*rows, VerifiedTable(one.table_key, name, problems=(problem,))]
    return rows


def _of_graph(workspace: Workspace, known: _Known) -> Iterator[Problem]:
    main = known.heads.get(MAIN)
    again = "open the graph for writing, which writes it again: omnigraph repair --confirm"
    if main is not None:
        try:
            if not mirrors_agree(workspace.store, workspace.manifest.schema(main)):
                names = ", ".join(layout.SCHEMA_MIRRORS)
                yield Problem("schema", f"{names} are not the accepted schema", again)
        except (OmniGraphError, ValueError, LookupError, TypeError) as error:
            yield replace(_problem(error), kind="schema", mend=again)
        try:
            for one in dead_writers(workspace):
                detail = f"the operation {one.operation_id} stopped half way"
                yield Problem("recovery", detail, "omnigraph repair --confirm", one.name)
        except OmniGraphError as error:
            yield replace(_problem(error), kind="recovery")
    yield from _refs(workspace)


def _refs(workspace: Workspace) -> Iterator[Problem]:
    """Yield refs of branches that cannot be read, and branches of the graph that have lost theirs."""
    sizes = _sizes(workspace)
    branches: dict[str, set[str]] = {}
    for path in sizes:
        location, found, name = path.partition("/_refs/branches/")
        if not found or not name.endswith(".json"):
            continue
        branch = unquote(name.removesuffix(".json"))
        branches.setdefault(location, set()).add(branch)
        try:
            read_branch(workspace.store, location, branch)
        except OmniGraphError as error:
            yield replace(_problem(error), kind="damaged", file=path)
    for path in sorted(sizes):
        head, found, rest = path.partition("/tree/")
        if not found or "/_versions/" not in rest or not rest.endswith(".manifest"):
            continue
        branch = rest.partition("/_versions/")[0]
        if branch not in branches.setdefault(head, set()):
            branches[head].add(branch)
            yield Problem(
                "state",
                f"files of a branch `{branch}` are there, and what says that it is one is not",
                f"{RESTORE}; if the branch was deleted: omnigraph cleanup --confirm",
                f"{head}/_refs/branches/{branch}.json",
            )
