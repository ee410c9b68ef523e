"""What variables stand for in a row of the oracle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.oracle.graph import Values


@dataclass(frozen=True)
class Entity:
    """A node or edge."""

    id: str
    values: Values
    type_name: str = ""


@dataclass(frozen=True)
class Step:
    """One edge of a path, with the nodes at its stored ends."""

    edge: Entity
    src: str
    dst: str


@dataclass(frozen=True)
class Path:
    """The nodes of a way in order, the edges between them, and their total weight."""

    nodes: tuple[Entity, ...]
    edges: tuple[Step, ...] = ()
    cost: float = 0.0

    @property
    def rank(self) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
        """Which of several paths is chosen: the least by node ids, then by edge ids."""
        nodes = tuple(node.id.encode() for node in self.nodes)
        return nodes, tuple(step.edge.id.encode() for step in self.edges)

    def onward(self, step: Step, node: Entity, weight: float = 0.0) -> Path:
        """This way, and one edge more."""
        return Path((*self.nodes, node), (*self.edges, step), self.cost + weight)


@dataclass(frozen=True)
class Record:
    """One row of a source or one element of a list, with its position."""

    position: int
    values: Values


Bound = Entity | Path | Record | None
Row = Mapping[str, Bound]


@dataclass(frozen=True)
class Place:
    """Where an expression is evaluated: a row of the match, the rows of its group, the output so far."""

    row: Row
    group: tuple[Row, ...] = ()
    columns: tuple[Any, ...] = field(default=())
