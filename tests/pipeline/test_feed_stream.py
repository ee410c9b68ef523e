"""The change feed as a stream of Spark: the reader that Spark calls, called here without Java."""

from __future__ import annotations

import json
from contextlib import contextmanager

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadMaxBytes,
    ReadMaxFiles,
    ReadMaxRows,
    ReadMinRows,
)

import omnigraph
from omnigraph.errors import (
    BadRequest,
    BranchNotFound,
    ChangeFeedGap,
    CursorRejected,
    SchemaBoundary,
)
from omnigraph.pipeline.streams import feed_source
from omnigraph.spark import OmniGraphSource
from tests.graphs import graph_of
from tests.opened import lose

SCHEMA = """
node Person { name: String @key  age: I32?  seen: DateTime?  face: Blob?  mood: Vector(2)? }
node Team { code: String @key }
edge In: Person -> Team { since: Date? }
"""
AGE = "query q($name: String, $age: I32) { update Person set { age: $age } where name = $name }"
GONE = "query q($name: String) { delete Person where name = $name }"


def person(name, age=None, **values):
    return {"type": "Person", "data": {"name": name, "age": age, **values}}


def load(graph, *records, **options):
    return graph.load(list(records), **options).commit.graph_commit_id


graph = graph_of(SCHEMA)


@contextmanager
def stream(graph, feed="main", schema=None, **options):
    """A reader as the planner of a query has it, with a copy for tasks, as both come out of pickles."""
    given = {"graph": graph.uri, "feed": feed, **options}
    planned = OmniGraphSource(given)
    columns = planned.schema() if schema is None else schema
    planned = cloudpickle.loads(cloudpickle.dumps(planned))
    reader = planned.streamReader(columns)
    reader.tasks = cloudpickle.loads(cloudpickle.dumps(planned.streamReader(columns)))
    yield reader
    reader.stop()


def rows_between(reader, start, end):
    """The rows of a batch in the order of its tasks, and how many tasks there were."""
    groups = cloudpickle.loads(cloudpickle.dumps(reader.partitions(start, end)))
    batches = [batch for group in groups for batch in reader.tasks.read(group)]
    return pa.Table.from_batches(batches).to_pylist() if batches else [], len(groups)


def run(reader, start=None, limit=None):
    """Go on until nothing new comes; the rows of every batch, and the offset after the last one."""
    batches = []
    place = reader.initialOffset() if start is None else start
    while True:
        end = reader.latestOffset(place, limit or reader.getDefaultReadLimit())
        if end == place:
            return batches, place
        json.dumps(end)
        batches.append(rows_between(reader, place, end)[0])
        place = end


def commits_in(rows):
    return list(dict.fromkeys(row["graph_commit_id"] for row in rows))


def expected(graph, branch="main", **filters):
    """What the feed says, as rows of a stream."""
    found, page = [], graph.changes.poll(branch, start="beginning", **filters)
    while True:
        for block in page.blocks:
            for change in block.changes:
                ends = (change.after or change.before or {}).get("endpoints", {})
                found.append(
                    {
                        "op": change.op,
                        "kind": change.kind,
                        "type": change.type,
                        "id": change.id,
                        "before": change.before,
                        "after": change.after,
                        "from": ends.get("from"),
                        "to": ends.get("to"),
                        "graph_commit_id": block.commit.graph_commit_id,
                        "actor_id": block.commit.actor_id,
                        "authored_at": block.commit.created_at,
                    }
                )
        if page.caught_up:
            return found
        page = graph.changes.poll(branch, cursor=page.cursor, **filters)


def parsed(rows, *sides):
    """Rows with these images as values; the text is exactly what JSON writes without blanks."""
    found = []
    for row in rows:
        images = {side: None if row[side] is None else json.loads(row[side]) for side in sides}
        for side, image in images.items():
            text = json.dumps(image, ensure_ascii=False, separators=(",", ":"))
            assert row[side] == (None if image is None else text)
        found.append({**row, **images})
    return found


