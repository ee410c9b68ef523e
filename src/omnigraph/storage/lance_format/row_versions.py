"""The versions of a table in which rows were created and last changed, as Lance keeps them.

A fragment has one sequence of each kind, in runs: so many rows, then the version they share. Every
manifest of the table holds all sequences, so whoever opens or commits a version pays for every run. A
table that gets one row with each commit would have two runs for each of its rows.

So when fragments are merged, rows that have not changed for ``EXACT_VERSIONS`` are put into a few
groups. All rows of a group count as created in the version of the one created first, and as changed in
that of the one changed last:

    rows            a    b    c    d              one group
    created in      2    3    4    4    becomes   2
    changed in      2    3    7    4    becomes   7

For a delta since a version before the group or after it, nothing is different. Since one within it (a
version more than ``EXACT_VERSIONS`` older than the merge) all rows of the group count as changed: some
of them did not change, and some are new. So whoever reads such a delta looks at the rows themselves.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, NamedTuple

from omnigraph.storage.lance_format.protobuf import bytes_field, number_field, read_fields

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

EXACT_VERSIONS: Final = 64
"""A delta since one of this many newest versions says exactly which rows are new and which changed."""

MOST_GROUPS: Final = 32
"""How many groups of rows that have not changed for a while a fragment has at most."""


class Runs(NamedTuple):
    """A sequence of versions: the number of rows in each run, and the version that they share."""

    counts: npt.NDArray[np.int64]
    versions: npt.NDArray[np.int64]

    @property
    def rows(self) -> int:
        """How many rows the sequence is for."""
        return int(self.counts.sum())

    def at(self, ends: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The versions of the rows just before these ends."""
        import numpy as np

        return self.versions[np.searchsorted(np.cumsum(self.counts), ends)]


def runs_of(versions: npt.NDArray[np.uint64]) -> Runs:
    """The sequence of versions that are given row by row."""
    import numpy as np

    starts = np.flatnonzero(np.r_[True, versions[1:] != versions[:-1]])
    counts = np.diff(np.r_[starts, len(versions)])
    return Runs(counts, versions[starts].astype(np.int64))


def encoded(runs: Runs) -> str:
    """A sequence as JSON, from which Lance makes what it stores (``RowDatasetVersionMeta.from_json``).

    A run is the protobuf message `{1: {1: {2: number of rows}}, 2: version}`; the sequence has its
    runs in field 1. There is no other way to make one in pylance 14. There may be as many runs as
    rows, but few different ones, so each is encoded once.
    """
    import numpy as np

    # Both numbers have at most 32 bits (``_NUMBERS``).
    different, which = np.unique(runs.counts << 32 | runs.versions, return_inverse=True)
    texts = [_run_text(key >> 32, key & 0xFFFF_FFFF) for key in different.tolist()]
    listed = np.array(texts, dtype=object)[which].tolist()
    return f'{{"inline": [{",".join(listed)}]}}'


def decoded(sequence: str) -> Runs | None:
    """The sequence of such a JSON; None if it lies in a file of its own or is written in another way."""
    import numpy as np

    stored = json.loads(sequence).get("inline")
    if stored is None:
        return None
    found = [_read_run(value) for _, value in read_fields(bytes(stored))]
    if not found or None in found:
        return None
    return Runs(*np.array(found, np.int64).T)


def in_groups(created: Runs, changed: Runs, version: int) -> tuple[Runs, Runs] | None:
    """Both sequences of a merged fragment with rows in groups, where they have not changed for a while.

    ``version`` is that of the table before the fragment becomes part of it. None: there are few runs of
    such rows, which stay as they are.
    """
    import numpy as np

    # Runs of the two sequences begin at different rows. Between two of these ends both versions are the same.
    ends = np.union1d(np.cumsum(created.counts), np.cumsum(changed.counts))
    first, last = created.at(ends), changed.at(ends)
    # By the last change: a row that was changed lately must stay exact, however old it is.
    old = last <= version - EXACT_VERSIONS
    runs = int(old.sum())
    if runs <= MOST_GROUPS:
        return None
    # By rows, not by runs: otherwise the oldest group would soon hold most rows.
    rows = np.where(old, np.diff(ends, prepend=0), 0)
    group = (np.cumsum(rows) - rows) * MOST_GROUPS // rows.sum()
    # A group ends where its number changes, and at every run that stays exact, which is a group of its own.
    starts = np.flatnonzero(
        np.r_[True, (group[1:] != group[:-1]) | (old[1:] != old[:-1]) | ~old[1:]]
    )
    counts = np.diff(np.r_[0, ends[starts[1:] - 1], ends[-1]])
    return (
        # Earliest created and latest changed: a delta may then name a row too many, and never one too few.
        Runs(counts, np.minimum.reduceat(first, starts)),
        Runs(counts, np.maximum.reduceat(last, starts)),
    )


def _run_text(count: int, version: int) -> str:
    """The bytes of one run as JSON lists them."""
    rows = bytes_field(1, bytes_field(1, number_field(2, count)))
    return ",".join(map(str, bytes_field(1, rows + number_field(2, version))))


def _read_run(message: int | bytes) -> tuple[int, int] | None:
    """(number of rows, version); None if it is written in another way.

    A run says by a set of numbers where its rows are, of which only the size counts: the rows of a run begin
    where those of the run before it end.
    """
    try:
        run = dict(read_fields(message))  # type: ignore[arg-type]
        ((kind, numbers),) = read_fields(run[1])  # type: ignore[arg-type]
        count, version = _size(kind, numbers), run.get(2, 0)
        fits = 0 <= count < _NUMBERS and 0 <= version < _NUMBERS  # type: ignore[operator]
    except (KeyError, TypeError, ValueError):
        return None
    return (count, version) if fits else None  # type: ignore[return-value]


def _size(kind: int, numbers: int | bytes) -> int:
    """How many numbers a set has, which Lance writes in one of five ways.

    A range {1: start, 2: end}; one with holes {3: list}; one with a bit for each number that belongs to
    it {3: bits}; a sorted list; a list.
    """
    if kind in (_SORTED_LIST, _LIST):
        return _length(numbers)
    limits = dict(read_fields(numbers))  # type: ignore[arg-type]
    size: int = limits.get(2, 0) - limits.get(1, 0)  # type: ignore[operator]
    match kind:
        case 1:
            return size
        case 2:
            return size - _length(limits[3])
        case 3:
            bits: bytes = limits[3]  # type: ignore[assignment]
            of_range = (1 << min(size, 8 * len(bits))) - 1
            return (int.from_bytes(bits, "little") & of_range).bit_count()
    raise ValueError(kind)


def _length(numbers: int | bytes) -> int:
    """How many numbers a list has: {1 | 2 | 3: {2: bytes}}, with 2, 4 or 8 bytes for each."""
    ((width, values),) = read_fields(numbers)  # type: ignore[arg-type]
    listed = dict(read_fields(values)).get(2, b"")  # type: ignore[arg-type]
    length, rest = divmod(len(listed), _BYTES_OF_NUMBER[width])  # type: ignore[arg-type]
    if rest:
        raise ValueError(rest)
    return length


_NUMBERS: Final = 1 << 32
"""Rows of a file and versions of a table are fewer, so that both fit into one number."""
_SORTED_LIST, _LIST = 4, 5
_BYTES_OF_NUMBER: Final = {1: 2, 2: 4, 3: 8}
