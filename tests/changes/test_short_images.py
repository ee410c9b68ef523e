"""Images with vectors and blobs by their sizes: in diffs, commits, merge plans and reverts."""

from __future__ import annotations

import pytest

import omnigraph as og
from omnigraph.errors import BadRequest, CursorRejected
from omnigraph.service import branches, history
from omnigraph.service.branches import MergeRequest, RevertRequest

SCHEMA = """
node Doc { no: I32 @key  title: String?  vec: Vector(3)?  scan: Blob?  far: Blob? }
edge Cites: Doc -> Doc { proof: Blob? }
"""
BIG = bytes(range(256)) * 400
LONG = "words " * 2_000


def doc(no, **data):
    return {"type": "Doc", "data": {"no": no, **data}}


@pytest.fixture
def graph(tmp_path):
    with og.init(tmp_path / "g", SCHEMA, external_blobs=["gs://far/x"]) as graph:
        graph.load(
            [
                doc(1, title="a", vec=[1, 2, 3], scan=BIG, far="gs://far/x/1"),
                doc(2, title="b", vec=[1, 2, 3], scan=b"small"),
                doc(3),
                {"edge": "Cites", "from": "1", "to": "2", "data": {"proof": b"proof"}},
            ]
        )
        yield graph


def stat(graph, no, name="scan", **target):
    found = graph.blobs.stat("node", "Doc", str(no), name, **target)
    return {"size": found.size, "etag": found.etag}


def by_id(changes):
    return {(change.type, change.id): change for change in changes}


def change_all(graph, branch="main"):
    graph.load(
        [
            doc(1, title=LONG, vec=[1, 2, 3], scan=BIG, far="gs://far/x/2"),
            doc(2, title="b", vec=[1, 2, 4], scan=b"other"),
            doc(4, vec=[0, 0, 0]),
        ],
        branch=branch,
    )


def test_a_diff_says_sizes_and_what_stayed_the_same(graph):
    before = graph.snapshot()
    change_all(graph)
    graph.mutate("query q() { delete Doc where no = 3 }")
    found = by_id(graph.diff(before, "main", short=True))
    one = found["Doc", "1"]
    assert one.before == {
        "properties": {
            "no": 1,
            "title": "a",
            "vec": {"$vector": 3},
            "scan": {"$blob": stat(graph, 1, at=before)},
            "far": {"$blob": {"uri": "gs://far/x/1"}},
        }
    }
    assert one.after == {
        "properties": {
            "no": 1,
            "title": LONG,
            "vec": {"$vector": 3, "same": "before"},
            "scan": {"$blob": stat(graph, 1), "same": "before"},
            "far": {"$blob": {"uri": "gs://far/x/2"}},
        }
    }
    two = found["Doc", "2"]
    assert two.after["properties"]["vec"] == {"$vector": 3}
    assert two.after["properties"]["scan"] == {"$blob": stat(graph, 2)}
    assert two.after["properties"]["far"] is None
    three, four = found["Doc", "3"], found["Doc", "4"]
    assert three.after is None
    assert three.before["properties"]["vec"] is None
    assert four.after["properties"]["vec"] == {"$vector": 3}
    whole = by_id(graph.diff(before, "main"))
    assert {key: change.op for key, change in found.items()} == {
        key: change.op for key, change in whole.items()
    }


def test_edges_keep_their_ends(graph):
    before = graph.snapshot()
    graph.mutate("query q() { delete Doc where no = 2 }")
    (gone,) = (c for c in graph.diff(before, "main", short=True) if c.kind == "edge")
    assert gone.before["endpoints"] == {"from": "1", "to": "2"}
    assert gone.before["properties"]["proof"]["$blob"]["size"] == 5


def test_without_images_there_is_nothing_to_shorten(graph):
    before = graph.snapshot()
    change_all(graph)
    bare = graph.diff(before, "main", images=False, short=True).changes
    assert bare == graph.diff(before, "main", images=False).changes


def test_no_bytes_of_blobs_are_read(graph, monkeypatch):
    before = graph.snapshot()
    graph.mutate('query q() { update Doc set { title: "c" } where no = 1 }')

    def read(*_):
        raise AssertionError("the bytes of a blob were read")

    monkeypatch.setattr("omnigraph.storage.tables.blobs.reading.BlobStream.read", read)
    # Lance copied the blob into the new row, so its bytes are compared, piece by piece, in the diff itself.
    monkeypatch.setattr("omnigraph.changes.images._same_bytes", lambda *_: True)
    (change,) = graph.diff(before, "main", short=True)
    assert change.after["properties"]["scan"]["same"] == "before"


