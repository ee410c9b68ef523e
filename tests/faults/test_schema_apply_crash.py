"""A schema apply that dies anywhere has happened or has not, for every table, and the next write works."""

from __future__ import annotations

import shutil

import pytest

from omnigraph import failpoints
from omnigraph.errors import OmniGraphError, RecoveryRequired
from omnigraph.graph import open as open_graph
from omnigraph.write.purges import purges_owed
from tests.faults.schema_apply_cases import (
    CHANGES,
    apply_and_die,
    build,
    check_whole,
    secrets_in,
)
from tests.opened import workspace_of
from tests.storage.processes import context

# Whether the change stands after its process died there and the graph was opened again.
POINTS = {
    "schema_apply.before_locks": False,
    "schema_apply.before_phase_a": False,
    "recovery.sidecar_write": False,
    "schema_apply.before_phase_b": False,
    "schema_apply.before_table_commit": False,
    "schema_apply.after_table_commit": False,
    "schema_apply.after_phase_b_before_phase_c": True,
    "publish.before_write": True,
    "publish.after_write": True,
    "schema_apply.after_phase_c_before_phase_d": True,
    "recovery.sidecar_delete": True,
    "schema_apply.before_mirrors": True,
}
HARD_POINTS = {"schema_apply.before_purge": True, "purge.before_record": True}
# No table is forked on `main`; applies on branches are in `matrix/`.
NEVER = {"schema_apply.before_fork", "schema_apply.after_fork"}


def deaths():
    for name, change in CHANGES.items():
        points = {**POINTS, **HARD_POINTS} if change.hard else POINTS
        for point, stands in points.items():
            yield pytest.param(name, point, 0, stands, id=f"{name}-{point}")
    # Between table commits. Each soft change has one commit for what it adds, one for values of new columns
    # and one for the rest: 18 in all, those from the 9th to the 14th of columns with a default.
    # A hard one also rewrites the table, and then builds its index again, which may be left out.
    commits = {
        "soft": dict.fromkeys((1, 5, 8, 9, 10, 11, 12, 13, 17), False),
        "hard": {1: False, 6: False, 13: True},
        # A column that is written anew is a third commit, and its index one that may be left out: 20.
        "everyday": {1: False, 2: False, 4: False, 11: False, 17: False, 18: True, 19: True},
    }
    for name, skips in commits.items():
        for skip, stands in skips.items():
            point = "schema_apply.before_table_commit"
            yield pytest.param(name, point, skip, stands, id=f"{name}-{point}-{skip}")


def test_every_point_of_a_schema_apply_is_among_them():
    known = {name for name in failpoints.registered() if name.startswith("schema_apply.")}
    assert (
        known == {point for point in {**POINTS, **HARD_POINTS} if "schema_apply" in point} | NEVER
    )


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """The graphs before their change; each test works on a copy."""
    return {
        name: build(tmp_path_factory.mktemp(name) / "graph", change)
        for name, change in CHANGES.items()
    }


@pytest.mark.sampled(8, every=("name", "stands"))
@pytest.mark.parametrize(("name", "point", "skip", "stands"), list(deaths()))
def test_a_schema_apply_that_dies_has_happened_or_has_not(
    prepared, tmp_path, name, point, skip, stands
):
    change = CHANGES[name]
    uri = str(shutil.copytree(prepared[name], tmp_path / "graph"))
    process = context.Process(target=apply_and_die, args=(uri, name, point, skip))
    process.start()
    process.join(600)
    assert process.exitcode == 0
    with open_graph(uri) as graph:
        check_whole(graph, change, is_new=stands)
        graph.load(change.records(stands, "q"), mode="append")
        if not stands:
            graph.schema.apply(change.new, allow_data_loss=change.hard)
        check_whole(graph, change, is_new=True, extra="q")
        assert purges_owed(workspace_of(graph)) == ()
    assert not (change.hard and secrets_in(uri))


@pytest.mark.parametrize("name", CHANGES)
def test_a_failed_publish_is_made_up_for_by_the_next_write(prepared, tmp_path, name):
    change = CHANGES[name]
    uri = str(shutil.copytree(prepared[name], tmp_path / "graph"))
    with open_graph(uri) as graph, open_graph(uri) as other:
        with (
            failpoints.arm("publish.before_write", "raise", times=1),
            pytest.raises(RecoveryRequired),
        ):
            graph.schema.apply(change.new, allow_data_loss=change.hard)
        # The record has properties of the new schema only: healing comes before validation.
        graph.load(change.records(is_new=True, key="q"), mode="append")
        for handle in (graph, other):
            assert handle.schema.source == change.new
    with open_graph(uri) as graph:
        check_whole(graph, change, is_new=True, extra="q")
        assert purges_owed(workspace_of(graph)) == ()
    assert not (change.hard and secrets_in(uri))


@pytest.mark.parametrize("skip", [0, 6])
def test_a_failure_half_way_is_undone_by_the_next_open(prepared, tmp_path, skip):
    change = CHANGES["soft"]
    uri = str(shutil.copytree(prepared["soft"], tmp_path / "graph"))
    point = "schema_apply.before_table_commit"
    with open_graph(uri) as graph:
        with (
            failpoints.arm(point, "raise", times=1, skip=skip),
            pytest.raises(OmniGraphError) as caught,
        ):
            graph.schema.apply(change.new)
        assert isinstance(caught.value, RecoveryRequired)
        assert graph.schema.source == change.old
    with open_graph(uri) as graph:
        check_whole(graph, change, is_new=False)
        graph.schema.apply(change.new)
        check_whole(graph, change, is_new=True)
