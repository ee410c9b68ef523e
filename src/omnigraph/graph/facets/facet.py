"""What the parts of a handle share: `graph.branches`, `graph.tags` and the others."""

from __future__ import annotations

from omnigraph.graph.access import Access


class Facet:
    """A group of calls on a graph, for one actor."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._state = access.state

    def __repr__(self) -> str:
        calls = ", ".join(name for name in dir(self) if not name.startswith("_"))
        name = type(self).__name__.lower()
        return f"<graph.{name} of {self._state.workspace.root.canonical}: {calls}>"
