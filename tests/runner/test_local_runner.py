"""The local runner: frames in Arrow and in DuckDB are the same rows, under the same names."""

from __future__ import annotations

import signal
import subprocess
import sys
from contextlib import ExitStack
from datetime import UTC, date, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from omnigraph.cancel import Cancelled, watching
from omnigraph.errors import InputError, StorageError
from omnigraph.runner.local_runner import FEW_ROWS, LocalRunner
from omnigraph.runner.runner import distinct
from omnigraph.storage.filters import Condition, filter_expression
from omnigraph.storage.tables.table import create_table
from omnigraph.storage.tables.table_ref import TableRef
from tests.stopping import StopAt


@pytest.fixture
def runner_of():
    """Makes runners, which are closed after the test."""
    with ExitStack() as stack:

        def make(**sizes):
            made = LocalRunner(**sizes)
            stack.callback(made.close)
            return made

        yield make


@pytest.fixture
def runner(runner_of):
    return runner_of()


def stream(table, rows=1000):
    return pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=rows))


NUMBERS = pa.table({"n": pa.array(range(10_000), pa.int64())})


class TestFrames:
    @pytest.mark.parametrize("make", [lambda t: t, stream], ids=["arrow", "stream"])
    def test_rows_of_either_kind_can_be_asked_counted_collected_and_mapped(self, runner, make):
        frame = runner.frame(make(NUMBERS))
        assert tuple(frame.columns) == ("n",)
        assert runner.count(frame) == 10_000
        assert sorted(runner.collect(frame).column("n").to_pylist()) == list(range(10_000))
        assert runner.collect(frame, 3).num_rows == 3
        assert runner.ask("SELECT SUM(n) AS s FROM f", {"f": frame}).to_pylist() == [
            {"s": 49995000}
        ]
        odd = runner.sql("SELECT n FROM f WHERE n % 2 = 1", {"f": frame})
        assert runner.count(odd) == 5_000

        def doubled(batch):
            return pa.record_batch({"m": pc.multiply(batch.column("n"), 2)})

        twice = runner.map(odd, doubled, pa.schema({"m": pa.int64()}))
        assert runner.ask("SELECT SUM(m) AS s FROM f", {"f": twice}).to_pylist() == [
            {"s": 50000000}
        ]

    @pytest.mark.parametrize("few", [FEW_ROWS, 0], ids=["few", "many"])
    @pytest.mark.parametrize("make", [lambda t: t, stream], ids=["arrow", "stream"])
    def test_a_value_that_comes_twice_is_seen(self, runner_of, make, few):
        runner = runner_of(few_rows=few)
        texts = [f"text {n}" for n in range(5_000)]
        alone, twice = (pa.table({"userId": each}) for each in (texts, [*texts, "text 17"]))
        assert not runner.may_repeat(runner.frame(make(alone)), "userId")
        assert runner.may_repeat(runner.frame(make(twice)), "userId")
        assert not runner.may_repeat(runner.frame(make(alone.slice(0, 0))), "userId")

    def test_too_many_values_to_look_at_may_repeat(self, runner_of):
        runner = runner_of(hashed_rows=9_999)
        assert runner.may_repeat(runner.frame(stream(NUMBERS)), "n")

    def test_only_few_rows_in_arrow_are_in_memory(self, runner, runner_of):
        assert runner.in_memory(runner.frame(NUMBERS)) is NUMBERS
        assert runner.in_memory(runner.frame(stream(NUMBERS))) is None
        runner = runner_of(few_rows=9_999)
        assert runner.in_memory(runner.frame(NUMBERS)) is None

    def test_a_name_may_stand_for_another_kind_of_frame_each_time(self, runner):
        arrow, kept = runner.frame(NUMBERS), runner.frame(stream(NUMBERS.slice(0, 7)))
        for frame, rows in ((arrow, 10_000), (kept, 7), (arrow, 10_000), (kept, 7)):
            assert runner.count(runner.sql("SELECT n FROM f", {"f": frame})) == rows
            assert runner.ask("SELECT n FROM f", {"f": frame}).num_rows == rows

    def test_a_frame_of_no_rows_keeps_its_columns(self, runner):
        empty = runner.sql("SELECT n FROM f WHERE n < 0", {"f": runner.frame(stream(NUMBERS))})
        assert tuple(empty.columns) == ("n",)
        assert runner.count(empty) == 0

    def test_a_table_is_scanned_whole_or_by_a_filter(self, runner, tmp_path):
        ref = TableRef(str(tmp_path / "t"))
        rows = pa.table({"id": ["a", "b", "c"], "userName": ["x", "y", "x"]})
        table = create_table(ref, rows.schema, rows)
        whole = runner.scan(table.ref, ["id", "userName"])
        assert runner.count(whole) == 3
        where = filter_expression(table.schema, [Condition("userName", "=", "x")])
        some = runner.scan(table.ref, ["id"], where)
        assert sorted(runner.collect(some).column("id").to_pylist()) == ["a", "c"]


