"""The change feed and the changes of single commits, on graphs with real tables."""

from __future__ import annotations

import json

import pytest

import omnigraph
from omnigraph.changes import pages
from omnigraph.errors import (
    BadRequest,
    BranchNotFound,
    ChangeFeedGap,
    CommitNotFound,
    CursorRejected,
    NoParent,
    ResourceLimit,
    SchemaBoundary,
)
from tests.graphs import graph_of
from tests.opened import lose

SCHEMA = """
node Person { name: String @key  age: I32? }
node Team { code: String @key }
edge MemberOf: Person -> Team
"""
AGE = "query age($name: String, $age: I32) { update Person set { age: $age } where name = $name }"
GONE = "query gone($name: String) { delete Person where name = $name }"


def person(name, age=None):
    return {"type": "Person", "data": {"name": name, "age": age}}


graph = graph_of(SCHEMA)


def load(graph, *records, branch="main"):
    return graph.load(list(records), branch=branch).commit.graph_commit_id


def grow(graph, name, age, branch="main"):
    done = graph.mutate(AGE, {"name": name, "age": age}, branch=branch)
    return done.commit.graph_commit_id


def commits_of(page):
    return [block.commit.graph_commit_id for block in page.blocks]


def poll_all(graph, **options):
    """All blocks from a position to the head, joined over pages; and how many pages there were."""
    blocks, count = {}, 0
    page = graph.changes.poll(**options)
    rest = {key: value for key, value in options.items() if key not in {"start", "cursor"}}
    while True:
        count += 1
        for block in page.blocks:
            blocks.setdefault(block.commit.graph_commit_id, []).extend(block.changes)
        if page.next_page_token is not None:
            assert page.cursor is None
            page = graph.changes.poll(page_token=page.next_page_token, **rest)
        elif page.caught_up:
            return blocks, count
        else:
            page = graph.changes.poll(cursor=page.cursor, **rest)


def test_a_consumer_follows_a_branch(graph):
    first = graph.changes.poll()
    assert (first.blocks, first.caught_up) == ((), True)
    a = load(graph, person("ann", 30), person("bob"))
    b = grow(graph, "ann", 31)
    c = graph.mutate(GONE, {"name": "bob"}).commit.graph_commit_id
    page = graph.changes.poll(cursor=first.cursor)
    assert commits_of(page) == [a, b, c]
    assert page.caught_up
    assert page.next_page_token is None
    assert [block.to_json()["changes"] for block in page.blocks] == [
        [
            {"kind": "node", "type": "Person", "id": "ann", "op": "insert",
             "after": {"properties": {"name": "ann", "age": 30}}},
            {"kind": "node", "type": "Person", "id": "bob", "op": "insert",
             "after": {"properties": {"name": "bob", "age": None}}},
        ],
        [
            {"kind": "node", "type": "Person", "id": "ann", "op": "update",
             "before": {"properties": {"name": "ann", "age": 30}},
             "after": {"properties": {"name": "ann", "age": 31}}},
        ],
        [
            {"kind": "node", "type": "Person", "id": "bob", "op": "delete",
             "before": {"properties": {"name": "bob", "age": None}}},
        ],
    ]  # fmt: skip
    again = graph.changes.poll(cursor=page.cursor)
    assert (again.blocks, again.caught_up, again.cursor) == ((), True, page.cursor)
    # The same cursor gives the same blocks: delivery is at least once.
    assert graph.changes.poll(cursor=first.cursor) == page
    with omnigraph.open(graph.uri, mode="r") as other:
        assert other.changes.poll(cursor=first.cursor) == page


def test_the_cause_of_a_block(graph):
    made = graph.load([person("ann")], actor="ada").commit
    (block,) = graph.changes.poll(start="beginning").to_json()["blocks"]
    assert block["cause"] == {
        "graph_commit_id": made.graph_commit_id,
        "parent_commit_id": made.parent_commit_id,
        "merged_parent_commit_id": None,
        "authored_branch": "main",
        "actor_id": "ada",
        "authored_at": made.to_json()["created_at"],
    }
    assert "schema" not in block


