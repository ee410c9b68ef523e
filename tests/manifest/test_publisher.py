"""One publish: what it makes visible, what it refuses, and that rows and head row agree."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import pytest

from omnigraph import failpoints
from omnigraph.errors import Contention, ExpectedVersionMismatch, StorageError
from omnigraph.manifest import publisher, rows, tidying
from omnigraph.manifest.manifest import Manifest
from omnigraph.manifest.publisher import ManifestChanges, publish
from omnigraph.manifest.row_reads import find_head_row, read_table_states
from omnigraph.manifest.rows import TableState
from omnigraph.storage.tables.table import open_table
from omnigraph.storage.tables.table_commits import merge_insert_exclusive, replace_row_exclusive
from omnigraph.storage.tables.table_errors import RowCollision
from tests.graphs import graph_of
from tests.manifest.publishing import MEMBER_OF, PERSON, SCHEMA, TEAM, advance, intent
from tests.opened import workspace_of

graph = graph_of(SCHEMA)


def test_a_publish_moves_the_named_tables_and_the_head(manifest):
    before = manifest.state("main").head
    commit = advance(manifest, PERSON, MEMBER_OF, actor="ada")
    after = manifest.state("main").head
    assert after.commit == commit
    assert commit.parent_commit_id == before.commit.graph_commit_id
    assert commit.actor_id == "ada"
    assert commit.branch is None
    assert after.tables[PERSON].table_version == before.tables[PERSON].table_version + 1
    assert after.tables[TEAM] == before.tables[TEAM]


def test_the_recorded_manifest_version_is_the_one_lance_made(manifest):
    for _ in range(3):
        commit = advance(manifest, PERSON)
        assert manifest.state("main").table.version == commit.manifest_version
        assert manifest.at_version("main", commit.manifest_version).commit == commit


def test_another_handle_sees_a_publish_without_refresh(graph):
    other = Manifest(workspace_of(graph).root)
    assert other.state("main").head == workspace_of(graph).manifest.state("main").head
    commit = advance(workspace_of(graph).manifest, PERSON)
    assert other.state("main").head.commit == commit


def test_a_handle_far_behind_catches_up(graph):
    other = Manifest(workspace_of(graph).root)
    other.state("main")
    commits = [advance(workspace_of(graph).manifest, PERSON) for _ in range(40)]
    assert other.state("main").head.commit == commits[-1]


@pytest.mark.parametrize("stale", [PERSON, TEAM])
def test_a_moved_table_is_refused_whether_written_or_only_relied_on(graph, stale):
    slow = Manifest(workspace_of(graph).root)
    tables = slow.state("main").head.tables
    advance(workspace_of(graph).manifest, stale)
    head = workspace_of(graph).manifest.state("main").head
    moved = replace(tables[PERSON], table_version=tables[PERSON].table_version + 1)
    expected = [tables[PERSON], tables[TEAM]]
    with pytest.raises(ExpectedVersionMismatch) as caught:
        publish(slow, "main", ManifestChanges(tables=(moved,)), expected, intent())
    assert caught.value.details == {"table_key": stale, "expected": 1, "actual": 2}
    assert workspace_of(graph).manifest.state("main").head == head


def test_the_first_mismatch_in_key_order_is_reported(graph):
    slow = Manifest(workspace_of(graph).root)
    tables = slow.state("main").head.tables
    advance(workspace_of(graph).manifest, PERSON, TEAM, MEMBER_OF)
    with pytest.raises(ExpectedVersionMismatch) as caught:
        publish(slow, "main", ManifestChanges(), tables.values(), intent())
    assert caught.value.details["table_key"] == MEMBER_OF


def test_a_table_that_is_gone_has_version_zero(manifest):
    ghost = TableState("node:Ghost", 78, "nodes/ghost", 4, None, 0)
    with pytest.raises(ExpectedVersionMismatch) as caught:
        publish(manifest, "main", ManifestChanges(), [ghost], intent())
    assert caught.value.details == {"table_key": "node:Ghost", "expected": 4, "actual": 0}


def test_the_head_itself_can_be_relied_on(manifest):
    head = manifest.state("main").pin.head_commit_id
    publish(manifest, "main", ManifestChanges(), [], intent(), head_commit_id=head)
    with pytest.raises(ExpectedVersionMismatch) as caught:
        publish(manifest, "main", ManifestChanges(), [], intent(), head_commit_id=head)
    assert caught.value.details["table_key"] == "__manifest"


def test_a_publish_that_expects_nothing_must_say_so(manifest):
    with pytest.raises(ValueError, match="unchecked"):
        publish(manifest, "main", ManifestChanges(), [], intent())
    publish(manifest, "main", ManifestChanges(), [], intent(), unchecked=True)


def test_registering_renaming_and_dropping(manifest):
    head = manifest.state("main").head
    port = TableState("node:Port", 77, "nodes/port", 1, None, 0)
    publish(manifest, "main", ManifestChanges(registered=(port,)), [], intent(), unchecked=True)
    assert manifest.state("main").head.tables["node:Port"] == port
    incarnation = head.tables[TEAM].incarnation
    changes = ManifestChanges(renamed={incarnation: "node:Crew"}, dropped=(77,))
    publish(manifest, "main", changes, [head.tables[TEAM]], intent())
    tables = manifest.state("main").head.tables
    assert "node:Port" not in tables
    assert TEAM not in tables
    assert tables["node:Crew"] == replace(head.tables[TEAM], table_key="node:Crew")


def test_head_and_rows_describe_the_same_snapshot(manifest):
    port = TableState("node:Port", 77, "nodes/port", 1, None, 0)
    publish(manifest, "main", ManifestChanges(registered=(port,)), [], intent(), unchecked=True)
    for keys in ([PERSON], [PERSON, TEAM], ["node:Port"], [MEMBER_OF, "node:Port"], [TEAM]):
        advance(manifest, *keys)
    head = manifest.state("main").head
    team = head.tables[TEAM].incarnation
    changes = ManifestChanges(dropped=(77,), renamed={team: "node:Crew"})
    publish(manifest, "main", changes, [head.tables[PERSON]], intent())
    state = manifest.state("main")
    assert read_table_states(manifest.table_rows(state)) == dict(state.head.tables)


def test_fragments_do_not_pile_up_and_nothing_is_lost(graph):
    manifest = workspace_of(graph).manifest
    commits, most = [], 0
    for _ in range(80):
        commits.append(advance(manifest, PERSON))
        most = max(most, len(manifest.state("main").table.fragments()))
    # 80 publishes made ten larger fragments on their way: of those eight became one.
    assert most < 2 * tidying.COMPACT_AT_FRAGMENTS
    state = manifest.state("main")
    records = manifest.commits(state)
    assert [records[commit.graph_commit_id] for commit in commits] == commits
    assert state.head.commit == commits[-1]
    for commit in (commits[0], commits[31], commits[32], commits[-1]):
        assert graph.snapshot(snapshot=commit.graph_commit_id).commit == commit
    fresh = Manifest(workspace_of(graph).root)
    assert fresh.state("main").head == state.head


def test_no_publish_is_rebased_over_a_compaction(graph):
    """Whatever sizes are merged: the version that a commit records is the one that Lance makes."""
    manifest = workspace_of(graph).manifest
    left = []
    for _ in range(72):
        advance(manifest, PERSON)
        state = manifest.state("main")
        stale = open_table(state.table.ref.at(state.head.commit.manifest_version))
        if stale.version == state.table.version:
            continue
        left.append(len(state.table.fragments()))
        again = rows.to_table([rows.head_row(state.head)], stale.schema)
        with pytest.raises(RowCollision):
            merge_insert_exclusive(stale, again)
        with pytest.raises(RowCollision):
            replace_row_exclusive(stale, find_head_row(stale)[1], again)
    assert left.count(1) == 1, "the larger fragments should have been merged, too"


def object_ids(manifest: Manifest, branch: str = "main") -> list[str]:
    return manifest.state(branch).table.read(["object_id"]).column("object_id").to_pylist()


@pytest.mark.parametrize("branch", ["main", "side"])
def test_ordinary_publishes_look_for_no_rows_that_are_there(graph, monkeypatch, branch):
    """Another process, tidying and a tag in between change nothing about that."""
    if branch != "main":
        graph.branches.create(branch)
    here, there = workspace_of(graph).manifest, Manifest(workspace_of(graph).root)
    advance_own(here, branch, first=True)
    before = object_ids(here, branch)
    for number in range(3 * tidying.COMPACT_AT_FRAGMENTS):
        with monkeypatch.context() as patch:
            patch.setattr(publisher, "merge_insert_exclusive", None)
            for manifest in (here, there, here):
                advance_own(manifest, branch)
            publish(
                here,
                branch,
                ManifestChanges(),
                [],
                intent(),
                identifier=here.state(branch).identifier,
                unchecked=True,
            )
        if number == tidying.COMPACT_AT_FRAGMENTS:
            graph.tags.create("t", branch)
    after = object_ids(here, branch)
    assert len(set(after)) == len(after)
    # A version and a commit each time, a commit alone, and the tag.
    tagged = branch == "main"
    assert len(after) == len(before) + 3 * tidying.COMPACT_AT_FRAGMENTS * (3 * 2 + 1) + tagged


def advance_own(manifest: Manifest, branch: str, *, first: bool = False) -> None:
    """Publish one more version of a table on the branch's own fork of it, which begins with the first."""
    state = manifest.state(branch)
    pin = state.head.tables[PERSON]
    fork = {"table_branch": branch, "table_branch_id": "f"} if branch != "main" and first else {}
    moved = replace(pin, table_version=pin.table_version + 1, **fork)
    changes = ManifestChanges(tables=(moved,))
    publish(manifest, branch, changes, [pin], intent(), identifier=state.identifier)


