"""History and blame against a slow walk that looks at every commit, on random histories."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

import omnigraph as og
from omnigraph import failpoints
from omnigraph.changes.entity_history.results import HistoryEntry
from omnigraph.errors import OmniGraphError
from omnigraph.manifest.history import version_marks
from tests.histories.steps import CRASH_MOMENTS, Died

SCHEMA = """
node Person {
    slug: String @key
    city: String?
    age: I32?
}

edge Knows: Person -> Person {
    note: String?
}
"""
QUERIES = """
query city($s: String, $v: String) { update Person set { city: $v } where slug = $s }
query age($s: String, $a: I32) { update Person set { age: $a } where slug = $s }
query drop($s: String) { delete Person where slug = $s }
query add($s: String, $v: String) { insert Person { slug: $s, city: $v } }
query note($s: String, $v: String) { update Knows set { note: $v } where from = $s }
query link($a: String, $b: String) { insert Knows { from: $a, to: $b } }
"""
PEOPLE = [f"p{number}" for number in range(4)]
CITIES = ["oslo", "rome", "pisa"]
FIELDS = ("graph_commit_id", "op", "changed", "before", "after", "merged_by", "via")


class Driver:
    """Makes a random history: what it does is refused now and then, which changes nothing."""

    def __init__(self, graph: og.Graph, seed: int) -> None:
        self.graph = graph
        self.random = random.Random(seed)
        self.done: Counter[str] = Counter()
        self.made = 0
        self.added = 0
        self.city = "city"

    def run(self, steps: int) -> None:
        rules = [self.write] * 8 + [self.branch] * 3 + [self.merge] * 4
        rules += [self.revert, self.load, self.delete_branch, self.tidy, self.change_schema]
        rules += [self.rename, self.crash]
        self.take(rules, steps)

    def run_without_merges(self, steps: int) -> None:
        """Make a history of `main` alone."""
        self.take([self.write] * 8 + [self.revert, self.load, self.tidy, self.tag], steps)

    def take(self, rules: list[Callable[[], None]], steps: int) -> None:
        for _ in range(steps):
            rule = self.random.choice(rules)
            try:
                rule()
            except OmniGraphError:
                self.done["refused"] += 1
            else:
                self.done[rule.__name__] += 1

    def on(self) -> str:
        return self.random.choice(self.graph.branches.list())

    def write(self) -> None:
        name = self.random.choice(["city", "city", "age", "drop", "add", "note", "link"])
        who, value = self.random.choice(PEOPLE), self.random.choice(CITIES)
        params: dict[str, Any] = {"s": who, "v": value}
        if name == "age":
            params = {"s": who, "a": self.random.randrange(3)}
        elif name == "drop":
            params = {"s": who}
        elif name == "link":
            params = {"a": who, "b": self.random.choice(PEOPLE)}
        actor = self.random.choice(["ada", "bob"])
        queries = QUERIES.replace("city:", f"{self.city}:")
        self.graph.mutate(queries, name, params, branch=self.on(), actor=actor)

    def load(self) -> None:
        record = {"slug": self.random.choice(PEOPLE), self.city: self.random.choice(CITIES)}
        mode = self.random.choice(["merge", "overwrite"])
        records = [{"type": "Person", "data": record}]
        if mode == "overwrite":
            records = [
                {"type": "Person", "data": {"slug": who, self.city: record[self.city]}}
                for who in sorted({*self.random.sample(PEOPLE, 2), record["slug"]})
            ]
        self.graph.load(records, mode=mode, branch=self.on())

    def branch(self) -> None:
        self.made += 1
        self.graph.branches.create(f"b{self.made % 4}", from_=self.on())

    def merge(self) -> None:
        self.graph.branches.merge(
            self.on(),
            into=self.on(),
            resolve=self.random.choice(["ours", "theirs"]),
            granularity=self.random.choice(["entity", "property"]),
            actor="rita",
        )

    def revert(self) -> None:
        branch = self.on()
        commit = self.random.choice(self.graph.commits.list(branch))
        self.graph.commits.revert(commit.graph_commit_id, branch, resolve="theirs")

    def delete_branch(self) -> None:
        others = [name for name in self.graph.branches.list() if name != "main"]
        self.graph.branches.delete(self.random.choice(others or ["none"]))

    def tidy(self) -> None:
        self.graph.optimize(branch=self.on())

    def tag(self) -> None:
        """Keep the state that is the head now."""
        self.made += 1
        self.graph.tags.create(f"t{self.made}", at=self.graph.commits.list(self.on())[0])

    def crash(self) -> None:
        """Die in the middle of a write; the next handle goes on with it, or takes it back."""
        point = f"mutation.{self.random.choice(CRASH_MOMENTS)}"
        with suppress(Died), failpoints.arm(point, Died(point)):
            self.write()
        self.graph.close()
        self.graph = og.open(self.graph.uri)

    def rename(self) -> None:
        self.schema_alone()
        self.added += 1
        text = re.sub(r" @rename_from\(.*?\)", "", self.graph.schema.show().source)
        new = f"city{self.added}"
        line = f'    {new}: String? @rename_from("{self.city}")'
        self.graph.schema.apply(text.replace(f"    {self.city}: String?", line, 1))
        self.city = new

    def schema_alone(self) -> None:
        for name in reversed([name for name in self.graph.branches.list() if name != "main"]):
            self.graph.branches.delete(name)

    def free_the_way(self) -> None:
        """Delete all tags, and the branches that can go."""
        for tag in self.graph.tags.list():
            self.graph.tags.delete(tag.name)
        for _ in self.graph.branches.list():
            with suppress(og.errors.BranchInUse):
                self.schema_alone()

    def change_schema(self) -> None:
        self.schema_alone()
        self.added += 1
        text = re.sub(r" @rename_from\(.*?\)", "", self.graph.schema.show().source)
        added = f"    extra{self.added}: String?\n}}\n\nedge"
        if self.added % 2:
            added = f'    extra{self.added}: String = "new"\n}}\n\nedge'
        self.graph.schema.apply(text.replace("}\n\nedge", added, 1))


Images = dict[tuple[str, ...], Any]


class SlowWalk:
    """The definition, read literally: it looks at the entity at every commit that it comes to."""

    def __init__(
        self, graph: og.Graph, branch: str, named: tuple[str, str, str], images: Images
    ) -> None:
        self.graph = graph
        self.named = named
        self.branch = branch
        found = re.search(r"city\d*", graph.schema.show(branch=branch).source)
        assert found is not None
        self.today = found[0]
        self.records = graph.commits.history([branch], limit=1000).commits
        self.by_id = {one.graph_commit_id: one for one in self.records}
        self.order = [one.graph_commit_id for one in self.records]
        self.head = graph.snapshot(branch=branch).graph_commit_id
        self._images = images
        self.chain: list[str] = []
        at: str | None = self.head
        while at is not None:
            self.chain.append(at)
            at = self.by_id[at].parent_commit_id

    def image(self, commit: str) -> Any:
        """The image at a commit, None if absent; `gone` with a deleted branch."""
        key = (commit, *self.named, self.today)
        if key not in self._images:
            try:
                found = self.graph.entity(*self.named, snapshot=commit)
            except (og.errors.HistoryReclaimed, og.errors.CommitNotFound):
                self._images[key] = "gone"
            else:
                parts = ("properties", "endpoints")
                image = found and {part: found[part] for part in parts if part in found}
                self._images[key] = self._under_todays_names(image)
        return self._images[key]

    def _under_todays_names(self, image: Any) -> Any:
        """What was called `city` is called so once more, or `city3`."""
        if not image or "properties" not in image or self.named[0] == "edge":
            return image
        today = self.today
        properties = image["properties"].items()
        renamed = {today if one.startswith("city") else one: value for one, value in properties}
        return {**image, "properties": renamed}

    def is_readable(self, commit: str) -> bool:
        """Whether the state of a commit is there now, whatever it was when its image was read."""
        try:
            self.graph.entity(*self.named, snapshot=commit)
        except (og.errors.HistoryReclaimed, og.errors.CommitNotFound):
            return False
        return True

    def parents(self, commit: str) -> list[str]:
        record = self.by_id[commit]
        merged = record.merged_parent_commit_id
        first = [] if record.parent_commit_id is None else [record.parent_commit_id]
        return [*first, *([] if merged is None or self.image(merged) == "gone" else [merged])]

    def entries(self) -> list[dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        waiting, seen = [self.head], set()
        while waiting:
            commit = waiting.pop()
            if commit in seen:
                continue
            seen.add(commit)
            mine, parents = self.image(commit), self.parents(commit)
            equal = next((one for one in parents if self.image(one) == mine), None)
            if equal is not None:
                waiting.append(equal)
            elif mine is not None or parents:
                found[commit] = self._entry(commit, parents)
                waiting += parents
        return [found[name] for name in self.order if name in found]

    def _entry(self, commit: str, parents: list[str]) -> dict[str, Any]:
        mine = self.image(commit)
        before = next((image for one in parents if (image := self.image(one)) is not None), None)
        entry: dict[str, Any] = {"graph_commit_id": commit, "before": before, "after": mine}
        entry["op"] = "delete" if mine is None else "insert" if before is None else "update"
        entry["changed"] = None
        if entry["op"] == "update":
            others = [image for one in parents if (image := self.image(one)) is not None]
            entry["changed"] = sorted(
                name
                for part in ("properties", "endpoints")
                for name, value in mine.get(part, {}).items()
                if all(other[part][name] != value for other in others)
            )
        entry["merged_by"] = self.brought_by(commit)
        entry["via"] = None
        merged = self.by_id[commit].merged_parent_commit_id
        if merged is not None and self.image(merged) == "gone":
            first = self.by_id[commit].parent_commit_id
            brought = self.ancestors(merged) - self.ancestors(first)
            actors = {self.by_id[one].actor_id for one in brought} - {None}
            entry["via"] = {
                "graph_commit_id": merged,
                "branch": self.by_id[merged].branch,
                "actors": sorted(actors),
                "commits": len(brought),
            }
        return entry

    def blamed(self, name: str) -> str:
        """The commit whose value of a property is no parent's."""
        commit = self.head
        while True:
            mine = self.image(commit)["properties"][name]
            equal = None
            for one in self.parents(commit):
                other = self.image(one)
                if other is not None and other["properties"][name] == mine:
                    equal = one
                    break
            if equal is None:
                return commit
            commit = equal

    def ancestors(self, commit: str | None) -> set[str]:
        found: set[str] = set()
        waiting = [] if commit is None else [commit]
        while waiting:
            one = waiting.pop()
            if one not in found:
                found.add(one)
                waiting += self.by_id[one].parent_ids
        return found

    def brought_by(self, commit: str) -> str | None:
        if commit in self.chain:
            return None
        return next(one for one in reversed(self.chain) if commit in self.ancestors(one))


