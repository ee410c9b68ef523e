"""A purge in an object store: nothing of an entity is left in any object, and what is owed is finished."""

from __future__ import annotations

import pytest

from omnigraph import failpoints
from omnigraph.errors import HistoryReclaimed, PurgeBlocked
from omnigraph.graph import init
from omnigraph.graph import open as open_graph
from tests.commit.synthetic import Died
from tests.opened import workspace_of

SCHEMA = "node Person { slug: String @key  name: String? }  edge Knows: Person -> Person"
RECORDS = [
    {"type": "Person", "data": {"slug": f"slug-{n}-x", "name": f"name-{n}-x"}} for n in range(4)
] + [{"edge": "Knows", "from": "slug-0-x", "to": "slug-1-x", "data": {"id": "knows-0-x"}}]
SECRETS = (b"slug-0-x", b"name-0-x", b"knows-0-x")


def holding(graph):
    store = workspace_of(graph).store
    names = [name for place in ("nodes", "edges", "__manifest") for name in store.list(place)]
    return [name for name in names if any(one in store.read_bytes(name) for one in SECRETS)]


@pytest.mark.parametrize("dies", [False, True])
def test_a_purge_leaves_nothing(s3_root, dies):
    with init(s3_root.canonical, SCHEMA) as graph:
        graph.load(RECORDS)
        held = graph.commits.list(limit=1)[0].graph_commit_id
        graph.tags.create("v1")
        with pytest.raises(PurgeBlocked):
            graph.purge({"Person": ["slug-0-x"]})
        graph.tags.delete("v1")
        assert holding(graph)
        if dies:
            with failpoints.arm("purge.before_finish", Died()), pytest.raises(Died):
                graph.purge({"Person": ["slug-0-x"]})
            assert graph.status().purges_owed
        else:
            report = graph.purge({"Person": ["slug-0-x"]})
            assert report.purged == {"Knows": 1, "Person": 1}
    with open_graph(s3_root.canonical) as graph:
        assert graph.status().purges_owed == ()
        # The tag that was deleted is a row of the manifest that names no entity.
        assert holding(graph) == []
        with pytest.raises(HistoryReclaimed):
            graph.query("query q() { match { $p: Person } return { $p.slug } }", snapshot=held)
