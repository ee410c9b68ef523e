"""Tags: names for commits. They keep their place, make no commit, and never show another's rows."""

from __future__ import annotations

import contextlib
from concurrent.futures import ThreadPoolExecutor

import pytest

import omnigraph as og
from omnigraph import failpoints
from omnigraph.errors import (
    BadRequest,
    BranchInUse,
    HistoryReclaimed,
    OmniGraphError,
    RecoveryRequired,
    SchemaConflict,
    StorageError,
    TagExists,
    TagNotFound,
)
from omnigraph.manifest.history.tags import list_tags
from omnigraph.storage.tables.table import open_table
from omnigraph.write import purges
from tests.commit.synthetic import dying_at
from tests.merge.harbors import SCHEMA, new_harbor, put, ship
from tests.opened import workspace_of

TONNAGE = "query t() { match { $s: Ship } return { $s.imo as imo, $s.tonnage as t } order { imo } }"


@pytest.fixture
def graph(tmp_path):
    with new_harbor(tmp_path / "g") as graph:
        yield graph


def s1(graph, **target):
    """The tonnage of ship S1 at a target."""
    return graph.entity("node", "Ship", "S1", **target)["properties"]["tonnage"]


def manifest_version(graph):
    return workspace_of(graph).manifest.state("main").table.version


def test_a_tag_is_a_publish_without_a_commit(graph):
    before = graph.snapshot()
    version, commits = manifest_version(graph), graph.commits.list()
    tag = graph.tags.create(" v1 ", actor="ada")
    assert tag.to_json() == {
        "name": "v1",
        "graph_commit_id": before.graph_commit_id,
        "branch": None,
        "manifest_version": before.manifest_version,
        "actor_id": "ada",
        "created_at": tag.created_us,
    }
    assert (graph.snapshot(), graph.commits.list()) == (before, commits)
    assert manifest_version(graph) == version + 1
    # Neither a precondition nor a version of the branch notices.
    put(graph, "main", ship("S1", tonnage=50))
    graph.mutate("query w() { update Ship set { tonnage: 60 } where imo = \"S1\" }",
                 if_commit=graph.snapshot().graph_commit_id)  # fmt: skip
    graph.tags.create("v2")
    assert (s1(graph, tag="v1"), s1(graph, tag="v2"), s1(graph)) == (1, 60, 60)
    assert [found.name for found in graph.tags.list()] == ["v1", "v2"]
    with og.open(graph.uri, mode="r") as other:
        assert other.tags.list() == graph.tags.list()
        assert [row["t"] for row in other.query(TONNAGE, tag="v1").rows] == [1, 2, 3, 4]
        for write in (lambda: other.tags.create("x"), lambda: other.tags.delete("v1")):
            with pytest.raises(BadRequest, match="read-only"):
                write()


def test_refused_tags_change_nothing(graph):
    graph.tags.create("v1")
    before = manifest_version(graph), graph.tags.list()
    for error, call in [
        (TagExists, lambda: graph.tags.create("v1")),
        (TagExists, lambda: graph.tags.create("v1", at=og.at(snapshot="nothing"))),
        (TagNotFound, lambda: graph.tags.delete("v2")),
        (TagNotFound, lambda: graph.tags.create("v2", at=og.at(tag="v3"))),
        (BadRequest, lambda: graph.tags.create("main")),
        (BadRequest, lambda: graph.tags.create("__x")),
        (BadRequest, lambda: graph.tags.create("a b")),
        (BadRequest, lambda: graph.tags.create("v2", at=5)),
        (BadRequest, lambda: graph.tags.create("v2", actor="omnigraph:recovery")),
        (TagNotFound, lambda: graph.query(TONNAGE, tag="../v1")),
        (BadRequest, lambda: graph.mutate("query q() { delete Ship }", branch=og.at(tag="v1"))),
    ]:
        with pytest.raises(error):
            call()
    assert (manifest_version(graph), graph.tags.list()) == before


