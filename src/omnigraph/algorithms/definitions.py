"""What algorithms there are: the column and type of each, its engines, and whether it takes weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from omnigraph.errors import BadRequest
from omnigraph.runner.executors import ENGINES
from omnigraph.types import PropType, Scalar


@dataclass(frozen=True, slots=True)
class Definition:
    """One algorithm: its name, the column of its values, and where it can run."""

    name: str
    column: str
    kind: PropType
    on_spark: bool
    takes_weight: bool = False


_FLOAT, _INTEGER = PropType(Scalar.F64), PropType(Scalar.I64)
_TEXT = PropType(Scalar.STRING)

_ALL: Final = (
    Definition("degree", "degree", _INTEGER, on_spark=True),
    Definition("pagerank", "rank", _FLOAT, on_spark=True, takes_weight=True),
    Definition("connected_components", "component", _TEXT, on_spark=True),
    Definition("clustering", "coefficient", _FLOAT, on_spark=True),
    Definition("triangle_count", "triangles", _INTEGER, on_spark=True),
    Definition("label_propagation", "label", _TEXT, on_spark=True),
    Definition("kcore", "core", _INTEGER, on_spark=False),
    Definition("louvain", "community", _TEXT, on_spark=False, takes_weight=True),
    Definition("betweenness", "betweenness", _FLOAT, on_spark=False),
)
DEFINITIONS: Final = {one.name: one for one in _ALL}


def check_engine(definition: Definition, engine: object) -> None:
    """Refuse an engine that there is not, or that does not run this algorithm."""
    if engine not in ENGINES:
        raise BadRequest(f"engine is {engine!r}; give one of {', '.join(ENGINES)}")
    if engine != "spark":
        return
    if definition.on_spark:
        raise BadRequest(
            f"{definition.name} does not run with engine spark in this version; leave the engine out, or give "
            '"local"'
        )
    raise BadRequest(
        f"{definition.name} runs in this process only, not with engine spark; leave the engine out, or give "
        '"local"'
    )


def check_weight(definition: Definition, weight: object) -> str | None:
    """Return the name of the property with the weights, if the algorithm takes any."""
    if weight is None:
        return None
    if not definition.takes_weight:
        others = " and ".join(one.name for one in _ALL if one.takes_weight)
        raise BadRequest(
            f"{definition.name} takes no weight, only {others} do; leave the weight out"
        )
    if not isinstance(weight, str):
        raise BadRequest(f"weight is {weight!r}; give the name of a property of the edges")
    return weight