def test_a_page_token_knows_whether_images_are_short(graph):
    before = graph.snapshot()
    change_all(graph)
    first = graph.diff(before, "main", short=True).page(1)
    rest = graph.diff(before, "main", short=True).page(10, first.next_page_token)
    assert len(first.changes) + len(rest.changes) == 3
    with pytest.raises(CursorRejected, match="filter"):
        graph.diff(before, "main").page(1, first.next_page_token)


def test_the_changes_of_a_commit_are_short_too(graph):
    change_all(graph)
    head = graph.snapshot().graph_commit_id
    parent = graph.commits.show(head).parent_commit_id
    changes = graph.commits.changes(head, short=True).changes
    assert changes == graph.diff(og.at(snapshot=parent), og.at(snapshot=head), short=True).changes
    request = history.CommitChangesRequest(graph_commit_id=head, short=True)
    assert [one["id"] for one in history.commit_changes_page(graph, request)["changes"]] == [
        change.id for change in changes
    ]


def test_a_merge_plan_names_the_first_side_that_has_the_same(graph):
    graph.branches.create("side")
    graph.load([doc(1, title="side", vec=[9, 9, 9], scan=BIG)], branch="side")
    graph.load([doc(1, title="main", vec=[9, 9, 9], scan=b"new")])
    request = MergeRequest(source="side", dry_run=True, images=True, short=True)
    plan = branches.merge(graph, request)
    (conflict,) = plan["conflicts"]
    base, source, target = (
        conflict["detail"][name]["properties"] for name in ("base", "source", "target")
    )
    assert base["vec"] == {"$vector": 3}
    assert source["vec"] == {"$vector": 3}
    assert target["vec"] == {"$vector": 3, "same": "source"}
    assert source["scan"]["same"] == "base"
    assert "same" not in target["scan"]
    assert base["far"] == {"$blob": {"uri": "gs://far/x/1"}}
    assert (source["far"], target["far"]) == (None, None)
    assert (source["title"], target["title"]) == ("side", "main")
    whole = branches.merge(graph, MergeRequest(source="side", dry_run=True, images=True))
    assert whole["conflicts"][0]["detail"]["source"]["properties"]["vec"] == [9, 9, 9]


def test_a_revert_shows_the_same(graph):
    change_all(graph)
    head = graph.snapshot().graph_commit_id
    graph.load([doc(1, title="later", vec=[5, 5, 5])])
    request = RevertRequest(graph_commit_id=head, dry_run=True, images=True, short=True)
    document = branches.revert(graph, request)
    (conflict,) = document["conflicts"]
    assert conflict["detail"]["base"]["properties"]["vec"] == {"$vector": 3}
    assert conflict["detail"]["source"]["properties"]["vec"] == {"$vector": 3, "same": "base"}
    assert conflict["detail"]["target"]["properties"]["vec"] == {"$vector": 3}


def test_a_plan_ends_where_a_page_does(graph, monkeypatch):
    from omnigraph.changes import pages

    graph.branches.create("side")
    graph.load([doc(n, title=LONG) for n in (1, 2, 3)], branch="side")
    graph.load([doc(n, title="x" + LONG) for n in (1, 2, 3)])
    request = MergeRequest(source="side", dry_run=True, images=True, short=True)
    assert len(branches.merge(graph, request)["conflicts"]) == 3
    monkeypatch.setattr(pages, "PAGE_BYTES", 60_000)
    plan = branches.merge(graph, request)
    assert (len(plan["conflicts"]), plan["conflict_count"]) == (2, 3)
    monkeypatch.setattr(pages, "PAGE_BYTES", 10)
    assert len(branches.merge(graph, request)["conflicts"]) == 1


@pytest.mark.parametrize(
    "call",
    [
        lambda g: g.diff("main", "main", short=1),
        lambda g: g.commits.changes(g.snapshot().graph_commit_id, short="yes"),
        lambda g: g.branches.merge("side", dry_run=True, short=None),
    ],
)
def test_short_is_yes_or_no(graph, call):
    with pytest.raises(BadRequest, match="short"):
        call(graph)


def test_resolutions_may_come_as_a_tuple(graph):
    graph.branches.create("side")
    graph.load([doc(1, title="side")], branch="side")
    graph.load([doc(1, title="main")])
    decided = ({"table_key": "node:Doc", "row_id": "1", "take": "theirs"},)
    done = branches.merge(graph, MergeRequest(source="side", resolve=decided))
    assert done["outcome"] == "merged"
