"""Drives every failpoint of the product once, in a process of its own."""

from __future__ import annotations

import importlib
import pkgutil
import shutil
import tempfile
from pathlib import Path

import pyarrow as pa

import omnigraph
from omnigraph import failpoints
from omnigraph.commit.changes import WRITERS
from omnigraph.graph import Graph
from omnigraph.graph import open as open_graph
from omnigraph.manifest.tidying import COMPACT_AT_FRAGMENTS
from tests.commit.synthetic import ALL, PERSON, TEAM, Died, prepare, write
from tests.manifest.publishing import advance, new_graph
from tests.opened import workspace_of
from tests.pipeline.stream_helpers import send


def import_everything() -> None:
    for module in pkgutil.walk_packages(omnigraph.__path__, "omnigraph."):
        importlib.import_module(module.name)


def drive_all() -> tuple[list[str], list[str]]:
    """(declared, fired): every declared point is armed while the scenarios run."""
    import_everything()
    declared = list(failpoints.registered())
    fired: set[str] = set()
    for name in declared:
        failpoints.arm(name, fired.add)
    directory = Path(tempfile.mkdtemp())
    try:
        with new_graph(directory) as graph:
            for scenario in SCENARIOS:
                scenario(graph)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    return declared, sorted(fired)


def branches_come_and_go(graph: Graph) -> None:
    graph.branches.create("gone")
    graph.branches.delete("gone")


def a_tag_comes_and_goes(graph: Graph) -> None:
    graph.tags.create("v1")
    graph.tags.delete("v1")


def every_writer_writes_on_a_branch(graph: Graph) -> None:
    for writer in WRITERS:
        graph.branches.create(writer)
        write(workspace_of(graph), {key: ["a"] for key in ALL}, branch=writer, writer=writer)


def a_stream_writes(graph: Graph) -> None:
    names = pa.array(["streamed"])
    send(graph, 0, pa.RecordBatch.from_pydict({"name": names}), type="Person")


def a_mutation_runs(graph: Graph) -> None:
    graph.mutate('query q() { insert Person { name: "m" } }')


def a_property_is_added_and_destroyed(graph: Graph) -> None:
    source = graph.schema.source
    graph.schema.apply(source.replace("node Team {", "node Team { spare: I32?"))
    graph.schema.apply(source, allow_data_loss=True)


def the_manifest_grows(graph: Graph) -> None:
    for _ in range(COMPACT_AT_FRAGMENTS):
        advance(workspace_of(graph).manifest, PERSON)
    graph.branches.create("whole")


def a_person_is_purged(graph: Graph) -> None:
    """Deleted before, so that the records of commits have a mark of it."""
    graph.mutate('query q() { insert Person { name: "left" } }')
    graph.mutate('query q() { delete Person where name = "left" }')
    graph.purge({"Person": ["m", "left"]})


def old_versions_go(graph: Graph) -> None:
    graph.cleanup(keep_versions=1)


def writers_die(graph: Graph) -> None:
    """One is rolled back, one loses its branch."""
    die(graph, "load.after_table_commit", "load")
    graph.branches.create("doomed")
    die(graph, "load.after_fork", "doomed")
    graph.branches.delete("doomed")
    open_graph(graph.uri).close()


def the_graph_is_copied(graph: Graph) -> None:
    copy = f"{graph.uri} copied"
    shutil.copytree(graph.uri, copy)
    open_graph(copy).close()


def a_cluster_makes_and_deletes_a_graph(graph: Graph) -> None:
    from omnigraph.cluster.apply import apply
    from omnigraph.cluster.commands import import_cluster
    from omnigraph.cluster.planning import approve

    place = Path(f"{graph.uri} cluster")
    place.mkdir()
    (place / "a.pg").write_text("node A { n: String @key }")
    (place / "a.gq").write_text("query all() { match { $a: A } return { $a.n } }")
    (place / "cluster.yaml").write_text(
        "version: 1\ngraphs: { a: { schema: a.pg, queries: a.gq } }"
    )
    import_cluster(str(place))
    assert apply(str(place))["converged"]
    (place / "cluster.yaml").write_text("version: 1")
    approve(str(place), "graph.a", "ada")
    assert apply(str(place))["converged"]


def die(graph: Graph, point: str, branch: str) -> None:
    from omnigraph.commit.protocol import commit

    failpoints._armed.pop(point).disarm()
    wanted = prepare(workspace_of(graph), {PERSON: ["b"], TEAM: ["b"]}, branch=branch)
    with failpoints.arm(point, Died()):
        try:
            commit(workspace_of(graph), wanted)
        except Died:
            return
    raise AssertionError(point)


SCENARIOS = [
    branches_come_and_go,
    a_tag_comes_and_goes,
    a_mutation_runs,
    a_stream_writes,
    a_property_is_added_and_destroyed,
    a_person_is_purged,
    old_versions_go,
    every_writer_writes_on_a_branch,
    writers_die,
    the_graph_is_copied,
    a_cluster_makes_and_deletes_a_graph,
    the_manifest_grows,  # by pins of versions that no table has
]
