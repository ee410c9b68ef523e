"""A graph that is deleted while somebody works with it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import omnigraph as og
from omnigraph.cluster.graphs import delete_at

SCHEMA = "node Author {\n    name: String @key\n}\n"
ADD = 'query q() { insert Author { name: "x" } }'
POINTS = ("attempt.pinned", "load.before_locks", "mutation.before_locks", "recovery.sidecar_list")
"""Where a writer holds no lock yet."""


def author(number):
    return {"type": "Author", "data": {"name": f"a{number}"}}


def make(uri):
    with og.init(uri, SCHEMA) as graph:
        graph.load([author(0)])


def elsewhere(work):
    """Do something in a thread of its own, as another process would, and wait for its end."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()


def delete_once(uri):
    """An action of a failpoint that deletes a graph."""
    passed = []

    def delete(name):
        if not passed:
            passed.append(name)
            elsewhere(lambda: delete_at(uri))

    return delete


def write(graph, point):
    """A write that passes the point."""
    if point.startswith("mutation"):
        return graph.mutate(ADD)
    return graph.load([author(1)])
