"""Judge a history of list appends: is there one order of all transactions that explains it?

The final list of a key is the order of its appends. A transaction comes after the one whose append it read
last, before the one whose append it missed first, and after every transaction that had ended when it began. A
cycle among these means that no order explains the history, so it is not strictly serializable.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise

from tests.faults.acid.acid_workers import Event

Lists = Mapping[str, tuple[str, ...]]


def explain_cycle(events: Iterable[Event], final: Lists) -> str | None:
    """Return what is wrong with a history, or None if one order explains it."""
    events = list(events)
    before: dict[str, set[str]] = {event.name: set() for event in events}
    for order in final.values():
        for first, then in pairwise(order):
            before[then].add(first)
    for event in events:
        for key, read in event.read.items():
            order = final[key]
            if order[: len(read)] != read:
                return f"{event.name} read {read}, which is no beginning of {order}"
            if read:
                before[event.name].add(read[-1])
            missed = order[len(read) :]
            if missed and missed[0] != event.name:
                before[missed[0]].add(event.name)
        for other in events:
            if other.ended < event.began:
                before[event.name].add(other.name)
    try:
        TopologicalSorter(before).prepare()
    except CycleError as error:
        return f"a cycle: {' < '.join(error.args[1])}"
    return None