@pytest.fixture
def history(graph):
    """Everything that makes a commit: loads, updates, deletes, a merge, maintenance, a new schema."""
    team = {"type": "Team", "data": {"code": 't"é\n'}}
    face = {"face": "base64:AAEC", "mood": [1.0, -0.5], "seen": "2024-02-29T23:59:59.999Z"}
    load(graph, person("ann", 30, **face), person("bob"), team,
         {"edge": "In", "from": "bob", "to": team["data"]["code"], "data": {"since": "2020-02-02"}},
         actor="ada")  # fmt: skip
    graph.mutate(AGE, {"name": "ann", "age": 31})
    graph.branches.create("side")
    load(graph, person("cid"), branch="side")
    graph.mutate(AGE, {"name": "ann", "age": 32}, branch="side")
    graph.mutate(GONE, {"name": "bob"})
    graph.branches.merge("side", delete_branch=True)
    graph.optimize(engine="local")
    load(graph, person("ann", 32, **face))  # as it is already
    graph.schema.apply(SCHEMA.replace("age: I32?", "age: I32?  town: String?"))
    load(graph, person("dan", 1, town="Ulm"), person("eve", 2), mode="append")
    return graph


def test_a_stream_gives_what_the_feed_gives_however_it_is_cut(history):
    want = expected(history)
    assert {row["op"] for row in want} == {"insert", "update", "delete"}
    for options in ({}, {"maxCommitsPerTrigger": "1"}, {"maxRowsPerTrigger": "3"}):
        with stream(history, startingFrom="beginning", images="both", **options) as reader:
            batches, _ = run(reader)
            got = [row for rows in batches for row in rows]
            assert parsed(got, "before", "after") == want
    for name, filters in (
        ("Person", {"types": ["Person"], "ops": ["insert", "delete"]}),
        ("edges", {"kinds": ["edge"]}),
    ):
        texts = {key: ",".join(values) for key, values in filters.items()}
        with stream(history, startingFrom="beginning", images="both", **texts) as reader:
            got = [row for rows in run(reader)[0] for row in rows]
            assert parsed(got, "before", "after") == expected(history, **filters), name


def test_images_are_chosen_and_ends_are_always_there(history):
    want = expected(history)
    for images, hidden in (("after", ("before",)), ("none", ("before", "after"))):
        with stream(history, startingFrom="beginning", images=images) as reader:
            got = [row for rows in run(reader)[0] for row in rows]
        assert parsed(got, "before", "after") == [
            {**row, **dict.fromkeys(hidden)} for row in want
        ]  # fmt: skip


def test_a_typed_stream_has_the_columns_of_its_type(history):
    with stream(history, startingFrom="beginning", types="Person", typed="true") as reader:
        got = [row for rows in run(reader)[0] for row in rows]
    assert list(got[0]) == [
        "op", "id", "graph_commit_id", "name", "age", "town", "seen", "face", "mood",
    ]  # fmt: skip
    want = expected(history, types=["Person"])
    assert [(row["op"], row["id"]) for row in got] == [(row["op"], row["id"]) for row in want]
    for row, change in zip(got, want, strict=True):
        if change["op"] == "delete":
            assert {value for name, value in row.items() if name not in {"op", "id"}} == {
                None, change["graph_commit_id"],
            }  # fmt: skip
        else:
            image = change["after"]["properties"]
            assert (row["name"], row["age"], row["town"]) == (
                image["name"], image["age"], image.get("town"),
            )  # fmt: skip
    assert (got[0]["face"], got[0]["mood"]) == (b"\x00\x01\x02", [1.0, -0.5])
    assert got[0]["seen"].isoformat() == "2024-02-29T23:59:59.999000+00:00"
    with stream(
        history, startingFrom="beginning", types="In", typed="true", from_col="who", to_col="where"
    ) as reader:
        got = [row for rows in run(reader)[0] for row in rows]
    assert [list(row.values())[:2] for row in got] == [
        ["insert", got[0]["id"]],
        ["delete", got[0]["id"]],
    ]
    assert [(row["who"], row["where"]) for row in got] == [("bob", 't"é\n'), (None, None)]


