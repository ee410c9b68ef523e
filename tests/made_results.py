"""Query results made from values, without a graph."""

import pyarrow as pa

from omnigraph.lang.query.ir import Column, Const
from omnigraph.manifest.snapshot import Target
from omnigraph.read.output.query_result import QueryResult
from omnigraph.types import PropType, Scalar

COMMIT = "01J00000000000000000000000"


def result(columns, target=None, name="q"):
    """A result of (name, type, values) columns."""
    schema = tuple(Column(name, Const(None, kind), kind) for name, kind, _ in columns)
    arrays = [pa.array(values, type=kind.arrow_type()) for _, kind, values in columns]
    table = pa.table(arrays, names=[name for name, _, _ in columns])
    return QueryResult(table, schema, name, target or Target.of(), COMMIT)


def typed(scalar, *values, **kind):
    return PropType(scalar, nullable=True, **kind), list(values)


def one(scalar, *values, **kind):
    return result([("x", *typed(scalar, *values, **kind))])


PEOPLE = [
    ("name", *typed(Scalar.STRING, "Ada", "Bob")),
    ("age", *typed(Scalar.I64, 36, None)),
]
