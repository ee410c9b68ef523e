"""A type of a graph as the sink of a stream: each micro-batch becomes one commit, once.

What Spark does with a micro-batch, and in which process:

1. It plans the batch, and its tasks write files, as those of `df.write` do (`datasource/write.py`).
2. It plans **again** in the process of the commit, on a branch that may have moved since. So every task
   sends along what it wrote for (`WrittenFor`), and the commit goes by that.
3. The commit looks the batch up by its stream before anything else, and leaves it out if it is there
   (`commit/replays.py`); what the tasks wrote is removed then.

The stream is named by the option `app_id`, or else by the id of its query, which its tasks know.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from omnigraph import failpoints
from omnigraph.errors import BadRequest
from omnigraph.manifest.actors import check_app_id
from omnigraph.manifest.history.stream_records import StreamBatch
from omnigraph.manifest.lost_races import schema_changed
from omnigraph.manifest.workspace import Workspace
from omnigraph.pipeline.datasource.commit import commit_rows
from omnigraph.pipeline.datasource.option_values import user_options
from omnigraph.pipeline.datasource.options import WriteOptions, write_options
from omnigraph.pipeline.datasource.write import WritePlan, discard_rows, write_rows
from omnigraph.pipeline.load_plan import LoadResult
from omnigraph.pipeline.written.task_files import Form
from omnigraph.pipeline.written.task_rows import TaskResult
from omnigraph.storage.tables.table_ref import TableRef

BEFORE_WRITE = failpoints.declare("stream.before_write")
BEFORE_COMMIT = failpoints.declare("stream.before_commit")
AFTER_COMMIT = failpoints.declare("stream.after_commit")

QUERY_ID = "sql.streaming.queryId"
"""Where a task finds the id of the query it belongs to, among Spark's local properties."""
_OF_SPARK = ("checkpointlocation", "queryname")
_OF_ONE_COMMIT = ("operation_id", "if_commit", "batch_id", "query_id")


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """The checked options of a sink; ``app_id`` is None where the query names the stream."""

    write: WriteOptions
    app_id: str | None


def sink_options(options: Mapping[str, str], *, complete: bool) -> SinkOptions:
    """Check the options of `df.writeStream`; ``complete``: each batch is meant to replace all rows."""
    given = user_options(options)
    app_id = check_app_id(given.pop("app_id", None))
    if complete:
        raise BadRequest(
            "the output mode complete would replace all rows with every batch; use append"
        )
    if app_id is None and not any(name in given for name in _OF_SPARK):
        # Spark has a checkpoint of its own choice then, under another id each time it is started.
        raise BadRequest(
            "nothing tells this stream from others when it is started again; add "
            '.option("checkpointLocation", …), or name it with .option("app_id", …)',
            option="app_id",
        )
    for name in _OF_ONE_COMMIT:
        if name in given:
            raise BadRequest(
                f"the option `{name}` is about one commit, and a stream makes one for each of its "
                "batches; leave it out",
                option=name,
            )
    rest = {name: value for name, value in given.items() if name not in _OF_SPARK}
    return SinkOptions(write_options(rest), app_id)


@dataclass(frozen=True, slots=True)
class WrittenFor:
    """What the tasks of a micro-batch wrote for: the table at one version, and the schema."""

    ref: TableRef
    ir_hash: str
    branch_identifier: str | None
    form: Form
    made_from: str | None

    @classmethod
    def of(cls, plan: WritePlan) -> WrittenFor:
        """Return what a plan rests on."""
        return cls(plan.ref, plan.ir_hash, plan.branch_identifier, plan.form, plan.made_from)

    def apply_to(self, plan: WritePlan) -> WritePlan:
        """Return a plan that was made later, as it was when the tasks ran."""
        if plan.ir_hash != self.ir_hash:
            raise schema_changed()
        return replace(
            plan,
            ref=self.ref,
            branch_identifier=self.branch_identifier,
            form=self.form,
            made_from=self.made_from,
        )


@dataclass(frozen=True, slots=True)
class TaskOutput:
    """What a task tells the commit: its files, what they were written for, and its query."""

    result: TaskResult
    pinned: WrittenFor
    query_id: str | None


@dataclass(frozen=True, slots=True)
class Sink:
    """The sink of one micro-batch, as it was planned in this process."""

    plan: WritePlan
    app_id: str | None

    def write(
        self, batches: Iterable[pa.RecordBatch], partition: int, query_id: str | None
    ) -> TaskOutput:
        """Check the rows of a partition, and write them to files."""
        failpoints.hit(BEFORE_WRITE)
        result = write_rows(self.plan, batches, partition)
        return TaskOutput(result, WrittenFor.of(self.plan), query_id)

    def commit(
        self, workspace: Workspace, outputs: Sequence[TaskOutput], batch_id: int
    ) -> LoadResult | None:
        """Publish a micro-batch as one commit; None if it is there already, or is empty."""
        failpoints.hit(BEFORE_COMMIT)
        if not outputs:
            return None
        plan = outputs[0].pinned.apply_to(self.plan)
        plan = replace(plan, options=replace(plan.options, batch=self._batch(outputs, batch_id)))
        result = commit_rows(workspace, plan, [output.result for output in outputs])
        failpoints.hit(AFTER_COMMIT)
        return result

    def abort(self, outputs: Sequence[TaskOutput]) -> None:
        """Remove what tasks wrote, except files that became part of the table."""
        if outputs:
            plan = replace(self.plan, ref=outputs[0].pinned.ref)
            discard_rows(plan, [output.result for output in outputs])

    def _batch(self, outputs: Sequence[TaskOutput], batch_id: int) -> StreamBatch:
        query_id = next((one.query_id for one in outputs if one.query_id is not None), None)
        name = self.app_id if self.app_id is not None else query_id
        if name is None:
            raise BadRequest(
                'Spark does not tell which query this is; name the stream with .option("app_id", …)',
                option="app_id",
            )
        return StreamBatch(name, batch_id, query_id)
