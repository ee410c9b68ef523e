"""Topologies of stored graphs against sets and lists of plain edges."""

from __future__ import annotations

import threading
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import omnigraph as og
from omnigraph.lang.query.ir import Direction
from omnigraph.read.kernels.csr import multi_csr_of
from omnigraph.read.thresholds import Thresholds, ViewThresholds
from omnigraph.read.view.edges import EdgeList, Ends
from omnigraph.read.view.view import Reader
from omnigraph.storage.tables.staging import stage_append
from omnigraph.storage.tables.table import open_table
from omnigraph.storage.tables.table_commits import commit_staged
from tests.graphs import person
from tests.opened import read_with, workspace_of
from tests.read.view_helpers import (
    SCHEMA,
    check_against_rows,
    city,
    codes,
    counted,
    edge,
    edge_pairs,
    view_of,
)

OUT, IN, BOTH = Direction.OUT, Direction.IN, Direction.BOTH


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    graph = og.init(tmp_path_factory.mktemp("topology") / "g", SCHEMA)
    knows = [("a", "b"), ("b", "a"), ("a", "b"), ("c", "c"), ("a", "d"), ("d", "c"), ("c", "c")]
    graph.load(
        [
            *map(person, "dcba"),
            *map(city, "yx"),
            *(edge("Knows", src, dst, since=at) for at, (src, dst) in enumerate(knows)),
            edge("LivesIn", "a", "x"),
            edge("LivesIn", "c", "x"),
        ]
    )
    return graph


def rows_of(csr):
    spans = zip(csr.indptr[:-1], csr.indptr[1:], strict=True)
    return [csr.indices[low:high].tolist() for low, high in spans]


@pytest.mark.parametrize("at_a_time", [1, 3, 100])
def test_two_threads_read_the_same_edges_as_one(tmp_path, at_a_time):
    with og.init(tmp_path / "g", SCHEMA) as graph:
        graph.load([*map(person, "dcba"), *(edge("Knows", "a", end) for end in "bcdabcd")])
        graph.load([edge("Knows", start, "b") for start in "dcba"], mode="append")
        graph.mutate('query q() { delete Person where name = "c" }')
        before = view_of(graph).topology("Knows")
        threaded = ViewThresholds(threaded_rows=0, batch_rows=1, chunk_rows=at_a_time)
        read_with(graph, Thresholds(view=threaded))
        after = view_of(graph).topology("Knows")
        assert after.size == before.size == 8
        assert after.src.tolist() == before.src.tolist()
        assert after.dst.tolist() == before.dst.tolist()
        assert after.row_ids.tolist() == before.row_ids.tolist()
        check_against_rows(graph, view_of(graph))


def test_adjacency_has_each_neighbour_once_and_ascending(graph):
    topology = view_of(graph).topology("Knows")
    assert rows_of(topology.out()) == [[1, 3], [0], [2], [2]]
    assert rows_of(topology.into()) == [[1], [0], [2, 3], [0]]
    assert rows_of(topology.both()) == [[1, 3], [0], [2, 3], [0, 2]]
    assert topology.csr(OUT) is topology.out()
    assert topology.csr(IN) is topology.into()
    assert topology.csr(BOTH) is topology.both()
    assert topology.out().degrees.tolist() == [2, 1, 1, 1]
    assert topology.loops().tolist() == [False, False, True, False]
    assert topology.size == 7


def test_edge_types_between_two_types(graph):
    topology = view_of(graph).topology("LivesIn")
    assert rows_of(topology.out()) == [[0], [], [0], []]
    assert rows_of(topology.into()) == [[0, 2], []]
    assert (topology.out().shape, topology.into().shape) == ((4, 2), (2, 4))
    assert topology.loops().tolist() == [False] * 4
    assert topology.targets.type.name == "City"


def test_arrays_have_the_promised_types(graph):
    topology = view_of(graph).topology("Knows")
    for csr in (topology.out(), topology.multi(BOTH)):
        assert (csr.indptr.dtype, csr.indices.dtype) == (np.int64, np.int32)
        assert csr.indptr.size == csr.shape[0] + 1
    assert topology.multi(OUT).positions.dtype == np.int32
    assert (topology.src.dtype, topology.dst.dtype) == (np.int32, np.int32)
    assert (topology.row_ids.dtype, topology.out().degrees.dtype) == (np.uint64, np.int64)


EDGES = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=30)


@given(EDGES)
@settings(deadline=None)
def test_adjacency_of_any_edges(edges):
    src, dst = (np.array([pair[end] for pair in edges], np.int32) for end in (0, 1))
    made = EdgeList.of(Ends(src, dst, np.arange(len(edges), dtype=np.uint64)), (6, 6))
    steps = {OUT: defaultdict(list), IN: defaultdict(list), BOTH: defaultdict(list)}
    for position, (left, right) in enumerate(edges):
        steps[OUT][left].append((right, position))
        steps[IN][right].append((left, position))
        steps[BOTH][left].append((right, position))
        if left != right:
            steps[BOTH][right].append((left, position))
    for direction, csr in ((OUT, made.out()), (IN, made.into()), (BOTH, made.both())):
        near = [sorted({node for node, _ in steps[direction][row]}) for row in range(6)]
        assert rows_of(csr) == near
        assert entries(made.multi(direction)) == [sorted(steps[direction][row]) for row in range(6)]
    assert made.loops().tolist() == [(node, node) in edges for node in range(6)]