def test_a_batch_that_is_read_again_has_the_same_rows(history):
    with stream(history, startingFrom="beginning", maxCommitsPerTrigger="3") as reader:
        place, seen = reader.initialOffset(), []
        while (end := reader.latestOffset(place, reader.getDefaultReadLimit())) != place:
            seen.append((place, end, rows_between(reader, place, end)))
            place = end
    # Another process, later commits, and other names of types and properties.
    history.schema.apply(
        SCHEMA.replace("node Team", 'node Club @rename_from("Team")')
        .replace("-> Team", "-> Club")
        .replace("age: I32?", 'years: I32? @rename_from("age")  town: String?')
    )
    history.load([{"type": "Club", "data": {"code": "x"}}])
    with stream(history, startingFrom="latest", maxCommitsPerTrigger="3") as reader:
        for start, end, rows in seen:
            assert rows_between(reader, start, end) == rows


def test_a_batch_is_as_large_as_its_limit_allows(graph, monkeypatch):
    sizes = [1, 2, 9, 1, 1, 1]
    commits = [
        load(graph, *(person(f"{at}-{row}") for row in range(size)), mode="append")
        for at, size in enumerate(sizes)
    ]

    def batches(limit, **options):
        with stream(graph, startingFrom="beginning", **options) as reader:
            return [
                [commits.index(c) for c in commits_in(rows)] for rows in run(reader, limit=limit)[0]
            ]

    assert batches(ReadMaxRows(3)) == [[0, 1], [2], [3, 4, 5]]
    assert batches(ReadMaxRows(1)) == [[0], [1], [2], [3], [4], [5]]
    assert batches(ReadMaxRows(3), maxCommitsPerTrigger="1") == [[at] for at in range(6)]
    assert batches(ReadMaxFiles(4)) == [[0, 1, 2, 3], [4, 5]]
    assert batches(ReadMaxFiles(4), maxRowsPerTrigger="12") == [[0, 1, 2], [3, 4, 5]]
    assert batches(ReadMaxBytes(1)) == [[at] for at in range(6)]
    assert batches(ReadMaxBytes(1 << 20)) == [[0, 1, 2, 3, 4, 5]]
    everything = ReadAllAvailable()
    assert batches(everything, maxCommitsPerTrigger="1", maxRowsPerTrigger="1") == [
        [0, 1, 2, 3, 4, 5]
    ]
    with stream(graph) as reader:
        assert reader.getDefaultReadLimit() == ReadMaxRows(100_000)
        reader.latestOffset(reader.initialOffset(), everything)
        with pytest.raises(BadRequest, match="ReadMinRows"):
            reader.latestOffset(reader.initialOffset(), ReadMinRows(1))
    with stream(graph, maxCommitsPerTrigger="7") as reader:
        assert reader.getDefaultReadLimit() == ReadMaxFiles(7)
    # Several tasks share a batch; their rows are those of one.
    monkeypatch.setattr(feed_source, "_COMMITS_OF_A_TASK", 2)
    with stream(graph, startingFrom="beginning") as reader:
        start = reader.initialOffset()
        rows, tasks = rows_between(reader, start, reader.latestOffset(start, everything))
        assert (len(rows), tasks) == (sum(sizes), 3)


def test_where_a_query_begins(graph):
    a, b = load(graph, person("ann")), load(graph, person("bob"))
    with stream(graph, startingFrom=f"commit:{a}") as reader:
        assert [commits_in(rows) for rows in run(reader)[0]] == [[b]]
    with stream(graph) as reader:
        began = reader.initialOffset()
        assert (began["graph_commit_id"], began["rows"]) == (b, 0)
        c = load(graph, person("cid"))
        limit = reader.getDefaultReadLimit()
        # The first batch has nothing: it only writes down where the query began.
        assert reader.initialOffset() == began
        assert reader.latestOffset(began, limit) == began
        end = reader.latestOffset(began, limit)
        assert commits_in(rows_between(reader, began, end)[0]) == [c]
    # The query is started again before the end of its first batch was noted.
    with stream(graph) as reader:
        again = reader.initialOffset()
        assert again["graph_commit_id"] == c
        assert rows_between(reader, again, began) == ([], 0)
        assert commits_in(rows_between(reader, began, reader.latestOffset(began, limit))[0]) == [c]
    with stream(graph, startingFrom="beginning") as reader:
        first, end = reader.initialOffset(), reader.latestOffset(reader.initialOffset(), limit)
        with pytest.raises(CursorRejected, match="does not lie before"):
            reader.partitions(end, first)


