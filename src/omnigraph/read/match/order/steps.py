"""The steps that bind the variables of a match: what runs, and what `explain` and `profile` show.

$a knows $b, $b knows $c, $c knows $a, 1,000 persons who know 10 others each
Scan a          1,000 rows
Expand b       10,000 rows, along $a knows $b
Intersect c     1,000 rows, what $b knows and what knows $a
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from omnigraph.read.kernels.arrays import Mask
from omnigraph.read.match.bindings import Bindings
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
class Given:
    """Drop rows whose given code is not a candidate."""

    name: str
    estimated: float
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
    estimated: float
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
    estimated: float
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
    estimated: float
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
    estimated: float
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
    estimated: float

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


Step = Given | Scan | Expand | Intersect | Close | Judge
