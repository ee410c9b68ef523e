"""The relation of `{min,max}` hops over one edge type: which nodes a breadth-first search emits.

From ``x`` it emits ``y`` when the distance from ``x`` to ``y`` lies in [min, max] and is at least 1, or
when the distance is min - 1 and ``y`` has a stored self-loop, which is then the hop that emits it.

    edges 0 -> 1 -> 2 -> 3, hops {2,3}, start 0   ->   2 and 3

Searched from ``y`` instead (``inverse``), along adjacency in the opposite direction, the pairs are the
same: a start with a self-loop admits distances from min - 1.

``emitted`` and ``counted`` search from several starts side by side. Their twins in ``hops_numba`` must give the same
results; ``twins`` chooses.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from omnigraph.cancel import look
from omnigraph.read.kernels import frontier
from omnigraph.read.kernels.arrays import Adjacency, Codes, Counts, Index, Mask, row_lengths
from omnigraph.read.kernels.twins import in_numpy, with_twin

# Of so many marks one has to be new for all of them to be looked at; fewer new ones are sorted.
_DENSE = 32
# Pairs in a chunk, about.
CHUNK = 1 << 20
# Pairs of start and node to hold marks for.
MARKS = 1 << 22
_SAMPLE = 4096
# Nodes that searches may find together to be listed instead of marked, and the steps they may take.
LISTED = 1 << 16
_LISTED_STEPS = 64


def reach(
    csr: Adjacency,
    starts: Codes,
    least: int,
    most: int,
    loops: Mask | None = None,
    inverse: bool = False,
    chunk: int = CHUNK,
) -> Iterator[tuple[Index, Codes]]:
    """The nodes emitted from each start, in chunks of whole starts and about ``chunk`` nodes.

    The first array holds the place in ``starts`` and ascends; the nodes of a start come in any order.
    ``csr`` is the adjacency the search follows; ``loops`` is read off it where it is not at hand.
    """
    most = min(most, csr.shape[0])  # No distance is larger; bounds may be any integer.
    if least > most:
        return
    loops = _loops(csr) if loops is None else loops
    done = 0
    while done < len(starts):
        look()
        some = starts[done:]
        counts, nodes = emitted(csr, some, least, most, loops, inverse, chunk)
        yield np.repeat(np.arange(done, done + len(counts)), counts), nodes
        done += len(counts)


def reach_count(
    csr: Adjacency,
    starts: Codes,
    least: int,
    most: int,
    loops: Mask | None = None,
    inverse: bool = False,
    weights: Counts | None = None,
) -> Counts:
    """How many nodes are emitted from each start, or the sum of their weights."""
    most = min(most, csr.shape[0])
    if least > most:
        return np.zeros(len(starts), np.int64)
    loops = _loops(csr) if loops is None else loops
    return counted(csr, starts, least, most, loops, inverse, weights)


def _seconds(csr: Adjacency, starts: Codes, _least: int, most: int, *_: object) -> float:
    """How long searching from each start takes in NumPy, roughly."""
    return 100e-9 * len(starts) * _followed(csr, most)


def _followed(csr: Adjacency, most: int) -> float:
    """How many edges a search from one start may follow."""
    edges, total, reached = len(csr.indices), 0.0, 1.0
    degree = edges / (csr.shape[0] or 1)
    for hop in range(min(most, 20)):
        reached *= degree
        total += reached
        if total >= edges:
            return edges
        if hop == 0:
            degree = _degree_at_ends(csr)
    return total


def _degree_at_ends(csr: Adjacency) -> float:
    """The mean degree of what edges lead to, which hubs make far larger than that of all nodes."""
    some = csr.indices[:: len(csr.indices) // _SAMPLE + 1]
    return float((csr.indptr[some + 1] - csr.indptr[some]).mean()) if len(some) else 0.0


def _loops(csr: Adjacency) -> Mask:
    rows = np.repeat(np.arange(csr.shape[0]), np.diff(csr.indptr))
    loops = np.zeros(csr.shape[0], np.bool_)
    loops[rows[rows == csr.indices]] = True
    return loops


@with_twin(_seconds)
def emitted(
    csr: Adjacency,
    starts: Codes,
    least: int,
    most: int,
    loops: Mask,
    inverse: bool,
    chunk: int,
    /,
    *,
    targets: int = frontier.CHUNK,
    listed: int = LISTED,
) -> tuple[Counts, Codes]:
    """What the first starts emit, as many starts as make about ``chunk`` nodes, at least one.

    Answers how many nodes each of them emits, and the nodes. ``targets`` bounds the neighbours looked at
    together, ``listed`` the nodes that are listed instead of marked.
    """
    size = csr.shape[0]
    near = _near(csr, starts, least, most, loops, inverse, min(chunk, listed))
    if near is not None:
        return near
    starts = starts[: max(1, min(MARKS, chunk) // max(size, 1))]
    visited = np.zeros(len(starts) * size, np.bool_)
    marked = np.zeros(len(starts) * size, np.bool_)
    search, node = np.arange(len(starts)), starts
    for distance in range(most + 1):
        look()
        if not len(node):
            break
        # A node of one of the searches is `search * size + node`.
        keys = search * size + node
        visited[keys] = True
        if distance >= least:
            marked[keys] = True
        elif distance == least - 1:
            looped = loops[starts[search] if inverse else node]
            marked[keys[looped]] = True
        if distance < most:
            search, node = _split(_following(csr, search, node, visited, targets), size)
    search, node = _split(np.flatnonzero(marked), size)
    return np.bincount(search, minlength=len(starts)), node


def _near(
    csr: Adjacency, starts: Codes, least: int, most: int, loops: Mask, inverse: bool, listed: int
) -> tuple[Counts, Codes] | None:
    """The same where searches find few nodes, such as the parents of a comment: these are listed, not marked.

    None where marks of all nodes are cheap, or where a search goes on and on.
    """
    size = csr.shape[0]
    if len(starts) * size <= listed:
        return None
    starts = starts[: int(listed / (1 + _followed(csr, most)))]
    if len(starts) * size <= listed:
        return None
    search, node = np.arange(len(starts)), starts
    visited, marked = np.zeros(0, np.int64), [np.zeros(0, np.int64)]
    for distance in range(most + 1):
        look()
        if not len(node):
            break
        if distance > _LISTED_STEPS or len(visited) > listed:
            return None
        keys = search * size + node
        # Both are in order, so that they are merged.
        visited = np.sort(np.concatenate([visited, keys]), kind="stable")
        if distance >= least:
            marked.append(keys)
        elif distance == least - 1:
            marked.append(keys[loops[starts[search] if inverse else node]])
        if distance < most:
            if int(row_lengths(csr, node).sum()) > listed:
                return None
            place, found = frontier.expand(csr, node)
            following = np.unique(search.take(place) * size + found)
            at = np.minimum(np.searchsorted(visited, following), len(visited) - 1)
            search, node = _split(following[visited.take(at) != following], size)
    search, node = _split(np.sort(np.concatenate(marked)), size)
    return np.bincount(search, minlength=len(starts)), node


def _following(csr: Adjacency, search: Index, node: Codes, visited: Mask, targets: int) -> Index:
    """The nodes one step on that their search has not visited yet, which it has from now on."""
    size = csr.shape[0]
    found = [np.zeros(0, np.int64)]
    for begin, end in frontier.cut(row_lengths(csr, node), targets):
        look()
        place, near = frontier.expand(csr, node[begin:end])
        keys = search[begin:end].take(place) * size
        keys += near
        keys = keys[~visited.take(keys)]
        if len(keys) * _DENSE > len(visited):
            before = visited.copy()
            visited[keys] = True
            keys = np.flatnonzero(visited != before)
        else:
            keys = np.unique(keys)
            visited[keys] = True
        found.append(keys)
    # Parts that are in order each are merged.
    return np.sort(np.concatenate(found), kind="stable")


def _split(keys: Index, size: int) -> tuple[Index, Codes]:
    if not len(keys):
        return keys, np.zeros(0, np.int32)
    search, node = np.divmod(keys, size)
    return search, node.astype(np.int32)


@with_twin(_seconds)
def counted(
    csr: Adjacency,
    starts: Codes,
    least: int,
    most: int,
    loops: Mask,
    inverse: bool,
    weights: Counts | None,
    /,
    *,
    marks: int = MARKS,
) -> Counts:
    """How many nodes each start emits, or the sum of their weights; about ``marks`` pairs at a time."""
    totals = np.zeros(len(starts), np.int64)
    done = 0
    while done < len(starts):
        counts, nodes = in_numpy(emitted)(csr, starts[done:], least, most, loops, inverse, marks)
        if weights is None:
            totals[done : done + len(counts)] = counts
        else:
            index = np.repeat(np.arange(done, done + len(counts)), counts)
            np.add.at(totals, index, weights[nodes])
        done += len(counts)
    return totals