def entities(graph: og.Graph, branch: str) -> list[tuple[str, str, str]]:
    edges = [
        one for batch in graph.edges("Knows", branch=branch) for one in batch["id"].to_pylist()
    ]
    return [
        *(("node", "Person", who) for who in PEOPLE),
        *(("edge", "Knows", one) for one in edges),
    ]


def compare(graph: og.Graph, branches: list[str]) -> int:
    """Fail unless history and blame of all entities are those of the slow walk; return the entries."""
    count = 0
    images: Images = {}
    for branch in branches:
        for named in entities(graph, branch):
            slow = SlowWalk(graph, branch, named, images)
            wanted = slow.entries()
            if not wanted:
                with pytest.raises(og.errors.EntityNotFound):
                    graph.history(*named, branch=branch)
                continue
            page = graph.history(*named, branch=branch)
            got = [{key: one.to_json().get(key) for key in FIELDS} for one in page.entries]
            assert got == [{key: one[key] for key in FIELDS} for one in wanted], (branch, named)
            assert page.complete
            count += len(got)
            if slow.image(slow.head) is not None:
                blame = graph.blame(*named, branch=branch)
                blamed = {name: one["graph_commit_id"] for name, one in blame.properties.items()}
                assert blamed == {name: slow.blamed(name) for name in blamed}, (branch, named)
    return count


