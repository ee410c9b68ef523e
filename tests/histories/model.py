"""A graph with branches in plain dicts: what every operation on history must lead to.

It is slow and obvious on purpose. A commit holds the whole content of the graph, ancestors are sets, and a
merge looks at every entity there is. Nothing here knows tables, files or versions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

Key = tuple[str, str]
"""Table key and id of an entity."""
Image = Mapping[str, Any]
"""The properties of an entity, nulls included; of an edge also `from` and `to`."""
Content = dict[Key, Image]

ENDS = {"edge:Knows": ("node:Person", "node:Person"), "edge:LivesIn": ("node:Person", "node:Place")}
ONE_AT_A_TIME = "edge:LivesIn"
"""The edges with a period, of which a source has one at any moment."""
PERIOD = ("since", "until")
MAINTENANCE = {"optimize", "ensure_indices"}
OPEN = "open"
"""The word for an entity in conflict that nobody decided."""


@dataclass(eq=False)
class Home:
    """One life of a branch name: a branch made again under the name is another one."""

    name: str
    made_from: Home | None = None
    is_alive: bool = True


@dataclass(eq=False)
class Commit:
    """One commit with all that the graph held after it.

    ``epoch`` counts schema changes, ``may_be_reclaimed`` says whether a cleanup or a purge after it may have removed
    its state, ``is_purged`` whether a purge has removed it for certain.
    """

    id: str
    parents: tuple[Commit, ...]
    content: Content
    operation: str
    created_at: int
    home: Home
    epoch: int = 0
    is_fast_forward: bool = False
    may_be_reclaimed: bool = False
    is_purged: bool = False

    @property
    def first(self) -> Commit:
        return self.parents[0]

    @property
    def effective(self) -> Commit:
        """The commit itself; of maintenance, the first parent that changed something."""
        commit = self
        while commit.operation in MAINTENANCE:
            commit = commit.first
        return commit

    @property
    def must_be_readable(self) -> bool:
        return self.home.is_alive and not self.may_be_reclaimed


@dataclass(eq=False)
class Branch:
    """A live branch: where it began, and its newest commit."""

    home: Home
    head: Commit

    @property
    def name(self) -> str:
        return self.home.name


@dataclass
class Model:
    """The whole graph: its branches, its tags and every commit that was ever made."""

    branches: dict[str, Branch]
    tags: dict[str, Commit] = field(default_factory=dict)
    commits: list[Commit] = field(default_factory=list)
    epoch: int = 0


# ------------------------------------------------------------------ ancestry


def ancestors(commit: Commit) -> set[Commit]:
    """The commit and all that lead to it, over both parents."""
    found: set[Commit] = set()
    left = [commit]
    while left:
        one = left.pop()
        if one not in found:
            found.add(one)
            left += one.parents
    return found


def distance(head: Commit, to: Commit) -> int:
    """The fewest steps from a head to an ancestor; maintenance is no step."""
    reached = {head.effective}
    steps = 0
    while to not in reached:
        reached = {parent.effective for one in reached for parent in one.parents}
        steps += 1
    return steps


def merge_bases(one: Commit, other: Commit) -> list[Commit]:
    """All candidates for the base, the one to take first."""
    common = {c.effective for c in ancestors(one) & ancestors(other)}
    best = [c for c in common if not any(c in ancestors(o) for o in common if o is not c)]
    return sorted(
        best,
        key=lambda c: (-(distance(one, c) + distance(other, c)), c.created_at, c.id),
        reverse=True,
    )


def first_parents(commit: Commit) -> Iterator[Commit]:
    """The chain that a list of commits shows, newest first."""
    while True:
        yield commit
        if not commit.parents:
            return
        commit = commit.first


def equal_by_construction(commits: list[Commit], commit: Commit) -> set[Commit]:
    """The commits whose content is the same because of how they were made."""
    pairs = []
    for one in commits:
        if one.is_fast_forward:
            pairs.append((one, one.parents[1]))
        if one.operation in MAINTENANCE:
            pairs.append((one, one.first))
    found = {commit}
    while True:
        more = {b for a, b in pairs if a in found} | {a for a, b in pairs if b in found}
        if more <= found:
            return found
        found |= more


# ------------------------------------------------------------------ merge


@dataclass(frozen=True)
class Conflict:
    """What a report says of one conflict, as far as it is compared."""

    kind: str
    table_key: str
    row_id: str | None
    properties: tuple[str, ...] = ()


@dataclass
class Merged:
    """The content of a merge, or why there is none."""

    content: Content
    conflicts: set[Conflict]
    resolved: int


def three_way(
    base: Content,
    source: Content,
    target: Content,
    *,
    by_property: bool,
    resolve: Any = None,
    one_home: bool = True,
) -> Merged:
    """Merge what the source changed since the base into the target.

    ``resolve`` is "ours", "theirs", or a mapping from keys to one of these words or to None (deleted).
    ``one_home``: the schema lets nobody live in two places at one moment.
    """
    result: Content = {}
    conflicts: set[Conflict] = set()
    deleted: set[Key] = set()
    resolved = 0
    for key in base.keys() | source.keys() | target.keys():
        old, theirs, ours = base.get(key), source.get(key), target.get(key)
        kind, properties, image = _cell(old, theirs, ours, by_property=by_property)
        if kind is not None:
            word = resolve.get(key, OPEN) if isinstance(resolve, Mapping) else resolve or OPEN
            if word == OPEN:
                conflicts.add(Conflict(kind, *key, properties))
                continue
            resolved += 1
            image = _resolved(word, old, theirs, ours, by_property=by_property)
            if word is None:
                deleted.add(key)
        if image is not None:
            result[key] = image
    if conflicts:
        return Merged(target, conflicts, resolved)
    for key in list(result):
        if any(end in deleted for end in _ends(key, result[key])) and (
            base.get(key) == source.get(key) == target.get(key)
        ):
            del result[key]
    orphans = {
        Conflict("orphan_edge", *key)
        for key, image in result.items()
        if any(end not in result for end in _ends(key, image))
    }
    broken = orphans | {
        Conflict("cardinality_violation", ONE_AT_A_TIME, None)
        for _ in (crowded(result) if one_home else ())
    }
    return Merged(target if broken else result, broken, resolved)


def _ends(key: Key, image: Image) -> list[Key]:
    kinds = ENDS.get(key[0])
    return [] if kinds is None else [(kinds[0], image["from"]), (kinds[1], image["to"])]


def _cell(
    old: Image | None, theirs: Image | None, ours: Image | None, *, by_property: bool
) -> tuple[str | None, tuple[str, ...], Image | None]:
    """The conflict of an entity with the properties behind it, or else its merged image."""
    if theirs in (old, ours):
        return None, (), ours
    if ours == old:
        return None, (), theirs
    if old is None:
        return "divergent_insert", (), None
    if theirs is None or ours is None:
        return "delete_vs_update", (), None
    if not by_property:
        return "divergent_update", (), None
    clash = [
        name for unit in _units(old) if _clashes(unit, old, theirs, ours) for name in sorted(unit)
    ]
    if clash:
        return "divergent_update", tuple(sorted(clash)), None
    return None, (), _combined(old, theirs, ours, prefer=ours)


def _units(image: Image) -> list[tuple[str, ...]]:
    """What is decided as one: a property, both ends of an edge, or both of a period."""
    several = [unit for unit in (("from", "to"), PERIOD) if set(unit) <= image.keys()]
    others = image.keys() - {name for unit in several for name in unit}
    return [*several, *((name,) for name in image if name in others)]


def _part(image: Image, unit: tuple[str, ...]) -> list[Any]:
    return [image[name] for name in unit]


def _clashes(unit: tuple[str, ...], old: Image, theirs: Image, ours: Image) -> bool:
    was, there, here = (_part(image, unit) for image in (old, theirs, ours))
    return was not in (there, here) and there != here


def _combined(old: Image, theirs: Image, ours: Image, prefer: Image) -> Image:
    image = dict(ours)
    for unit in _units(old):
        if _clashes(unit, old, theirs, ours):
            chosen = prefer
        else:
            chosen = theirs if _part(theirs, unit) != _part(old, unit) else ours
        image.update({name: chosen[name] for name in unit})
    return image


def _resolved(
    word: str | None,
    old: Image | None,
    theirs: Image | None,
    ours: Image | None,
    *,
    by_property: bool,
) -> Image | None:
    if word is None:
        return None
    side = theirs if word == "theirs" else ours
    if by_property and old is not None and theirs is not None and ours is not None:
        assert side is not None
        return _combined(old, theirs, ours, prefer=side)
    return side


# ------------------------------------------------------------------ valid time


def holds(image: Image, day: str | None) -> bool:
    """Whether an entity holds on a day; None is the beginning of time."""
    since, until = (image[name] for name in PERIOD)
    begun = since is None or (day is not None and since <= day)
    return begun and (until is None or day is None or day < until)


def holds_ever(image: Image) -> bool:
    """Whether there is a day on which an entity holds."""
    since, until = (image[name] for name in PERIOD)
    return since is None or since != until


def crowded(content: Content) -> set[str]:
    """The sources that would have two edges on one day."""
    edges = [
        image for key, image in content.items() if key[0] == ONE_AT_A_TIME and holds_ever(image)
    ]
    return {
        one["from"]
        for one in edges
        for other in edges
        if one is not other and one["from"] == other["from"] and holds(other, one["since"])
    }


def ended(content: Content, source: str, day: str) -> Content:
    """What the edges of a source become that hold on a day, when they end on it."""
    return {
        key: {**image, "until": day}
        for key, image in content.items()
        if key[0] == ONE_AT_A_TIME and image["from"] == source and holds(image, day)
    }


def successor(content: Content, source: str, target: str, day: str) -> Image | None:
    """The edge that begins when it is asserted on a day; None if that is said already."""
    rivals = [
        image
        for key, image in content.items()
        if key[0] == ONE_AT_A_TIME and image["from"] == source and holds_ever(image)
    ]
    if any(holds(one, day) and one["to"] == target for one in rivals):
        return None
    later = [one["since"] for one in rivals if one["since"] is not None and one["since"] > day]
    return {"from": source, "to": target, "since": day, "until": min(later, default=None)}


# ------------------------------------------------------------------ purge

Fact = tuple[Key, tuple[Key, ...]]
"""That there was an entity once, and between which nodes if it is an edge."""


def facts_of(content: Content) -> set[Fact]:
    """What a purge could find of a content in some file."""
    return {(key, tuple(_ends(key, image))) for key, image in content.items()}


def concerns(fact: Fact, named: set[Key]) -> bool:
    """Whether a purge of some entities removes one: it is among them, or an edge of a node among them."""
    key, ends = fact
    return key in named or not named.isdisjoint(ends)


def purged_by(facts: Iterable[Fact], named: set[Key]) -> set[Key]:
    """All that a purge removes: an edge that once was at a node goes, wherever it leads now."""
    return {fact[0] for fact in facts if concerns(fact, named)}


def had(commit: Commit, keys: set[Key]) -> bool:
    """Whether there was one of some entities at a commit or before it: its files may still have it."""
    return any(not keys.isdisjoint(one.content) for one in ancestors(commit))


# ------------------------------------------------------------------ history


def walk(head: Commit, key: Key) -> tuple[list[Commit], bool]:
    """The commits that changed an entity, and whether all states that tell so are there for certain."""
    found, is_sure = [], True
    waiting, seen = [head], set[Commit]()
    while waiting:
        commit = waiting.pop()
        if commit in seen:
            continue
        seen.add(commit)
        is_sure = is_sure and all(one.must_be_readable for one in (commit, *commit.parents))
        mine = image_at(commit, key)
        equal = next((one for one in commit.parents if image_at(one, key) == mine), None)
        if equal is not None:
            waiting.append(equal)
        elif mine is not None or commit.parents:
            found.append(commit)
            waiting += commit.parents
    return found, is_sure


def image_at(commit: Commit, key: Key) -> Image | None:
    """The properties of an entity at a commit that have a value."""
    return _values(commit.content.get(key))


# ------------------------------------------------------------------ diff


def net_changes(before: Content, after: Content) -> dict[Key, tuple[Image | None, Image | None]]:
    """The entities that differ, with both images. A property of one side only differs where it has a value."""
    return {
        key: (before.get(key), after.get(key))
        for key in before.keys() | after.keys()
        if _values(before.get(key)) != _values(after.get(key))
    }


def _values(image: Image | None) -> Image | None:
    if image is None:
        return None
    return {name: value for name, value in image.items() if value is not None}
