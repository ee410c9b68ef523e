"""A purge that dies anywhere is undone or finished after the next open, never half."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from pathlib import Path

import pytest

import omnigraph as og
import omnigraph.maintenance.purge.purge
from omnigraph import failpoints
from tests.purge.world import build, hits, people_in, secrets, slug
from tests.storage.processes import context

TEXTS = [*secrets(7), *secrets(8)]
IDS = {"Person": [slug(7), slug(8)]}
# Whether the purge stands after its process died there and the graph was opened again.
POINTS = {
    "purge.before_locks": False,
    "purge.before_blur": False,
    "purge.before_version": False,
    "purge.before_phase_a": False,
    "recovery.sidecar_write": False,
    "purge.before_phase_b": False,
    "purge.before_table_commit": False,
    "purge.after_table_commit": False,
    "purge.after_phase_b_before_phase_c": True,
    "purge.after_phase_c_before_phase_d": True,
    "recovery.sidecar_delete": True,
    "purge.before_finish": True,
    "cleanup.before_version": True,
    "cleanup.before_files": True,
    "purge.before_verify": True,
    "purge.before_settle": True,
}
# No table is forked for a purge. The record of what a hard drop owes is in `test_schema_apply_crash`.
NEVER = {"purge.before_fork", "purge.after_fork", "purge.before_record"}


def test_every_point_of_a_purge_is_among_them():
    known = {name for name in failpoints.registered() if name.startswith("purge.")}
    assert known == {point for point in POINTS if point.startswith("purge.")} | NEVER


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    place = tmp_path_factory.mktemp("purge") / "graph"
    build(str(place))
    return place


def purge_and_die(uri, point, skip):
    with og.open(uri, upkeep="off") as graph:
        failpoints.arm(point, "exit", skip=skip)
        graph.purge(IDS)


def purge_whole(uri):
    with og.open(uri, upkeep="off") as graph:
        graph.purge(IDS)


def deaths():
    for point, stands in POINTS.items():
        yield pytest.param(point, 0, stands, id=point)
    # Three tables; the steps that build indexes again may be left out.
    for skip in (1, 3, 5):
        yield pytest.param("purge.before_table_commit", skip, None, id=f"table-commit-{skip}")
    # Some versions of the manifest name the new files, and others still the old ones.
    yield pytest.param("purge.before_version", 4, False, id="purge.before_version-4")
    yield pytest.param("cleanup.before_version", 9, True, id="cleanup.before_version-9")


def judge(uri, stands):
    root = Path(uri)
    with og.open(uri, upkeep="off") as graph:
        assert graph.status().pending_recoveries == 0
        gone = slug(7) not in people_in(graph)
        assert stands in (None, gone)
        if gone:
            assert graph.status().purges_owed == ()
            assert hits([root], TEXTS) == set()
        # Repeating is harmless, and finishes a purge that was undone.
        graph.purge(IDS)
        assert hits([root], TEXTS) == set()
        assert slug(9) in people_in(graph)
        graph.mutate('query a() { insert City { slug: "rome" } }')
        assert not graph.verify(deep=True).problems


@pytest.mark.sampled(4, every=("stands",))
@pytest.mark.parametrize(("point", "skip", "stands"), list(deaths()))
def test_a_purge_that_dies_is_undone_or_finished(prepared, tmp_path, point, skip, stands):
    uri = str(shutil.copytree(prepared, tmp_path / "graph"))
    process = context.Process(target=purge_and_die, args=(uri, point, skip))
    process.start()
    process.join(600)
    assert process.exitcode != 0
    judge(uri, stands)


@pytest.mark.sampled(1, every=())
@pytest.mark.parametrize("seed", range(12))
def test_a_purge_that_is_killed_at_any_moment(prepared, tmp_path, seed):
    uri = str(shutil.copytree(prepared, tmp_path / "graph"))
    process = context.Process(target=purge_whole, args=(uri,))
    process.start()
    time.sleep(random.Random(seed).uniform(0.2, 2.5))
    if process.pid is not None and process.is_alive():
        os.kill(process.pid, signal.SIGKILL)
    process.join(600)
    judge(uri, None)
