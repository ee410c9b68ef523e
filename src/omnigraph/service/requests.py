"""What requests have in common: the state of the graph that they look at.

A request is a frozen dataclass of plain values, flat as the body of an HTTP request: a read query on a
tag is ``QueryRequest(query="query q() { … }", tag="v1")``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict


class TargetValues(TypedDict):
    """The values that name one state of the graph; None where they are not given."""

    branch: str | None
    snapshot: str | None
    tag: str | None
    version: int | None
    time: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetRequest:
    """A request about one state of the graph, the head of `main` unless it names another.

    At most one of: ``branch``, alone or with ``version`` or ``time``; ``snapshot``, a commit id; ``tag``.
    """

    branch: str | None = None
    snapshot: str | None = None
    tag: str | None = None
    version: int | None = None
    time: str | None = None

    @property
    def target(self) -> TargetValues:
        """The state, as the methods of a session take it."""
        return {
            "branch": self.branch,
            "snapshot": self.snapshot,
            "tag": self.tag,
            "version": self.version,
            "time": self.time,
        }
