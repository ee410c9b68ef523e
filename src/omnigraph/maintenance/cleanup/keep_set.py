"""Which versions of which tables stay, and why: a pure function of facts about a graph.

For example, a table whose lineage `main` has the versions 1 to 6, where the head of `main` pins 6, a
branch `side` that has not written to it pins 2, and the tag `v1` pins 4, keeps with ``keep_versions=1``
``{2: ["head:side"], 4: ["tag:v1"], 6: ["head:main", "keep"]}``. Versions 1, 3 and 5 have no reason.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from omnigraph.manifest.rows import TableState

Reasons = Mapping[int, Sequence[str]]
"""The versions that stay in one lineage, ascending, each with the reasons for it."""


class TableLineage(NamedTuple):
    """One branch of one table incarnation: what numbers its versions. ``branch`` None: main."""

    incarnation: int
    branch: str | None


@dataclass(frozen=True, slots=True)
class Policy:
    """What the caller wants kept besides what is needed; at least one of the two is given."""

    keep_versions: int | None = None
    older_than: float | None = None
    """Seconds."""


@dataclass(frozen=True, slots=True)
class PublishedVersion:
    """A version that a commit made visible, with the seconds since 1970 at which that happened.

    ``replaced_at``: when the next version of the lineage was published, or the table dropped; None
    while it is the newest. A version of which that is no longer known was replaced long ago.
    """

    version: int
    made_at: float = 0.0
    replaced_at: float | None = None


@dataclass(frozen=True, slots=True)
class Fork:
    """A branch of a table: where it begins, and where it was taken from."""

    lineage: TableLineage
    parent: str | None
    version: int


@dataclass(frozen=True, slots=True)
class Claim:
    """What a pending operation holds on a lineage: the version it started from, and all above it."""

    lineage: TableLineage
    version: int


@dataclass(frozen=True, slots=True)
class Facts:
    """All that decides what stays. Pins are table states; their branches are known to live."""

    present: Mapping[TableLineage, Sequence[int]]
    policy: Policy
    now: float = 0.0
    published: Mapping[TableLineage, Sequence[PublishedVersion]] = field(default_factory=dict)
    heads: Mapping[str, Iterable[TableState]] = field(default_factory=dict)
    merge_bases: Mapping[str, Iterable[TableState]] = field(default_factory=dict)
    forks: Sequence[Fork] = ()
    tags: Mapping[str, Iterable[TableState]] = field(default_factory=dict)
    sidecars: Mapping[str, Iterable[Claim]] = field(default_factory=dict)
    leases: Mapping[str, Iterable[TableState]] = field(default_factory=dict)
    lance_tags: Mapping[str, Iterable[tuple[TableLineage, int]]] = field(default_factory=dict)


def keep_set(facts: Facts) -> dict[TableLineage, Reasons]:
    """Return for every lineage that is present the versions that stay, each with its reasons.

    A version of a lineage that is not in the answer has no reason to stay.
    """
    kept = _Kept(facts.present)
    kept.pins("head", facts.heads)
    for lineage, versions in facts.published.items():
        for published in _newest(versions, facts.policy.keep_versions):
            kept.add(lineage, published.version, "keep")
        for published in versions:
            if _is_young(published, facts):
                kept.add(lineage, published.version, "younger")
    kept.pins("merge_base", facts.merge_bases)
    for fork in facts.forks:
        # Changes on the fork are counted from its own first version; those on its parent from here.
        kept.add(fork.lineage, fork.version, f"fork:{fork.lineage.branch}")
        parent = TableLineage(fork.lineage.incarnation, fork.parent)
        kept.add(parent, fork.version, f"fork:{fork.lineage.branch}")
    kept.pins("tag", facts.tags)
    for operation_id, claims in facts.sidecars.items():
        for claim in claims:
            for version in facts.present.get(claim.lineage, ()):
                if version >= claim.version:
                    kept.add(claim.lineage, version, f"sidecar:{operation_id}")
    kept.pins("lease", facts.leases)
    for name, tagged in facts.lance_tags.items():
        for lineage, version in tagged:
            kept.add(lineage, version, f"lance_tag:{name}")
    _keep_unpublished(kept, facts)
    return kept.sorted()


def _newest(versions: Sequence[PublishedVersion], count: int | None) -> Sequence[PublishedVersion]:
    """Return the newest ``count`` versions; none without a count."""
    return () if count is None else sorted(versions, key=lambda one: one.version)[-count:]


def _is_young(published: PublishedVersion, facts: Facts) -> bool:
    """Whether a version was current within the time that is to be kept.

    So every commit of that time stays readable, also through tables that had not changed for long.
    """
    if facts.policy.older_than is None:
        return False
    last = published.made_at if published.replaced_at is None else published.replaced_at
    return last > facts.now - facts.policy.older_than


def _keep_unpublished(kept: _Kept, facts: Facts) -> None:
    """Keep what is above the newest published version and has no other reason.

    A writer may have made it this moment; if none did, `repair` judges it by its history.
    """
    newest: dict[TableLineage, int] = {
        lineage: max(published.version for published in versions)
        for lineage, versions in facts.published.items()
        if versions
    }
    for pins in facts.heads.values():
        for pin in pins:
            lineage = TableLineage(pin.incarnation, pin.table_branch)
            newest[lineage] = max(newest.get(lineage, 0), pin.table_version)
    for lineage, versions in facts.present.items():
        for version in versions:
            if version > newest.get(lineage, 0) and not kept.has(lineage, version):
                kept.add(lineage, version, "unpublished")


class _Kept:
    """The reasons found so far, for versions that are there."""

    def __init__(self, present: Mapping[TableLineage, Sequence[int]]) -> None:
        self._present = {lineage: frozenset(versions) for lineage, versions in present.items()}
        # The reasons of a version are the keys of a dict: with many branches there are thousands.
        self._reasons: dict[TableLineage, dict[int, dict[str, None]]] = {
            lineage: defaultdict(dict) for lineage in present
        }

    def add(self, lineage: TableLineage, version: int, reason: str) -> None:
        """Give a reason for a version. One that is not there needs none."""
        if version in self._present.get(lineage, ()):
            self._reasons[lineage][version][reason] = None

    def pins(self, kind: str, named: Mapping[str, Iterable[TableState]]) -> None:
        """Give every pin the reason `<kind>:<name>`."""
        for name, pins in named.items():
            for pin in pins:
                lineage = TableLineage(pin.incarnation, pin.table_branch)
                self.add(lineage, pin.table_version, f"{kind}:{name}")

    def has(self, lineage: TableLineage, version: int) -> bool:
        """Whether a version has a reason already."""
        return version in self._reasons[lineage]

    def sorted(self) -> dict[TableLineage, Reasons]:
        """Return all reasons, versions ascending."""
        return {
            lineage: {version: list(why) for version, why in sorted(reasons.items())}
            for lineage, reasons in self._reasons.items()
        }
