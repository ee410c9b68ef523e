def test_workers_run_arrow_functions_in_our_python(spark):
    def seen(batches):
        import sys

        import pyarrow as pa

        for batch in batches:
            yield pa.RecordBatch.from_pydict({"python": [sys.executable] * batch.num_rows})

    import sys

    rows = spark.range(4).mapInArrow(seen, "python string").collect()
    assert {row.python for row in rows} == {sys.executable}