def test_a_branch_that_goes_back_and_forth_has_each_row_once(graph):
    """It has no tables of its own, so it pins those of `main`, older ones too."""
    for name in "abc":
        graph.load([{"type": "Person", "data": {"name": name}}])
    graph.branches.create("side")
    head = graph.snapshot().tables[PERSON]
    made = graph.snapshot().graph_commit_id
    for turn in range(4):
        made = graph.commits.revert(made, branch="side").commit.graph_commit_id
        pin = graph.snapshot(branch="side").tables[PERSON]
        assert pin.table_version == head.table_version - (turn % 2 == 0)
        assert pin.table_branch is None
    found = object_ids(workspace_of(graph).manifest, "side")
    assert len(found) == len(set(found))


class Sized(NamedTuple):
    """As much of a fragment as decides about its merging."""

    id: int
    num_rows: int


def sized(*sizes):
    return [Sized(number, size) for number, size in enumerate(sizes)]


@pytest.mark.parametrize(
    ("sizes", "merged"),
    [
        ([2] * 7, []),
        ([2] * 8, list(range(8))),
        ([9000, *[2] * 8], list(range(1, 9))),
        ([*[30] * 8, *[0, 1, 7] * 3], list(range(8, 17))),
        ([*[30] * 8, *[2] * 7], list(range(15))),
        ([*[2] * 8, 300], list(range(9))),
        ([64, *[63] * 7], []),
        ([*[4095] * 8, *[4096] * 99], [*range(8), 106]),
        ([4096] * 99, []),
    ],
)
def test_fragments_are_merged_the_smallest_first_and_with_the_newest(sizes, merged):
    assert tidying.mergeable(sized(*sizes)) == merged


