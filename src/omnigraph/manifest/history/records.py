"""Commit records: lists of a branch, single commits, and pages of them by depth.

For example, with `main` at commit C3 (parents C3 -> C2 -> C1), ``list_commits`` returns ``[C3, C2,
C1]``. Their depths are 3, 2 and 1. A parent always has a smaller depth than its child, so records
are read a range of depths at a time, from the head down, and never all of them.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from omnigraph.clock import is_ulid
from omnigraph.errors import BadRequest, BranchNotFound, CommitNotFound
from omnigraph.manifest.branch_names import MAIN
from omnigraph.manifest.manifest import BranchState, Manifest, branch_not_found
from omnigraph.manifest.migrations import with_depths
from omnigraph.manifest.rows import GraphCommit
from omnigraph.storage.tables.table_errors import TableMissing, VersionMissing

Test = Callable[[GraphCommit], bool]
MayRead = Callable[[str], bool]
"""Whether a branch may be read by who asks."""

PAGE = 256
"""This many depths are read at first; every further page is twice as long."""
LONGEST_PAGE = 4096

MAINTENANCE = frozenset({"optimize", "ensure_indices", "relocate"})
"""Operations that change no content."""


class BranchRecords:
    """The commit records that one state of a branch holds, read in pages and then remembered.

    Whenever a branch holds a commit, it holds all ancestors of that commit too. ``page`` is the
    number of depths that are read at first, ``PAGE`` if not said.
    """

    def __init__(self, manifest: Manifest, state: BranchState, page: int | None = None) -> None:
        self.manifest = manifest
        self.state = state
        self._page = PAGE if page is None else page
        self._known: dict[str, GraphCommit] = {}
        self._covered: set[int] = set()
        self._all_known = False
        self.head = state.head.commit
        if self.head.depth == 0:
            # Written before depths were recorded, and not migrated because nobody has written since.
            self._known = with_depths(manifest.commits(state).values())
            self._all_known = True
            self.head = self._known[self.head.graph_commit_id]
        self._known[self.head.graph_commit_id] = self.head

    def find(self, graph_commit_id: str) -> GraphCommit | None:
        """Return one record, or None if the branch does not hold it."""
        found = self._known.get(graph_commit_id)
        if found is None and not self._all_known:
            found = self.manifest.commit(self.state, graph_commit_id)
            if found is not None:
                self._known[graph_commit_id] = found
        return found

    def holds(self, commit: GraphCommit) -> bool:
        """Return whether the branch holds this commit; a page around its depth is read."""
        self._read(commit.depth)
        return commit.graph_commit_id in self._known

    def parents(self, commit: GraphCommit) -> tuple[GraphCommit, ...]:
        """Return the parents of a commit that the branch holds, the first one first."""
        return tuple(self._parent(commit, parent) for parent in commit.parent_ids)

    def _parent(self, commit: GraphCommit, graph_commit_id: str) -> GraphCommit:
        if graph_commit_id not in self._known:
            # One of the parents is one less deep, and the other one is often close to it.
            self._read(commit.depth - 1)
        found = self.find(graph_commit_id)
        if found is None:
            raise commit_not_found(graph_commit_id)
        return found

    def _read(self, depth: int) -> None:
        """Read the page of records that ends with this depth, unless that was done before."""
        if self._all_known or depth in self._covered or depth < 1:
            return
        low = max(1, depth - self._page + 1)
        self._page = min(2 * self._page, LONGEST_PAGE)
        while low in self._covered:
            low += 1
        for name, record in self.manifest.commits(self.state, (low, depth)).items():
            self._known.setdefault(name, record)
        self._covered.update(range(low, depth + 1))


def first_parents(records: BranchRecords, start: GraphCommit) -> Iterator[GraphCommit]:
    """Yield a commit of a branch, its first parent, and so on down to genesis."""
    commit = start
    yield commit
    while commit.parent_commit_id is not None:
        commit = records.parents(commit)[0]
        yield commit


def everything(_branch: str) -> bool:
    """Whether a branch may be read, where nobody asks."""
    return True


def list_commits(
    manifest: Manifest,
    branch: str = MAIN,
    filters: str | Iterable[str] | None = None,
    limit: int | None = None,
    before: str | None = None,
    may_read: MayRead = everything,
) -> list[GraphCommit]:
    """Return the first-parent chain of a branch, newest first; ``limit`` applies after filtering.

    ``before`` is a commit of the chain: the list starts with the one after it. ``may_read`` tells of the
    branch on which a commit was made whether it is to be shown; otherwise it is as unknown.
    """
    check_limit(limit)
    tests = [parse_filter(text) for text in _filter_texts(filters)]
    records = BranchRecords(manifest, manifest.state(branch))
    found: list[GraphCommit] = []
    for commit in _chain(records, before, may_read):
        if may_read(commit.branch or MAIN) and all(test(commit) for test in tests):
            found.append(commit)
            if len(found) == limit:
                break
    return found


def check_limit(limit: object) -> None:
    """Refuse a limit that is no whole number from 1 on; None says nothing about it."""
    if limit is None or (isinstance(limit, int) and not isinstance(limit, bool) and limit >= 1):
        return
    raise BadRequest(f"limit is {limit!r}; it must be a whole number, at least 1")


def _chain(records: BranchRecords, before: object, may_read: MayRead) -> Iterator[GraphCommit]:
    """Yield the first-parent chain of a branch, from its head or from after a commit of it."""
    if before is None:
        return first_parents(records, records.head)
    last = records.find(before) if isinstance(before, str) else None
    is_shown = last is not None and may_read(last.branch or MAIN)
    if last is None or not is_shown or not _is_on_chain(records, last):
        raise BadRequest(
            f"before is {before!r}, which is no commit of branch `{records.state.name}`; give the "
            "id of one that its list shows"
        )
    chain = first_parents(records, last)
    next(chain)
    return chain


def _is_on_chain(records: BranchRecords, commit: GraphCommit) -> bool:
    """Return whether a commit that a branch holds is on its first-parent chain.

    Where the branch that made it cannot tell any more, the chain is walked down to its depth.
    """
    if not BranchLineage.of(records.manifest, records.state).has(commit):
        return False
    known = is_published(records.manifest, commit)
    if known is not None:
        return known
    deeper = itertools.takewhile(
        lambda one: one.depth >= commit.depth, first_parents(records, records.head)
    )
    return any(one.graph_commit_id == commit.graph_commit_id for one in deeper)


def _filter_texts(filters: object) -> Iterable[object]:
    """Return the filters as an iterable; a single filter need not be in a list."""
    if filters is None:
        return ()
    return (filters,) if isinstance(filters, str) or not isinstance(filters, Iterable) else filters


OPERATIONS: Final = (
    "init",
    "load",
    "mutation",
    "schema_apply",
    "branch_merge",
    "revert",
    "embed",
    "ensure_indices",
    "optimize",
    "repair",
    "recovery",
    "purge",
    "relocate",
)
"""What a commit may have come from."""

FILTERS: Mapping[str, Callable[[GraphCommit], Sequence[str | None]]] = {
    "actor": lambda commit: commit.actors,
    "branch": lambda commit: (commit.branch or MAIN,),
    "operation": lambda commit: (commit.operation,),
    "operation_id": lambda commit: commit.operation_ids or (None,),
}
"""What commits can be filtered by. Nothing after the `=` means commits that have none."""


def parse_filter(text: object) -> Test:
    """Return the test that a commit filter such as `actor=ada` stands for."""
    if not isinstance(text, str):
        raise BadRequest(f"a commit filter is a text such as actor=ada, not {text!r}")
    key, equals, value = text.partition("=")
    if not equals:
        raise BadRequest(f"the filter `{text}` has no `=`; write for example actor={text or 'ada'}")
    if key not in FILTERS:
        raise BadRequest(
            f"commits cannot be filtered by `{key}`; the keys are {', '.join(sorted(FILTERS))}"
        )
    if key == "operation" and is_ulid(value):
        key = "operation_id"
    if key == "operation" and value and value not in OPERATIONS:
        raise BadRequest(f"there is no operation `{value}`; they are {', '.join(OPERATIONS)}")
    if key == "operation_id":
        value = value.strip().upper()  # in any spelling that a write takes
    field = FILTERS[key]
    return lambda commit: any((one or "") == value for one in field(commit))


def find_commit(manifest: Manifest, graph_commit_id: str) -> GraphCommit:
    """Return the record of a commit, from whichever live branch holds it."""
    for branch in (MAIN, *manifest.branch_names()):
        # A branch that is deleted while this loop runs is no longer live.
        with contextlib.suppress(BranchNotFound):
            found = manifest.commit(manifest.state(branch), graph_commit_id)
            if found is not None:
                return found
    raise commit_not_found(graph_commit_id)


def find_by_prefix(
    manifest: Manifest, prefix: str, may_be: Callable[[GraphCommit], bool] = lambda _: True
) -> GraphCommit:
    """Return the only commit of the live branches whose id begins with a text.

    Those that ``may_be`` leaves out are as unknown.
    """
    found: dict[str, GraphCommit] = {}
    for branch in (MAIN, *manifest.branch_names()):
        with contextlib.suppress(BranchNotFound):
            for commit in manifest.commits_beginning(manifest.state(branch), prefix):
                found[commit.graph_commit_id] = commit
    fitting = [commit for commit in found.values() if may_be(commit)]
    if len(fitting) > 1:
        raise BadRequest(
            f"the ids of {len(fitting)} commits begin with `{prefix}`; give more of the one that is meant",
            snapshot=prefix,
        )
    if not fitting:
        raise commit_not_found(prefix)
    return fitting[0]


def commit_not_found(graph_commit_id: str) -> CommitNotFound:
    """Return the error for a commit that no live branch holds."""
    return CommitNotFound(
        f"no live branch holds the commit `{graph_commit_id}`; list the commits to see which there are",
        graph_commit_id=graph_commit_id,
    )


@dataclass(frozen=True, slots=True)
class BranchLineage:
    """The branches that a branch consists of, each with the versions that belong to it.

    ``versions`` has the version each was made from, and the last one that counts; None is no end.
    """

    versions: dict[str, tuple[int, int | None]]

    @classmethod
    def of(cls, manifest: Manifest, state: BranchState) -> BranchLineage:
        """Return the lineage of a branch, as the forks of the manifest tell it."""
        versions: dict[str, tuple[int, int | None]] = {}
        name, last = state.name, None
        while name != MAIN:
            made = manifest.branch(name)
            if made is None:
                raise branch_not_found(name)
            versions[name] = made.parent_version, last
            name, last = made.parent or MAIN, made.parent_version
        versions[MAIN] = 0, last
        return cls(versions)

    def has(self, commit: GraphCommit) -> bool:
        """Return whether a commit belongs to it, if its branch is the one that has its name today."""
        first, last = self.versions.get(commit.branch or MAIN, (None, None))
        if first is None:
            return False
        version = commit.manifest_version
        return version > first and (last is None or version <= last)


def is_published(manifest: Manifest, commit: GraphCommit) -> bool | None:
    """Return whether the live branch of its name has a commit; None if that cannot be read any more.

    A record may be that of a deleted branch whose name another one has now.
    """
    try:
        head = manifest.at_version(commit.branch or MAIN, commit.manifest_version)
    except (BranchNotFound, VersionMissing, TableMissing):
        return None
    return head.commit.graph_commit_id == commit.graph_commit_id
