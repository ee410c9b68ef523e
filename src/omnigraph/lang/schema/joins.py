"""Which ids mean the same element of a schema, and which elements a schema has given up.

Ids come from one counter of the graph, so equal ids always mean one element. Different ids mean one
element when a merge joined them: both branches had added ``Ship.built: I32?``, with ids 12 and 15, and
the merged schema says ``joined: [[15, 12]]``. A join that one schema knows of counts for all that are
compared with it.
"""

from __future__ import annotations

from omnigraph.lang.schema.ir import Ir


class Joins:
    """The joins of several schemas together."""

    def __init__(self, *schemas: Ir) -> None:
        self._first: dict[int, int] = {}
        self._members: dict[int, frozenset[int]] = {}
        for schema in schemas:
            for other, kept in schema.joined:
                self.join(other, kept)

    def one(self, number: int) -> int:
        """The one id that stands for all that mean the same element: the smallest of them."""
        return self._first.get(number, number)

    def all(self, number: int) -> frozenset[int]:
        """All ids that mean the same element as this one, itself included."""
        return self._members.get(self.one(number), frozenset((number,)))

    def others(self, number: int) -> tuple[int, ...]:
        """The other ids that mean the same element, sorted."""
        return tuple(sorted(self.all(number) - {number}))

    def join(self, left: int, right: int) -> None:
        """Let two ids, and all that are joined with them, mean one element."""
        members = self.all(left) | self.all(right)
        first = min(members)
        self._members[first] = members
        for member in members:
            self._first[member] = first


def has_dropped(schema: Ir, number: int, joins: Joins, single_line_below: int = 0) -> bool:
    """Whether a schema that does not declare an element gave it up, rather than never had it.

    Ids below ``single_line_below`` were given while the graph had one schema for all its branches and
    nothing recorded drops: a schema of that time that was numbered beyond an id and lacks it dropped it.
    """
    one_line = schema.next_identity_id <= single_line_below
    return any(
        each in schema.dropped or (one_line and each < schema.next_identity_id)
        for each in joins.all(number)
    )


def dropped_since(
    accepted: Ir, kept: frozenset[int], single_line_below: int = 0
) -> tuple[int, ...]:
    """The ids that a schema has given up when it follows an accepted one and declares only ``kept``.

    What the accepted schema dropped before drops were recorded is recorded now.
    """
    joins = Joins(accepted)
    gone = accepted.ids - kept
    if accepted.next_identity_id <= single_line_below:
        gone |= frozenset(range(1, accepted.next_identity_id)) - accepted.ids
    gone = frozenset(each for number in gone for each in joins.all(number))
    return tuple(sorted(gone.union(accepted.dropped)))