def test_what_is_merged_has_another_size():
    for smallest in (1, 8, 64, 512):
        many = sized(*[smallest] * tidying.COMPACT_AT_FRAGMENTS)
        one = sum(fragment.num_rows for fragment in many)
        others = sized(*[smallest] * (tidying.COMPACT_AT_FRAGMENTS - 1), one)
        assert tidying.mergeable(many) != []
        assert tidying.mergeable(others) == []


def test_a_failing_compaction_does_not_fail_the_publish(manifest, monkeypatch):
    monkeypatch.setattr(tidying, "COMPACT_AT_FRAGMENTS", 1)
    with failpoints.arm("publish.before_compact") as point:
        commit = advance(manifest, PERSON)
    assert point.fired == 1
    assert manifest.state("main").head.commit == commit


def test_a_publish_stopped_before_its_write_changes_nothing(graph):
    head = workspace_of(graph).manifest.state("main").head
    with failpoints.arm("publish.before_write", RuntimeError("stop")), pytest.raises(RuntimeError):
        advance(workspace_of(graph).manifest, PERSON)
    assert Manifest(workspace_of(graph).root).state("main").head == head


def test_a_store_that_fails_after_the_write_landed_is_no_failure(graph):
    lost = StorageError("the answer was lost")
    with failpoints.arm("publish.after_write", lost) as point:
        commit = advance(workspace_of(graph).manifest, PERSON)
    assert point.fired == 1
    assert Manifest(workspace_of(graph).root).state("main").head.commit == commit


