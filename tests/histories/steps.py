"""One graph beside its model: the steps that the rules of random histories are made of."""

from __future__ import annotations

import io
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from hypothesis import note

import omnigraph
from omnigraph import failpoints
from omnigraph.commit.protocol import MOMENTS
from omnigraph.errors import BranchInUse, MergeConflicts
from tests.commit.synthetic import Died
from tests.histories.model import (
    Branch,
    Commit,
    Content,
    Home,
    Model,
    ancestors,
    equal_by_construction,
    first_parents,
    merge_bases,
    net_changes,
    three_way,
)
from tests.histories.plain import (
    as_record,
    conflicts_of,
    count_ops,
    images_of,
    read_content,
    schema,
)

MAX_BRANCHES = 6
CRASH_MOMENTS = [moment for moment in MOMENTS if moment != "before_locks"]

RAN: Counter[str] = Counter()
"""How often every rule has run, and every shape has occurred, over all histories of this process."""

SHAPES = {
    "shape: criss-cross",
    "shape: child of a fast-forwarded branch",
    "shape: base on a deleted branch",
    "merge: fast_forward",
    "merge: merged",
    "merge: already_up_to_date",
    "merge with conflicts",
    "reverted",
    "died",
    "ended",
    "asserted with rivals",
    "purged",
    "purge refused",
}
"""What must have occurred in the histories of a whole run."""


