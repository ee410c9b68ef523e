"""A purge beside another process that has the graph open: a reader, an export and a feed go on, or say why not."""

from __future__ import annotations

import io
import shutil
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.errors import ChangeFeedGap, HistoryReclaimed, OmniGraphError
from tests.purge.world import build, cities_in, hits, people_in, person, secrets, slug
from tests.storage.processes import context


def read_on(uri, connection):
    """Answer what the parent asks about, with one handle that stays open."""
    with og.open(uri, mode="r") as graph:
        feed = graph.changes.poll(start="now").cursor
        while (asked := connection.recv()) is not None:
            what, target = asked
            try:
                if what == "feed":
                    answer = len(graph.changes.poll(cursor=feed).changes)
                elif what == "export":
                    out = io.BytesIO()
                    graph.export(out, **target)
                    answer = slug(700).encode() in out.getvalue()
                elif what == "cities":
                    answer = cities_in(graph, **target)
                else:
                    answer = slug(700) in people_in(graph, **target)
            except OmniGraphError as error:
                answer = type(error)
            connection.send(answer)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    place = tmp_path_factory.mktemp("purge") / "graph"
    build(str(place))
    return place


def test_what_another_process_sees(prepared, tmp_path):
    uri = str(shutil.copytree(prepared, tmp_path / "graph"))
    here, there = context.Pipe()
    with og.open(uri, upkeep="off") as graph:
        before = graph.commits.list(limit=1)[0].graph_commit_id
        process = context.Process(target=read_on, args=(uri, there))
        process.start()

        def ask(what, **target):
            here.send((what, target))
            return here.recv()

        assert ask("people") is False
        graph.load([person(700)])
        graph.blobs.write(
            "node", "Person", slug(700), "photo", b"x", operation_id="01JZZZZZZZZZZZZZZZZZZZZZZ7"
        )
        during = graph.commits.list(limit=1)[0].graph_commit_id
        assert (ask("people"), ask("export")) == (True, True)
        assert ask("cities", snapshot=before) == {"oslo"}
        graph.purge({"Person": [slug(700)]})
        assert hits([Path(uri)], secrets(700)) == set()
        assert (ask("people"), ask("export")) == (False, False)
        # Of states from before, the manifest names other files than the process has read.
        assert ask("cities", snapshot=before) == {"oslo"}
        assert ask("people", snapshot=before) is False
        assert ask("export", snapshot=during) is HistoryReclaimed
        assert ask("feed") is ChangeFeedGap
        graph.load([{"type": "City", "data": {"slug": "rome"}}])
        assert ask("cities") == {"oslo", "rome"}
        here.send(None)
        process.join(600)
        assert process.exitcode == 0
