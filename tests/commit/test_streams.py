"""The record of a stream: written with its commit, inherited, merged, recovered, and cheap to look up."""

from __future__ import annotations

import pytest

from omnigraph.commit.heal import heal
from omnigraph.commit.protocol import commit
from omnigraph.commit.replays import BatchRepeated, is_published, publish_once
from omnigraph.commit.stage_tables import lock_names
from omnigraph.errors import BadRequest
from omnigraph.graph import open as open_graph
from omnigraph.manifest import tidying
from omnigraph.manifest.history.stream_records import StreamBatch, StreamRecord, find_stream
from omnigraph.manifest.manifest import Manifest
from tests.commit.synthetic import PERSON, TEAM, contents, dying_at, prepare, write
from tests.graphs import graph_of
from tests.manifest.publishing import SCHEMA
from tests.opened import workspace_of

graph = graph_of(SCHEMA)


def recorded(graph, app_id: str = "orders", branch: str = "main") -> StreamRecord | None:
    manifest = workspace_of(graph).manifest
    return find_stream(manifest, manifest.state(branch), app_id)


def last(graph, app_id: str = "orders", branch: str = "main") -> int | None:
    record = recorded(graph, app_id, branch)
    return None if record is None else record.batch.batch_id


def send(graph, batch_id: int, app_id: str = "orders", branch: str = "main", query: str = "q"):
    """Publish a batch that adds one person."""
    batch = StreamBatch(app_id, batch_id, query)
    rows = {PERSON: [f"{app_id}-{batch_id}"]}
    return write(workspace_of(graph), rows, branch=branch, batch=batch)


def test_a_batch_is_recorded_with_its_commit(graph):
    assert recorded(graph) is None
    made = send(graph, 0)
    assert recorded(graph) == StreamRecord(StreamBatch("orders", 0, "q"), made.graph_commit_id)
    assert made.facts["stream"] == {"app_id": "orders", "batch_id": 0, "query_id": "q"}
    newer = send(graph, 4)
    other = send(graph, 2, "orders 2")
    assert recorded(graph) == StreamRecord(StreamBatch("orders", 4, "q"), newer.graph_commit_id)
    assert recorded(graph, "orders 2").graph_commit_id == other.graph_commit_id
    assert recorded(graph, "order") is None
    with open_graph(workspace_of(graph).root.canonical, mode="r") as again:
        assert recorded(again) == recorded(graph), "every process sees it"


def test_under_its_locks_a_batch_is_looked_up_again(graph):
    workspace = workspace_of(graph)
    batch = StreamBatch("orders", 3, "q")
    prepared = prepare(workspace, {TEAM: ["late"]}, batch=batch)
    send(graph, 3)
    before = contents(graph), graph.snapshot().graph_commit_id
    with pytest.raises(BatchRepeated):
        commit(workspace, prepared)
    assert (contents(graph), graph.snapshot().graph_commit_id) == before


def test_between_its_checks_and_its_publish_a_batch_is_alone_whatever_table_it_writes(graph):
    workspace = workspace_of(graph)

    def locks(table_key: str, batch: StreamBatch) -> set[str]:
        return lock_names(workspace, prepare(workspace, {table_key: ["x"]}, batch=batch))

    ours = locks(PERSON, StreamBatch("orders", 0, "q"))
    assert ours & locks(TEAM, StreamBatch("orders", 1, "r"))
    assert not ours & locks(TEAM, StreamBatch("clicks", 0, "q"))


@pytest.mark.parametrize(
    ("known", "given", "answer"),
    [
        (None, (0, "a"), False),
        ((3, "a"), (4, "a"), False),
        ((3, "a"), (4, "b"), False),
        ((3, "a"), (3, "a"), True),
        ((3, "a"), (0, "a"), True),
        ((3, "a"), (3, "b"), "refused"),
        ((3, "a"), (0, "b"), "refused"),
        ((3, "a"), (3, None), True),
        ((3, None), (3, "a"), True),
        ((3, None), (3, None), True),
        ((3, None), (2, None), "refused"),
        ((3, "a"), (2, None), "refused"),
        ((3, None), (2, "a"), "refused"),
    ],
)
def test_what_a_batch_is_to_the_recorded_one(known, given, answer):
    record = None if known is None else StreamRecord(StreamBatch("s", *known), "C1")
    batch = StreamBatch("s", *given)
    if answer != "refused":
        assert is_published(record, batch) is answer
        return
    with pytest.raises(BadRequest, match="choose another app_id") as refused:
        is_published(record, batch)
    assert f"batch {given[0]}" in str(refused.value)
    assert f"batch {known[0]}" in str(refused.value)
    for query in (known[1], given[1]):
        assert query is None or f"of query {query}" in str(refused.value)


