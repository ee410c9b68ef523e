"""Load: many records, one commit, or nothing.

Stages: read and split into types, row rules, set rules against the pinned snapshot, write
fragments, phases A to D. Everything a stage needs from an engine goes through the runner.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from omnigraph import settings
from omnigraph.commit.changes import StagedStep, TableChange, Write
from omnigraph.commit.heal import heal
from omnigraph.commit.workspace import Workspace
from omnigraph.embeddings.provider import (
    Embedder,
    embed_texts,
    required_embedder,
    resolve_embedder,
)
from omnigraph.errors import (
    BadRequest,
    Contention,
    ExpectedVersionMismatch,
)
from omnigraph.lang.schema.catalog import Catalog, EdgeType, NodeType
from omnigraph.manifest.create import new_commit_id, now_us
from omnigraph.manifest.handle import BranchState
from omnigraph.manifest.publisher import Intent
from omnigraph.manifest.rows import GraphCommit, TableState
from omnigraph.pipeline.batches import TypedBatch
from omnigraph.pipeline.ids import derive_ids, id_aliases
from omnigraph.pipeline.incoming import Incoming, place_of, record_order
from omnigraph.pipeline.inputs import LoadInput
from omnigraph.pipeline.report import BadRecords
from omnigraph.runner.local import LocalRunner
from omnigraph.runner.protocol import Frame, Runner
from omnigraph.storage.handles import Table, open_table
from omnigraph.storage.staging import Staged, stage_append, stage_merge_insert, stage_overwrite
from omnigraph.validate.change_set import (
    ORDER,
    ChangeSet,
    TableDelta,
    Violation,
    needed_columns,
)
from omnigraph.validate.committed import Committed
from omnigraph.validate.evaluate import first_set_violations, violation_error
from omnigraph.validate.rows import row_violations
from omnigraph.write.conditional import check_precondition, commit_conditionally
from omnigraph.write.ensure_indices import IndexReport, index_steps, missing_indexes

if TYPE_CHECKING:
    import pyarrow as pa

LoadMode = Literal["merge", "append", "overwrite"]
MODES: tuple[LoadMode, ...] = ("merge", "append", "overwrite")

REPEATED = """
SELECT id, MIN(`0rec`) AS first_rec, MAX(`0rec`) AS rec FROM pend
GROUP BY id HAVING COUNT(*) > 1 ORDER BY MAX(`0rec`) LIMIT 20
"""
LOSERS = """
SELECT p.`0rec` FROM pend p JOIN
(SELECT id, MAX(`0rec`) AS last FROM pend GROUP BY id HAVING COUNT(*) > 1) d
ON d.id = p.id WHERE p.`0rec` < d.last
"""
WINNERS = """
SELECT p.* FROM pend p WHERE NOT EXISTS (SELECT 1 FROM losers l WHERE l.`0rec` = p.`0rec`)
"""


@dataclass(frozen=True, slots=True)
class LoadRequest:
    """One load, with everything fixed before any retry."""

    inputs: LoadInput
    mode: LoadMode = "merge"
    branch: str = "main"
    actor_id: str | None = None
    if_commit: str | None = None
    retries: int = 0
    rejects: Path | None = None
    embedder: Embedder | None = None


@dataclass
class LoadResult:
    """What a load did."""

    branch: str
    mode: str
    engine: str
    tables: list[dict[str, Any]]
    actor_id: str | None
    commit: GraphCommit
    base_branch: str | None = None
    branch_created: bool = False
    indexes_built: list[tuple[str, str]] = field(default_factory=list)
    embeddings_pending: int = 0
    timings: dict[str, float] = field(default_factory=dict)

    @property
    def total_rows(self) -> int:
        """How many rows were loaded."""
        return sum(table["rows_loaded"] for table in self.tables)

    def to_json(self) -> dict[str, Any]:
        """The public form."""
        return {
            "branch": self.branch,
            "base_branch": self.base_branch,
            "branch_created": self.branch_created,
            "mode": self.mode,
            "engine": self.engine,
            "tables": self.tables,
            "total_rows": self.total_rows,
            "actor_id": self.actor_id,
            "bad_records": 0,
            "indexes_built": [list(item) for item in self.indexes_built],
            "embeddings_pending": self.embeddings_pending,
            "timings": self.timings,
            "commit": self.commit.to_json(),
        }


def load(space: Workspace, catalog: Catalog, request: LoadRequest) -> LoadResult:
    """Run a load on the local engine; a lost race is tried again as often as the caller allows."""
    if request.mode not in MODES:
        raise BadRequest(f"mode is {request.mode!r}; give one of {', '.join(MODES)}")
    with tempfile.TemporaryDirectory(prefix="omnigraph-load-") as directory:
        work = _Load(space, catalog, request, Path(directory))
        work.read()
        retries = request.retries
        while True:
            heal(space)
            try:
                return work.write()
            except (ExpectedVersionMismatch, Contention):
                if retries <= 0 or request.if_commit is not None:
                    raise
                retries -= 1


class _Load:
    """One load: the input is read once, writing may be tried again."""

    def __init__(
        self, space: Workspace, catalog: Catalog, request: LoadRequest, directory: Path
    ) -> None:
        self.space = space
        self.catalog = catalog
        self.request = request
        self.directory = directory
        self.operation_id = new_commit_id()
        self.started = now_us()
        self.incoming: dict[str, Incoming] = {}
        self.aliases: dict[str, dict[str, str]] = {}
        self.bad = BadRecords()
        self.embeddings_pending = 0
        self.timings: dict[str, float] = {}

    @contextmanager
    def _timed(self, stage: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.timings[stage] = round(time.perf_counter() - start, 4)

    # -- reading

    def read(self) -> None:
        """Stages 1 and 2: records to typed rows with ids; any bad record ends the load."""
        with self._timed("read"):
            for parsed in self.request.inputs.read(self.catalog):
                for bad in parsed.bad.to_pylist():
                    self.bad.add(bad["source"], bad["offset"], bad["reason"])
                for typed in parsed.batches:
                    self._take(typed)
            for incoming in self.incoming.values():
                incoming.finish()
            self._repoint()
        if self.bad:
            if self.request.rejects is not None:
                self.bad.write(self.request.inputs.sources, self.request.rejects)
            raise self.bad.error(self.request.inputs.sources)

    def _repoint(self) -> None:
        """Lead edges that spell a node's id as the input did to the id the node really has."""
        for incoming in self.incoming.values():
            edge = incoming.entity
            if isinstance(edge, EdgeType):
                spellings = {
                    side: self.aliases[name]
                    for side, name in (("src", edge.from_type), ("dst", edge.to_type))
                    if self.aliases.get(name)
                }
                if spellings:
                    incoming.replace_text(spellings)

    def _take(self, typed: TypedBatch) -> None:
        import pyarrow as pa

        entity = self.catalog.entity(typed.table_key)
        ids, errors = derive_ids(entity, typed.batch, self.operation_id, self.started // 1000)
        for bad in errors.to_pylist():
            self.bad.add(bad["source"], bad["offset"], bad["reason"])
        aliases = id_aliases(entity, typed.batch, ids)
        if aliases:
            self.aliases.setdefault(entity.name, {}).update(aliases)
        names = [*entity.implicit_columns[1:], *entity.properties]
        columns = [ids, *(typed.batch.column(name) for name in names), record_order(typed.batch)]
        batch = pa.RecordBatch.from_arrays(columns, names=["id", *names, ORDER])
        batch = self._embedded(entity, batch)
        for violation in row_violations(entity, pa.Table.from_batches([batch]), None):
            source, offset = place_of(violation.record or 0)
            self.bad.add(source, offset, violation.message, violation.kind)
        incoming = self.incoming.get(typed.table_key)
        if incoming is None:
            path = self.directory / f"{len(self.incoming)}.arrow"
            incoming = self.incoming[typed.table_key] = Incoming(entity, path)
        incoming.add(batch)

    def _embedded(self, entity: NodeType | EdgeType, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Fill vectors that were left out and whose source text is there."""
        import pyarrow as pa
        import pyarrow.compute as pc

        for name, embed in entity.embeds.items():
            kind = entity.properties[name].type
            texts = batch.column(embed.source)
            absent = pc.and_(pc.is_null(batch.column(name)), pc.is_valid(texts))
            count = pc.sum(absent).as_py() or 0
            if not count:
                continue
            embedder = resolve_embedder(self.request.embedder)
            if embedder is None and kind.nullable:
                self.embeddings_pending += count
                continue
            place = f"{entity.name}.{name}"
            if embedder is None:
                embedder = required_embedder(None, place)
            wanted = pc.filter(texts, absent).to_pylist()
            made = iter(embed_texts(embedder, wanted, kind.dim or 0, place, embed.model))
            kept = batch.column(name).to_pylist()
            filled = [next(made) if miss else old
                      for miss, old in zip(absent.to_pylist(), kept, strict=True)]  # fmt: skip
            at = batch.schema.get_field_index(name)
            batch = batch.set_column(
                at, batch.schema.field(at), pa.array(filled, kind.arrow_type())
            )
        return batch

    # -- writing

    def write(self) -> LoadResult:
        """Stages 3 to 5 on the newest snapshot of the branch."""
        state = self.space.manifest.state(self.request.branch)
        check_precondition(state, self.request.if_commit)
        runner = LocalRunner()
        try:
            with self._timed("validate"):
                losers, relied_on = self._validate(runner, state)
        finally:
            runner.close()
        report = IndexReport()
        with self._timed("write"):
            made = self._commit(state, losers, relied_on, report)
        return LoadResult(
            branch=self.request.branch,
            mode=self.request.mode,
            engine="local",
            tables=[
                {"table_key": key, "rows_loaded": incoming.rows - len(losers.get(key, ()))}
                for key, incoming in sorted(self.incoming.items())
            ],
            actor_id=self.request.actor_id,
            commit=made,
            indexes_built=report.built,
            embeddings_pending=self.embeddings_pending,
            timings=dict(self.timings),
        )

    def _validate(self, runner: Runner, state: BranchState) -> tuple[dict[str, pa.Array], set[str]]:
        """Set rules; the records that lose to a later one of their id, and the tables relied on."""
        losers: dict[str, pa.Array] = {}
        deltas: dict[str, TableDelta] = {}
        overwrite = self.request.mode == "overwrite"
        for key, incoming in self.incoming.items():
            columns = ["id", *needed_columns(incoming.entity), ORDER]
            pending: Frame = runner.frame(incoming.reader(columns))
            if self.request.mode == "merge":
                lost = runner.sql(LOSERS, {"pend": pending})
                losers[key] = runner.collect(lost).column(ORDER).combine_chunks()
                if len(losers[key]):
                    pending = runner.sql(WINNERS, {"pend": pending, "losers": lost})
            else:
                self._refuse_repeats(runner, incoming, pending)
            deltas[key] = TableDelta(
                incoming.entity,
                pending,
                replaced=overwrite,
                strict=self.request.mode == "append",
            )
        committed = Committed(runner, state.head.tables, self.space.pinned)
        broken = first_set_violations(ChangeSet(self.catalog, deltas), committed)
        if broken:
            raise violation_error([self._placed(violation) for violation in broken])
        return losers, committed.relied_on

    def _refuse_repeats(self, runner: Runner, incoming: Incoming, pending: Frame) -> None:
        found = runner.collect(runner.sql(REPEATED, {"pend": pending})).to_pylist()
        if found:
            entity = incoming.entity
            key = entity.key if isinstance(entity, NodeType) else None
            place = entity.name if key is None else f"{entity.name}.{', '.join(key)}"
            broken = [
                Violation(
                    "unique",
                    entity.table_key,
                    row["id"],
                    f"@unique {place}: the id {row['id']!r} appears more than once in the input",
                    row["rec"],
                )
                for row in found
            ]
            raise violation_error([self._placed(violation) for violation in broken])

    def _placed(self, violation: Violation) -> Violation:
        """The violation with the place of its record in front."""
        if violation.record is None:
            return violation
        source, offset = place_of(violation.record)
        told = BadRecords()
        told.add(source, offset, violation.message)
        (entry,) = told.told(self.request.inputs.sources)
        unit = self.request.inputs.sources[source].unit
        return replace(
            violation, message=f"{entry['source']}, {unit} {entry[unit]}: {violation.message}"
        )

    def _commit(
        self,
        state: BranchState,
        losers: dict[str, pa.Array],
        relied_on: set[str],
        report: IndexReport,
    ) -> GraphCommit:
        pins = state.head.tables
        changes = [
            self._change(pins[key], incoming, losers.get(key), report)
            for key, incoming in sorted(self.incoming.items())
        ]
        write = Write(
            writer="load",
            branch=self.request.branch,
            ir_hash=state.head.ir_hash,
            intent=Intent(new_commit_id(), "load", self.started, self.request.actor_id),
            tables=tuple(changes),
            relied_on=tuple(pins[key] for key in sorted(relied_on - set(self.incoming))),
        )
        return commit_conditionally(self.space, write, state, self.request.if_commit)

    def _change(
        self, pin: TableState, incoming: Incoming, losers: pa.Array | None, report: IndexReport
    ) -> TableChange:
        mode = self.request.mode

        def stage(table: Table) -> Staged:
            rows = incoming.stored(table.schema, losers)
            if mode == "append":
                return stage_append(table, rows)
            if mode == "overwrite":
                return stage_overwrite(table, rows)
            return stage_merge_insert(table, rows)

        steps = [StagedStep(stage)]
        after = incoming.rows + (0 if mode == "overwrite" else pin.row_count)
        if after >= settings.INDEX_MIN_ROWS.get():
            table = open_table(self.space.pinned(pin))
            # An overwrite drops every index with the rows it covered.
            wanted = missing_indexes(incoming.entity, table, all_of_them=mode == "overwrite")
            steps += index_steps(incoming.entity, wanted, report)
        return TableChange(pin, tuple(steps))
