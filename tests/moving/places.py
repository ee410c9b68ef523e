"""Copying and moving graphs the way people do, between directories and buckets."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import omnigraph as og
from omnigraph.graph import Graph
from omnigraph.storage.lance_format.file_ends import base_paths
from omnigraph.storage.layout import LOCKS_DIR
from omnigraph.storage.objects.stores import open_store
from omnigraph.storage.uris import Root
from tests.faults.matrix import operations
from tests.graphs import person
from tests.opened import workspace_of

SCHEMA = """
node Person { name: String @key  age: I32? @index  face: Blob? }
edge Knows: Person -> Person { since: Date? }
"""


def knows(one: str, other: str) -> dict[str, Any]:
    """A record of an edge."""
    return {"edge": "Knows", "from": one, "to": other, "data": {"id": f"{one}-{other}"}}


def build(uri: str) -> dict[str, Any]:
    """Make a graph with branches, a fork of a fork, a branch without forks, tags, blobs and indexes; return what it shows."""
    with og.init(uri, SCHEMA) as graph:
        graph.load([person("ann", age=1, face="base64:AAEC"), person("bob", age=2)])
        graph.load([knows("ann", "bob")])
        graph.ensure_indices()
        graph.branches.create("side")
        graph.branches.create("lazy")
        graph.load([person("sue", age=3), knows("sue", "ann")], branch="side")
        graph.load([person("max", age=4)], branch="side")
        graph.tags.create("old", "side")
        graph.branches.create("deep/er", "side")
        graph.mutate(
            'query q() { update Person set { age: 9 } where name = "sue" }', branch="deep/er"
        )
        graph.load([person("tom", age=5)], branch="deep/er")
        graph.ensure_indices("deep/er")
        return seen(graph)


def copy(source: str, target: str) -> None:
    """Copy all files of a graph, in the order of their names.

    Files of locks on a disk would be leases in a bucket, where everybody waits until they have run out.
    """
    if Root.parse(source).is_local and Root.parse(target).is_local:
        subprocess.run(["cp", "-r", source, target], check=True)
        return
    here, there = open_store(Root.parse(source)), open_store(Root.parse(target))
    for name in here.list():
        if Root.parse(source).is_local and name.startswith(f"{LOCKS_DIR}/"):
            continue
        there.replace_bytes(name, here.read_bytes(name))


def remove(uri: str) -> None:
    """Remove all files of a graph."""
    root = Root.parse(uri)
    if root.is_local:
        shutil.rmtree(root.path, ignore_errors=True)
        return
    store = open_store(root)
    for name in store.list():
        store.delete(name)


def move(source: str, target: str) -> None:
    """Have a graph lie elsewhere."""
    if Root.parse(source).is_local and Root.parse(target).is_local:
        Path(source).rename(target)
        return
    copy(source, target)
    remove(source)


def put_back(backup: str, target: str) -> None:
    """Put a backup in the place of what is there now."""
    remove(target)
    copy(backup, target)


def seen(graph: Graph) -> dict[str, Any]:
    """What a user sees of a graph, read anew: another one may have the same version numbers."""
    operations._known.clear()
    return operations.shown(graph)


def bases(graph: Graph) -> set[str]:
    """Where the forks of a graph look for their files, in all their versions."""
    store = workspace_of(graph).store
    return {
        path
        for name in store.list()
        if "/tree/" in name and name.endswith(".manifest")
        for path in base_paths(store.read_bytes(name))
    }


def names(graph: Graph, branch: str = "main", **target: Any) -> list[str]:
    """The names of all people, sorted."""
    at = target or {"branch": branch}
    query = "query q() { match { $p: Person } return { $p.name } order { $p.name } }"
    return [row["p.name"] for row in graph.query(query, **at).rows]


def files(folder: str | Path) -> dict[str, bytes]:
    """The content of every file below a directory."""
    return {
        os.path.relpath(Path(place, name), folder): Path(place, name).read_bytes()
        for place, _, found in os.walk(folder)
        for name in found
    }