def test_positions(graph):
    a, b = load(graph, person("ann")), load(graph, person("bob"))
    graph.branches.create("side")
    c = load(graph, person("cid"), branch="side")
    load(graph, person("dan"))
    poll = graph.changes.poll
    assert commits_of(poll("side", start="beginning")) == [a, b, c]
    assert commits_of(poll("side", start=f"after:{a}")) == [b, c]
    assert commits_of(poll("side", start=f"after:{c}")) == []
    assert poll("side", start="now").caught_up
    with pytest.raises(CursorRejected, match="history of branch"):
        poll(start=f"after:{c}")
    with pytest.raises(CursorRejected):
        poll(start="after:01ARZ3NDEKTSV4RRFFQ69G5FAV")
    for wrong in ({"start": "soon"}, {"start": "now", "cursor": poll().cursor}, {"limit": 0},
                  {"max_commits": 0}, {"kinds": ["table"]}, {"ops": ["upsert"]}):  # fmt: skip
        with pytest.raises(BadRequest):
            poll(**wrong)
    with pytest.raises(BadRequest, match="Submarine"):
        poll(types=["Submarine"])
    with pytest.raises(BranchNotFound):
        poll("ghost")
    for wrong in ({"limit": 8193}, {"max_commits": 513}):
        with pytest.raises(ResourceLimit):
            poll(**wrong)


def test_tokens_are_bound_to_branch_incarnation_filter_and_kind(graph):
    graph.branches.create("side")
    load(graph, person("ann"), person("bob"), branch="side")
    poll = graph.changes.poll
    cursor = poll("side", types=["Team", "Person"], ops=["insert"]).cursor
    same = {"types": ["Person", "Team", "Person"], "ops": ["insert"], "kinds": ["edge", "node"]}
    assert poll("side", cursor=cursor, **same).caught_up
    for wrong in ({}, {**same, "kinds": ["node"]}, {**same, "types": None}):
        with pytest.raises(CursorRejected, match="filter"):
            poll("side", cursor=cursor, **wrong)
    with pytest.raises(CursorRejected, match="branch"):
        poll("main", cursor=cursor, **same)
    token = poll("side", start="beginning", limit=1).next_page_token
    with pytest.raises(CursorRejected, match="is needed here"):
        poll("side", cursor=token)
    with pytest.raises(CursorRejected, match="is needed here"):
        poll("side", page_token=poll("side").cursor)
    graph.branches.delete("side")
    graph.branches.create("side")
    with pytest.raises(CursorRejected, match="made again"):
        poll("side", cursor=cursor, **same)
    with pytest.raises(CursorRejected):
        poll("side", page_token=token)


def test_a_page_token_does_not_outlive_the_names_that_its_order_rests_on(graph):
    made = load(graph, person("ann"), {"type": "Team", "data": {"code": "t"}})
    first = graph.changes.poll(start="beginning", limit=1)
    alone = graph.commits.changes(made, limit=1)
    # Team would come before Person now, and be passed over.
    graph.schema.apply(
        SCHEMA.replace("Team {", 'Crew @rename_from("Team") {').replace("Team\n", "Crew\n")
    )
    with pytest.raises(CursorRejected, match="renamed"):
        graph.changes.poll(page_token=first.next_page_token)
    with pytest.raises(CursorRejected, match="renamed"):
        graph.commits.changes(made, page_token=alone.next_page_token)
    again = graph.changes.poll(start="beginning").blocks[0].changes
    assert [(change.type, change.id) for change in again] == [("Crew", "t"), ("Person", "ann")]


def test_a_token_of_another_graph_is_refused(graph, tmp_path):
    with (
        omnigraph.init(tmp_path / "other", SCHEMA) as other,
        pytest.raises(CursorRejected, match="another graph"),
    ):
        graph.changes.poll(cursor=other.changes.poll().cursor)


