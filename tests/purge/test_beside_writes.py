"""A purge beside a write that is under way, after one that died half way, and after a purge that was not finished."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import omnigraph as og
import omnigraph.maintenance.purge.purge
import omnigraph.write.schema_apply
from omnigraph import failpoints
from omnigraph.errors import Contention, OmniGraphError, PurgeBlocked, StorageError
from tests.commit.synthetic import Died
from tests.purge.world import (
    build,
    cities_in,
    hits,
    knows,
    listing,
    people_in,
    person,
    secrets,
    slug,
)
from tests.storage.processes import stopped_at

PREPARED, UNDER_LOCKS = "load.before_locks", "load.before_phase_b"
CITY = {"type": "City", "data": {"slug": "rome"}}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    place = tmp_path_factory.mktemp("purge") / "graph"
    build(str(place))
    return place


@pytest.fixture
def graph(prepared, tmp_path):
    place = shutil.copytree(prepared, tmp_path / "graph")
    with og.open(str(place), upkeep="off") as graph:
        yield graph


def purge(graph, *numbers):
    return graph.purge({"Person": [slug(number) for number in numbers]})


def left_of(graph, *numbers):
    return hits([Path(graph.uri)], [text for number in numbers for text in secrets(number)])


def head_of(graph):
    return graph.snapshot().graph_commit_id


def load_paused(pipe, uri, point, records, place):
    """Load, stop at a point on the way, and answer how it ended."""
    with og.open(uri, upkeep="off") as graph:
        failpoints.arm(point, failpoints.FilePause(Path(place)), times=1)
        try:
            graph.load(records)
        except OmniGraphError as error:
            pipe.send(error.code)
        else:
            pipe.send("done")


@pytest.fixture
def loading(graph, tmp_path):
    """A load of another process that stands at a point."""

    def start(point, *records):
        return stopped_at(tmp_path / "load", load_paused, (graph.uri, point, list(records)))

    return start


class TestARunningLoad:
    def test_of_others_goes_on_and_is_in_no_purge_s_way(self, graph, loading):
        with loading(PREPARED, person(701), knows(701, 9)) as load:
            assert purge(graph, 7).purged["Person"] == 1
            assert left_of(graph, 7) == set()
            assert load.go_on() == "done"
        assert slug(701) in people_in(graph)
        assert left_of(graph, 7) == set()
        assert not graph.verify(deep=True).problems

    def test_of_the_entity_itself_brings_it_back_after_the_purge(self, graph, loading):
        head = head_of(graph)
        with loading(PREPARED, person(700), person(701)) as load:
            with pytest.raises(StorageError, match="not finished") as refusal:
                purge(graph, 700)
            assert any(name == refusal.value.details["file"] for name, _ in left_of(graph, 700))
            assert graph.status().purges_owed
            assert head_of(graph) == head  # no version had it
            # What another purge owes is in no purge's way.
            assert purge(graph, 9).purged["Person"] == 1
            assert left_of(graph, 9) == set()
            assert load.go_on() == "done"
        assert {slug(700), slug(701)} <= people_in(graph)
        assert purge(graph, 700).purged["Person"] == 1
        assert left_of(graph, 700) == set()
        assert graph.status().purges_owed == ()
        assert slug(701) in people_in(graph)
        assert not graph.verify(deep=True).problems

    def test_of_the_entity_itself_that_is_killed_leaves_nothing(self, graph, loading):
        with loading(PREPARED, person(700)) as load:
            with pytest.raises(StorageError, match="not finished"):
                purge(graph, 700)
            load.process.kill()
            load.process.join()
        with og.open(graph.uri, upkeep="off") as again:
            assert again.status().purges_owed == ()
            assert left_of(again, 700) == set()

    def test_of_an_edge_to_it_is_refused(self, graph, loading):
        with loading(PREPARED, person(701), knows(701, 7)) as load:
            with pytest.raises(StorageError, match="not finished"):
                purge(graph, 7)
            assert slug(7) not in people_in(graph)
            head = head_of(graph)
            assert load.go_on() == "constraint"  # as any edge to a node that is nowhere
        assert head_of(graph) == head
        with og.open(graph.uri, upkeep="off") as again:
            assert again.status().purges_owed == ()
            assert left_of(again, 7) == set()
            assert not again.verify(deep=True).problems

    def test_that_has_its_locks_is_waited_for(self, graph, loading, monkeypatch):
        with loading(UNDER_LOCKS, person(700)) as load:
            head = head_of(graph)
            monkeypatch.setenv("OMNIGRAPH_LOCK_WAIT_MS", "20")
            with pytest.raises(Contention):
                purge(graph, 7)
            assert head_of(graph) == head
            assert slug(7) in people_in(graph)
            monkeypatch.undo()
            assert load.go_on() == "done"
        assert purge(graph, 7, 700).purged["Person"] == 2
        assert left_of(graph, 7, 700) == set()


class TestAPendingRecovery:
    def test_that_goes_forward_is_finished_first(self, graph):
        with (
            failpoints.arm("load.after_phase_b_before_phase_c", Died()),
            pytest.raises(Died),
        ):
            graph.load([person(700), CITY])
        assert graph.status().pending_recoveries == 1
        assert purge(graph, 700).purged["Person"] == 1
        assert left_of(graph, 700) == set()
        assert graph.status().pending_recoveries == 0
        assert cities_in(graph) == {"oslo", "rome"}

    def test_that_goes_back_is_in_the_way_until_the_next_open(self, graph):
        with failpoints.arm("load.after_table_commit", Died()), pytest.raises(Died):
            graph.load([person(700), CITY])
        head, before = head_of(graph), listing(Path(graph.uri))
        # The new version of City is there, and that of Person would have been made from this one.
        for entities in ({"City": ["rome"]}, {"Person": [slug(7)]}):
            with pytest.raises(PurgeBlocked, match="reopen the graph") as refusal:
                graph.purge(entities)
            assert {one["kind"] for one in refusal.value.details["obstacles"]} == {"sidecar"}
        assert (head_of(graph), listing(Path(graph.uri))) == (head, before)
        # No version has this one, and none will.
        assert purge(graph, 700).commits == ()
        assert left_of(graph, 700) == set()
        with og.open(graph.uri, upkeep="off") as again:
            assert again.status().pending_recoveries == 0
            assert cities_in(again) == {"oslo"}
            again.purge({"City": ["rome"], "Person": [slug(7)]})
            assert left_of(again, 7, 700) == set()
            assert not again.verify(deep=True).problems


class TestAnotherPurgeThatIsOwed:
    @pytest.mark.parametrize("point", ["purge.before_finish", "purge.before_verify"])
    def test_of_entities_is_finished_first(self, graph, point):
        with failpoints.arm(point, Died()), pytest.raises(Died):
            purge(graph, 7)
        assert graph.status().purges_owed
        assert purge(graph, 9).purged["Person"] == 1
        assert left_of(graph, 7, 9) == set()
        assert graph.status().purges_owed == ()
        assert not graph.verify(deep=True).problems

    def test_of_a_type_is_finished_first(self, graph):
        source = graph.schema.show().source
        without = source.replace("edge LivesIn: Person -> City\n", "")
        assert without != source
        with failpoints.arm("schema_apply.before_purge", Died()), pytest.raises(Died):
            graph.schema.apply(without, allow_data_loss=True)
        assert graph.status().purges_owed
        assert purge(graph, 9).purged["Person"] == 1
        assert left_of(graph, 9) == set()
        assert hits([Path(graph.uri)], [b"lives-11-x"]) == set()
        assert graph.status().purges_owed == ()