def test_a_tag_that_was_deleted_can_be_made_again_elsewhere(graph):
    first = graph.tags.create("v1")
    put(graph, "main", ship("S1", tonnage=50))
    assert graph.tags.delete("v1") == first
    with pytest.raises(TagNotFound):
        s1(graph, tag="v1")
    assert graph.tags.list() == []
    graph.tags.create("v1")
    assert s1(graph, tag="v1") == 50
    # A branch inherits the rows of `main`, but tags are those of `main` now.
    graph.branches.create("side")
    graph.tags.delete("v1")
    with pytest.raises(TagNotFound):
        s1(graph, tag="v1")


def test_of_many_who_make_a_tag_one_wins_beside_busy_writers(graph, monkeypatch):
    monkeypatch.setenv("OMNIGRAPH_LOCK_WAIT_MS", "600000")  # however long one takes

    def make(number):
        with og.open(graph.uri) as own:
            put(own, "main", ship(f"N{number}", tonnage=number))
            try:
                return own.tags.create("v1").created_us
            except TagExists:
                return None

    with ThreadPoolExecutor(4) as pool:
        made = [us for us in pool.map(make, range(4)) if us is not None]
    (tag,) = graph.tags.list()
    assert made == [tag.created_us]
    assert len(graph.commits.list()) == 2 + 4


@pytest.mark.parametrize(("point", "is_there"), [("before", False), ("after", True)])
def test_a_tag_whose_maker_dies_is_there_or_not(graph, point, is_there):
    head = graph.snapshot()
    with failpoints.arm(f"tag.{point}_publish", times=1), pytest.raises(StorageError):
        graph.tags.create("v1")
    with og.open(graph.uri) as other:
        assert (len(other.tags.list()) == 1) is is_there
        assert other.snapshot() == head
        if not is_there:
            other.tags.create("v1")
        with failpoints.arm(f"tag.{point}_publish", times=1), pytest.raises(StorageError):
            other.tags.delete("v1")
        assert (list_tags(workspace_of(other).manifest) == []) is is_there
        put(other, "main", ship("S1", tonnage=50))


def test_an_answer_that_got_lost_is_no_failure(graph, monkeypatch):
    from omnigraph.manifest import publisher

    write = publisher.merge_insert_exclusive

    def lose_the_answer(*given):
        write(*given)
        raise StorageError("the store did not answer")

    monkeypatch.setattr(publisher, "merge_insert_exclusive", lose_the_answer)
    tag = graph.tags.create("v1")
    assert graph.tags.list() == [tag]
    assert graph.tags.delete("v1") == tag
    assert graph.tags.list() == []


def test_a_branch_made_again_never_shows_the_old_ones_rows(graph):
    start = graph.snapshot()
    graph.branches.create("side")
    old = put(graph, "side", ship("S1", tonnage=50))
    held = graph.snapshot(branch="side")
    graph.tags.create("keep", at=og.at("side"))
    with pytest.raises(BranchInUse) as refusal:
        graph.branches.delete("side")
    assert refusal.value.details == {"branch": "side", "by": "tag:keep"}
    graph.tags.delete("keep")
    graph.branches.delete("side")
    # From where the old one began, so that their versions have the same numbers.
    graph.branches.create("side", from_=start)
    new = put(graph, "side", ship("S1", tonnage=60))
    assert new.manifest_version == old.manifest_version
    for target in ({"snapshot": old.graph_commit_id}, {"at": held}, {"at": old}):
        with pytest.raises(OmniGraphError) as refusal:
            s1(graph, **target)
        assert refusal.value.code in {"commit_not_found", "history_reclaimed"}
    with pytest.raises(OmniGraphError):
        graph.tags.create("keep", at=held)
    assert s1(graph, branch="side", time=new.created_at) == 60
    # Up to the time of the old one there is only what the new one inherited.
    assert s1(graph, branch="side", time=old.created_at) == 1
    assert s1(graph, branch="side", version=new.manifest_version) == 60


def test_a_tag_below_the_handle_that_lost_its_branch_reads_nothing(graph):
    """As when an outside tool removed the branch: refused, not the rows of its successor."""
    from omnigraph.manifest import refs

    graph.branches.create("side")
    put(graph, "side", ship("S1", tonnage=50))
    graph.tags.create("keep", at="side")
    refs.delete_ref(workspace_of(graph).manifest, "side")
    graph.branches.create("side")
    put(graph, "side", ship("S1", tonnage=60))
    with pytest.raises(HistoryReclaimed):
        s1(graph, tag="keep")
    # It names no commit of the new branch, so it is not in the way.
    graph.branches.delete("side")


