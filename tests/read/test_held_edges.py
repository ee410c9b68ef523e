"""What holds is kept in memory: adjacency follows when bounds pass, and is never that of another period."""

from __future__ import annotations

import random
from typing import NamedTuple

import numpy as np
import pytest

import omnigraph
from omnigraph import cancel
from omnigraph.lang.query.ir import Direction
from omnigraph.read.kernels import late_csr
from omnigraph.read.kernels.late_csr import LateCsr, LateMultiCsr
from omnigraph.read.values import periods
from omnigraph.read.values.column import Column
from omnigraph.read.values.periods import HeldMasks, TimeWindow
from omnigraph.read.view.edges import EdgeList
from omnigraph.read.view.ends import Ends
from omnigraph.read.view.held_edges import HeldEdges, held_edges
from omnigraph.types import PropType, Scalar, to_arrow

DATE = PropType(Scalar.DATE, nullable=True)
NODES = 6


def bounds(rng: random.Random, edges: int, days: int, share: float) -> tuple[Column, Column]:
    """Periods of which a share has bounds that are to come."""
    pairs = []
    for _ in range(edges):
        since, until = sorted(rng.randrange(-40, 0) for _ in range(2))
        if rng.random() < share:
            since, until = sorted(rng.randrange(days) for _ in range(2))
        pairs.append((rng.choice([None, since]), rng.choice([None, until])))
    since, until = (Column(DATE, to_arrow(DATE, list(one))) for one in zip(*pairs, strict=True))
    return since, until


class Look(NamedTuple):
    """What a look at what changed costs, in entries of adjacency and of a mask."""

    adjacency: int
    mask: int


def same_rows(one, other, look):
    """Whether adjacency is the same, read row by row."""
    assert one.entries == len(other.indices)
    for row in range(NODES):
        rows = np.array([row], np.int32)
        read = (
            one.at(rows, look.adjacency)
            if isinstance(one, LateCsr | LateMultiCsr)
            else one.at(rows)
        )
        for name in other.ARRAYS[1:]:
            near, expected = (
                getattr(way, name)[way.indptr[row] : way.indptr[row + 1]] for way in (read, other)
            )
            assert near.tolist() == expected.tolist()
    assert one.degrees.tolist() == other.degrees.tolist()
    assert one.filled.tolist() == other.filled.tolist()
    assert one.is_filled.tolist() == other.is_filled.tolist()
    assert one.most >= other.most


@pytest.fixture(params=["here", "aside"], autouse=True)
def _where(request, monkeypatch):
    """Much work is done in a thread beside the one that waits, which must not wait for what that one holds."""
    if request.param == "aside":
        monkeypatch.setattr(cancel, "LONG_ITEMS", 1)


# Where few entries change whole pieces are copied; where more than 64 do every entry is looked at.
@pytest.mark.parametrize(
    ("edges", "share"), [(160, 0.1), (12_000, 0.25)], ids=["pieces", "entries"]
)
@pytest.mark.parametrize("seed", range(5))
def test_adjacency_follows_when_bounds_pass(seed, edges, share):
    rng = random.Random(seed)
    # With looks that cost nothing, nothing is copied for the sake of single rows, however often they are read.
    look = Look(0, 0) if seed % 2 else Look(late_csr.LOOK, periods.LOOK)
    ends = np.array([[rng.randrange(NODES) for _ in range(edges)] for _ in range(2)], np.int32)
    whole = EdgeList.of(Ends(*ends, np.arange(edges, dtype=np.uint64)), (NODES, NODES))
    since, until = bounds(rng, edges, 30, share)
    masks, followed, moment = HeldMasks(), 0, 0
    while moment < 30:
        window = TimeWindow(moment * 86_400_000)
        held = masks.of(window, lambda: (since, until), is_date=True)
        expected = HeldMasks().of(window, lambda: (since, until), is_date=True)
        some = np.array([rng.randrange(edges) for _ in range(5)], np.int32)
        assert held.of(some, look.mask).tolist() == expected.mask[some].tolist()
        assert held.key == expected.key
        followed += held.change is not None
        found = held_edges(whole, "period", held)
        fresh = HeldEdges(whole, expected, int(expected.mask.sum()))
        assert found.edges.size == fresh.edges.size
        # Some ways to see it stay unused for a while, as those do that nobody asks for.
        ways = [way for way in ("out", "into", "both") if rng.random() < 0.7]
        directions = [way for way in Direction if rng.random() < 0.7]
        for one, other in (
            *((getattr(found.edges, way)(), getattr(fresh.edges, way)()) for way in ways),
            *((found.multi(way), fresh.multi(way)) for way in directions),
        ):
            same_rows(one, other, look)
            if rng.random() < 0.3:
                for name in one.ARRAYS:
                    assert np.array_equal(getattr(one, name), getattr(other, name)), name
        if rng.random() < 0.3:
            assert np.array_equal(held.mask, expected.mask)
            assert np.array_equal(found.positions, fresh.positions)
            assert np.array_equal(found.edges.loops(), fresh.edges.loops())
        moment += rng.choice([0, 1, 1, 1, 3])
    assert followed > 3


SCHEMA = """
node P { slug: String @key }
edge L: P -> P { s: Date?  u: Date?  v: Date?  @valid(s, u) }
"""


def test_another_period_of_the_same_rows_is_another_answer(tmp_path, monkeypatch):
    monkeypatch.setenv("OMNIGRAPH_TRAVERSAL_MODE", "csr")
    text = "match { $p l $q } return { $p.slug as p }"
    with omnigraph.init(tmp_path / "g", SCHEMA) as graph:
        rows = [{"type": "P", "data": {"slug": slug}} for slug in "abcd"]
        rows += [
            {"edge": "L", "from": "a", "to": "b", "data": {"u": "2020-01-01"}},
            {"edge": "L", "from": "c", "to": "d", "data": {"v": "2020-01-01"}},
        ]
        graph.load(rows)
        assert graph.query(text).rows == [{"p": "c"}]
        graph.schema.apply(SCHEMA.replace("@valid(s, u)", ""))
        assert len(graph.query(text).rows) == 2
        graph.schema.apply(SCHEMA.replace("@valid(s, u)", "@valid(s, v)"))
        assert graph.query(text).rows == [{"p": "a"}]
