"""Breadth-first searches compiled by Numba: from one start, or from hundreds at once, each a bit of a word."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from omnigraph.cancel import look
from omnigraph.read.kernels.arrays import Adjacency, Codes, Counts, Index, Mask
from omnigraph.read.kernels.numba_loops import Targets, compiled, frozen, frozen_rows, in_pieces

Words = npt.NDArray[np.uint64]


# Words of starts in a wave: enough to use every access to memory well, few enough to stay in cache.
WORDS = 4
WAVE = 64 * WORDS
# Targets whose words are written together, as a power of two: what fits a core's cache.
BLOCK = 13
# Searches tried to learn what one costs.
PROBES = 16
# What the words of a wave may take up.
WAVE_BYTES = 1 << 29
# Edges to follow before a call returns, so that the work can be stopped.
CALL_STEPS = 20_000_000


def emitted(
    csr: Adjacency, starts: Codes, least: int, most: int, loops: Mask, inverse: bool, chunk: int
) -> tuple[Counts, Codes]:
    """What the first starts emit, as many starts as make about ``chunk`` nodes, at least one.

    Fewer where that takes long. Answers how many nodes each of them emits, and the nodes.
    """
    counts = np.zeros(len(starts), np.int64)
    nodes = np.empty(chunk + csr.shape[0], np.uint32)
    done = _emit(
        *frozen_rows(csr), frozen(starts), least, most, frozen(loops), inverse, chunk, counts, nodes
    )
    counts = counts[:done]
    return counts, nodes[: counts.sum()].view(np.int32)


@compiled
def _emit(
    indptr: Index,
    indices: Targets,
    starts: Codes,
    least: int,
    most: int,
    loops: Mask,
    inverse: bool,
    chunk: int,
    counts: Counts,
    nodes: Targets,
) -> int:
    stamps, queue = np.zeros(len(indptr), np.int32), np.empty(len(indptr), np.uint32)
    filled = steps = 0
    for i in range(len(starts)):
        if filled >= chunk or steps >= CALL_STEPS:
            return i
        before = filled
        late, low, high, followed = _search(
            indptr, indices, starts[i], i + 1, least, most, stamps, queue
        )
        steps += followed
        if inverse and loops[starts[i]]:
            low = late
        for k in range(late, low):
            if not inverse and loops[queue[k]]:
                nodes[filled] = queue[k]
                filled += 1
        for k in range(low, high):
            nodes[filled] = queue[k]
            filled += 1
        counts[i] = filled - before
    return len(starts)


@compiled
def _search(
    indptr: Index,
    indices: Targets,
    start: int,
    stamp: int,
    least: int,
    most: int,
    stamps: Codes,
    queue: Targets,
) -> tuple[int, int, int, int]:
    """Queue what is reached from a start, nearest first, and stamp it.

    Answers where distance ``least - 1`` begins in the queue, where ``least`` begins, where the queue
    ends, and how many edges were followed.
    """
    late, low, begin, tail, followed = -1, -1, 0, 1, 0
    queue[0] = start
    stamps[start] = stamp
    for distance in range(most + 1):
        if distance == least - 1:
            late = begin
        if distance == least:
            low = begin
        if distance == most or begin == tail:
            break
        end = tail
        for k in range(begin, end):
            u = queue[k]
            followed += indptr[u + 1] - indptr[u]
            for entry in range(indptr[u], indptr[u + 1]):
                w = indices[entry]
                # Without a branch: the next node overwrites one that was known.
                queue[tail] = w
                tail += stamps[w] != stamp
                stamps[w] = stamp
            if tail == len(indptr) - 1:
                break
        begin = end
    late = tail if late < 0 else late
    low = tail if low < 0 else low
    return late, low, tail, followed


def counted(
    csr: Adjacency,
    starts: Codes,
    least: int,
    most: int,
    loops: Mask,
    inverse: bool,
    weights: Counts | None,
) -> Counts:
    """How many nodes each start emits, or the sum of their weights."""
    counts = np.zeros(len(starts), np.int64)
    followed = np.zeros(len(starts), np.int64)
    worth = None if weights is None else frozen(weights)
    arguments = (
        *frozen_rows(csr),
        frozen(starts),
        least,
        most,
        frozen(loops),
        inverse,
        worth,
        counts,
    )
    if len(starts) <= PROBES:
        in_pieces(_count, np.arange(len(starts) + 1), *arguments, followed)
        return counts
    if _waves_pay(csr, len(starts), most, each := _probed(*arguments[:-1])):
        waves = -(-len(starts) // WAVE)
        effort = np.arange(waves + 1) * len(csr.indices)
        in_pieces(_waves, effort, *_blocked(*frozen_rows(csr)), csr.shape[0], *arguments[2:])
    else:
        in_pieces(_count, np.arange(len(starts) + 1) * each, *arguments, followed)
    return counts


def _probed(indptr: Index, indices: Targets, starts: Codes, *bounds: Any) -> int:
    """How many edges one search follows, tried on a few starts: sizes and degrees do not tell it.

    A mean without the largest: a few hubs must not make every search look as if it met one.
    """
    some = frozen(starts[:: len(starts) // PROBES][:PROBES])
    counts, followed = np.zeros(PROBES, np.int64), np.zeros(PROBES, np.int64)
    given: tuple[Any, ...] = (some, *bounds, counts, followed)
    in_pieces(_count, np.arange(PROBES + 1), indptr, indices, *given)
    return int(followed.sum() - followed.max()) // (PROBES - 1) + 1


def _waves_pay(csr: Adjacency, starts: int, most: int, each: int) -> bool:
    """Whether searching in waves is cheaper than following ``each`` edges for every start."""
    size, edges = csr.shape[0], len(csr.indices)
    # Nanoseconds, measured: one dense hop, the others sparse; against jumps all over memory.
    wave = 3 * edges + min(most, 6) * (edges + 10 * size)
    return wave < 6 * each * min(WAVE, starts) and 24 * WORDS * size < WAVE_BYTES


@compiled
def _count(
    first: int,
    last: int,
    indptr: Index,
    indices: Targets,
    starts: Codes,
    least: int,
    most: int,
    loops: Mask,
    inverse: bool,
    weights: Counts | None,
    counts: Counts,
    followed: Counts,
) -> int:
    """Count from some starts, as many as do not take long; answers where it stopped."""
    stamps, queue = np.zeros(len(indptr), np.int32), np.empty(len(indptr), np.uint32)
    steps = 0
    for i in range(first, last):
        if steps >= CALL_STEPS:
            return i
        late, low, high, followed[i] = _search(
            indptr, indices, starts[i], i - first + 1, least, most, stamps, queue
        )
        if inverse and loops[starts[i]]:
            low = late
        total = np.int64(0)
        if not inverse:
            for k in range(late, low):
                if loops[queue[k]]:
                    total += 1 if weights is None else weights[queue[k]]
        if weights is None:
            total += high - low
        else:
            for k in range(low, high):
                total += weights[queue[k]]
        counts[i] = total
        steps += followed[i]
    return last


@compiled
def _blocked(indptr: Index, indices: Targets) -> tuple[Targets, Targets]:
    """The edges as sources and targets, by block of targets and then by source."""
    blocks = np.zeros((len(indptr) >> BLOCK) + 2, np.int64)
    for entry in range(len(indices)):
        blocks[(indices[entry] >> BLOCK) + 1] += 1
    places = np.cumsum(blocks)
    sources, targets = np.empty(len(indices), np.uint32), np.empty(len(indices), np.uint32)
    for u in range(len(indptr) - 1):
        for entry in range(indptr[u], indptr[u + 1]):
            block = indices[entry] >> BLOCK
            sources[places[block]] = u
            targets[places[block]] = indices[entry]
            places[block] += 1
    return sources, targets


def _waves(
    first: int,
    last: int,
    sources: Targets,
    targets: Targets,
    size: int,
    starts: Codes,
    least: int,
    most: int,
    loops: Mask,
    inverse: bool,
    weights: Counts | None,
    counts: Counts,
) -> None:
    """Search from ``WAVE`` starts at a time: each has a bit in the words of every node."""
    visited, now, then = (np.empty((size, WORDS), np.uint64) for _ in range(3))
    for wave in range(first, last):
        some = starts[wave * WAVE : (wave + 1) * WAVE]
        place, bits = (
            np.arange(len(some)) >> 6,
            np.uint64(1) << np.arange(len(some), dtype=np.uint64) % 64,
        )
        now.fill(0)
        then.fill(0)
        np.bitwise_or.at(now, (some, place), bits)
        visited[:] = now
        active = np.zeros(size, np.bool_)
        active[some] = True
        # The starts that emit at distance `least - 1`; from there on all do.
        emitting = np.zeros(WORDS, np.uint64)
        chosen = loops[some] | (not inverse)
        np.bitwise_or.at(emitting, place[chosen], bits[chosen])
        totals = np.zeros(WAVE, np.int64)
        for distance in range(most + 1):
            look()
            if distance == least:
                emitting.fill(~np.uint64(0))
            if distance >= least - 1:
                only_loops = distance < least and not inverse
                _tally(now, active, emitting, loops, only_loops, weights, totals)
            if distance == most or not _advance(sources, targets, visited, now, then, active):
                break
            now, then = then, now
        counts[wave * WAVE : (wave + 1) * WAVE] = totals[: len(some)]


@compiled
def _advance(
    sources: Targets, targets: Targets, visited: Words, now: Words, then: Words, active: Mask
) -> bool:
    """Go one hop: ``then`` gets the bits that are new to each node, ``now`` is emptied."""
    for edge in range(len(sources)):
        u = sources[edge]
        if active[u]:
            w = targets[edge]
            for j in range(WORDS):
                then[w, j] |= now[u, j]
    some = False
    for w in range(len(active)):
        new = np.uint64(0)
        for j in range(WORDS):
            then[w, j] &= ~visited[w, j]
            visited[w, j] |= then[w, j]
            new |= then[w, j]
            now[w, j] = 0
        active[w] = new != 0
        some |= new != 0
    return some


@compiled
def _tally(
    now: Words,
    active: Mask,
    emitting: Words,
    loops: Mask,
    only_loops: bool,
    weights: Counts | None,
    totals: Counts,
) -> None:
    """Add to the total of each start in ``emitting`` what the nodes with its bit are worth."""
    lanes = np.zeros((WORDS, 8), np.uint64)
    held = 0
    for v in range(len(active)):
        if not active[v] or (only_loops and not loops[v]):
            continue
        worth = np.int64(1 if weights is None else weights[v])
        for j in range(WORDS):
            word = now[v, j] & emitting[j]
            if worth == 1:
                # Bit k of all eight bytes at once, each into a byte of its own.
                for k in range(8):
                    lanes[j, k] += (word >> np.uint64(k)) & np.uint64(0x0101010101010101)
            elif worth != 0:
                _tally_bits(word, worth, totals[64 * j :])
        held += worth == 1
        if held == 255:
            _unload(lanes, totals)
            held = 0
    _unload(lanes, totals)


@compiled
def _tally_bits(word: np.uint64, worth: np.int64, totals: Counts) -> None:
    bit = 0
    while word:
        totals[bit] += np.int64(word & np.uint64(1)) * worth
        word >>= np.uint64(1)
        bit += 1


@compiled
def _unload(lanes: Words, totals: Counts) -> None:
    # Bounds from the arrays, not constants: with constants the compiler unrolls this, which takes seconds.
    for j in range(lanes.shape[0]):
        for k in range(lanes.shape[1]):
            for byte in range(lanes.shape[1]):
                count = (lanes[j, k] >> np.uint64(8 * byte)) & np.uint64(255)
                totals[64 * j + 8 * byte + k] += np.int64(count)
            lanes[j, k] = 0
