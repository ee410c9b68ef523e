"""Lost and damaged files in S3: indexes are not needed, and verify says what is wrong."""

import obstore

from omnigraph.graph import init
from omnigraph.graph import open as open_graph
from omnigraph.storage.objects.stores import open_bucket
from omnigraph.storage.tables.lance_import import forget_sessions
from tests.maintenance.damage.damaging import people

SCHEMA = """
node Person { name: String @key  bio: String? @index  age: I32? @index  face: Vector(4)? @index }
"""


def names(store):
    listed = [one["path"] for batch in obstore.list(store) for one in batch]
    return [name for name in listed if name.startswith("nodes/")]


def asked(graph):
    words = graph.query(
        'query q() { match { $p: Person  search($p.bio, "runs") } return { $p.name as n } order { n } }'
    ).rows
    ages = graph.query(
        "query q() { match { $p: Person { age: 7 } } return { $p.name as n } order { n } }"
    ).rows
    return words, ages


def test_indexes_are_not_needed_and_verify_tells(s3_root):
    rows = people(0, 60).drop_columns(["mood"])
    with init(str(s3_root), SCHEMA) as graph:
        graph.load_nodes("Person", rows, mode="append")
        plain = asked(graph)
        graph.ensure_indices()
        graph.branches.create("side")
    store = open_bucket(s3_root)
    forget_sessions()
    with open_graph(str(s3_root)) as graph:
        assert asked(graph) == plain
        assert graph.verify(deep=True).problems == ()
    lost = [
        name
        for name in names(store)
        if "/_indices/" in name and name.endswith(("lookup.lance", "docs.lance"))
    ]
    for name in lost:
        obstore.delete(store, name)
    forget_sessions()
    with open_graph(str(s3_root)) as graph:
        assert asked(graph) == plain
        for branch in ("main", "side"):
            graph.mutate(
                'query m() { update Person set { age: 8 } where name = "p0007" }', branch=branch
            )
        found = graph.verify(deep=True)
        told = {problem.file for problem in found.problems}
        assert told == {name.rpartition("/")[0] for name in lost}
        assert {problem.kind for problem in found.problems} == {"damaged"}
        graph.ensure_indices()
        graph.cleanup(keep_versions=1)
    data = [name for name in names(store) if "/data/" in name]
    for name in data:
        whole = bytes(obstore.get(store, name).bytes())
        obstore.put(store, name, whole[: len(whole) // 2])
    with open_graph(str(s3_root), mode="r") as graph:
        assert set(data) <= {problem.file for problem in graph.verify().problems}
