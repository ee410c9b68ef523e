"""The change feed of a branch as a source of micro-batches.

A place in the stream (an offset of Spark's) is a cursor of the feed, so it can be gone on from in any
process and is refused where it does not belong. A batch lies between two places and is made of whole
commits. It is divided into groups of commits, each of which a task reads by itself:

    place "after C1"  ->  C2 C3 C4 | C5 C6  ->  place "after C6"

Every group names the commits it begins and ends with, whose states never change, so that a batch which
is read again has the same rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final, TypedDict

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.cancel import look
from omnigraph.changes.feed.change_rows import Columns, change_columns, typed_columns, weigh
from omnigraph.changes.feed.commit_changes import ChangeReader
from omnigraph.changes.feed.poll import Feed, refuse_unknown_types, start_commit
from omnigraph.changes.schemas.type_pairs import types_of
from omnigraph.errors import (
    ChangeFeedGap,
    CursorRejected,
    HistoryReclaimed,
    OmniGraphError,
    SchemaBoundary,
    SchemaConflict,
)
from omnigraph.lang.schema.catalog import Catalog
from omnigraph.manifest.history.resolve import catalog_at, resolve_commit
from omnigraph.manifest.manifest import BranchState
from omnigraph.manifest.rows import GraphCommit
from omnigraph.manifest.workspace import Workspace
from omnigraph.pipeline.streams.source_options import FeedColumn, FeedOptions

_COMMITS_OF_A_TASK: Final = 16
"""As many commits one task reads, at most."""


class Offset(TypedDict):
    """A place in the stream: everything up to a commit is read.

    ``rows`` is how many rows the batch that ends here was expected to have, at most.
    """

    cursor: str
    graph_commit_id: str
    rows: int


@dataclass(frozen=True, slots=True)
class Limit:
    """How much a batch may have; None is without a limit. It has one commit in any case."""

    rows: int | None = None
    commits: int | None = None
    bytes: int | None = None


@dataclass(frozen=True, slots=True)
class CommitGroup:
    """Commits that one task reads: each with the one before it, of which the first is only that.

    ``names`` is the last commit of the batch, by whose schema types and properties are called, and
    ``cursor`` where the batch began.
    """

    chain: tuple[GraphCommit, ...]
    names: GraphCommit
    types: tuple[str, ...]
    cursor: str


class FeedStream:
    """The change feed of one branch, for the process that plans the batches of a query."""

    def __init__(self, workspace: Workspace, options: FeedOptions) -> None:
        self._workspace = workspace
        self._options = options
        self._until: GraphCommit | None = None
        self._nothing_after: tuple[object, ...] | None = None

    def initial(self) -> Offset:
        """Return where a query without a checkpoint begins."""
        feed = self._feed()
        start = start_commit(feed, self._options.start)
        if self._until is not None and self._options.starts_at_head:
            start = self._until
        catalog = _catalog_of(self._workspace, feed.state.head.commit)
        refuse_unknown_types(self._workspace, catalog, self._options.filter, start)
        return _offset(feed, start, 0)

    def stop_at_head(self) -> None:
        """From now on go no further than the newest commit of this moment."""
        self._until = self._state().head.commit

    def latest(self, start: Mapping[str, Any], limit: Limit) -> Mapping[str, Any]:
        """Return where the batch after ``start`` ends; ``start`` itself if nothing was committed since.

        The batch has at least one commit, and further ones as long as all of them are within the limit.
        """
        state = self._state()
        seen = start["cursor"], state.identifier, state.head.commit.graph_commit_id
        if self._nothing_after == seen:
            return start
        feed = self._feed(state)
        begin = feed.commit(feed.read_cursor(start["cursor"]).after)
        end, rows = self._admit(feed, begin, start["cursor"], limit)
        if end is begin:
            self._nothing_after = seen
            return start
        return _offset(feed, end, rows)

    def _admit(
        self, feed: Feed, begin: GraphCommit, cursor: str, limit: Limit
    ) -> tuple[GraphCommit, int]:
        until = self._until or feed.state.head.commit
        reader = ChangeReader(
            self._workspace,
            _catalog_of(self._workspace, feed.state.head.commit),
            self._options.filter,
            skips_unknown_types=True,
        )
        last, commits, rows, size = begin, 0, 0, 0
        for commit in _chain(feed, begin, until):
            look()
            if commits == limit.commits:
                break
            try:
                weight = weigh(reader, commit, last, (limit.rows or rows) - rows)
            except (HistoryReclaimed, SchemaBoundary) as unreadable:
                if last is begin:
                    raise _refusal(commit, unreadable, cursor) from None
                break
            fits = _within(rows + weight.rows, limit.rows) and _within(
                size + weight.bytes, limit.bytes
            )
            if commits and not fits:
                break
            last, commits, rows, size = commit, commits + 1, rows + weight.rows, size + weight.bytes
        return last, rows

    def plan(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[CommitGroup]:
        """Return what the tasks of a batch read; nothing where ``start`` does not lie before ``end``."""
        feed = self._feed()
        first, last = (feed.commit(feed.read_cursor(one["cursor"]).after) for one in (start, end))
        chain = [first, *_chain(feed, first, last)]
        if chain[-1].graph_commit_id != last.graph_commit_id:
            # The first batch of a query that began at the head, asked for again: it had nothing.
            if self._options.starts_at_head:
                return []
            raise CursorRejected(
                f"commit `{first.graph_commit_id}`, where the batch begins, does not lie before "
                f"`{last.graph_commit_id}`, where it ends; start the query with a new checkpoint"
            )
        try:
            types = self._names_of_types(feed.state, last)
        except HistoryReclaimed as unreadable:
            raise _refusal(last, unreadable, start["cursor"]) from None
        return [
            CommitGroup(
                tuple(chain[at : at + _COMMITS_OF_A_TASK + 1]), last, types, start["cursor"]
            )
            for at in range(0, len(chain) - 1, _COMMITS_OF_A_TASK)
        ]

    def _names_of_types(self, state: BranchState, last: GraphCommit) -> tuple[str, ...]:
        """The types of the filter, also by the names that those of today have at the end of a batch."""
        wanted = self._options.filter.types
        if not wanted:
            return ()
        now, then = (types_of(_catalog_of(self._workspace, c)) for c in (state.head.commit, last))
        also = [then[key].name for key, one in now.items() if one.name in wanted and key in then]
        return tuple(sorted({*wanted, *also}))

    def _state(self) -> BranchState:
        return self._workspace.manifest.state(self._options.branch)

    def _feed(self, state: BranchState | None = None) -> Feed:
        return Feed(self._workspace, state or self._state(), self._options.filter)


def read_group(
    workspace: Workspace,
    options: FeedOptions,
    columns: Sequence[FeedColumn],
    group: CommitGroup,
    schema: pa.Schema,
) -> Iterator[pa.RecordBatch]:
    """Yield the changes of a group of commits, in their order, in batches of exactly that schema."""
    commit = group.names
    try:
        catalog = _catalog_of(workspace, commit)
        shown = replace(options.filter, types=group.types)
        reader = ChangeReader(workspace, catalog, shown, skips_unknown_types=True)
        properties = [column.source for column in columns if isinstance(column.source, int)]
        for parent, commit in pairwise(group.chain):
            if options.typed:
                chunks = typed_columns(reader, commit, parent, properties)
            else:
                chunks = change_columns(reader, commit, parent, options.images)
            for found in chunks:
                yield _batch(found, columns, schema, commit)
    except (HistoryReclaimed, SchemaBoundary) as unreadable:
        raise _refusal(commit, unreadable, group.cursor) from None


def _batch(
    found: Columns, columns: Sequence[FeedColumn], schema: pa.Schema, commit: GraphCommit
) -> pa.RecordBatch:
    """Return rows with the columns that the query began with.

    A property may have a larger type by now. Its values are given in the type of the column as long as they
    fit, and never cut.
    """
    rows = len(found["op"])
    arrays = []
    for column, field in zip(columns, schema, strict=True):
        values = found.get(column.source)
        if values is None:
            values = pa.nulls(rows, field.type)
        narrowed = _in_type(values, field.type)
        if narrowed is None:
            raise SchemaConflict(
                f"commit `{commit.graph_commit_id}` has values of `{column.name}` that do not fit the type "
                f"{column.type.display} with which the query began; start the query again, which then "
                "has the type of now"
            )
        arrays.append(narrowed)
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _in_type(values: pa.Array, wanted: pa.DataType) -> pa.Array | None:
    """Return the values in another type; None if one of them does not fit."""
    if values.type == wanted:
        return values
    try:
        found = values.cast(wanted)
    except pa.ArrowInvalid:
        return None
    inner, there = (one.flatten() if pa.types.is_list(one.type) else one for one in (values, found))
    if pa.types.is_float64(inner.type) and pa.types.is_float32(there.type):
        same = pc.or_kleene(pc.equal(there.cast(inner.type), inner), pc.is_nan(inner))
        return found if pc.all(same, min_count=0).as_py() is not False else None
    return found


def _chain(feed: Feed, first: GraphCommit, last: GraphCommit) -> Iterator[GraphCommit]:
    """Yield the commits after one up to another, or up to the head if that is not among them.

    Nothing where the second is known to be no later than the first.
    """
    same = first.graph_commit_id == last.graph_commit_id
    if same or (last.depth and first.depth >= last.depth):
        return
    for commit in feed.forwards.after(first):
        look()
        yield commit
        if commit.graph_commit_id == last.graph_commit_id:
            return


def _catalog_of(workspace: Workspace, commit: GraphCommit) -> Catalog:
    """Return the types as a commit has them."""
    return catalog_at(workspace.manifest, resolve_commit(workspace.manifest, commit)[1])


def _offset(feed: Feed, after: GraphCommit, rows: int) -> Offset:
    name = after.graph_commit_id
    return Offset(cursor=feed.cursor(name), graph_commit_id=name, rows=rows)


def _within(amount: int, limit: int | None) -> bool:
    return limit is None or amount <= limit


def _refusal(
    commit: GraphCommit, unreadable: HistoryReclaimed | SchemaBoundary, cursor: str
) -> OmniGraphError:
    """Return the error for a commit that a stream cannot deliver, and the way on."""
    name = commit.graph_commit_id
    if isinstance(unreadable, HistoryReclaimed):
        return ChangeFeedGap(
            f"the changes of commit `{name}` cannot be read any more ({unreadable.message}); take a "
            "baseline with graph.changes.baseline, then start the query with a new checkpoint and "
            "startingFrom=commit:<its snapshot_commit_id>",
            cursor=cursor,
            first_unreadable_commit_id=name,
        )
    return SchemaBoundary(
        f"{unreadable.message}: start the query with a new checkpoint and startingFrom=commit:{name}",
        **{**unreadable.details, "resume_after": name},
    )
