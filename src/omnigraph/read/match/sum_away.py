"""Summing away: variables that nobody asks for become weights and totals of their neighbours.

A variable at the end of one link that nobody asks for is removed and leaves its neighbour a
message: per code, how many bindings go with it. For a match without cycles whose rows are only counted that is
the whole work.

    $a knows $b, 0 -> 1, 0 -> 2, 3 -> 1; $b is not asked for
    candidates of $a: codes [0, 3], weights [2, 1]; $b and the link are gone
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from omnigraph.cancel import look
from omnigraph.read.match.candidates import Candidates
from omnigraph.read.match.links.edge_link import EdgeLink, both
from omnigraph.read.match.links.link import Link, LinkSet, Message
from omnigraph.read.match.trace import Trace, traced


class VariableGraph:
    """The variables of a match that are still there, what each may be, and the links between them.

    ``must`` are the variables that cannot be summed away. ``unit`` collects what was summed away
    apart from every variable that is left: a single candidate. ``is_boolean``: nobody asks how many bindings a
    code stands for, so that messages only say which codes have some.
    """

    def __init__(
        self, must: set[str], trace: Trace | None = None, *, is_boolean: bool = False
    ) -> None:
        self.must = must
        self.trace = trace
        self._is_boolean = is_boolean
        self.candidates: dict[str, Candidates] = {}
        self.links = LinkSet()
        self.unit = Candidates(1)

    @property
    def is_empty(self) -> bool:
        """Whether some variable can be nothing, so that there is no row."""
        nothing = self.unit.weights is not None and not self.unit.weights[0]
        return nothing or not all(one.count for one in self.candidates.values())

    def sum_away(self) -> None:
        """Remove every variable that nobody asks for and that has at most one neighbour."""
        while True:
            free = [
                (self.candidates[name].is_full, self.candidates[name].count, name)
                for name in self.candidates
                if name not in self.must and self._is_end(name)
            ]
            if not free:
                break
            # Full ones first, because their messages are plain degrees. Then the largest, so that the
            # smallest one is left at the end.
            _, _, name = max(free)
            look()
            self.remove(self._looked_up(name, {one for _, _, one in free}))
        self.candidates = {name: candidates.alive() for name, candidates in self.candidates.items()}

    def _looked_up(self, name: str, free: set[str]) -> str:
        """Which of the last two variables to remove: the one that the other looks up, rather than sweeps over.

        `$r replyOf $m` where a message answers one at most: the weight of its $m is an entry of an array for
        each $r, while the $r of each $m have to be collected.
        """
        links = self.links.at(name)
        child = self.candidates[name]
        if child.is_full or child.totals or len(links) != 1:
            return name
        (link,) = links
        if not isinstance(link, EdgeLink):
            return name
        other = link.ends.other(name)
        if other not in free or other == name or self.candidates[other].totals:
            return name
        by_look_up = link.function(other) is None and link.function(name) is not None
        return other if by_look_up else name

    def _is_end(self, name: str) -> bool:
        """Whether at most one other variable is next to it, by links that send messages."""
        links = self.links.at(name)
        if len(links) <= 1:
            return True
        plain = all(isinstance(one, EdgeLink) and one.ends.edge_var is None for one in links)
        near = frozenset().union(*(one.ends.names for one in links))
        return len(links) == len(near) == 2 and plain and not self.candidates[name].totals

    def remove(self, name: str) -> None:
        """Remove a variable: its neighbour, or ``unit`` if it has none, takes its weights and totals."""
        child = self.candidates.pop(name)
        links = self.links.at(name)
        if not links:
            # The totals of dead codes must not be added; their weights are zero and do no harm.
            child = child.alive() if child.totals else child
            self.unit = self._counted(self.unit.join(*child.summed()))
            return
        for link in links:
            self.links.remove(link)
        parent = links[0].ends.other(name)
        with traced(self.trace, "aggregate", f"sum ${name} into ${parent}") as done:
            self.candidates[parent] = self._counted(self._summed(child, parent, links))
            done.rows += self.candidates[parent].count
            done.bytes += self.candidates[parent].nbytes

    def _counted(self, candidates: Candidates) -> Candidates:
        """The candidates with their weights, as far as somebody asks for these."""
        if not self._is_boolean or candidates.weights is None or self._is_dead(candidates):
            return candidates
        return replace(candidates.alive(), weights=None, at_most=None)

    @staticmethod
    def _is_dead(candidates: Candidates) -> bool:
        return candidates.weights is not None and not candidates.weights.any()

    def _summed(self, child: Candidates, parent: str, links: list[Link]) -> Candidates:
        at = self.candidates[parent]
        if child.is_full and len(links) == 1 and _is_one_each(links[0], parent):
            return at
        if not child.is_full:
            # Degrees are known for every code; every other message costs more, the more codes there are.
            if len(links) == 1 and isinstance(links[0], EdgeLink):
                child, at = child.mostly_alive(), at.mostly_alive()
            else:
                child, at = child.alive(), at.alive()
        if len(links) == 1:
            message = links[0].message(parent, at, child)
        else:
            one, two = links
            assert isinstance(one, EdgeLink)
            assert isinstance(two, EdgeLink)
            message = both(one, two, parent, at, child)
        return _joined(at, message)

    def narrow(self, roots: Sequence[str]) -> None:
        """Narrow every variable to codes that have neighbours, from the ends to the first of its roots.

        Enumeration starts there, so it builds fewer rows that come to nothing further on.
        """
        waiting = LinkSet(self.links)
        seen: set[str] = set()
        order: list[tuple[Link, str]] = []
        for root in roots:
            if root in seen:
                continue
            seen.add(root)
            frontier = [root]
            while frontier:
                name = frontier.pop(0)
                for link in waiting.at(name):
                    waiting.remove(link)
                    (other,) = link.ends.names - {name} or {name}
                    if other not in seen:
                        seen.add(other)
                        frontier.append(other)
                        order.append((link, name))
        for link, parent in reversed(order):
            look()
            (child,) = link.ends.names - {parent}
            at = self.candidates[parent]
            with traced(self.trace, "semi-join", partial(_narrowing, parent, link)) as done:
                self.candidates[parent] = link.reached(parent, at, self.candidates[child])
                done.rows += self.candidates[parent].count
                done.bytes += self.candidates[parent].nbytes


def _narrowing(parent: str, link: Link) -> str:
    return f"narrow ${parent} along {link.text}"


def _is_one_each(link: Link, parent: str) -> bool:
    """Whether everything at the parent's end has exactly one neighbour, so that counting them changes nothing."""
    if not isinstance(link, EdgeLink):
        return False
    function = link.function(parent)
    return function is not None and function is link.csr(parent).indices


def _joined(at: Candidates, message: Message) -> Candidates:
    """The parent with its child's message, which may list fewer codes or other ones."""
    if message.codes is None:
        return at.join(message.weights, message.totals, message.at_most)
    narrowed = at.among(message.codes)
    if narrowed.count == len(message.codes):
        return narrowed.join(message.weights, message.totals, message.at_most)
    where = Candidates(at.size, message.codes).places(narrowed.listed())
    totals = {key: entry.at(where) for key, entry in message.totals.items()}
    return narrowed.join(message.weights[where], totals, message.at_most)