@pytest.mark.sampled(2, every=())
@pytest.mark.parametrize("seed", range(60))
def test_history_and_blame_are_those_of_a_walk_over_all_commits(tmp_path, seed, monkeypatch):
    if seed % 2:
        # As in a long history, where rows are looked for in the manifest.
        monkeypatch.setattr(version_marks, "_WINDOW", 3)
    with og.init(tmp_path / "graph", SCHEMA) as graph:
        graph.load([{"type": "Person", "data": {"slug": who}} for who in PEOPLE])
        driver = Driver(graph, seed)
        driver.run(25)
        with driver.graph as last:
            assert compare(last, last.branches.list()[:2]) > 5, driver.done


def check_after_cleanup(slow: SlowWalk, *, is_line: bool) -> int:
    """Fail unless every change that is told is a true one; return how many were told.

    ``slow`` has seen the entity at all commits before they were removed. Where the state before a change is there,
    the change is told whole. Otherwise something changed after the state that stands in for it.
    """
    try:
        told = slow.graph.history(*slow.named, branch=slow.branch).entries
    except og.errors.EntityNotFound:
        assert slow.image(slow.head) is None, slow.named
        return 0
    for one in told:
        commit = one.graph_commit_id
        assert slow.image(commit) in ("gone", one.after), (slow.named, commit)
        parents = slow.parents(commit)
        wanted = slow._entry(commit, parents)
        if one.reclaimed is None and one.via is None:
            got = {key: one.to_json().get(key) for key in FIELDS}
            assert got == {key: wanted[key] for key in FIELDS}, (slow.named, commit)
            continue
        if one.reclaimed is None:
            continue
        after = one.reclaimed["after"]
        if after is None:
            assert (one.before, one.changed) == (None, None)
            # An overwrite makes the row anew, which is all that is known of it then.
            assert one.op in (wanted["op"], "update") or one.operation == "load", commit
            continue
        before = slow.ancestors(after)
        assert commit not in before
        assert after in slow.ancestors(commit)
        if slow.by_id[commit].merged_parent_commit_id is None:
            assert one.before == slow.image(after), (slow.named, commit)
        assert any(
            all(slow.image(parent) != slow.image(each) for parent in slow.parents(each))
            for each in slow.ancestors(commit) - before
        ), (slow.named, commit)
    if is_line:
        check_line(slow, told)
    return len(told)