def test_the_operation_id_belongs_to_the_stream_and_the_batch():
    made = StreamBatch("orders", 7, "q").operation_id
    assert StreamBatch("orders", 7, "another").operation_id == made
    others = [StreamBatch("orders", 8), StreamBatch("order", 7), StreamBatch("orders", 77)]
    assert made not in [one.operation_id for one in others]


def test_a_failed_batch_that_its_twin_published_counts_as_done(graph):
    workspace = workspace_of(graph)

    def publish() -> None:
        send(graph, 0)
        raise BadRequest("the ids are taken; choose others")

    batch = StreamBatch("orders", 0, "q")
    assert publish_once(workspace, "main", batch, publish) is None
    assert publish_once(workspace, "main", batch, pytest.fail) is None, "and is not tried again"
    with pytest.raises(BadRequest, match="of query r is not above"):
        publish_once(workspace, "main", StreamBatch("orders", 0, "r"), pytest.fail)


# -- branches


def test_a_branch_inherits_the_record_and_goes_on_by_itself(graph):
    send(graph, 1)
    graph.branches.create("side")
    assert last(graph, branch="side") == 1
    send(graph, 2, branch="side")
    assert (last(graph), last(graph, branch="side")) == (1, 2)


def test_a_merge_takes_the_greater_batch_of_each_stream(graph):
    send(graph, 1)
    graph.branches.create("side")
    send(graph, 2, branch="side")
    on_side = send(graph, 5, branch="side")
    ahead = send(graph, 9, "clicks")
    send(graph, 3, "clicks", branch="side")
    send(graph, 0, "only here", branch="side")
    graph.branches.merge("side", "main")
    assert recorded(graph) == StreamRecord(
        StreamBatch("orders", 5, "q"), on_side.graph_commit_id
    ), "with the commit that published it, which the branch holds now"
    assert recorded(graph, "clicks").graph_commit_id == ahead.graph_commit_id
    assert last(graph, "only here") == 0
    assert last(graph, "clicks", "side") == 3, "the source stays as it is"
    graph.branches.merge("main", "side")
    assert last(graph, "clicks", "side") == 9


# -- recovery


def test_a_batch_that_recovery_finishes_is_recorded(graph):
    batch = StreamBatch("orders", 6, "q")
    prepared = prepare(workspace_of(graph), {PERSON: ["ada"]}, batch=batch)
    with dying_at("load.after_phase_b_before_phase_c"):
        commit(workspace_of(graph), prepared)
    assert recorded(graph) is None
    heal(workspace_of(graph))
    assert recorded(graph) == StreamRecord(batch, prepared.intent.graph_commit_id)
    assert graph.commits.list()[0].facts["stream"]["batch_id"] == 6
    with pytest.raises(BatchRepeated):
        send(graph, 6)


def test_a_batch_that_recovery_takes_back_is_not(graph):
    prepared = prepare(
        workspace_of(graph), {PERSON: ["ada"], TEAM: ["x"]}, batch=StreamBatch("orders", 6, "q")
    )
    with dying_at("load.after_table_commit", times=1):
        commit(workspace_of(graph), prepared)
    with open_graph(workspace_of(graph).root.canonical) as again:  # a read-write open may roll back
        assert recorded(again) is None
        send(again, 6)
        assert last(again) == 6


# -- cost


def test_the_record_of_a_running_stream_is_read_from_the_newest_fragments(graph, monkeypatch):
    """However many commits there are: as long as they are those of streams, one look is enough."""
    looks = []
    metadata = Manifest.metadata

    def counted(self, state, column, value, fragments=None):
        looks.append(len(fragments))
        return metadata(self, state, column, value, fragments)

    monkeypatch.setattr(tidying, "COMPACT_AT_FRAGMENTS", 1000)
    for number in range(12):
        send(graph, number)
        send(graph, number, "clicks")
    manifest = workspace_of(graph).manifest
    state = manifest.state("main")
    assert len(state.table.fragments()) > 20
    monkeypatch.setattr(Manifest, "metadata", counted)
    assert find_stream(manifest, state, "orders").batch.batch_id == 11
    assert looks == [4]
    looks.clear()
    assert find_stream(manifest, state, "nobody") is None
    assert sum(looks) == len(state.table.fragments()), "one that never ran is looked for everywhere"
