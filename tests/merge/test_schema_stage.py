"""The stage of a merge that merges schemas, as far as it looks at rows."""

from __future__ import annotations

import omnigraph as og
from omnigraph.write.merge import schemas

BASE = """
node Ship { imo: String @key  flag: String?  log: String? }
node Port { code: String @key }
"""


def test_rows_are_compared_once_although_schemas_are_merged_twice(tmp_path, monkeypatch):
    """Ids that a merge needs are taken before the second time: a table of its own for a type of the source."""
    with og.init(tmp_path / "g", BASE) as graph:
        graph.load([{"type": "Ship", "data": {"imo": "S1", "flag": "PA"}}])
        graph.branches.create("side")
        wider = BASE.replace("flag: String?", "") + "node Crew { nick: String @key }\n"
        graph.schema.apply(wider, branch="side")
        graph.load([{"type": "Crew", "data": {"nick": "ann"}}], branch="side")
        graph.mutate('query q() { update Ship set { log: "x" } where imo = "S1" }')
        asked = []
        compare, merge = schemas.compare, schemas.merge_schemas
        monkeypatch.setattr(
            schemas, "compare", lambda *sides: asked.append("rows") or compare(*sides)
        )
        monkeypatch.setattr(
            schemas, "merge_schemas", lambda *a, **k: asked.append("schemas") or merge(*a, **k)
        )
        merged = graph.branches.merge("side")
        assert merged.outcome == "merged"
        assert (asked.count("schemas"), asked.count("rows")) == (2, 1)