@pytest.mark.parametrize("limit", [1, 2, 3, 7])
def test_pages_of_any_size_give_the_same_blocks(graph, limit):
    load(graph, *(person(f"p{at}") for at in range(5)), {"type": "Team", "data": {"code": "t"}})
    load(graph)
    load(graph, {"edge": "MemberOf", "from": "p1", "to": "t", "data": {"id": "e1"}})
    graph.mutate(GONE, {"name": "p1"})
    whole, pages = poll_all(graph, start="beginning")
    assert pages == 1
    assert [len(changes) for changes in whole.values()] == [6, 0, 1, 2]
    split, pages = poll_all(graph, start="beginning", limit=limit)
    assert split == whole
    assert list(split) == list(whole)
    assert pages == {1: 9, 2: 5, 3: 3, 7: 2}[limit]
    some, _ = poll_all(graph, start="beginning", limit=limit, kinds=["node"], ops=["insert"])
    assert [[change.id for change in changes] for changes in some.values()] == [
        ["p0", "p1", "p2", "p3", "p4", "t"], [], [], [],
    ]  # fmt: skip


def test_a_page_ends_by_commits_and_by_bytes(graph, monkeypatch):
    made = [load(graph, person(f"p{at}")) for at in range(5)]
    page = graph.changes.poll(start="beginning", max_commits=2)
    assert commits_of(page) == made[:2]
    assert not page.caught_up
    page = graph.changes.poll(cursor=page.cursor, max_commits=3)
    assert commits_of(page) == made[2:]
    assert page.caught_up
    large = load(graph, person("q" * 300), person("r"), person("s"))
    size = len(json.dumps(graph.commits.changes(made[0]).to_json()["changes"][0]))
    # Two small changes fit; the large one is a page of its own, and then the rest.
    monkeypatch.setattr(pages, "PAGE_BYTES", 2 * size)
    shown = []
    page = graph.changes.poll(start=f"after:{made[-1]}")
    while page.next_page_token is not None:
        shown.append([change.id for change in page.blocks[0].changes])
        page = graph.changes.poll(page_token=page.next_page_token)
    shown.append([change.id for change in page.blocks[0].changes])
    assert shown == [["q" * 300], ["r", "s"]]
    assert commits_of(page) == [large]


def test_values_are_left_out_and_a_cursor_goes_on_with_them(graph):
    team = {"type": "Team", "data": {"code": "t"}}
    made = load(graph, person("ann"), team, {"edge": "MemberOf", "from": "ann", "to": "t"})
    grown = grow(graph, "ann", 31)
    page = graph.changes.poll(start="beginning", images=False, max_commits=1)
    assert commits_of(page) == [made]
    *nodes, edge = page.blocks[0].changes
    assert [(one.id, one.before, one.after) for one in nodes] == [
        ("ann", None, None),
        ("t", None, None),
    ]
    assert edge.after == {"endpoints": {"from": "ann", "to": "t"}}
    assert graph.commits.changes(made, images=False).changes == page.blocks[0].changes
    (block,) = graph.changes.poll(cursor=page.cursor).blocks
    assert block.commit.graph_commit_id == grown
    assert block.changes[0].after["properties"]["age"] == 31
    with pytest.raises(BadRequest, match="images"):
        graph.changes.poll(images="none")


def test_a_poll_keeps_its_cut(graph):
    a = load(graph, person("ann"), person("bob"))
    page = graph.changes.poll(start="beginning", limit=1)
    b = load(graph, person("cid"))
    rest = graph.changes.poll(page_token=page.next_page_token)
    assert commits_of(rest) == [a]
    assert rest.cursor is not None
    assert not rest.caught_up
    assert commits_of(graph.changes.poll(cursor=rest.cursor)) == [b]


def test_maintenance_and_empty_commits_are_empty_blocks(graph):
    cursor = graph.changes.poll().cursor
    a = load(graph, person("ann", 1))
    b = grow(graph, "ann", 1)
    c = graph.ensure_indices().commit.graph_commit_id
    page = graph.changes.poll(cursor=cursor)
    assert commits_of(page) == [a, b, c]
    assert [len(block.changes) for block in page.blocks] == [1, 0, 0]


