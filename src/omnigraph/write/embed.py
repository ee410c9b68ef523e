"""The embed job: fill the vectors that are null although their text is there.

Rows without a vector are found in one scan of the state that the job starts on. Every
``ROWS_PER_COMMIT`` of them become a commit, which looks at the rows again: one whose text changed
meanwhile, or that has got a vector, is left as it is. A job that is killed has lost only the vectors
after its last commit; the next run finds the rows that are still without one. Under an operation id
the last commit answers for the whole job, and a job that was stopped before it goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from omnigraph import settings
from omnigraph.cancel import current, watching
from omnigraph.clock import new_ulid, stamp_us
from omnigraph.commit.attempts import Attempt, Attempts, check_precondition
from omnigraph.commit.changes import TableChange, Write
from omnigraph.commit.heal import heal
from omnigraph.commit.replays import (
    UNFINISHED,
    WriteRequest,
    kept_answer,
    run_once,
    shown_commit,
    with_commit,
)
from omnigraph.display.panel import Panel, Shown
from omnigraph.display.text import counted
from omnigraph.embeddings.embedder import Embedder
from omnigraph.embeddings.provider import may_be_the_texts, require_embedder
from omnigraph.errors import BadRequest, ProviderError, SchemaConflict
from omnigraph.lang.schema.catalog import Catalog, NodeType
from omnigraph.manifest.manifest import BranchState
from omnigraph.manifest.publisher import Intent
from omnigraph.manifest.rows import GraphCommit
from omnigraph.manifest.workspace import Workspace
from omnigraph.storage.filters import Condition, Pushdown, filter_expression
from omnigraph.storage.tables.table import Table, open_table
from omnigraph.write.pending import PendingTable
from omnigraph.write.vectors import TextVectors

if TYPE_CHECKING:
    import pyarrow as pa

ROWS_PER_COMMIT = 1_000
HOPELESS = 3
"""A provider that fails for this many single texts in a row is given up."""

OnFilled = Callable[[int, int], object]
"""Called with the number of vectors filled and failed so far."""


@dataclass(frozen=True, slots=True, repr=False)
class EmbedResult(Shown):
    """What the job did: vectors ``filled``, still ``pending``, and ``failed`` (which stay pending).

    ``commit`` is the last commit, None if nothing was filled. ``replayed``: the job was done before, under
    the same operation id, and had no effect this time.
    """

    branch: str
    filled: int
    pending: int
    failed: int
    commit: GraphCommit | None
    replayed: bool = False

    @classmethod
    def replay(cls, commit: GraphCommit) -> EmbedResult:
        """Return the answer that a commit keeps."""
        kept = kept_answer(commit)
        counts = (kept["filled"], kept["pending"], kept["failed"])
        return cls(kept["branch"], *counts, commit, replayed=True)

    def to_json(self) -> dict[str, Any]:
        """Return the public form; ``replayed`` appears only if it is true."""
        return with_commit(self.answer(), self.commit, replayed=self.replayed)

    def answer(self) -> dict[str, Any]:
        """Return the public form without the commit."""
        return {
            "branch": self.branch,
            "filled": self.filled,
            "pending": self.pending,
            "failed": self.failed,
        }

    def _panel(self) -> Panel:
        commit = "none"
        if self.commit is not None:
            commit = shown_commit(self.commit, replayed=self.replayed)
        facts = [("pending", self.pending), ("failed", self.failed), ("commit", commit)]
        return Panel(f"filled {counted(self.filled, 'vector')} of branch {self.branch}", facts)


@dataclass(frozen=True, slots=True)
class EmbedRequest:
    """What to fill: null vectors of these types, or of all, at most ``limit`` of them."""

    branch: str
    types: Sequence[str] | None = None
    limit: int | None = None
    actor_id: str | None = None
    embedder: Embedder | None = None
    on_filled: OnFilled | None = None
    asked: WriteRequest = field(default_factory=lambda: WriteRequest("embed"))
    """What a repetition is recognised by, and what the commit says about itself."""
    if_commit: str | None = None
    """The commit that the branch must be at when the job begins."""


class EmbedTarget(NamedTuple):
    """One vector property and the text it is made from."""

    entity: NodeType
    name: str
    source: str

    def is_pending(self, table: Table) -> Pushdown:
        """The filter for rows with a text and no vector."""
        conditions = [Condition(self.name, "is_null"), Condition(self.source, "is_not_null")]
        found = filter_expression(table.schema, conditions)
        assert found is not None
        return found


@dataclass(slots=True)
class _Part:
    """Rows of one property that go into one commit: their ids, texts and new vectors."""

    target: EmbedTarget
    ids: pa.Array
    texts: pa.Array
    vectors: Any = None


def embed(
    workspace: Workspace,
    pin_schema: Callable[[], tuple[str, Catalog]],
    request: EmbedRequest,
) -> EmbedResult:
    """Fill the null vectors of a branch whose text is there.

    ``pin_schema`` gives the accepted schema and the hash that names it. A text that the provider
    refuses fails alone. A provider that fails for every text ends the job: with an error if nothing
    was filled, else with what was filled so far. A job whose operation id is known is not repeated; the first
    answer is returned again.
    """
    heal(workspace)

    def run() -> EmbedResult:
        ir_hash, catalog = pin_schema()
        job = _Job(workspace, ir_hash, request, find_targets(catalog, request.types))
        return job.run()

    return run_once(workspace, [request.branch], request.asked, run, EmbedResult.replay)


def find_targets(catalog: Catalog, types: Sequence[str] | None) -> list[EmbedTarget]:
    """Return the `@embed` properties of these node types, or of all."""
    names = list(catalog.nodes) if types is None else list(dict.fromkeys(types))
    found = []
    for name in names:
        node = catalog.nodes.get(name)
        if node is None:
            raise BadRequest(
                f"there is no node type `{name}`; the schema has {', '.join(catalog.nodes) or 'none'}",
                type=name,
            )
        if types is not None and not node.embeds:
            raise BadRequest(f"{name} has no @embed property, so there is nothing to fill")
        found += [EmbedTarget(node, vector, embed.source) for vector, embed in node.embeds.items()]
    return found


@dataclass(slots=True)
class _Job:
    """One run of the job, and how far it has come."""

    workspace: Workspace
    ir_hash: str
    request: EmbedRequest
    targets: Sequence[EmbedTarget]
    filled: int = 0
    failed: int = 0
    commit: GraphCommit | None = None
    dead: ProviderError | None = None
    _in_a_row: int = 0
    _last: EmbedResult | None = None
    """What the last commit says of the job, if it has an operation id."""

    def run(self) -> EmbedResult:
        """Fill all parts, or as many as the provider makes vectors for."""
        state = self.workspace.manifest.state(self.request.branch)
        check_precondition(self.workspace, state, self.request.if_commit)
        left = 0 if self.request.asked.operation_id is None else self._count_pending(state)
        for parts in self._parts(state):
            left -= sum(len(part.ids) for part in parts)
            # A commit stops looking at the token; the parts after it may be stopped again.
            with watching(current()):
                self._fill(parts, unfinished=left > 0)
            if self.dead is not None:
                break
        if self.dead is not None and not self.filled:
            raise self.dead
        if self._last is not None:
            return replace(self._last, commit=self.commit)
        now = self.workspace.manifest.state(self.request.branch)
        return self._result(self.filled, self._count_pending(now))

    def _result(self, filled: int, pending: int) -> EmbedResult:
        return EmbedResult(self.request.branch, filled, pending, self.failed, self.commit)

    # -- the rows

    def _parts(self, state: BranchState) -> Iterator[list[_Part]]:
        """Yield the rows without a vector, in parts that become one commit each."""
        waiting: list[_Part] = []
        room = self._room()
        for target in self.targets:
            pin = state.head.tables.get(target.entity.table_key)
            if pin is None or not pin.row_count:
                continue
            table = open_table(self.workspace.pinned(pin))
            columns = ["id", target.source]
            for batch in table.scan(columns, target.is_pending(table), batch_size=ROWS_PER_COMMIT):
                at = 0
                while at < batch.num_rows and room:
                    some = batch.slice(at, room)
                    waiting.append(_Part(target, some.column(0), some.column(1)))
                    at, room = at + some.num_rows, room - some.num_rows
                    if not room:
                        yield waiting
                        waiting, room = [], self._room()
                if not room:
                    return
        if waiting:
            yield waiting

    def _room(self) -> int:
        limit = self.request.limit
        left = ROWS_PER_COMMIT if limit is None else limit - self.filled
        return max(0, min(ROWS_PER_COMMIT, left))

    def _count_pending(self, state: BranchState) -> int:
        """Return how many vectors are null although their text is there."""
        pending = 0
        for target in self.targets:
            pin = state.head.tables.get(target.entity.table_key)
            if pin is not None and pin.row_count:
                table = open_table(self.workspace.pinned(pin))
                pending += table.count_rows(target.is_pending(table))
        return pending

    # -- the vectors

    def _fill(self, parts: Sequence[_Part], *, unfinished: bool) -> None:
        """Make the vectors of these rows and commit them; ``unfinished``: there are more."""
        made = [done for part in parts if (done := self._made(part)) is not None]
        if made:
            # The condition is about the head before the job; its own commits move the head on.
            if_commit = self.request.if_commit if self.commit is None else None
            attempts = Attempts(
                self.workspace, self.request.branch, if_commit=if_commit, one_schema=True
            )
            filled, commit = attempts.run(
                lambda attempt: self._write(attempt, made, unfinished=unfinished)
            )
            self.filled += filled
            self.commit = commit or self.commit
        if self.request.on_filled is not None:
            self.request.on_filled(self.filled, self.failed)

    def _made(self, part: _Part) -> _Part | None:
        """Return the part with its vectors, without the rows whose text could not be embedded."""
        import pyarrow as pa

        target = part.target
        require_embedder(self.request.embedder, f"{target.entity.name}.{target.name}")
        texts = part.texts.to_pylist()
        distinct = list(dict.fromkeys(texts))
        size = settings.EMBED_BATCH.get()
        vectors = TextVectors(self.request.embedder)
        refused: set[str] = set()
        good: set[str] = set()
        for start in range(0, len(distinct), size):
            good |= self._embedded(target, vectors, distinct[start : start + size], refused)
        self.failed += sum(text in refused for text in texts)
        at = [place for place, text in enumerate(texts) if text in good]
        if not at:
            return None
        made = vectors.make(target.entity, target.name, [texts[place] for place in at])
        kept = pa.array(at)
        return _Part(target, part.ids.take(kept), part.texts.take(kept), made)

    def _embedded(
        self, target: EmbedTarget, vectors: TextVectors, texts: Sequence[str], refused: set[str]
    ) -> set[str]:
        """Have vectors made, and return the texts that have one; a text that fails alone is refused."""
        if self.dead is not None:
            return set()
        try:
            vectors.make(target.entity, target.name, texts)
        except ProviderError as error:
            if not may_be_the_texts(error):
                refused.update(texts)
                self.dead = error
                return set()
            if len(texts) > 1:
                half = len(texts) // 2
                parts = (texts[:half], texts[half:])
                return set().union(*(self._embedded(target, vectors, p, refused) for p in parts))
            refused.update(texts)
            self._in_a_row += 1
            self.dead = error if self._in_a_row >= HOPELESS else None
            return set()
        self._in_a_row = 0
        return set(texts)

    # -- the commit

    def _write(
        self, attempt: Attempt, parts: Sequence[_Part], *, unfinished: bool
    ) -> tuple[int, GraphCommit | None]:
        """Commit the vectors of the rows that still have the same text and no vector."""
        head = attempt.state.head
        if head.ir_hash != self.ir_hash:
            raise SchemaConflict("the schema changed while vectors were made; run the job again")
        tables: dict[str, PendingTable] = {}
        filled = 0
        for part in parts:
            entity = part.target.entity
            pending = tables.get(entity.table_key)
            if pending is None:
                pin = head.tables[entity.table_key]
                pending = PendingTable(entity, pin, open_table(self.workspace.pinned(pin)))
                tables[entity.table_key] = pending
            filled += _put_vectors(pending, part)
        changed = [pending for pending in tables.values() if pending.rows.num_rows]
        if not changed:
            return 0, None
        intent = Intent(
            new_ulid(),
            "embed",
            stamp_us(),
            self.request.actor_id,
            facts=self._facts(attempt.state, filled, unfinished=unfinished),
            operation_id=self.request.asked.operation_id,
        )
        changes = tuple(TableChange(one.pin, one.write_steps()) for one in changed)
        write = Write("embed", attempt.state.pin, intent, changes, ir_hash=head.ir_hash)
        return filled, attempt.commit(write)

    def _facts(self, state: BranchState, filled: int, *, unfinished: bool) -> dict[str, Any]:
        """Return what a commit of ``filled`` vectors keeps, so that a repetition can be answered."""
        if self.request.asked.operation_id is None:
            return self.request.asked.facts({})
        limit = self.request.limit
        so_far = self.filled + filled
        # A job that its provider ended is not done: sent again, it goes on.
        goes_on = self.dead is not None or (unfinished and (limit is None or so_far < limit))
        told = self._result(so_far, self._count_pending(state) - filled)
        self._last = None if goes_on else told
        return self.request.asked.facts({**told.answer(), UNFINISHED: goes_on})


def _put_vectors(pending: PendingTable, part: _Part) -> int:
    """Give rows their vectors, unless they changed; return how many got one."""
    import pyarrow.compute as pc

    name, source = part.target.name, part.target.source
    rows = pending.values_of(part.ids)
    rows = rows.filter(rows.column("id").is_valid())
    place = pc.index_in(rows.column("id"), part.ids).combine_chunks()
    same = pc.equal(rows.column(source), part.texts.take(place)).fill_null(False)
    ready = pc.and_(same, rows.column(name).is_null())
    rows = rows.filter(ready)
    if rows.num_rows:
        vectors = part.vectors.take(place.filter(ready.combine_chunks()))
        at = rows.schema.get_field_index(name)
        pending.put(rows.set_column(at, rows.schema.field(at), vectors))
    return int(rows.num_rows)
