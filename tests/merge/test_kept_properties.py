"""A property that one line dropped and a merge kept: its values come along when it is merged on."""

import omnigraph as og

WITH = "node Ship { imo: String @key  name: String?  flag: String? }\n"
WITHOUT = "node Ship { imo: String @key  name: String? }\n"


def test_values_that_nobody_has_written_since_come_along(tmp_path):
    with og.init(tmp_path / "g", WITH) as graph:
        graph.load([{"type": "Ship", "data": {"imo": "S1", "flag": "NO"}}])
        graph.branches.create("keeps")
        graph.branches.create("drops")
        graph.schema.apply(WITHOUT, branch="drops")
        graph.branches.create("other", from_="drops")
        graph.load([{"type": "Ship", "data": {"imo": "S2", "flag": "PA"}}], branch="keeps")
        graph.branches.merge("drops", "keeps", resolve_schema="ours")
        graph.load([{"type": "Ship", "data": {"imo": "S3"}}], branch="other")
        graph.branches.merge("keeps", "other")
        text = "query q() { match { $s: Ship } return { $s.imo as imo, $s.flag as flag } }"
        found = {row["imo"]: row["flag"] for row in graph.query(text, branch="other").rows}
        assert found == {"S1": "NO", "S2": "PA", "S3": None}
