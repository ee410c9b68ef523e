"""Tasks on executors: outcomes in order, errors as themselves, and a session that goes on."""

from __future__ import annotations

import os
from datetime import datetime
from decimal import Decimal
from functools import partial

import pyarrow as pa
import pytest

from omnigraph.errors import InputError, KeyConflict, StorageError
from omnigraph.runner.spark_errors import spark_errors
from omnigraph.runner.spark_tasks import (
    executor_task,
    kept_frame,
    run_tasks,
    sent_frame,
    task_frame,
)


def test_outcomes_come_in_the_order_of_their_items(spark):
    outcomes = run_tasks(spark, str, range(10), at_once=3, weight=lambda item: item % 4)
    assert [outcome.get() for outcome in outcomes] == [str(item) for item in range(10)]
    assert run_tasks(spark, str, [], at_once=3) == []


def halved(number):
    if number == 7:
        raise KeyConflict("seven is taken", table_key="node:N", entity_id="7")
    if number % 2:
        raise InputError(f"{number} is odd", row=number)
    return number // 2 or None


def test_an_error_is_the_outcome_of_its_item_only(spark):
    outcomes = run_tasks(spark, halved, [4, 3, 0, 7], at_once=2, final=(KeyConflict,))
    assert (outcomes[0].get(), outcomes[2].get()) == (2, None)
    with pytest.raises(InputError, match="3 is odd") as caught:
        outcomes[1].get()
    assert caught.value.details == {"row": 3}
    assert type(outcomes[3].error) is KeyConflict


def test_a_task_that_dies_is_one_error_and_the_session_goes_on(spark):
    with pytest.raises(StorageError):
        run_tasks(spark, os._exit, [3], at_once=1)
    assert [outcome.get() for outcome in run_tasks(spark, str, [1], at_once=1)] == ["1"]


def test_a_failure_of_another_kind_ends_the_job_with_its_reason(spark):
    with pytest.raises(StorageError) as caught:
        run_tasks(spark, int, ["1", "x"], at_once=2)
    reason = "ValueError: invalid literal for int() with base 10: 'x'"
    assert caught.value.message == f"the Spark job failed: {reason}"


@executor_task
def numbers(count, *, refused=None):
    for number in range(count):
        if number == refused:
            raise InputError(f"{number} is refused", row=number)
        yield pa.record_batch({"n": pa.array([number], pa.int64())})


def test_a_frame_has_the_rows_of_all_items(spark):
    frame = task_frame(spark, numbers, [2, 0, 3], "n long")
    assert frame.rdd.getNumPartitions() == 3
    assert sorted(row.n for row in frame.collect()) == [0, 0, 1, 1, 2]
    assert task_frame(spark, numbers, [], "n long").collect() == []


def test_an_error_in_a_frame_comes_home_as_itself(spark):
    frame = task_frame(spark, partial(numbers, refused=1), [1, 2], "n long")
    with pytest.raises(InputError, match="1 is refused") as caught, spark_errors():
        frame.collect()
    assert caught.value.details == {"row": 1}


def test_rows_that_are_sent_leave_the_callers_session_active(spark):
    """A write looks there for the data source that its caller has registered."""
    sessions = spark._jvm.org.apache.spark.sql.classic.SparkSession
    sessions.setActiveSession(spark._jsparkSession)
    other = spark.newSession()
    sent = sent_frame(other, pa.table({"n": [1, 2]}), "n long")
    assert [row.n for row in sent.collect()] == [1, 2]
    assert sent.sparkSession._jsparkSession.equals(other._jsparkSession)
    assert sessions.getActiveSession().get().equals(spark._jsparkSession)


class TestKeptFrame:
    """`kept_frame` stands on internals of Spark (`toRdd`, `internalCreateDataFrame`): what they must do."""

    SCHEMA = "n bigint, t string, b binary, at timestamp, d decimal(20,0), l array<int>, f double"
    ROWS = (
        (1, "a", b"\x00\xff", None, Decimal(2**63), [1, None], float("-inf")),
        (None, None, None, datetime.fromisoformat("2024-02-29T12:00"), None, [], 0.5),
        (-(2**63), "ü\n", b"", datetime.fromisoformat("1969-12-31"), Decimal(0), None, None),
    )

    @pytest.fixture
    def frame(self, spark):
        frame = kept_frame(spark.createDataFrame(self.ROWS, self.SCHEMA).repartition(2))
        yield frame
        frame.unpersist()

    def test_it_has_the_same_rows_columns_and_types(self, frame):
        assert sorted(map(repr, map(tuple, frame.collect()))) == sorted(map(repr, self.ROWS))
        assert [(one.name, one.dataType.simpleString()) for one in frame.schema.fields] == [
            tuple(column.split(" ")) for column in self.SCHEMA.split(", ")
        ]
        assert frame.where("n = 1").select("t").toArrow().to_pylist() == [{"t": "a"}]

    def test_a_plan_of_frames_made_from_each_other_does_not_grow(self, spark):
        made, sizes = [spark.range(4).toDF("n")], []
        for _ in range(4):
            joined = made[-1].join(made[-1].withColumnRenamed("n", "m"), made[-1]["n"] >= 0)
            made.append(kept_frame(joined.select("n").distinct()))
            plan = made[-1]._jdf.queryExecution().analyzed()
            sizes.append(plan.treeString().count("\n"))
            assert plan.children().isEmpty()
        assert len(set(sizes)) == 1
        assert sorted(row.n for row in made[-1].collect()) == list(range(4))
        for frame in made[1:]:
            frame.unpersist()

    def test_rows_are_computed_once_and_again_where_they_were_lost(self, spark):
        computed = spark.sparkContext.accumulator(0)

        def count(batches):
            for batch in batches:
                computed.add(batch.num_rows)
                yield batch

        frame = kept_frame(spark.range(6).mapInArrow(count, "id long"))
        assert frame.storageLevel.useMemory
        assert frame.count() == frame.where("id < 9").count() == 6
        assert computed.value == 6
        spark.catalog.clearCache()
        assert sorted(row.id for row in frame.collect()) == list(range(6))
        assert computed.value == 12
        frame.unpersist()