def test_a_store_that_fails_before_the_write_is_a_failure(graph):
    head = workspace_of(graph).manifest.state("main").head
    with failpoints.arm("publish.before_write"), pytest.raises(StorageError):
        advance(workspace_of(graph).manifest, PERSON)
    assert Manifest(workspace_of(graph).root).state("main").head == head


def test_a_publisher_that_always_loses_gives_up(graph):
    rival = Manifest(workspace_of(graph).root)
    rivals = []

    def overtake(_name: str) -> None:
        point.disarm()
        rivals.append(advance(rival, TEAM))
        rearm()

    def rearm() -> None:
        nonlocal point
        point = failpoints.arm("publish.before_write", overtake)

    point = failpoints.arm("publish.before_write", overtake)
    try:
        with pytest.raises(Contention) as caught:
            advance(workspace_of(graph).manifest, PERSON)
    finally:
        failpoints.disarm_all()
    assert caught.value.details["attempts"] == 5
    assert len(rivals) == 5
    assert Manifest(workspace_of(graph).root).state("main").head.commit == rivals[-1]


def test_a_loser_retries_with_the_winner_as_its_parent(graph):
    rival = Manifest(workspace_of(graph).root)
    won = []

    def overtake(_name: str) -> None:
        point.disarm()
        won.append(advance(rival, TEAM))

    point = failpoints.arm("publish.before_write", overtake)
    commit = advance(workspace_of(graph).manifest, PERSON)
    assert commit.parent_commit_id == won[0].graph_commit_id
    tables = workspace_of(graph).manifest.state("main").head.tables
    assert (tables[PERSON].table_version, tables[TEAM].table_version) == (2, 2)


def test_a_store_that_fails_after_the_publish_does_not_fail_it(graph, monkeypatch):
    """What is remembered of the branch is dropped, and read again when it is asked for."""
    manifest = workspace_of(graph).manifest
    before = manifest.state("main").head.commit

    def unreachable(*_):
        raise StorageError("the store is out of reach")

    with monkeypatch.context() as patch:

        def fail(_):
            patch.setattr(type(workspace_of(graph).store), "fingerprint", unreachable)

        with failpoints.arm("publish.after_write", fail):
            commit = publish(manifest, "main", ManifestChanges(), [], intent(), unchecked=True)
    assert commit.parent_commit_id == before.graph_commit_id
    assert manifest.state("main").head.commit == commit