def test_lost_history_ends_a_page_and_then_is_a_gap(graph):
    a, b, c, d = [load(graph, person("ann", age)) for age in range(4)]
    lose(graph, c)
    page = graph.changes.poll(start="beginning")
    assert commits_of(page) == [a, b]
    assert not page.caught_up
    with pytest.raises(ChangeFeedGap) as caught:
        graph.changes.poll(cursor=page.cursor)
    assert caught.value.details == {"cursor": page.cursor, "first_unreadable_commit_id": c}
    with pytest.raises(ChangeFeedGap) as caught:
        graph.changes.poll(start=f"after:{c}")
    assert caught.value.details == {"cursor": None, "first_unreadable_commit_id": d}
    with pytest.raises(ChangeFeedGap) as caught:
        graph.commits.changes(c)
    assert caught.value.details == {"cursor": None, "first_unreadable_commit_id": c}
    # A filter that leaves the table out does not need it.
    assert commits_of(graph.changes.poll(start="beginning", types=["Team"])) == [a, b, c, d]


def test_schema_changes_are_blocks_and_the_feed_goes_on(graph):
    load(graph, person("ann"))
    cursor = graph.changes.poll(types=["Team"]).cursor
    start = graph.changes.poll().cursor
    done = graph.schema.apply(SCHEMA.replace("age: I32?", "age: I32?  town: String?"))
    applied = done.commit.graph_commit_id
    later = load(graph, person("bob"))
    page = graph.changes.poll(cursor=start)
    assert commits_of(page) == [applied, later]
    schema = page.blocks[0].to_json()["schema"]
    assert [step["kind"] for step in schema["steps"]] == ["add_property"]
    assert schema["from_hash"] != schema["to_hash"]
    assert page.blocks[0].changes == ()
    assert page.blocks[1].changes[0].after["properties"] == {
        "name": "bob", "age": None, "town": None,
    }  # fmt: skip
    filtered = graph.changes.poll(cursor=cursor, types=["Team"])
    assert [block.schema is not None for block in filtered.blocks] == [True, False]
    alone = graph.commits.changes(applied)
    assert (alone.changes, alone.schema, alone.next_page_token) == ((), schema, None)


@pytest.mark.parametrize(
    ("new", "name", "dropped"),
    [
        (SCHEMA.replace("edge MemberOf: Person -> Team\n", ""), "MemberOf", "type `MemberOf`"),
        (SCHEMA.replace("  age: I32?", ""), "Person", "`Person.age`"),
    ],
    ids=["type", "property"],
)
def test_a_hard_drop_is_a_boundary(graph, new, name, dropped):
    load(graph, person("ann"), {"type": "Team", "data": {"code": "t"}},
         {"edge": "MemberOf", "from": "ann", "to": "t"})  # fmt: skip
    before = load(graph)
    applied = graph.schema.apply(new, allow_data_loss=True).commit.graph_commit_id
    after = load(graph, {"type": "Team", "data": {"code": "u"}})
    start = f"after:{graph.commits.show(before).parent_commit_id}"
    page = graph.changes.poll(start=start)
    assert commits_of(page) == [before]
    assert not page.caught_up
    with pytest.raises(SchemaBoundary) as caught:
        graph.changes.poll(cursor=page.cursor)
    assert caught.value.details == {
        "graph_commit_id": applied, "type_name": name, "resume_after": applied,
    }  # fmt: skip
    assert f"`{applied}` dropped {dropped} for good" in str(caught.value)
    assert commits_of(graph.changes.poll(start=f"after:{applied}")) == [after]
    with pytest.raises(SchemaBoundary) as caught:
        graph.commits.changes(applied)
    assert "resume_after" not in caught.value.details
    # Who does not want that type is not stopped.
    other = graph.changes.poll(start=start, types=["Team"])
    assert commits_of(other) == [before, applied, after]


