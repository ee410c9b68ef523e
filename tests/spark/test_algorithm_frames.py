"""The values of an algorithm as a frame of Spark."""

import omnigraph as og


def test_a_frame_has_the_ids_and_the_values(spark, tmp_path):
    schema = "node Person { name: String @key } edge Knows: Person -> Person"
    with og.init(tmp_path / "g", schema) as graph:
        graph.load(
            [
                *({"type": "Person", "data": {"name": name}} for name in "abc"),
                {"edge": "Knows", "from": "a", "to": "b"},
            ]
        )
        frame = graph.algorithms.pagerank("Knows").frame()
        assert frame.sparkSession is spark
        assert frame.dtypes == [("id", "string"), ("rank", "double")]
        groups = graph.algorithms.connected_components("Knows").frame()
        assert [tuple(row) for row in groups.orderBy("id").collect()] == [
            ("a", "a"), ("b", "a"), ("c", "c"),
        ]  # fmt: skip
        assert graph.algorithms.degree("Knows").frame().dtypes[1] == ("degree", "bigint")
