"""The sizes at which reading changes its way of working.

No threshold changes an answer: it decides only which of two ways to the same answer is taken, or how
much is done at a time. A ``Reader`` holds one ``Thresholds`` and hands it down, one part per room, so a
test that wants the other way builds another one:

    Reader(workspace, Thresholds(match=MatchThresholds(few_rows=0)))

The kernels know no reader: a size of theirs is an argument with a default, and ``kernels.dispatch`` has
the costs of compiled loops.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewThresholds:
    """Opening a snapshot, numbering its nodes and edges, reading their properties."""

    views: int = 16
    """A reader keeps this number of snapshots open, or one for each of many branches."""
    branches: int = 128
    """A reader keeps snapshots of this number of branches open."""
    threaded_rows: int = 100_000
    """The ends of an edge table of at least this number of rows are read by two threads."""
    batch_rows: int = 1 << 15
    """Each of the two threads reads batches of this number of rows."""
    chunk_rows: int = 1_000_000
    """Each of the two threads holds the ids of about this number of rows as text at a time."""
    nodes_per_id: int = 256
    """Ids are searched for one by one where there are more than this number of nodes for each."""
    whole_column_rows: int = 2_000_000
    """Columns of up to this number of rows are read whole and kept, even for a few values."""
    take_cost: int = 16
    """A row taken by its id costs as much as scanning this number of rows."""
    derived_rows: int = 50_000
    """A table of fewer rows is read again after a commit: that costs no more than asking what changed."""
    derived_versions: int = 32
    """What changed is asked of states that are at most this number of table versions old."""
    derived_changes: int = 200_000
    """A table is read again when more than this number of rows changed, or a tenth of all."""
    overlaid_changes: int = 4096
    """Look-ups use a numbered state and what changed since, up to this number of rows or a tenth of all."""
    overlaid_few: int = 64
    """This number of changed rows is never too many for that, however small the table is."""
    kept_rows: int = 50_000
    """Tables of at least this number of rows are kept on disk for other processes once they are numbered."""
    kept_versions: int = 16
    """A state derived from an older one is kept, too, when no state of so few versions ago is."""
    mapped_share: int = 8
    """What takes more than this share of the cache is used from disk once it is kept there."""
    part_edges: int = 8_000_000
    """Adjacency that goes straight to disk is made of parts of about this number of edges."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchThresholds:
    """Choosing between look-ups and numbered tables, and finding the rows of a match.

    The seconds were measured on 100,000 nodes and 2.4 million edges. Out of an older state, one inserted
    node cost 20 ms for those nodes and 25 ms for a million edges.
    """

    node_seconds: float = 0.2e-6
    """Seconds to number one node: its id is read and sorted."""
    edge_seconds: float = 0.25e-6
    """Seconds to number one edge: its ends are read and looked up, and its row is built."""
    derived_seconds: float = 0.01
    """Seconds to ask what changed in a table since an older state."""
    derived_node_seconds: float = 0.05e-6
    """Seconds to carry one node over from an older state."""
    derived_edge_seconds: float = 0.015e-6
    """Seconds to carry one edge over from an older state."""
    kept_byte_seconds: float = 0.5e-9
    """Seconds to check one byte that is kept on disk, once for a process."""
    overlaid_seconds: float = 0.03e-3
    """What a look-up in an older state and its changes adds to the worth of numbering: seconds, and a
    fraction of the time it loses, since the next commit may come at any time."""
    small_seconds: float = 0.005
    """Tables that take up to this number of seconds are numbered at once: look-ups cost as much."""
    few_rows: int = 1024
    """Look-ups may start from all nodes of a type that has up to this number of rows."""
    frontier_ids: int = 1024
    """One look-up asks for up to this number of ids; beyond it, tables are numbered."""
    hops: int = 6
    """Look-ups follow a traversal of up to this number of hops; beyond it, tables are numbered."""
    found_rows: int = 20_000
    """Look-ups find up to this number of nodes, or edges in a step; beyond it, tables are numbered."""
    narrowed_share: int = 16
    """Where this number of times the listed nodes is at most all of them, only those are tested."""
    many_nodes: int = 1 << 14
    """A variable of fewer nodes is tested at once: that takes no longer than waiting for a neighbour."""
    push_cost: int = 6
    """An edge followed from the child costs as much as this number of edges in one sweep over all."""
    gather_cost: int = 3
    """An edge followed from the parent costs as much as this number of edges in one sweep over all."""
    subtracted_blocks: int = 2
    """At most this many negated blocks are counted by subtraction; each doubles the matches to count."""
    batch_rows: int = 1 << 21
    """A step of the enumeration makes batches of about this number of rows."""
    first_batch_rows: int = 1024
    """Under a limit without an order, the first batch has at least this number of rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchThresholds:
    """Searching text and ranking nodes."""

    unindexed_rows: int = 4096
    """At most this many rows that no index covers are read and analysed; more are indexed on disk."""
    texts_at_once: int = 65_536
    """Texts that are read rather than looked up are analysed this number at a time."""
    fuzzy_edits: int = 4
    """An index is asked for at most this many edits: it builds an automaton, which hardly ever fits beyond."""
    scratch_bytes: int = 2 * 2**30
    """Indexes made on the spot are removed, the longest unused first, above this number of bytes on disk."""
    spare_hits: int = 16
    """This number of hits beyond the limit is asked for, so as to see what is tied with the last one."""
    kept_bytes: int = 512 * 2**20
    """Vectors of up to this number of bytes are read into memory and kept there."""
    fast_bytes: int = 12 * 2**20
    """Comparing up to this number of bytes in memory is as fast as an index on a busy machine, and exact."""
    taken_bytes: int = 4 * 2**20
    """Vectors of the candidates, up to this number of bytes, are fetched rather than all vectors read."""
    vectors_at_once: int = 32_768
    """Vectors are compared, or read past, this number at a time."""
    spare_vectors: int = 8
    """This number of vectors beyond the limit is asked of an index."""
    near_vectors: int = 256
    """With more vectors than this beyond the limit, each gets a rounding error of its own."""
    looked_up_vectors: int = 2_048
    """An index is asked for up to this number of vectors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputThresholds:
    """Grouping, ordering and showing the rows of a match."""

    grouped_rows: int = 1 << 16
    """Rows wait until there are this many, and are grouped together."""
    slack_rows: int = 4096
    """Under a limit, the worst rows are dropped when there are this many beyond twice the limit."""
    fetched_rows: int = 1 << 22
    """Values are fetched for this number of rows at a time; their text seldom passes 32-bit offsets."""
    held_floats: int = 1 << 26
    """Vectors of up to this number of floats in all are read as one column; more are fetched by row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """The thresholds of a reader, by the room of ``read`` that uses them."""

    view: ViewThresholds = field(default_factory=ViewThresholds)
    match: MatchThresholds = field(default_factory=MatchThresholds)
    search: SearchThresholds = field(default_factory=SearchThresholds)
    output: OutputThresholds = field(default_factory=OutputThresholds)


DEFAULTS: Final = Thresholds()
"""What a graph reads with."""