def test_a_commit_whose_table_is_gone_cannot_be_tagged(graph):
    import lance

    old = graph.snapshot()
    put(graph, "main", ship("S1", tonnage=50))
    place = workspace_of(graph).pinned(old.tables["node:Ship"])
    lance.dataset(place.dataset_uri).cleanup_old_versions(
        versions=[old.tables["node:Ship"].table_version]
    )
    for refused in (
        lambda: graph.tags.create("v1", at=old),
        lambda: graph.branches.create("side", from_=old),
    ):
        with pytest.raises(HistoryReclaimed) as refusal:
            refused()
        assert refusal.value.details["table_key"] == "node:Ship"
    assert (graph.tags.list(), graph.branches.list()) == ([], ["main"])


def test_a_hard_drop_spares_what_a_tag_keeps(graph):
    graph.tags.create("b")
    graph.tags.create("a")
    without_flag = SCHEMA.replace("flag: String?", "")
    without_calls = "\n".join(SCHEMA.splitlines()[:3])
    for schema in (without_flag, without_calls):
        with pytest.raises(SchemaConflict) as refusal:
            graph.schema.apply(schema, allow_data_loss=True)
        assert refusal.value.details["tags"] == ["a", "b"]
    # A soft drop destroys nothing, and a table that no tag pins may be dropped.
    extended = without_flag + "\nnode Buoy { code: String @key }"
    assert graph.schema.apply(extended).applied
    assert graph.schema.apply(without_flag, allow_data_loss=True).applied
    assert s1(graph, tag="a") == 1
    for name in ("a", "b"):
        graph.tags.delete(name)
    assert graph.schema.apply(
        "\n".join(without_flag.splitlines()[:3]), allow_data_loss=True
    ).applied


def test_nothing_is_tagged_that_a_hard_drop_is_about_to_remove(graph):
    old = graph.snapshot()
    refusals = []

    def tag_the_doomed(_):
        with pytest.raises(HistoryReclaimed) as refusal:
            graph.tags.create("late", at=old)
        refusals.append(refusal.value.details["table_key"])

    # Published, but the old versions are still on disk.
    with failpoints.arm("schema_apply.before_purge", tag_the_doomed):
        graph.schema.apply(SCHEMA.replace("flag: String?", ""), allow_data_loss=True)
    assert refusals == ["node:Ship"]
    assert purges.purges_owed(workspace_of(graph)) == ()
    table = open_table(workspace_of(graph).pinned(graph.snapshot().tables["node:Ship"]))
    assert old.tables["node:Ship"].table_version not in table.versions()


def test_cleanup_keeps_what_a_tag_names(graph):
    graph.tags.create("v1")
    untagged = put(graph, "main", ship("S1", tonnage=50))
    put(graph, "main", ship("S1", tonnage=60))
    graph.cleanup(keep_versions=1)
    assert (s1(graph, tag="v1"), s1(graph)) == (1, 60)
    with pytest.raises(HistoryReclaimed):
        s1(graph, at=untagged)


@pytest.mark.parametrize("moment", ["after_phase_b_before_phase_c", "before_table_commit"])
def test_a_tag_beside_a_hard_drop_whose_process_died(tmp_path, moment):
    """The tag must not name what the drop removes as soon as it is rolled forward."""
    kept = "node P { k: String @key  a: I32? }"
    with og.init(tmp_path / "hard", f"{kept[:-1]} b: I32? }}") as graph:
        graph.load([{"type": "P", "data": {"k": "x", "a": 1, "b": 2}}])
        with dying_at(f"schema_apply.{moment}"):
            graph.schema.apply(kept, allow_data_loss=True)
        with contextlib.suppress(RecoveryRequired):
            graph.tags.create("t")
    with og.open(tmp_path / "hard") as graph:
        if moment == "before_table_commit":
            assert graph.tags.list() == []
            graph.tags.create("t")
        assert graph.entity("node", "P", "x", tag="t") is not None