def test_a_query_for_what_is_available_stops_at_the_head_of_its_start(graph):
    a, b = load(graph, person("ann")), load(graph, person("bob"))
    with stream(graph, startingFrom="beginning", maxCommitsPerTrigger="1") as reader:
        reader.prepareForTriggerAvailableNow()
        c = load(graph, person("cid"))
        batches, end = run(reader)
        assert [commits_in(rows) for rows in batches] == [[a], [b]]
    with stream(graph, startingFrom="beginning") as reader:
        reader.prepareForTriggerAvailableNow()
        assert [commits_in(rows) for rows in run(reader, start=end)[0]] == [[c]]
    with stream(graph) as reader:
        reader.prepareForTriggerAvailableNow()
        load(graph, person("dan"))
        assert reader.initialOffset()["graph_commit_id"] == c
        assert run(reader)[0] == []


def test_commits_without_rows_move_the_offset_on(graph):
    load(graph, person("ann", 1))
    with stream(graph, startingFrom="latest", types="Team") as reader:
        start = reader.initialOffset()
        reader.latestOffset(start, reader.getDefaultReadLimit())
        last = load(graph, person("ann", 2))
        end = reader.latestOffset(start, reader.getDefaultReadLimit())
        assert (end["graph_commit_id"], end["rows"]) == (last, 0)
        assert rows_between(reader, start, end)[0] == []
        assert reader.latestOffset(end, reader.getDefaultReadLimit()) is not start


def test_lost_history_stops_the_query_with_the_way_on(graph):
    a, b, c, _ = [load(graph, person("ann", age)) for age in range(4)]
    with stream(graph, startingFrom="beginning") as reader:
        start = reader.initialOffset()
        limit = reader.getDefaultReadLimit()
        whole = reader.latestOffset(start, limit)
        lose(graph, c)
        # Before it everything is delivered; then, and in a batch that was planned before, it is told.
        end = reader.latestOffset(start, limit)
        assert commits_in(rows_between(reader, start, end)[0]) == [a, b]
        for ask in (
            lambda: reader.latestOffset(end, limit),
            lambda: rows_between(reader, end, whole),
        ):
            with pytest.raises(ChangeFeedGap, match=r"baseline.*startingFrom=commit:") as caught:
                ask()
            assert caught.value.details == {
                "cursor": end["cursor"], "first_unreadable_commit_id": c,
            }  # fmt: skip


def test_a_schema_change_that_cannot_be_passed_stops_the_query(graph):
    load(graph, person("ann", 1))
    applied = graph.schema.apply(SCHEMA.replace("  age: I32?", ""), allow_data_loss=True)
    name = applied.commit.graph_commit_id
    with stream(graph, startingFrom="beginning") as reader:
        start, limit = reader.initialOffset(), reader.getDefaultReadLimit()
        with pytest.raises(ChangeFeedGap):
            reader.latestOffset(start, limit)
    before = applied.commit.parent_commit_id
    with (
        stream(graph, startingFrom=f"commit:{before}") as reader,
        pytest.raises(SchemaBoundary, match=f"startingFrom=commit:{name}") as caught,
    ):
        run(reader)
    assert caught.value.details["resume_after"] == name
    later = load(graph, {"type": "Person", "data": {"name": "bob"}})
    with stream(graph, startingFrom=f"commit:{name}") as reader:
        assert [commits_in(rows) for rows in run(reader)[0]] == [[later]]