class Steps:
    """One graph beside its model, and the steps that rules are made of."""

    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp())
        self.graph = omnigraph.init(self.directory / "g", schema(0))
        self.names = self.steps = 0
        self.most_branches = self.most_bases = 1
        home = Home("main")
        genesis = self.record(self.graph.snapshot().commit, home, {}, ())
        self.model = Model({"main": Branch(home, genesis)}, commits=[genesis])

    def content(self, **where: Any) -> Content:
        out = io.BytesIO()
        self.graph.export(out, **where)
        return read_content(out.getvalue())

    def check_branch(self, branch: Branch) -> None:
        assert self.graph.snapshot(branch=branch.name).graph_commit_id == branch.head.id
        assert self.content(branch=branch.name) == branch.head.content
        chain = [commit.id for commit in first_parents(branch.head)]
        listed = self.graph.commits.list(branch.name)
        assert [commit.graph_commit_id for commit in listed] == chain

    def record(self, record: Any, home: Home, content: Content, parents: Any) -> Commit:
        return Commit(
            record.graph_commit_id,
            tuple(parents),
            content,
            record.operation,
            record.to_json()["created_at"],
            home,
            getattr(getattr(self, "model", None), "epoch", 0),
            record.facts.get("merge", {}).get("outcome") == "fast_forward",
        )

    def advance(self, branch: Branch, content: Content) -> None:
        """Take over the commits that the branch has got; the newest has this content."""
        known = {commit.id: commit for commit in self.model.commits}
        new = []
        for record in self.graph.commits.list(branch.name):
            if record.graph_commit_id in known:
                break
            new.append(record)
        assert new, "a commit was expected"
        for record in reversed(new):
            ids = (record.parent_commit_id, record.merged_parent_commit_id)
            parents = [known[one] for one in ids if one is not None]
            commit = self.record(record, branch.home, content, parents)
            assert commit.first is branch.head
            known[commit.id] = branch.head = commit
            self.model.commits.append(commit)
        self.check_branch(branch)

    def choose_branch(self, rnd: Random) -> Branch:
        return self.model.branches[rnd.choice(sorted(self.model.branches))]

    def new_name(self) -> str:
        # Names come again, so that a branch may be made under a name that another one had.
        self.names += 1
        free = [f"b{at}" for at in range(MAX_BRANCHES + 2) if f"b{at}" not in self.model.branches]
        return free[self.names % len(free)]

    def ran(self, what: str) -> None:
        RAN[what] += 1
        note(what)

    def load_rows(self, branch: Branch, rows: Content) -> None:
        self.graph.load([as_record(key, image) for key, image in rows.items()], branch=branch.name)

    def merged_by_fast_forward(self) -> set[Commit]:
        return {one.parents[1] for one in self.model.commits if one.is_fast_forward}

    def make_branch(self, made_from: Home, head: Commit, source: Any) -> Branch:
        name = self.new_name()
        made = self.graph.branches.create(name, from_=source)
        assert made.head_commit_id == head.id
        branch = Branch(Home(name, made_from), head)
        self.model.branches[name] = branch
        self.most_branches = max(self.most_branches, len(self.model.branches))
        self.check_branch(branch)
        return branch

    def delete_one(self, branch: Branch) -> bool:
        needed_by = self.needed_by(branch)
        try:
            self.graph.branches.delete(branch.name)
        except BranchInUse as refused:
            # A table may also be pinned by a branch that took it over, which only files tell.
            assert needed_by or not refused.details["by"].startswith("tag:")
            assert needed_by in {None, refused.details["by"]} or needed_by == "*"
            assert branch.name in self.graph.branches.list()
            return False
        assert needed_by is None, f"{branch.name} was needed by {needed_by}"
        if any(branch.home is base.home for base in self.bases_without(branch)):
            RAN["shape: base on a deleted branch"] += 1
        branch.home.is_alive = False
        del self.model.branches[branch.name]
        assert branch.name not in self.graph.branches.list()
        return True

    def bases_without(self, without_: Branch) -> set[Commit]:
        """Every merge base candidate of every pair of the other branches."""
        others = [one for one in self.model.branches.values() if one is not without_]
        return {
            base
            for at, one in enumerate(others)
            for other in others[at + 1 :]
            for base in merge_bases(one.head, other.head)
        }

    def needed_by(self, branch: Branch) -> str | None:
        """Who needs the branch: "*" if somebody does for certain."""
        for other in self.model.branches.values():
            home = other.home.made_from
            while home is not None:
                if home is branch.home and other is not branch:
                    return "*"
                home = home.made_from
        tags = sorted(
            name for name, commit in self.model.tags.items() if commit.home is branch.home
        )
        for base in self.bases_without(branch):
            equal = equal_by_construction(self.model.commits, base)
            known = set().union(*(ancestors(o.head) for o in self.model.branches.values()))
            left = [
                one for one in equal & known if one.home.is_alive and one.home is not branch.home
            ]
            if not left:
                return "*"
            if not any(one.must_be_readable for one in left):
                # A cleanup may have left only the copy on this branch.
                return "*" if tags else None
        return f"tag:{tags[0]}" if tags else None

    def base_of(self, source: Branch, into: Branch) -> Commit:
        """The base of a merge."""
        bases = merge_bases(source.head, into.head)
        self.most_bases = max(self.most_bases, len(bases))
        if len(bases) > 1:
            RAN["shape: criss-cross"] += 1
        if not bases[0].home.is_alive:
            RAN["shape: merge with a base on a deleted branch"] += 1
        return bases[0]

    @staticmethod
    def outcome_of(base: Commit, source: Branch, into: Branch) -> str:
        """What a merge comes to by its heads."""
        if base is source.head.effective:
            return "already_up_to_date"
        return "fast_forward" if base is into.head.effective else "merged"

    def merge_one(self, rnd: Random, source: Branch, into: Branch) -> None:
        base = self.base_of(source, into)
        outcome = self.outcome_of(base, source, into)
        by_property = rnd.random() < 0.4
        sides = (base.content, source.head.content, into.head.content)
        resolve = self.resolution(rnd, sides, outcome, by_property=by_property)
        expected = three_way(*sides, by_property=by_property, resolve=resolve)
        options: dict[str, Any] = {
            "granularity": "property" if by_property else "entity",
            "resolve": resolve,
        }
        planned = self.graph.branches.merge(source.name, into.name, dry_run=True, **options)
        assert (planned.outcome, planned.base_commit_id) == (outcome, base.id)
        assert conflicts_of(planned.conflicts) == expected.conflicts
        try:
            merged = self.graph.branches.merge(source.name, into.name, **options)
        except MergeConflicts as refused:
            RAN["merge with conflicts"] += 1
            kinds = {one.kind for one in expected.conflicts}
            RAN["two homes at once after a merge"] += "cardinality_violation" in kinds
            assert conflicts_of(refused.details["conflicts"]) == expected.conflicts
            self.check_branch(into)
            return
        assert not expected.conflicts
        assert (merged.outcome, merged.base_commit_id) == (outcome, base.id)
        RAN[f"merge: {outcome}"] += 1
        if outcome == "already_up_to_date":
            assert merged.commit is None
            self.check_branch(into)
            return
        changed = net_changes(into.head.content, expected.content)
        counts = count_ops(changed)
        for stats in (planned.stats, merged.stats):
            assert (stats.inserts, stats.updates, stats.deletes) == counts
        assert merged.stats.resolved == expected.resolved
        self.advance(into, expected.content)
        assert into.head.effective.parents[1] is source.head
        self.check_changes(into.head.effective)

    def resolution(
        self,
        rnd: Random,
        sides: tuple[Content, Content, Content],
        outcome: str,
        *,
        by_property: bool,
    ) -> Any:
        """No resolution, a word, or a mapping for some of the conflicts there are."""
        kind = rnd.choice([None, "ours", "theirs", "mapping"])
        if kind != "mapping":
            return kind
        open_ = three_way(*sides, by_property=by_property).conflicts
        entities = [
            one for one in open_ if one.kind not in ("orphan_edge", "cardinality_violation")
        ]
        if outcome != "merged" or not entities:
            return None
        words = ["ours", "theirs", None]
        return {
            (one.table_key, one.row_id): rnd.choice(words)
            for one in sorted(entities, key=lambda one: (one.table_key, one.row_id))
            if rnd.random() < 0.9
        } or None

    def check_changes(self, commit: Commit) -> None:
        """What a commit says it changed is what it changed."""
        page = self.graph.commits.changes(commit.id)
        assert images_of(page.changes) == net_changes(commit.first.content, commit.content)

    def die(self, rnd: Random, writer: str, work: Callable[[], object]) -> None:
        point = f"{writer}.{rnd.choice(CRASH_MOMENTS)}"
        try:
            with failpoints.arm(point, Died(point), skip=rnd.choice([0, 0, 1])):
                work()
        except Died:
            RAN["died"] += 1
        except MergeConflicts:
            pass
        self.open_again()

    def settle(self, branch: Branch, before: Content, after: Content) -> None:
        found = self.content(branch=branch.name)
        assert found in (before, after)
        if self.graph.snapshot(branch=branch.name).graph_commit_id != branch.head.id:
            self.advance(branch, found)
        else:
            assert found == before
            self.check_branch(branch)

    def open_again(self) -> None:
        self.graph.close()
        self.graph = omnigraph.open(self.directory / "g")