def test_a_hard_drop_is_a_boundary_by_the_name_of_today(graph):
    before = load(graph, person("ann", 3))
    shorter = SCHEMA.replace("  age: I32?", "")
    applied = graph.schema.apply(shorter, allow_data_loss=True).commit.graph_commit_id
    renamed = shorter.replace("node Person", 'node Human @rename_from("Person")')
    graph.schema.apply(renamed.replace("Person ->", "Human ->"))
    with pytest.raises(SchemaBoundary) as caught:
        graph.changes.poll(start=f"after:{before}", types=["Human"])
    assert caught.value.details["resume_after"] == applied


def test_a_property_that_only_an_interface_drops_is_no_boundary(graph):
    """No row had it."""
    named = SCHEMA + "interface Named { label: String?  mark: I32? }\n"
    before = graph.schema.apply(named).commit.graph_commit_id
    fewer = named.replace("  mark: I32?", "")
    applied = graph.schema.apply(fewer, allow_data_loss=True).commit.graph_commit_id
    after = load(graph, person("ann"))
    assert commits_of(graph.changes.poll(start=f"after:{before}")) == [applied, after]


def test_a_dropped_type_is_deletes_of_its_rows(graph):
    load(graph, person("ann"), {"type": "Team", "data": {"code": "t"}},
         {"edge": "MemberOf", "from": "ann", "to": "t", "data": {"id": "m"}})  # fmt: skip
    cursor = graph.changes.poll().cursor
    applied = graph.schema.apply(SCHEMA.replace("edge MemberOf: Person -> Team\n", ""))
    after = load(graph, {"type": "Team", "data": {"code": "u"}})
    page = graph.changes.poll(cursor=cursor)
    assert commits_of(page) == [applied.commit.graph_commit_id, after]
    block = page.blocks[0]
    assert [step["kind"] for step in block.schema["steps"]] == ["drop_type"]
    (change,) = block.changes
    assert (change.kind, change.type, change.id, change.op) == ("edge", "MemberOf", "m", "delete")
    assert change.before["endpoints"] == {"from": "ann", "to": "t"}
    alone = graph.commits.changes(applied.commit.graph_commit_id)
    assert alone.block == block


def test_a_type_with_no_rows_may_go(graph):
    cursor = graph.changes.poll(types=["Team", "MemberOf"]).cursor
    applied = graph.schema.apply(SCHEMA.replace("edge MemberOf: Person -> Team\n", ""))
    later = load(graph, {"type": "Team", "data": {"code": "t"}})
    page = graph.changes.poll(cursor=cursor, types=["MemberOf", "Team"])
    assert commits_of(page) == [applied.commit.graph_commit_id, later]
    assert page.blocks[0].schema["steps"][0]["kind"] == "drop_type"
    assert [change.id for change in page.blocks[1].changes] == ["t"]


def test_the_changes_of_one_commit_by_pages(graph):
    made = load(graph, *(person(f"p{at}") for at in range(5)))
    other = load(graph, person("x"), person("y"))
    got, page = [], graph.commits.changes(made, limit=2)
    while True:
        got += [change.id for change in page.changes]
        assert page.cause["graph_commit_id"] == made
        if page.next_page_token is None:
            break
        page = graph.commits.changes(made, limit=2, page_token=page.next_page_token)
    assert got == ["p0", "p1", "p2", "p3", "p4"]
    token = graph.commits.changes(made, limit=2).next_page_token
    with pytest.raises(CursorRejected, match="another commit"):
        graph.commits.changes(other, page_token=token)
    with pytest.raises(CursorRejected, match="filter"):
        graph.commits.changes(made, types=["Person"], page_token=token)
    with pytest.raises(CursorRejected, match="damaged"):
        graph.commits.changes(made, page_token=token[:-1])
    with pytest.raises(NoParent):
        graph.commits.changes(graph.commits.list()[-1].graph_commit_id)
    with pytest.raises(CommitNotFound):
        graph.commits.changes("01ARZ3NDEKTSV4RRFFQ69G5FAV")
    with pytest.raises(BadRequest):
        graph.commits.changes(made, types=["Submarine"])