class TestNames:
    @pytest.mark.parametrize("make", [lambda t: t, stream], ids=["arrow", "stream"])
    def test_keywords_and_names_that_differ_only_in_case_stay_apart(self, runner, make):
        names = ["order", "select", "group", "userName", "username", "uSERNAME", "id", "iD"]
        table = pa.table({name: [name] for name in names})
        frame = runner.frame(make(table))
        assert list(frame.columns) == names
        text = "SELECT " + ", ".join(f"f.`{name}`" for name in names) + " FROM f GROUP BY ALL"
        for found in (
            runner.collect(frame),
            runner.ask(text, {"f": frame}),
            runner.collect(runner.sql(text, {"f": frame})),
        ):
            assert found.to_pylist() == [{name: name for name in names}]

    def test_a_map_function_sees_the_names_of_the_caller(self, runner):
        table = pa.table({"userName": ["a"], "username": ["b"]})
        seen = []

        def same(batch):
            seen.append(batch.schema.names)
            return batch

        mapped = runner.map(runner.frame(stream(table)), same, table.schema)
        assert seen == [["userName", "username"]]
        assert runner.collect(mapped).to_pylist() == table.to_pylist()


VALUES = {
    "date": (pa.date32(), [date(1, 1, 1), date(1969, 12, 31), date(9999, 12, 31)]),
    "instant": (
        pa.timestamp("ms", "UTC"),
        [datetime(1, 1, 1, tzinfo=UTC), datetime(1969, 12, 31, 23, 59, 59, 999000, tzinfo=UTC)],
    ),
    "u64": (pa.uint64(), [0, 2**63, 2**64 - 1]),
    "i64": (pa.int64(), [-(2**63), 2**63 - 1]),
    "u32": (pa.uint32(), [2**32 - 1]),
    "i32": (pa.int32(), [-(2**31)]),
    "f32": (pa.float32(), [0.1, -1.5, 3.4028234663852886e38]),
    "f64": (pa.float64(), [0.1, 5e-324, 1.7976931348623157e308]),
    "bool": (pa.bool_(), [True, False]),
    "text": (pa.utf8(), ["", "ß", "日本", "a\x00b", "\U0001f600", "'; DROP TABLE f; --", "a`b"]),
}


@pytest.mark.parametrize("kind", VALUES)
def test_values_of_every_type_of_a_key_come_back_as_they_went(runner, kind, monkeypatch):
    monkeypatch.setenv("TZ", "America/New_York")
    type_, values = VALUES[kind]
    table = pa.table({"v": pa.array([*values, None], type_)})
    kept = runner.frame(stream(table))
    back = runner.collect(kept).column("v").cast(type_)
    assert back.combine_chunks().equals(table.column("v").combine_chunks())
    # Equal values meet whether they come from Arrow or from DuckDB; null meets nothing.
    text = "SELECT a.v FROM a JOIN b ON a.v = b.v"
    met = runner.ask(text, {"a": kept, "b": runner.frame(table)})
    assert met.num_rows == len(values)


class TestDistinct:
    @pytest.mark.parametrize("make", [lambda t: t, stream], ids=["arrow", "stream"])
    def test_nulls_and_repeats_do_not_count_and_the_limit_is_inclusive(self, runner, make):
        frame = runner.frame(make(pa.table({"order": ["a", None, "b", "a"]})))
        assert sorted(distinct(runner, frame, "order", 2)) == ["a", "b"]
        assert distinct(runner, frame, "order", 1) is None


class TestBounds:
    def test_what_does_not_fit_in_memory_spills_and_is_freed_at_the_end(self):
        schema = pa.schema({"id": pa.utf8(), "n": pa.int64()})

        def rows():
            for at in range(50):
                numbers = range(at * 20_000, (at + 1) * 20_000)
                texts = [f"{hash(number) * 2654435761 % 2**64:064d}" for number in numbers]
                yield pa.record_batch([pa.array(texts), pa.array(numbers, pa.int64())], schema)

        runner = LocalRunner(memory_limit="96MB")
        try:
            frame = runner.frame(pa.RecordBatchReader.from_batches(schema, rows()))
            again = runner.sql("SELECT id, n FROM a WHERE n > 4", {"a": frame})
            text = (
                "SELECT COUNT(*) AS c FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.id = a.id)"
            )
            assert runner.ask(text, {"a": frame, "b": again}).to_pylist() == [{"c": 5}]
            place = Path(runner._spill.name)
            assert any(place.rglob("*")), "two million rows of 72 bytes exceed 100 MB"
        finally:
            runner.close()
        assert not place.exists()
        runner.close()

    def test_nothing_is_made_on_disk_before_a_text_is_run(self):
        runner = LocalRunner()
        runner.frame(NUMBERS)
        assert runner._spill is None
        runner.close()


