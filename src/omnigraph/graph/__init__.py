"""The graph handle that ``init`` and ``open`` return. It only delegates; the rules live below it."""

from omnigraph.graph.graph import Graph
from omnigraph.graph.opening import at, init, open
from omnigraph.graph.session import Session

__all__ = ["Graph", "Session", "at", "init", "open"]
