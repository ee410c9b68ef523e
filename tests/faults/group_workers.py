"""A process whose threads share commits until it dies at a failpoint."""

from __future__ import annotations

import os
import threading

from omnigraph import failpoints
from omnigraph.clock import new_ulid
from omnigraph.errors import ConstraintError
from omnigraph.graph import open as open_graph

THREADS = 5
ADD = """query q($name: String, $team: String) {
  insert Person { name: $name }
  update Count set { n: n + 1 } where name = "all"
  insert In { from: $name, to: $team }
}"""


def add_until_dead(uri: str, journal: str, point: str, skip: int) -> None:
    """Insert people from several threads, and write down what was asked and what was told, until the point."""
    told = os.open(journal, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    graph = open_graph(uri, group_commit=True)

    def note(*words: str) -> None:
        os.write(told, f"{' '.join(words)}\n".encode())

    def add(at: int) -> None:
        number = 0
        while True:
            number += 1
            name, chosen = f"p{at}-{number}", new_ulid()
            team = "nowhere" if number % 4 == 0 else "t"
            note("asked", name, chosen)
            try:
                done = graph.mutate(ADD, {"name": name, "team": team}, operation_id=chosen)
            except ConstraintError:
                note("refused", name, chosen)
            else:
                assert done.commit is not None
                note("done", name, chosen, done.commit.graph_commit_id)

    threads = [threading.Thread(target=add, args=(at,)) for at in range(THREADS)]
    failpoints.arm(point, "exit", skip=skip)
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