class TestFailures:
    def test_a_text_that_fails_is_one_line_of_ours(self, runner):
        with pytest.raises(StorageError, match=r"the local engine failed: .*nowhere") as caught:
            runner.sql("SELECT * FROM nowhere", {})
        assert "\n" not in str(caught.value)
        with pytest.raises(StorageError, match="the local engine failed"):
            runner.ask("SELECT CAST('x' AS INT) AS n", {})

    def test_python_variables_are_no_frames(self, runner):
        pend = NUMBERS  # noqa: F841 - DuckDB would find it by its name
        with pytest.raises(StorageError, match="pend"):
            runner.ask("SELECT * FROM pend", {})

    def test_too_little_memory_is_an_error_of_ours(self):
        runner = LocalRunner(memory_limit="96MB")
        try:
            with pytest.raises(StorageError, match=r"[Mm]emory"):
                runner.ask("SELECT LIST(range) AS l FROM range(5000000)", {})
        finally:
            runner.close()

    @pytest.mark.parametrize("failure", [InputError("row 7 is bad"), KeyError("a mistake")])
    def test_what_fails_in_a_stream_comes_out_as_itself(self, runner, failure):
        def rows():
            yield from NUMBERS.to_batches(max_chunksize=100)
            raise failure

        with pytest.raises(type(failure)) as caught:
            runner.frame(pa.RecordBatchReader.from_batches(NUMBERS.schema, rows()))
        assert caught.value is failure
        assert runner.count(runner.frame(NUMBERS)) == 10_000

    @pytest.mark.parametrize("make", [lambda t: t, stream], ids=["arrow", "stream"])
    def test_what_fails_in_a_function_comes_out_as_itself(self, runner, make):
        def refuse(batch):
            raise InputError("row 7 is bad")

        with pytest.raises(InputError, match="row 7 is bad"):
            runner.map(runner.frame(make(NUMBERS)), refuse, NUMBERS.schema)
        # The failed read does not stand in the way of the next one.
        assert runner.ask("SELECT 1 AS one", {}).to_pylist() == [{"one": 1}]


class TestStopping:
    """A query of DuckDB that never ends is ended from outside."""

    ENDLESS = "SELECT count(*) AS n FROM f AS a, f AS b, f AS c, f AS d WHERE a.x + b.x > c.x + d.x"

    @pytest.fixture
    def frames(self, runner):
        return {"f": runner.frame(pa.table({"x": pa.array(range(20_000))}))}

    def test_a_token_interrupts_it(self, runner, frames):
        with watching(StopAt(5)), pytest.raises(Cancelled):
            runner.ask(self.ENDLESS, frames)
        assert runner.ask("SELECT count(*) AS n FROM f", frames).column("n").to_pylist() == [20_000]

    # Every row meets 30,000 others and nothing passes: DuckDB is in one task for minutes. A second of
    # computing is far more than it takes to get there.
    PROGRAM = """
import signal
import threading
import time
from contextlib import closing

import pyarrow as pa

from omnigraph.runner.local_runner import LocalRunner


class Terminated(BaseException):
    pass


def end(number, _):
    raise Terminated


def announce(start):
    while time.process_time() < start + 1:
        time.sleep(0.01)
    print("begun", flush=True)


signal.signal(signal.SIGTERM, end)
table = pa.table({"k": [n % 10 for n in range(300_000)], "x": range(300_000)})
QUERY = "SELECT count(*) AS n FROM f a JOIN f b ON a.k = b.k WHERE a.x * b.x % 1000003 = 1000003"
with closing(LocalRunner()) as runner:
    frame = runner.frame(table)
    runner.ask("SELECT count(*) AS n FROM f", {"f": frame})
    threading.Thread(target=announce, args=(time.process_time(),), daemon=True).start()
    try:
        runner.ASK(QUERY, {"f": frame})
    except (KeyboardInterrupt, Terminated) as stopped:
        print(type(stopped).__name__)
    print(runner.ask("SELECT count(*) AS n FROM f", {"f": frame}).column("n").to_pylist())
"""

    @pytest.mark.parametrize(
        ("number", "ask", "raised"),
        [(signal.SIGINT, "ask", "KeyboardInterrupt"), (signal.SIGTERM, "sql", "Terminated")],
    )
    def test_a_signal_ends_a_query_that_is_busy_with_one_task(self, number, ask, raised):
        program = self.PROGRAM.replace("ASK", ask)
        with subprocess.Popen(
            [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True
        ) as child:
            try:
                assert child.stdout is not None
                assert child.stdout.readline() == "begun\n"
                child.send_signal(number)
                out, _ = child.communicate(timeout=600)
            finally:
                child.kill()
        assert out == f"{raised}\n[300000]\n"
        assert child.returncode == 0
