"""Stored graphs to read spaces of, and readers that remember nothing to compare with."""

from __future__ import annotations

from collections import Counter
from inspect import getattr_static
from typing import Any

import numpy as np

from omnigraph.graph import Graph
from omnigraph.read.kernels.csr import Csr
from omnigraph.read.view.nodes import NodeSpace
from omnigraph.read.view.topology import Topology
from omnigraph.read.view.view import Reader, View
from tests.opened import fresh_reader
from tests.stored import read_back

SCHEMA = """
node Person { name: String @key
  age: I64?
  tags: [String]?
  vec: Vector(2)? }
node City { name: String @key }
edge Knows: Person -> Person { since: I64? }
edge LivesIn: Person -> City
"""


def city(name: str) -> dict[str, Any]:
    return {"type": "City", "data": {"name": name}}


def edge(kind: str, src: str, dst: str, **values: Any) -> dict[str, Any]:
    return {"edge": kind, "from": src, "to": dst, "data": values}


def view_of(graph: Graph, reader: Reader | None = None, branch: str = "main") -> View:
    reader = fresh_reader(graph) if reader is None else reader
    return reader.view(graph.snapshot(branch=branch), graph.schema.catalog)


def codes(*numbers: int) -> Any:
    return np.array(numbers, np.int32)


def edge_pairs(topology: Topology) -> list[tuple[str, str]]:
    """The ends of every edge of a topology by id, sorted."""
    src = topology.sources.ids(topology.src).to_pylist()
    dst = topology.targets.ids(topology.dst).to_pylist()
    return sorted(zip(src, dst, strict=True))


def check_against_rows(graph: Graph, view: View, branch: str = "main") -> None:
    """Nodes and edges of the view are those a plain read of the branch gives."""
    plain = read_back(graph, branch)
    for name in view.catalog.nodes:
        space = view.nodes(name)
        assert space.id_array.to_pylist() == sorted(plain.nodes[name], key=str.encode)
    for name in view.catalog.edges:
        stored = sorted((src, dst) for _, src, dst, _ in plain.edges[name])
        assert edge_pairs(view.topology(name)) == stored


def check_same(left: View, right: View) -> None:
    """Two views of one snapshot number everything alike."""
    for name in left.catalog.nodes:
        check_same_nodes(left.nodes(name), right.nodes(name))
    for name in left.catalog.edges:
        one, other = left.topology(name), right.topology(name)
        assert np.array_equal(one.row_ids, other.row_ids)
        assert np.array_equal(one.src, other.src)
        assert np.array_equal(one.dst, other.dst)
        check_same_adjacency(one.out(), other.out())
        check_same_adjacency(one.into(), other.into())


def check_same_adjacency(left: Csr, right: Csr) -> None:
    assert left.shape == right.shape
    assert np.array_equal(left.indptr, right.indptr)
    assert np.array_equal(left.indices, right.indices)
    assert (left.indptr.dtype, left.indices.dtype) == (right.indptr.dtype, right.indices.dtype)


def check_same_nodes(left: NodeSpace, right: NodeSpace) -> None:
    assert left.id_array.equals(right.id_array)
    assert np.array_equal(left.row_ids, right.row_ids)
    for name in left.type.properties:
        assert left.column(name).array.equals(right.column(name).array), name


def counted(monkeypatch: Any, owner: Any, name: str) -> Counter[str]:
    """Counts the calls of a function or method, which still does its work."""
    calls: Counter[str] = Counter()
    original = getattr(owner, name)

    def counting(*args: Any, **options: Any) -> Any:
        calls[name] += 1
        return original(*args, **options)

    static = isinstance(getattr_static(owner, name), staticmethod)
    monkeypatch.setattr(owner, name, staticmethod(counting) if static else counting)
    return calls