def test_offsets_hold_for_their_own_stream_only(graph, tmp_path):
    graph.branches.create("side")
    with stream(graph, "side") as reader:
        place, limit = reader.initialOffset(), reader.getDefaultReadLimit()
    graph.branches.delete("side")
    with pytest.raises(BranchNotFound), stream(graph, "side"):
        pass
    graph.branches.create("side")
    with omnigraph.init(tmp_path / "other", SCHEMA) as other:
        for target, options, why in (
            (graph, {}, "branch `side`, not to `main`"),
            (graph, {"feed": "side"}, "deleted and made again"),
            (graph, {"feed": "side", "types": "Person"}, "deleted and made again|another filter"),
            (other, {}, "another graph"),
        ):
            with stream(target, **options) as reader, pytest.raises(CursorRejected, match=why):
                reader.latestOffset(place, limit)
        with stream(graph) as reader:
            start = reader.initialOffset()
        with (
            stream(graph, types="Person") as reader,
            pytest.raises(CursorRejected, match="another filter"),
        ):
            reader.latestOffset(start, limit)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"startingFrom": "now"}, "latest, beginning or commit"),
        ({"startingFrom": "commit:"}, "latest, beginning or commit"),
        ({"images": "before"}, "after, both or none"),
        ({"typed": "true"}, "exactly one type"),
        ({"typed": "true", "types": "Person,Team"}, "exactly one type"),
        ({"typed": "true", "types": "Persom"}, "Person"),
        ({"typed": "maybe"}, "true or false"),
        ({"kinds": "table"}, "kinds are node, edge"),
        ({"ops": "upsert"}, "ops are insert, update, delete"),
        ({"maxRowsPerTrigger": "many"}, "whole number"),
        ({"maxrows": "1"}, "maxrowspertrigger"),
        ({"branch": "main"}, "takes no option `branch`"),
        ({"feed": " "}, "`feed` is missing"),
        ({"maxCommitsPerTrigger": "0"}, "a whole number from 1 on"),
        ({"typed": "true", "types": "Person", "images": "both"}, "no images"),
        ({"typed": "true", "types": "Person", "from_col": "a"}, "Person is a node type"),
        ({"from_col": "a"}, "add typed=true"),
    ],
)
def test_options_that_are_refused(graph, options, why):
    given = {"graph": graph.uri, "feed": "main", **options}
    with pytest.raises(BadRequest, match=why):
        OmniGraphSource(given).schema()


def test_more_that_is_refused(graph, tmp_path):
    from pyspark.sql.types import LongType, StringType, StructField, StructType

    with stream(graph, types="Person,Nobody") as reader, pytest.raises(BadRequest, match="Nobody"):
        reader.initialOffset()
    with (
        stream(graph, startingFrom="commit:01ARZ3NDEKTSV4RRFFQ69G5FAV") as reader,
        pytest.raises(CursorRejected, match="not in the history"),
    ):
        reader.initialOffset()
    given = {"graph": graph.uri, "feed": "main"}
    with pytest.raises(BadRequest, match="readStream"):
        OmniGraphSource(given).reader(OmniGraphSource(given).schema())
    for column, why in (
        (StructField("ids", StringType()), "did you mean"),
        (StructField("op", LongType()), "comes as string"),
    ):
        with (
            stream(graph, schema=StructType([column])) as reader,
            pytest.raises(BadRequest, match=why),
        ):
            reader.initialOffset()
    load(graph, person("ann"))
    two = StructType([StructField("id", StringType()), StructField("op", StringType())])
    with stream(graph, schema=two, startingFrom="beginning") as reader:
        assert run(reader)[0] == [[{"id": "ann", "op": "insert"}]]
    with omnigraph.init(tmp_path / "op", "node Job { name: String @key  op: String? }") as other:
        given = {"graph": other.uri, "feed": "main", "types": "Job", "typed": "true"}
        with pytest.raises(BadRequest, match="a property `op`"):
            OmniGraphSource(given).schema()
