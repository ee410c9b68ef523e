"""Whether the graph at a root is still the one that a handle has read, and lies where it says.

A graph that lies elsewhere than its head says has forks that look for their files at the old place. Only
`main` and what its own tables hold is read then, until ``commit/relocation.py`` has settled the forks.

Another graph, or an earlier state of the same one, may be put in its place while a handle is open. What
that handle has answered is gone then, and it refuses to go on. For example, a handle that has read commit
C7 finds a history that ends with C5: a backup was put back.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace

from omnigraph.errors import GraphMoved, GraphReplaced
from omnigraph.manifest.rows import Head
from omnigraph.storage.uris import Root


class GraphIdentity:
    """What a handle knows of its graph: the id, and whether it is settled where it lies.

    ``relocating``: for the operation that settles a graph at its new place. Branches are read and
    written although they are not settled yet, and the id of the graph may change.
    """

    def __init__(self, root: Root, *, relocating: bool) -> None:
        self._root = root
        self.relocating = relocating
        self.is_settled = False
        self.graph_id: str | None = None
        self._replaced = False
        self._lock = threading.Lock()

    def begin_anew(self) -> None:
        """Forget the id and the place: the graph was settled where it lies."""
        with self._lock:
            self.graph_id, self.is_settled = None, False

    def note_place(self, main: Head) -> None:
        """Note whether the graph is settled at this root, as the head of `main` says."""
        self.is_settled = is_settled(main, self._root)

    def is_elsewhere(self, head: Head) -> bool:
        """Return whether the head of a branch names another place than this root."""
        return head.root != self._root.canonical and not self.relocating

    def as_main_says(self, head: Head, main: Callable[[], Head]) -> Head:
        """Return the head of a branch with the id and the place that `main` has.

        A branch that was made from a state before the graph was copied has those of that time.
        """
        at_home = head.graph_id == self.graph_id and head.root == self._root.canonical
        if at_home or self.relocating:
            return head
        now = main()
        if head.graph_id not in (now.graph_id, *now.former_ids):
            return head
        return replace(
            head,
            graph_id=now.graph_id,
            root=now.root,
            former_ids=now.former_ids,
            is_copy=now.is_copy,
        )

    def refuse_replaced(self) -> None:
        """Raise ``GraphReplaced`` once it was found that another state was put in place."""
        if self._replaced:
            raise self._another_state()

    def check(self, head: Head, *, goes_on: Callable[[], bool]) -> None:
        """Refuse when another graph, or an older state of this one, was put in its place.

        ``goes_on`` tells whether the history of this head has what was read before.
        """
        with self._lock:
            # A copy that was not settled yet was read under the id of its original.
            is_copy = not self.is_settled and self.graph_id in head.former_ids
            # A copy that turned out to be the graph itself got the id of its original back.
            is_no_copy = not head.is_copy and head.former_ids[-1:] == (self.graph_id,)
            if self.graph_id is None or is_copy or is_no_copy:
                self.graph_id = head.graph_id
        if self.relocating:
            return
        if self.graph_id != head.graph_id or not goes_on():
            self._replaced = True
            raise self._another_state()

    def _another_state(self) -> GraphReplaced:
        return GraphReplaced(
            f"the graph at {self._root.canonical} is not the one that this handle has read: another one, or "
            "an earlier state of it, was put in its place; open it again"
        )


def is_settled(head: Head, root: Root) -> bool:
    """Return whether the forks of a graph find their files at this root, as the head of `main` says."""
    return head.root == root.canonical and not head.unsettled


def graph_moved(head: Head, root: Root) -> GraphMoved:
    """Return the error for what needs forks in a graph that is not settled where it lies."""
    return GraphMoved(
        f"the graph at {root.canonical} was copied or moved from {head.root}, and its branches are not "
        "settled here yet: open it read-write once or run `omnigraph repair`, and it is a graph of its "
        "own; or run `omnigraph repair --moved` if the original is gone",
        recorded=head.root,
        actual=root.canonical,
    )
