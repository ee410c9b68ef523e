"""Typed streams keep the columns they began with, while the schema of their branch goes on."""

from __future__ import annotations

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.errors import SchemaConflict
from omnigraph.pipeline.streams.feed_source import FeedStream, Limit, read_group
from omnigraph.pipeline.streams.source_options import feed_columns, feed_options
from tests.opened import workspace_of

OLD = "node Meter { no: String @key  load: I32?  heat: F32?  steps: [I32]?  gone: String? }"
NEW = (
    "node Meter { no: String @key  load: I64?  heat: F64?  steps: [I64]?  later: String?  "
    "kept: I32? }"
)


class Stream:
    """A query on the feed of `main`: its columns are those of the moment it begins."""

    def __init__(self, graph: og.Graph) -> None:
        self.workspace = workspace_of(graph)
        self.options = feed_options(
            {"graph": graph.uri, "feed": "main", "types": "Meter", "typed": "true"}
        )
        self.columns = feed_columns(graph.schema.catalog, self.options)
        self.schema = pa.schema([(one.name, one.type.arrow_type()) for one in self.columns])
        self.source = FeedStream(self.workspace, self.options)
        self.place = self.source.initial()

    def batch(self) -> list[dict[str, object]]:
        """Read what was committed since the last time."""
        end = self.source.latest(self.place, Limit())
        found = [
            row
            for group in self.source.plan(self.place, end)
            for batch in read_group(self.workspace, self.options, self.columns, group, self.schema)
            for row in batch.to_pylist()
        ]
        self.place = end
        return found


@pytest.fixture
def graph(tmp_path):
    with og.init(tmp_path / "g", OLD) as graph:
        yield graph


def meter(no: str, **values: object) -> dict[str, object]:
    return {"type": "Meter", "data": {"no": no, **values}}


def test_a_widened_column_goes_on_in_the_type_it_began_with(graph):
    stream = Stream(graph)
    graph.load([meter("M1", load=7, heat=0.5, steps=[1, 2], gone="x")])
    (first,) = stream.batch()
    assert (first["load"], first["heat"], first["steps"], first["gone"]) == (7, 0.5, [1, 2], "x")
    graph.schema.apply(NEW)
    graph.load([meter("M2", load=2**31 - 1, heat=0.25, steps=[3, None], later="l")], mode="patch")
    graph.load([meter("M3", load=None, heat=-1.5)], mode="patch")
    second, third = stream.batch()
    # What was dropped is null, and what came later is left out.
    assert set(second) == set(first)
    assert (second["load"], second["heat"], second["gone"]) == (2**31 - 1, 0.25, None)
    assert second["steps"] == [3, None]
    assert (third["load"], third["heat"]) == (None, -1.5)


@pytest.mark.parametrize("values", [{"load": 2**31}, {"heat": 0.1}, {"steps": [1, 2**40]}])
def test_a_value_that_does_not_fit_is_refused_and_never_cut(graph, values):
    stream = Stream(graph)
    graph.schema.apply(NEW)
    graph.load([meter("M1", **values)])
    (name,) = values
    with pytest.raises(SchemaConflict, match=f"`{name}`.*start the query again"):
        stream.batch()
    # A query that begins anew has the types of now.
    again = Stream(graph)
    again.place = stream.place
    (row,) = again.batch()
    assert row[name] == values[name]
