"""The steps that bind the variables of a match, as `explain` and `profile` show them, and about how many rows each makes.

    $a knows $b, $b knows $c, $c knows $a, 1,000 persons who know 10 others each
    Scan a          1,000 rows
    Expand b       10,000 rows, along $a knows $b
    Intersect c     1,000 rows, what $b knows and what knows $a

Rows multiply along links, and a second link of a variable multiplies by its degree. Where a few codes have
most of the edges, the mean degree says little: two links meet in those codes more often than on average. So
the degrees of the candidates themselves are multiplied and averaged:

    degrees of $b along two links [1, 1, 1, 97] and [1, 1, 1, 97]: on average 25 and 25, which would make 625
    ways through a code of $b; but there are (1 + 1 + 1 + 9409) / 4 = 2353
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from omnigraph.read.kernels.arrays import Floats, Mask
from omnigraph.read.kernels.csr import sample_step
from omnigraph.read.match.bindings import Bindings
from omnigraph.read.match.candidates import Candidates
from omnigraph.read.match.links.edge_link import EdgeLink
from omnigraph.read.match.links.link import Link


@dataclass(frozen=True, slots=True, eq=False)
class RowTest:
    """A test of whole rows, which can be made as soon as the variables it names are bound."""

    names: frozenset[str]
    holds: Callable[[Bindings], Mask]
    """Which of the rows pass."""
    text: str = ""
    is_negation: bool = False
    share: float = 0.5
    """About which part of the rows passes."""


@dataclass(frozen=True, slots=True, eq=False)
class GivenFilter:
    """Drop rows whose given code is not a candidate."""

    name: str
    estimated: float | None
    op = "given"

    @property
    def reads(self) -> frozenset[str]:
        """The variables that must be bound."""
        return frozenset({self.name})

    @property
    def text(self) -> str:
        """What is done, in the words of the query."""
        return f"given ${self.name}"


@dataclass(frozen=True, slots=True, eq=False)
class Scan:
    """Put every candidate beside every row."""

    name: str
    estimated: float | None
    op = "scan"

    @property
    def reads(self) -> frozenset[str]:
        """The variables that must be bound."""
        return frozenset()

    @property
    def text(self) -> str:
        """What is done, in the words of the query."""
        return f"scan ${self.name}"


@dataclass(frozen=True, slots=True, eq=False)
class Expand:
    """Follow a link from a bound variable to a new one."""

    name: str
    link: Link
    estimated: float | None
    op = "expand"

    @property
    def reads(self) -> frozenset[str]:
        """The variables that must be bound."""
        return frozenset({self.link.ends.other(self.name)})

    @property
    def text(self) -> str:
        """What is done, in the words of the query."""
        return f"expand ${self.name} along {self.link.text}"


@dataclass(frozen=True, slots=True, eq=False)
class Intersect:
    """The common neighbours of two bound variables; ``counted``: only how many there are."""

    name: str
    links: Sequence[EdgeLink]
    counted: bool
    estimated: float | None
    op = "intersect"

    @property
    def reads(self) -> frozenset[str]:
        """The variables that must be bound."""
        return frozenset(link.ends.other(self.name) for link in self.links)

    @property
    def text(self) -> str:
        """What is done, in the words of the query."""
        both = " and ".join(link.text for link in self.links)
        return f"{'count' if self.counted else 'intersect'} ${self.name} along {both}"


@dataclass(frozen=True, slots=True, eq=False)
class Close:
    """Keep the rows whose two bound variables are joined; an edge variable is bound to each edge between them."""

    link: Link
    estimated: float | None
    op = "check"

    @property
    def reads(self) -> frozenset[str]:
        """The variables that must be bound."""
        return self.link.ends.names

    @property
    def text(self) -> str:
        """What is done, in the words of the query."""
        return f"check {self.link.text}"


@dataclass(frozen=True, slots=True, eq=False)
class Judge:
    """Keep the rows that pass a test, or for which a negated block has no match."""

    test: RowTest
    estimated: float | None

    @property
    def op(self) -> str:
        """The kind of step."""
        return "anti-join" if self.test.is_negation else "filter"

    @property
    def reads(self) -> frozenset[str]:
        """The variables that must be bound."""
        return self.test.names

    @property
    def text(self) -> str:
        """What is done, in the words of the query."""
        return f"{'anti join' if self.test.is_negation else 'filter'} {self.test.text}"


Step = GivenFilter | Scan | Expand | Intersect | Close | Judge


# A hop search looks at far more than it finds, and so does a test whether it joins two nodes.
_SEARCH = 8.0
_MOST = 1e300


class LinkEstimate:
    """What is known of one link between two variables."""

    def __init__(self, link: Link, candidates: Mapping[str, Candidates]) -> None:
        self.link = link
        self._candidates = candidates
        self.is_plain = isinstance(link, EdgeLink) and link.ends.edge_var is None
        self.effort = 1.0 if isinstance(link, EdgeLink) else _SEARCH
        self._degrees: dict[str, Floats | None] = {}
        self._means: dict[str, float] = {}

    def degrees(self, name: str) -> Floats | None:
        """The degrees of the candidates of that end, or of a sample; None where they are not known."""
        if name not in self._degrees:
            self._degrees[name] = self._some_degrees(name)
        return self._degrees[name]

    def _some_degrees(self, name: str) -> Floats | None:
        codes = self._candidates[name].codes
        if codes is None and isinstance(self.link, EdgeLink):
            return self.link.rows(name).some_degrees
        if codes is not None and isinstance(self.link, EdgeLink):
            some = codes[:: sample_step(len(codes))]
            return self.link.rows(name).at(some).degrees.take(some).astype(float)
        every = self.link.degrees(name)
        if every is None:
            return None
        chosen = every if codes is None else every.take(codes[:: sample_step(len(codes))])
        return chosen.astype(float)

    def forget(self, name: str) -> None:
        """Work out anew what depends on the candidates of that end."""
        self._degrees.pop(name, None)
        self._means.pop(name, None)
        self.__dict__.pop("pairs", None)

    def mean(self, name: str) -> float:
        """How many neighbours a candidate of that end has on average, candidates or not."""
        if name not in self._means:
            self._means[name] = self._mean(name)
        return self._means[name]

    def _mean(self, name: str) -> float:
        degrees = None if self._candidates[name].codes is None else self.degrees(name)
        if degrees is None:
            return self.link.fan_out(name)
        return float(degrees.mean()) if len(degrees) else 0.0

    @cached_property
    def pairs(self) -> float:
        """How many pairs of candidates it joins."""
        left, right = self.link.ends.left, self.link.ends.right
        one, two = self._candidates[left], self._candidates[right]
        everything = self.link.fan_out(left) * one.size
        if not everything:
            return 0.0
        return self.mean(left) * one.count * self.mean(right) * two.count / everything


class Estimates:
    """Rows of parts of a match. ``given`` rows hold the variables that are bound from outside."""

    def __init__(
        self,
        candidates: Mapping[str, Candidates],
        links: Iterable[Link],
        tests: Sequence[RowTest],
        given: Mapping[str, int],
    ) -> None:
        self.candidates = candidates
        self.tests = tests
        self.given = given
        self.links = [LinkEstimate(link, candidates) for link in links]
        self.at: dict[str, list[LinkEstimate]] = {name: [] for name in candidates}
        for one in self.links:
            for name in one.link.ends.names:
                if name in self.at:
                    self.at[name].append(one)
        self._skews: dict[tuple[str, frozenset[LinkEstimate]], float] = {}

    def forget(self, names: Iterable[str]) -> None:
        """Work out anew what depends on these variables: they have other candidates now."""
        for name in names:
            for one in self.at[name]:
                one.forget(name)
            self._skews = {key: skew for key, skew in self._skews.items() if key[0] != name}

    def ready(self, name: str, bound: frozenset[str]) -> list[LinkEstimate]:
        """The links from what is bound to this variable, the least growth first."""
        found = [
            one
            for one in self.at[name]
            if len(one.link.ends.names) == 2 and one.link.ends.other(name) in bound
        ]
        return sorted(found, key=lambda one: self._growth(one, name)) if len(found) > 1 else found

    def _growth(self, one: LinkEstimate, name: str) -> float:
        return one.effort * one.mean(one.link.ends.other(name))

    def generated(self, one: LinkEstimate, name: str, bound: frozenset[str]) -> float:
        """How many codes a row gets along one link, before they are tested."""
        origin = one.link.ends.other(name)
        return one.mean(origin) * self._skew_added(origin, bound, [one])

    def factor(self, name: str, bound: frozenset[str], ready: Sequence[LinkEstimate]) -> float:
        """How many rows one row becomes when the variable is bound and everything tested that can be."""
        count = max(1, self.candidates[name].count)
        factor = float(count)
        for one in ready:
            origin = one.link.ends.other(name)
            # The share of all pairs that the link joins.
            factor *= one.pairs / max(1, self.candidates[origin].count) / count
            factor *= self._skew_added(origin, bound, [one])
        if len(ready) > 1:
            factor *= self._skew(name, frozenset(ready))
        now = bound | {name}
        for test in self.tests:
            if name in test.names and test.names <= now:
                factor *= test.share
        return min(factor, _MOST)

    def _skew_added(self, name: str, bound: frozenset[str], more: Sequence[LinkEstimate]) -> float:
        """How much more often than on average further links meet those that are used already."""
        used = frozenset(
            one for one in self.at.get(name, ()) if one not in more and one.link.ends.names <= bound
        )
        if not used:
            return 1.0
        return self._skew(name, used | frozenset(more)) / max(self._skew(name, used), 1e-9)

    def _skew(self, name: str, links: frozenset[LinkEstimate]) -> float:
        """The mean product of the degrees along these links, against the product of their means."""
        if len(links) < 2 or self.candidates[name].count < 2:
            return 1.0
        key = (name, links)
        if key not in self._skews:
            self._skews[key] = _skew_of(
                [found for one in links if (found := one.degrees(name)) is not None]
            )
        return self._skews[key]


def _skew_of(degrees: list[Floats]) -> float:
    if len(degrees) < 2:
        return 1.0
    product, expected = degrees[0], float(degrees[0].mean())
    for one in degrees[1:]:
        product = product * one
        expected *= float(one.mean())
    return float(product.mean()) / expected if expected else 1.0