def entries(multi):
    """Targets and positions by row, sorted; the targets themselves have to ascend."""
    pairs = list(zip(multi.indices.tolist(), multi.positions.tolist(), strict=True))
    spans = [slice(*ends) for ends in pairwise(multi.indptr)]
    assert all(np.all(np.diff(multi.indices[span]) >= 0) for span in spans)
    return [sorted(pairs[span]) for span in spans]


@given(EDGES, st.randoms(use_true_random=False))
@settings(deadline=None)
def test_edges_sort_alike_when_their_numbers_do_not_fit_one_integer(edges, rng):
    src, dst = (np.array([pair[end] for pair in edges], np.int32) for end in (0, 1))
    positions = np.array(rng.sample(range(len(edges)), len(edges)), np.int32)
    expected = [
        sorted((b, at) for (a, b), at in zip(edges, positions.tolist(), strict=True) if a == row)
        for row in range(6)
    ]
    for columns in (6, 2**62):
        assert entries(multi_csr_of(src, dst, positions, (6, columns))) == expected


def test_edges_are_a_space_over_their_positions(graph):
    topology = view_of(graph).topology("Knows")
    edges = topology.edges
    stored = topology_rows(topology)
    assert edges.size == 7
    every = np.arange(7, dtype=np.int32)
    assert edges.column("since").array.to_pylist() == [row["since"] for row in stored]
    assert edges.values("since", codes(4, 4, 0)).to_pylist() == [
        stored[place]["since"] for place in (4, 4, 0)
    ]
    ids = [row["id"] for row in stored]
    assert edges.ids(every).to_pylist() == ids
    assert edges.ids(codes(3, 3)).to_pylist() == [ids[3], ids[3]]
    ranks = edges.ranks(codes(6, 2, 6, 0)).tolist()
    asked = [ids[6], ids[2], ids[6], ids[0]]
    assert np.argsort(ranks, kind="stable").tolist() == sorted(range(4), key=lambda i: asked[i])
    assert ranks[0] == ranks[2]
    assert len(set(ranks)) == 3


def topology_rows(topology):
    """The stored rows by edge position."""
    rows = topology.edges.pinned.table.read(None, with_row_id=True).to_pylist()
    by_row = {row["_rowid"]: row for row in rows}
    found = [by_row[row_id] for row_id in topology.row_ids.tolist()]
    ends = [(row["src"], row["dst"]) for row in found]
    src = topology.sources.ids(topology.src).to_pylist()
    dst = topology.targets.ids(topology.dst).to_pylist()
    assert ends == list(zip(src, dst, strict=True))
    return found


def test_an_empty_edge_type(tmp_path):
    topology = view_of(og.init(tmp_path / "g", SCHEMA)).topology("Knows")
    assert topology.size == 0
    assert rows_of(topology.out()) == []
    assert topology.multi(BOTH).positions.size == 0
    assert topology.edges.ids(codes()).to_pylist() == []
    assert topology.edges.ranks(codes()).tolist() == []


def test_bytes_grow_with_what_is_built_and_the_cache_notices(graph):
    reader = Reader(workspace_of(graph))
    view = view_of(graph, reader)
    topology = view.topology("Knows")
    before = topology.nbytes
    topology.out()
    topology.multi(OUT)
    grown = topology.out().nbytes + topology.multi(OUT).nbytes
    assert topology.nbytes == before + grown
    counted_before = reader.cache.nbytes
    view.topology("Knows")
    assert reader.cache.nbytes == counted_before + grown


def test_eight_threads_build_one_topology_once(graph, monkeypatch):
    builds = counted(monkeypatch, EdgeList, "read")
    view, ready = view_of(graph), threading.Barrier(8)

    def ask():
        ready.wait()
        topology = view.topology("Knows")
        return topology, topology.out(), topology.multi(BOTH)

    with ThreadPoolExecutor(8) as pool:
        made = [future.result() for future in [pool.submit(ask) for _ in range(8)]]
    assert builds == {"read": 1}
    assert all(topology.src is made[0][0].src for topology, _, _ in made)
    assert all(out is made[0][1] and multi is made[0][2] for _, out, multi in made)


def test_edges_without_an_end_are_left_out(tmp_path):
    # What a foreign writer left: no write of ours does.
    graph = og.init(tmp_path / "g", SCHEMA)
    graph.load([person("a"), person("b"), edge("Knows", "a", "b", since=1)])
    pin = graph.snapshot().tables["edge:Knows"]
    table = open_table(workspace_of(graph).pinned(pin))
    rows = pa.Table.from_pylist(
        [
            {"id": "1", "src": "nobody", "dst": "a", "since": 2},
            {"id": "2", "src": "b", "dst": "a", "since": 3},
            {"id": "3", "src": "a", "dst": "nobody", "since": 4},
        ],
        table.schema,
    )
    moved = commit_staged(stage_append(table, rows))
    snapshot = graph.snapshot()
    pins = {**snapshot.tables, "edge:Knows": replace(pin, table_version=moved.version, row_count=4)}
    view = Reader(workspace_of(graph)).view(replace(snapshot, tables=pins), graph.schema.catalog)
    topology = view.topology("Knows")
    assert edge_pairs(topology) == [("a", "b"), ("b", "a")]
    assert topology.edges.column("since").array.to_pylist() == [1, 3]
    assert topology.edges.values("since", codes(1)).to_pylist() == [3]


def test_a_whole_graph_is_what_its_rows_say(graph):
    check_against_rows(graph, view_of(graph))