def check_line(slow: SlowWalk, told: list[HistoryEntry]) -> None:
    """Fail unless the changes on a line of commits, played back, give the image of every state that is left."""
    entries = iter(told)
    image, entry = slow.image(slow.head), next(entries, None)
    hidden = False  # between a change and the state that stands in for its parent
    for commit in slow.chain:
        if entry is not None and entry.reclaimed and commit == entry.reclaimed["after"] and hidden:
            image, hidden, entry = slow.image(commit), False, next(entries, None)
        if not hidden and slow.is_readable(commit):
            assert slow.image(commit) == image, (slow.named, commit)
        if entry is None or commit != entry.graph_commit_id:
            continue
        assert not hidden, (slow.named, commit)
        if entry.reclaimed is None:
            image, entry = entry.before, next(entries, None)
        elif entry.reclaimed["after"] is None:
            assert next(entries, None) is None
            older = slow.chain[slow.chain.index(commit) + 1 :]
            assert not any(map(slow.is_readable, older))
            return
        else:
            hidden = True
    assert entry is None
    assert not hidden


def driven(graph, seed) -> tuple[Driver, bool]:
    """A random history of 25 steps, and whether it is a line, without merges."""
    graph.load([{"type": "Person", "data": {"slug": who}} for who in PEOPLE])
    driver, is_line = Driver(graph, seed), seed % 2 == 0
    if is_line:
        driver.run_without_merges(25)
    else:
        driver.run(25)
    return driver, is_line


@pytest.mark.sampled(2, every=())
@pytest.mark.parametrize("seed", range(60))
def test_what_cleanup_leaves_of_a_history_is_true(tmp_path, seed):
    with og.init(tmp_path / "graph", SCHEMA) as graph:
        driver, is_line = driven(graph, seed)
        with driver.graph as last:
            images: Images = {}
            walks = [
                SlowWalk(last, branch, named, images)
                for branch in last.branches.list()[:2]
                for named in entities(last, branch)
            ]
            for slow in walks:
                for commit in slow.order:
                    slow.image(commit)
            last.cleanup(keep_versions=driver.random.choice([1, 1, 3]))
            told = [check_after_cleanup(slow, is_line=is_line) for slow in walks]
            assert sum(told) > 0, driver.done


@pytest.mark.sampled(2, every=())
@pytest.mark.parametrize("seed", range(60))
def test_what_a_purge_leaves_of_a_history_is_true(tmp_path, seed):
    """The states that held the purged person are gone: of all others the changes are told as far as they can be."""
    with og.init(tmp_path / "graph", SCHEMA) as graph:
        driver, is_line = driven(graph, seed)
        with driver.graph as last:
            driver.free_the_way()
            person = driver.random.choice(PEOPLE)
            images: Images = {}
            left, gone = [], []
            for named in entities(last, "main"):
                slow = SlowWalk(last, "main", named, images)
                seen = [slow.image(commit) for commit in slow.order]
                ends = [one["endpoints"].values() for one in seen if one and "endpoints" in one]
                is_gone = named[2] == person or any(person in each for each in ends)
                (gone if is_gone else left).append(named)
            try:
                last.purge({"Person": [person]})
            except og.errors.PurgeBlocked as refused:
                kept_by = {one["name"] for one in refused.details["obstacles"]} - {"main"}
                assert kept_by
                assert kept_by <= {*last.branches.list()}
                return
            for named in gone:
                with pytest.raises(og.errors.EntityNotFound):
                    last.history(*named)
            walks = [SlowWalk(last, "main", named, images) for named in left]
            for slow in walks:
                told = check_after_cleanup(slow, is_line=is_line)
                assert told or slow.image(slow.head) is None, slow.named
