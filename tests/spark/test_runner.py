"""Both runners give the same rows under the same names, wherever the rows of a frame are."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from omnigraph.errors import InputError, StorageError
from omnigraph.runner import spark_runner
from omnigraph.runner.local_runner import LocalRunner
from omnigraph.runner.runner import Through, distinct
from omnigraph.runner.spark_runner import SparkRunner
from omnigraph.storage.filters import Condition, filter_expression
from omnigraph.storage.tables.staging import stage_append
from omnigraph.storage.tables.table import create_table
from omnigraph.storage.tables.table_commits import commit_staged
from omnigraph.storage.tables.table_ref import TableRef


@pytest.fixture(params=["local", "spark"])
def runner(request):
    made = (
        LocalRunner()
        if request.param == "local"
        else SparkRunner.on(request.getfixturevalue("spark"))
    )
    yield made
    made.close()


def away(runner, table):
    """The rows where the engine keeps what is large."""
    if isinstance(runner, SparkRunner):
        return runner.of(runner.data(runner.frame(table)))
    return runner.frame(pa.RecordBatchReader.from_batches(table.schema, table.to_batches()))


def here(runner, table):
    return runner.frame(table)


NUMBERS = pa.table({"n": pa.array(range(1000), pa.int64())})


def odd(batch):
    return batch.filter(pc.equal(pc.bit_wise_and(batch.column("n"), 1), 1))


@pytest.mark.parametrize("place", [here, away])
def test_rows_can_be_asked_counted_collected_and_mapped(runner, place):
    frame = place(runner, NUMBERS)
    assert tuple(frame.columns) == ("n",)
    assert runner.count(frame) == 1000
    assert sorted(runner.collect(frame).column("n").to_pylist()) == list(range(1000))
    assert runner.collect(frame, 3).num_rows == 3
    total = runner.ask("WITH x AS (SELECT n FROM f) SELECT MAX(n) AS m FROM x", {"f": frame})
    assert total.to_pylist() == [{"m": 999}]
    kept = runner.map(runner.sql("SELECT n FROM f WHERE n < 10", {"f": frame}), odd, NUMBERS.schema)
    assert sorted(runner.collect(kept).column("n").to_pylist()) == [1, 3, 5, 7, 9]
    none = runner.sql("SELECT n FROM f WHERE n < 0", {"f": frame})
    assert (tuple(none.columns), runner.count(none)) == (("n",), 0)
    assert runner.collect(none).num_rows == 0


TEXTS = ["", "a", "a\0", "a\0b", "b", "é", "\ue000", "\U0001f600", "aa" * 40, None]


@pytest.mark.parametrize("place", [here, away])
def test_rows_stream_in_code_point_order_in_batches_of_the_size_asked_for(runner, place):
    ids = [text for n in range(30) for text in (TEXTS if n == 7 else [f"id {n * 7 % 30}"])]
    rows = pa.table({"userId": ids, "n": pa.array(range(len(ids)), pa.uint64())})
    batches = list(runner.stream(place(runner, rows), 8, order_by="userId"))
    assert max(batch.num_rows for batch in batches) <= 8
    streamed = pa.Table.from_batches(batches)
    assert streamed.column("userId").to_pylist() == [*sorted(filter(_is_text, ids)), None]
    places = streamed.column("n").to_pylist()
    assert [ids[int(n)] for n in places] == streamed.column("userId").to_pylist()


def _is_text(value):
    return value is not None


@pytest.mark.parametrize("place", [here, away])
def test_a_stream_can_be_unordered_empty_or_left_early(runner, place):
    frame = place(runner, NUMBERS)
    found = [n for batch in runner.stream(frame) for n in batch.column("n").to_pylist()]
    assert sorted(found) == list(range(1000))
    none = runner.stream(place(runner, NUMBERS.slice(0, 0)), order_by="n")
    assert [batch for batch in none if batch.num_rows] == []
    left = runner.stream(frame, 10, order_by="n")
    assert next(left).column("n").to_pylist() == list(range(10))
    left.close()
    assert runner.count(frame) == 1000


@pytest.mark.parametrize("fetched", [None, 1_000, 0], ids=["local", "few", "many"])
def test_a_table_is_scanned_in_order_through_a_function(request, fetched, tmp_path, monkeypatch):
    if fetched is None:
        runner = LocalRunner()
    else:
        # Partitions of less than one row, so that there are several.
        monkeypatch.setattr(spark_runner, "PARTITION_BYTES", 1_000)
        runner = SparkRunner.on(request.getfixturevalue("spark"), fetched_rows=fetched)
    ids = [f"{n * 7 % 100:03}" for n in range(100)]
    rows = pa.table({"id": ids, "at": [[n] for n in range(100)]})
    table = create_table(TableRef(str(tmp_path / "t")), rows.schema, rows)
    plain = pa.Table.from_batches(runner.sorted_scan(table.ref, ["id", "at", "_rowid"], "id"))
    assert plain.column("id").to_pylist() == sorted(ids)
    assert [ids[at] for (at,) in plain.column("at").to_pylist()] == sorted(ids)
    shouted = Through(shout, pa.schema({"word": pa.utf8()}))
    words = pa.Table.from_batches(runner.sorted_scan(table.ref, ["id"], "word", shouted))
    assert words.column("word").to_pylist() == [f"{n:03}!" for n in range(100)]
    runner.close()


def shout(batch):
    return pa.record_batch({"word": pc.binary_join_element_wise(batch.column("id"), "!", "")})


def test_only_rows_in_arrow_are_in_memory(runner):
    assert runner.in_memory(runner.frame(NUMBERS)) is NUMBERS
    assert runner.in_memory(away(runner, NUMBERS)) is None


def test_rows_here_and_away_meet_in_one_query_also_when_there_are_none(runner):
    frames = {"a": away(runner, NUMBERS), "b": runner.frame(NUMBERS.slice(3, 4))}
    text = "SELECT a.n FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.n = a.n) ORDER BY n"
    assert runner.ask(text, frames).column("n").to_pylist() == [3, 4, 5, 6]
    frames["b"] = runner.frame(NUMBERS.slice(0, 0))
    assert runner.ask(text, frames).num_rows == 0


@pytest.mark.parametrize("place", [here, away])
def test_keywords_and_names_that_differ_only_in_case_stay_apart(runner, place):
    names = ["order", "select", "userName", "username", "uSERNAME", "id", "iD"]
    frame = place(runner, pa.table({name: [name] for name in names}))
    assert list(frame.columns) == names
    text = "SELECT " + ", ".join(f"f.`{name}`" for name in names) + " FROM f"
    seen = []

    def same(batch):
        seen.append(batch.schema.names)
        assert batch.schema.names == names
        return batch

    schema = pa.schema([(name, pa.utf8()) for name in names])
    for found in (
        runner.collect(frame),
        runner.ask(text, {"f": frame}),
        runner.collect(runner.map(runner.sql(text, {"f": frame}), same, schema)),
    ):
        assert found.to_pylist() == [{name: name for name in names}]


VALUES = {
    "day": (pa.date32(), [date(1, 1, 1), date(1969, 12, 31), date(9999, 12, 31)]),
    "at": (
        pa.timestamp("ms", "UTC"),
        [
            datetime(1, 1, 1, tzinfo=UTC),
            datetime(1969, 12, 31, 23, 59, 59, 999000, tzinfo=UTC),
            datetime(9999, 12, 31, tzinfo=UTC),
        ],
    ),
    "u64": (pa.uint64(), [0, 2**63, 2**64 - 1]),
    "i64": (pa.int64(), [-(2**63), 2**63 - 1, 0]),
    "u32": (pa.uint32(), [2**32 - 1, 0, 1]),
    "i32": (pa.int32(), [-(2**31), 0, 1]),
    "f32": (pa.float32(), [0.1, -1.5, 3.4028234663852886e38]),
    "f64": (pa.float64(), [0.1, 5e-324, 1.7976931348623157e308]),
    "text": (pa.utf8(), ["", "日本\U0001f600", "a\x00b'; DROP TABLE f; --`"]),
}


def test_values_of_every_type_come_back_as_they_went_and_meet(runner):
    """One frame of all types: equal values meet whichever frame they are in, null meets nothing."""
    columns = {name: pa.array([*values, None], kind) for name, (kind, values) in VALUES.items()}
    table = pa.table(columns)
    kept = away(runner, table)
    back = runner.collect(kept).sort_by("i32")
    wanted = table.sort_by("i32")
    for name, (kind, _) in VALUES.items():
        assert back.column(name).cast(kind).to_pylist() == wanted.column(name).to_pylist(), name
    counts = ", ".join(
        f"(SELECT COUNT(*) FROM a JOIN b ON a.`{name}` = b.`{name}`) AS `{name}`" for name in VALUES
    )
    met = runner.ask(f"SELECT {counts}", {"a": kept, "b": runner.frame(table)})
    assert met.to_pylist() == [dict.fromkeys(VALUES, 3)]


def test_distinct_values_are_those_of_the_column(runner):
    table = pa.table({"at": columns_of("at"), "order": ["a", None, "b", "a"]})
    frame = away(runner, table)
    assert sorted(distinct(runner, frame, "order", 2)) == ["a", "b"]
    assert distinct(runner, frame, "order", 1) is None
    assert set(distinct(runner, frame, "at", 9)) == set(VALUES["at"][1])


def columns_of(name):
    kind, values = VALUES[name]
    return pa.array([*values, None], kind)


@pytest.fixture
def table(tmp_path):
    """Three fragments, two of them with a row deleted or without one that matches."""
    rows = pa.table({"id": ["a", "b", "c"], "userName": ["x", "y", "x"]})
    made = create_table(TableRef(str(tmp_path / "t")), rows.schema, rows)
    for more in ("d", "e"):
        made = commit_staged(stage_append(made, pa.table({"id": [more], "userName": ["x"]})))
    return made


def test_a_table_is_scanned_whole_or_by_a_filter(runner, table):
    whole = runner.scan(table.ref, ["userName", "id"])
    assert list(whole.columns) == ["userName", "id"]
    assert sorted(runner.collect(whole).column("id").to_pylist()) == list("abcde")
    where = filter_expression(table.schema, [Condition("userName", "=", "x")])
    some = runner.scan(table.ref, ["id"], where)
    assert sorted(runner.collect(some).column("id").to_pylist()) == list("acde")
    if isinstance(runner, SparkRunner):
        # So many rows that executors read them.
        other = SparkRunner(runner.session, fetched_rows=1)
        some = other.scan(table.ref, ["id"], where)
        assert some.table is None
        assert sorted(other.collect(some).column("id").to_pylist()) == list("acde")
        other.close()
    old = runner.scan(table.ref.at(1), ["id"])
    assert runner.count(old) == 3


@pytest.mark.parametrize(
    ("sizes", "is_here"),
    [({}, True), ({"found_rows": 2}, False), ({"scanned_rows": 4}, False)],
    ids=["few", "many found", "large table"],
)
def test_rows_with_one_of_many_values_are_found_here_or_by_executors(spark, table, sizes, is_here):
    runner = SparkRunner.on(spark)
    asked = SparkRunner(runner.session, **sizes)
    wanted = pa.chunked_array([["c", "nobody", None], ["e", "a"]])
    found = asked.scan_among(table.ref, ["userName", "id"], "id", wanted)
    assert (found.table is not None) is is_here
    assert list(found.columns) == ["userName", "id"]
    assert sorted(asked.collect(found).column("id").to_pylist()) == ["a", "c", "e"]
    none = asked.scan_among(table.ref, ["id"], "id", pa.chunked_array([["nobody"]]))
    assert asked.collect(none).num_rows == 0
    asked.close()
    runner.close()


def test_a_query_over_many_queries_is_planned_like_one_over_a_table(spark):
    """Spark looks at the whole plan of every frame that a query names, so it must not grow."""
    runner = SparkRunner.on(spark)
    frame = runner.of(runner.data(runner.frame(NUMBERS)))
    gone, sizes = runner.frame(pa.table({"m": pa.array([1, 2], pa.int64())})), []
    for least in range(1, 6):
        text = (
            f"SELECT f.n FROM f WHERE n >= {least} AND NOT EXISTS (SELECT 1 FROM g WHERE g.m = f.n)"
        )
        frames = {"f": frame, "g": gone}
        sizes.append(
            len(runner.query(text, frames)._jdf.queryExecution().analyzed().toString().split("\n"))
        )
        frame = runner.sql(text, frames)
    assert runner.count(frame) == 995
    assert sizes[-1] == sizes[1]
    frame.data.unpersist(blocking=True)
    assert sorted(runner.collect(frame).column("n").to_pylist()) == list(range(5, 1000))
    runner.close()


def test_what_fails_is_one_line_of_ours_or_comes_out_as_itself(runner):
    with pytest.raises(StorageError, match=r"engine failed: .*nowhere") as caught:
        runner.sql("SELECT * FROM nowhere", {})
    assert "\n" not in str(caught.value)

    def refuse(batch):
        raise InputError("row 7 is bad", row=7)

    with pytest.raises(InputError, match="row 7 is bad") as caught:
        runner.collect(runner.map(away(runner, NUMBERS), refuse, NUMBERS.schema))
    assert caught.value.details == {"row": 7}
    assert runner.ask("SELECT 1 AS one", {}).to_pylist() == [{"one": 1}]


def test_runners_of_one_session_do_not_disturb_each_other(spark):
    """Frames of one name in two runners, and the caller's own view of that name."""
    spark.range(3).createOrReplaceTempView("f")
    first, second = SparkRunner.on(spark), SparkRunner.on(spark)
    a, b = away(first, NUMBERS), away(second, NUMBERS.slice(0, 7))
    text = "SELECT COUNT(*) AS n FROM f"
    assert first.ask(text, {"f": a}).to_pylist() == [{"n": 1000}]
    assert second.ask(text, {"f": b}).to_pylist() == [{"n": 7}]
    first.close()
    assert second.ask(text, {"f": b}).to_pylist() == [{"n": 7}]
    second.close()
    assert spark.sql(text).collect()[0].n == 3
    assert spark.catalog.dropTempView("f")
