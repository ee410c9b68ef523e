"""The table of algorithms: the column and type of each, its engines, and whether it takes weights."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from omnigraph.errors import BadRequest, OmniGraphError
from omnigraph.runner.executors import ENGINES, is_too_large_here
from omnigraph.types import PropType, Scalar

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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


def check_engine(definition: Definition, engine: object, only_here: str | None = None) -> None:
    """Refuse an engine that there is not, or that does not run this algorithm.

    ``only_here`` is an option that was given, with which it runs in this process only.
    """
    if engine not in ENGINES:
        raise BadRequest(f"engine is {engine!r}; give one of {', '.join(ENGINES)}")
    if engine == "spark" and (only_here or not definition.on_spark):
        called = definition.name if only_here is None else f"{definition.name} with {only_here}"
        raise BadRequest(
            f"{called} runs in this process only, not with engine spark; leave the engine out, or give "
            '"local"'
        )


def session_for(
    definition: Definition, engine: str, nodes: int, edges: int, only_here: str | None = None
) -> SparkSession | None:
    """Return the session to run an algorithm with; None to run it in this process.

    ``auto`` is this process, unless the graph does not fit into the memory that adjacency may take
    (`OMNIGRAPH_CACHE_MB`) and there is a session, or a master for one. If that does not start, it is this process too.
    """
    from omnigraph.runner.session import spark_session

    if engine == "spark":
        return spark_session()
    if engine == "local" or only_here or not definition.on_spark:
        return None
    if not is_too_large_here(nodes, edges):
        return None
    with suppress(OmniGraphError):
        return spark_session()
    return None


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
