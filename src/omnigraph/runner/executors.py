"""What runs on Spark's executors, and how what fails there comes back as itself.

A function that is mapped over batches meets errors of ours on another machine. Spark would hand the
driver only the text of a traceback, so the error travels inside that text.
"""

from __future__ import annotations

import base64
import functools
import os
import pickle
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ParamSpec

from omnigraph.errors import BadRequest, OmniGraphError, StorageError
from omnigraph.runner.job_errors import known_meaning
from omnigraph.runner.names import encoded
from omnigraph.storage.filters.pushdown import Pushdown
from omnigraph.storage.tables.table import TableRef, open_table
from omnigraph.types import portable_type, returned_type

if TYPE_CHECKING:
    import pyarrow as pa

Batches = Iterator["pa.RecordBatch"]
Arguments = ParamSpec("Arguments")

_CARRIED = re.compile(r"omnigraph-error:([A-Za-z0-9+/=]+):")


class CarriedError(Exception):
    """An error of ours on its way from an executor to the driver."""

    def __init__(self, error: OmniGraphError) -> None:
        self.error = error
        packed = base64.b64encode(pickle.dumps(error)).decode()
        super().__init__(f"{error}\nomnigraph-error:{packed}:")


def carrying(
    function: Callable[Arguments, Batches],
) -> Callable[Arguments, Batches]:
    """The same generator; errors of ours that it raises survive the way to the driver."""

    @functools.wraps(function)
    def run(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Batches:
        # Every core has a task of its own, so one thread each.
        os.environ.setdefault("LANCE_CPU_THREADS", "1")
        try:
            yield from function(*args, **kwargs)
        except OmniGraphError as error:
            raise CarriedError(error) from error

    return run


@contextmanager
def spark_errors() -> Iterator[None]:
    """Run calls of Spark; what they raise comes out as an error of ours."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except CarriedError as error:
        raise error.error from None
    except (PySparkException, Py4JError) as error:
        text = str(error)
        carried = _CARRIED.search(text)
        if carried is not None:
            raise pickle.loads(base64.b64decode(carried[1])) from None  # noqa: S301 - our own
        raise _meant(error, text) from error
    except pickle.PicklingError as error:
        raise BadRequest(
            f"what the job needs cannot be sent to Spark's executors: {_reason(str(error))}; pass "
            "objects that can be pickled, or use engine `local`"
        ) from error
    except ConnectionError as error:
        raise StorageError(
            "the Spark engine failed: its Java process is gone; run the job again"
        ) from error


def _meant(error: Exception, text: str) -> OmniGraphError:
    known = known_meaning(error)
    return known or StorageError(f"the Spark engine failed: {_reason(text)}")


def _reason(text: str) -> str:
    """The line of Spark's many that says what happened."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    python = [
        line
        for line in lines
        if re.match(r"[A-Za-z_][\w.]*(Error|Exception|Exit|Interrupt)\b", line)
    ]
    return (python[-1] if python else lines[0])[:500] if lines else "no reason given"


def portable(batch: pa.RecordBatch, columns: Sequence[str] | None = None) -> pa.RecordBatch:
    """Columns of a batch in types that Spark takes, under the names that it shall see."""
    import pyarrow as pa

    names = batch.schema.names if columns is None else list(columns)
    arrays = [batch.column(name) for name in names]
    cast = [
        array if array.type == (wanted := portable_type(array.type)) else array.cast(wanted)
        for array in arrays
    ]
    return pa.RecordBatch.from_arrays(cast, names=[encoded(name) for name in names])


def portable_schema(schema: pa.Schema) -> pa.Schema:
    """The schema of ``portable`` batches."""
    import pyarrow as pa

    return pa.schema([(encoded(field.name), portable_type(field.type)) for field in schema])


def from_portable(table: pa.Table) -> pa.Table:
    """An answer of Spark with instants and 64-bit numbers as they are everywhere else."""
    import pyarrow as pa

    fields, columns = list(table.schema), table.columns
    for at, field in enumerate(fields):
        wanted = returned_type(field.type)
        if wanted != field.type:
            fields[at], columns[at] = field.with_type(wanted), columns[at].cast(wanted)
    return pa.Table.from_arrays(columns, schema=pa.schema(fields, table.schema.metadata))


def signed_places(rows: Any) -> Any:
    """Row ids and addresses in a type that Spark computes with; none uses the highest bit."""
    import pyarrow as pa

    for at, name in enumerate(rows.schema.names):
        if name in {"_rowid", "_rowaddr"}:
            rows = rows.set_column(at, name, rows.column(at).cast(pa.int64()))
    return rows


@carrying
def scan_groups(
    batches: Batches,
    *,
    ref: TableRef,
    groups: Sequence[Sequence[int]],
    columns: Sequence[str],
    where: Pushdown | None,
    options: dict[str, Any],
) -> Batches:
    """The rows of the groups of fragments whose numbers come in."""
    table = open_table(ref)
    for batch in batches:
        for number in batch.column(0).to_pylist():
            rows = table.scan(columns, where, fragment_ids=groups[number], **options)
            for found in rows:
                yield portable(signed_places(found))
