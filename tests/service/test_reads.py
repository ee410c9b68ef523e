"""The documents of the operations that read, and that sessions are asked for all of them."""

import io
import json

import pytest

import omnigraph as og
from omnigraph.errors import (
    BadRequest,
    CommitNotFound,
    CursorRejected,
    EntityNotFound,
    PolicyDenied,
    ResourceLimit,
    SchemaViolation,
)
from omnigraph.manifest.snapshot import Target
from omnigraph.policy.checker import Decision
from omnigraph.service import blobs, history, loads, query, schema, states
from tests.graphs import person

SCHEMA = """
node Person { name: String @key  age: I32?  photo: Blob?  taste: Vector(2)? }
edge Knows: Person -> Person { since: I32? }
"""
COMMIT = [
    "graph_commit_id", "branch", "manifest_version", "parent_commit_id", "merged_parent_commit_id",
    "actor_id", "created_at", "operation", "operation_id", "facts",
]  # fmt: skip


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    """Three people and an edge on `main`, one of them older on the branch `side`."""
    with og.init(tmp_path_factory.mktemp("reads") / "g.omni", SCHEMA, actor="ada") as graph:
        people = [person("ann", age=30, photo="base64:aGVsbG8=", taste=[1, 0]), person("bob")]
        edge = {"edge": "Knows", "from": "ann", "to": "bob", "data": {"id": "e1"}}
        graph.load([*people, person("cy"), edge], mode="append")
        graph.branches.create("side")
        graph.load([person("ann", age=31)], mode="patch", branch="side")
        yield graph


@pytest.fixture(scope="module")
def ids(graph):
    return [commit.graph_commit_id for commit in graph.commits.list("side")]


def test_a_snapshot(graph):
    document = states.snapshot(graph, states.SnapshotRequest(branch=" side "))
    assert list(document) == [
        "branch", "graph_commit_id", "manifest_version", "internal_schema_version", "schema_hash", "tables",
    ]  # fmt: skip
    assert document["branch"] == "side"
    assert [list(table) for table in document["tables"]] == [
        ["table_key", "table_path", "table_version", "table_branch", "row_count"]
    ] * 2


def test_a_status_shows_the_address_of_its_caller(graph):
    document = states.status(graph, "https://example.org/graphs/g")
    assert document["uri"] == "https://example.org/graphs/g"
    assert document["branches"] == ["main", "side"]
    wanted = [
        "uri", "graph_id", "omnigraph", "internal_schema_version", "branches", "head", "manifest",
        "pending_recoveries", "stray_files", "bytes_by_branch", "purges_owed", "advice", "tables",
    ]  # fmt: skip
    assert [name for name in document if name in wanted] == wanted


def test_an_entity(graph, ids):
    def ask(kind, type, id, **options):
        return states.entity(graph, states.EntityRequest(kind=kind, type=type, id=id, **options))

    brief = ask("node", "Person", "ann", branch="side")
    assert list(brief) == ["kind", "type", "id", "properties", "graph_commit_id"]
    etag = blobs.stat_blob(
        graph,
        blobs.BlobRequest(kind="node", type="Person", id="ann", property="photo", branch="side"),
    )["etag"]
    assert brief["properties"] == {
        "name": "ann",
        "age": 31,
        "photo": {"$blob": {"size": 5, "etag": etag}},
        "taste": {"$vector": 2},
    }
    assert brief["graph_commit_id"] == ids[0]
    full = ask("node", "Person", "ann", full=True)["properties"]
    assert full == {"name": "ann", "age": 30, "photo": "base64:aGVsbG8=", "taste": [1.0, 0.0]}
    assert ask("node", "Person", "bob")["properties"] == dict.fromkeys(full) | {"name": "bob"}
    edge = ask("edge", "Knows", "e1")
    assert edge["endpoints"] == {
        "from": {"type": "Person", "id": "ann"},
        "to": {"type": "Person", "id": "bob"},
    }
    assert list(edge)[-2:] == ["endpoints", "graph_commit_id"]
    with pytest.raises(BadRequest, match="did you mean Person"):
        ask("node", "person", "ann")
    for nobody in ("zoe", "", "\ud800"):
        with pytest.raises(EntityNotFound) as refused:
            ask("node", "Person", nobody)
        assert refused.value.details["entity"] == {"kind": "node", "type": "Person", "id": nobody}


def test_how_an_entity_came_to_be_so(graph, ids):
    def ask(**options):
        named = {"kind": "node", "type": "Person", "id": "ann", **options}
        return history.entity_history(graph, history.EntityHistoryRequest(**named))

    document = ask(branch="side", short=True)
    assert list(document) == ["entries", "next", "complete"]
    update, insert = document["entries"]
    assert (update["op"], update["changed"], update["graph_commit_id"]) == (
        "update",
        ["age"],
        ids[0],
    )
    assert update["after"]["properties"]["taste"] == {"$vector": 2, "same": "before"}
    assert (insert["op"], "before" in insert) == ("insert", False)
    assert document == {
        **graph.history("node", "Person", "ann", branch="side", short=True).to_json()
    }
    first = ask(branch="side", limit=1, images=False)
    assert (first["next"], "after" in first["entries"][0]) == (ids[0], False)
    assert ask(branch="side", before=first["next"])["entries"][0]["op"] == "insert"
    assert ask(limit=200)["next"] is None
    with pytest.raises(ResourceLimit) as refused:
        ask(limit=201)
    assert (refused.value.details["limit"], refused.value.details["actual"]) == (200, 201)

    request = history.EntityBlameRequest(kind="node", type="Person", id="ann", edges=True)
    told = history.entity_blame(graph, request)
    assert told == graph.blame("node", "Person", "ann", edges=True).to_json()
    assert told["edges"][0]["endpoints"]["value"] == {"from": "ann", "to": "bob"}


def test_schemas(graph):
    shown = schema.show_schema(graph, schema.ShowRequest())
    assert shown == {"schema_source": SCHEMA, "schema_hash": graph.schema.show().schema_hash}
    assert schema.show_schema(graph, schema.ShowRequest(branch="side")) == shown
    assert schema.diff_schemas(graph, "main", "side")["steps"] == []
    wider = SCHEMA.replace("since: I32?", "since: I32?  how: String?")
    request = schema.PlanRequest(schema_source=wider)
    document = schema.plan_schema(graph, request, "u")
    assert list(document) == ["uri", "supported", "step_count", "steps"]
    assert [step["kind"] for step in document["steps"]] == ["add_property"]
    smaller = schema.PlanRequest(schema_source=SCHEMA.replace("age: I32?", ""))
    assert schema.plan_schema(graph, smaller, "u")["warnings"] != []


def test_a_plan_that_is_checked(graph):
    strict = SCHEMA.replace("since: I32?", "since: I32?  @unique(src, dst)")
    request = schema.PlanRequest(schema_source=strict, check=True)
    assert schema.plan_schema(graph, request, "u")["checked"] is True
    required = SCHEMA.replace("age: I32?", "age: I32")
    request = schema.PlanRequest(schema_source=required, check=True)
    with pytest.raises(SchemaViolation) as refused:
        schema.plan_schema(graph, request, "u")
    (found,) = refused.value.body()["schema_violation"]
    assert (found["element"], found["rule"]) == ("node:Person.age", "required")
    assert found["rows"] == len(found["row_ids"]) > 0


def test_lint(graph):
    request = query.LintRequest(
        source="query a() { match { $p: Person } return { $p } }\nquery b() { match { $g: Ghost } return { $g } }",
        query_path="q.gq",
    )
    document = query.lint(graph, request, "u")
    assert list(document) == [
        "status", "schema_source", "query_path", "queries_processed", "errors", "warnings", "infos",
        "results", "findings",
    ]  # fmt: skip
    assert document["schema_source"] == {"kind": "graph", "uri": "u"}
    assert [one["status"] for one in document["results"]] == ["ok", "error"]
    assert document["results"][1]["diagnostic"]["span"]["line"] == 2
    against_a_file = query.lint_with_schema("node Ghost { name: String @key }", "g.pg", request)
    assert against_a_file["schema_source"] == {"kind": "file", "path": "g.pg"}
    assert [one["status"] for one in against_a_file["results"]] == ["error", "ok"]


def test_histories(graph, ids):
    whole = history.history(graph, history.HistoryRequest())
    assert [commit["graph_commit_id"] for commit in whole["commits"]] == ids
    assert list(whole["commits"][0]) == [*COMMIT, "branches", "tags"]
    assert [commit["branches"] for commit in whole["commits"]] == [["side"], ["main"], []]
    page = history.history(graph, history.HistoryRequest(branches=(" main ",), limit=1))
    assert (page["heads"], page["next"]) == (
        [{"branch": "main", "graph_commit_id": ids[1]}],
        ids[1],
    )
    commits = history.list_commits(
        graph, history.CommitsRequest(branch="side", filters=("actor=ada",), limit=1)
    )
    assert [list(commit) for commit in commits["commits"]] == [COMMIT]
    rest = history.list_commits(graph, history.CommitsRequest(branch="side", before=ids[0]))
    assert [commit["graph_commit_id"] for commit in rest["commits"]] == ids[1:]
    assert history.show_commit(graph, f" {ids[0]} ") == commits["commits"][0]


def test_a_diff_streams_and_pages_alike(graph):
    def request(**options):
        return history.DiffRequest(from_=Target.of("main"), to=Target.of("side"), **options)

    whole = history.diff(graph, request()).collected()
    assert list(whole) == ["from", "to", "changes", "stats"]
    assert list(whole["from"]) == ["graph_commit_id", "branch", "version"]
    (change,) = whole["changes"]
    assert (change["op"], change["id"]) == ("update", "ann")
    assert change["after"]["properties"]["age"] == 31
    assert history.diff_page(graph, request())["changes"] == whole["changes"]
    (bare,) = history.diff(graph, request(images=False)).collected()["changes"]
    assert "properties" not in json.dumps(bare)
    assert history.diff(graph, request(kinds=("edge",))).collected()["changes"] == []
    with pytest.raises(CursorRejected):
        history.diff_page(graph, request(page_token="x"))
    with pytest.raises(BadRequest):
        history.diff(graph, request(limit=0))


def test_the_changes_of_a_commit_are_joined_from_pages(graph, ids):
    def request(**options):
        return history.CommitChangesRequest(graph_commit_id=ids[1], **options)

    page = history.commit_changes_page(graph, request(limit=3))
    assert list(page) == ["cause", "changes", "next_page_token"]
    whole = history.commit_changes(graph, request(limit=3)).collected()
    assert list(whole) == ["cause", "changes"]
    assert [change["id"] for change in whole["changes"]] == ["ann", "bob", "cy", "e1"]
    rest = history.commit_changes_page(graph, request(limit=3, page_token=page["next_page_token"]))
    assert [change["id"] for change in rest["changes"]] == ["e1"]


def test_a_poll_gives_whole_commits(graph, ids):
    request = history.FeedRequest(branch="side", start="beginning", limit=3)
    assert "next_page_token" in history.poll_page(graph, request)
    document = history.poll(graph, request)
    assert [block["cause"]["graph_commit_id"] for block in document["blocks"]] == [ids[1]]
    assert [change["id"] for change in document["blocks"][0]["changes"]] == [
        "ann",
        "bob",
        "cy",
        "e1",
    ]
    following = history.poll(graph, history.FeedRequest(branch="side", cursor=document["cursor"]))
    assert [len(block["changes"]) for block in following["blocks"]] == [1]
    assert following["caught_up"] is True


def test_a_baseline_and_an_export(graph, ids, tmp_path):
    out = tmp_path / "lines.jsonl"
    request = history.BaselineRequest(branch="side", kinds=("node",))
    document = history.baseline(graph, request, out)
    assert document["snapshot_commit_id"] == ids[0]
    assert [json.loads(line)["data"]["id"] for line in out.read_text("utf-8").splitlines()] == [
        "ann",
        "bob",
        "cy",
    ]
    written = io.BytesIO()
    exported = loads.export(graph, loads.ExportRequest(type_names=("Knows",)), written)
    assert exported["graph_commit_id"] == ids[1]
    assert exported["leased"] is True
    assert [json.loads(line)["edge"] for line in written.getvalue().splitlines()] == ["Knows"]
    empty = io.BytesIO()
    with pytest.raises(BadRequest):
        loads.export(graph, loads.ExportRequest(type_names=("Ghost",)), empty)
    assert empty.getvalue() == b""


def test_blobs(graph, ids):
    request = blobs.BlobRequest(kind="node", type="Person", id="ann", property="photo", tag=None)
    document = blobs.stat_blob(graph, request)
    assert list(document) == ["selector", "kind", "size", "etag", "target"]
    assert document["target"] == {"branch": "main", "resolved_snapshot": ids[1]}
    out = io.BytesIO()
    part = blobs.BlobRequest(
        kind="node", type="Person", id="ann", property="photo", offset=1, length=3
    )
    assert blobs.read_blob(graph, part, out) == 3
    assert out.getvalue() == b"ell"


def test_an_explanation_and_its_profile(graph):
    text = "query q() { match { $p: Person } return { $p.name } }"
    plain = query.explain(graph, query.ExplainRequest(query=text))
    assert list(plain) == [
        "query_name",
        "target",
        "graph_commit_id",
        "steps",
        "order",
        "order_unknown",
        "summed_away",
        "path",
        "as_of",
    ]
    profiled = query.explain(graph, query.ExplainRequest(query=text, profile=True, branch="side"))
    assert list(profiled) == [*plain, "profile", "row_count"]
    assert profiled["row_count"] == 3
    assert profiled["target"] == {"branch": "side", "snapshot": None}


class Nobody:
    """A policy that allows nothing, and keeps what it was asked."""

    def __init__(self):
        self.asked = []

    def check(self, question):
        self.asked.append(question.action)
        return Decision(False, None, "nothing is allowed")


def test_the_policy_is_asked_about_every_operation(graph, ids, tmp_path):
    text = "query q() { match { $p: Person } return { $p.name } }"
    blob = blobs.BlobRequest(kind="node", type="Person", id="ann", property="photo")
    sides = history.DiffRequest(from_=Target.of("main"), to=Target.of("side"))
    one = history.CommitChangesRequest(graph_commit_id=ids[0])
    out, baseline = io.BytesIO(), tmp_path / "baseline"
    operations = {
        "read": [
            lambda at: query.query(at, query.QueryRequest(query=text)),
            lambda at: query.explain(at, query.ExplainRequest(query=text)),
            lambda at: query.explain(at, query.ExplainRequest(query=text, profile=True)),
            lambda at: states.snapshot(at, states.SnapshotRequest()),
            lambda at: states.status(at, "u"),
            lambda at: states.entity(
                at, states.EntityRequest(kind="node", type="Person", id="ann")
            ),
            lambda at: schema.show_schema(at, schema.ShowRequest()),
            lambda at: schema.diff_schemas(at, "main", "side"),
            lambda at: schema.plan_schema(at, schema.PlanRequest(schema_source=SCHEMA), "u"),
            lambda at: query.lint(at, query.LintRequest(source=text), "u"),
            lambda at: history.entity_history(
                at, history.EntityHistoryRequest(kind="node", type="Person", id="ann")
            ),
            lambda at: history.entity_blame(
                at, history.EntityBlameRequest(kind="node", type="Person", id="ann")
            ),
            lambda at: history.history(at, history.HistoryRequest()),
            lambda at: history.list_commits(at, history.CommitsRequest()),
            lambda at: history.show_commit(at, ids[0]),
            lambda at: history.diff(at, sides),
            lambda at: history.diff_page(at, sides),
            lambda at: history.commit_changes(at, one),
            lambda at: history.poll(at, history.FeedRequest()),
            lambda at: blobs.stat_blob(at, blob),
            lambda at: blobs.read_blob(at, blob, out),
        ],
        "export": [
            lambda at: history.baseline(at, history.BaselineRequest(), baseline),
            lambda at: loads.export(at, loads.ExportRequest(), out),
        ],
    }
    policy = Nobody()
    with og.open(graph.uri, mode="r", actor="ada", policy=policy) as denied:
        for action, calls in operations.items():
            for number, call in enumerate(calls):
                policy.asked.clear()
                # The changes of a commit on a branch that may not be read are not there at all.
                with pytest.raises((PolicyDenied, CommitNotFound)):
                    call(denied)
                assert policy.asked[:1] == [action], number
    assert out.getvalue() == b""
    assert not baseline.exists()


def test_the_neighbors_of_a_node(graph):
    request = states.NeighborsRequest(
        type="Person", id="ann", edges=("knows",), properties={"Person": ["age"]}, branch=" side "
    )
    document = states.neighbors(graph, request)
    assert list(document) == ["center", "nodes", "edges", "counts", "graph_commit_id", "as_of"]
    ann = {"type": "Person", "id": "ann", "caption": "ann", "properties": {"age": 31}}
    assert document["center"] == ann
    assert document["edges"] == [
        {
            "type": "Knows",
            "id": "e1",
            "from": {"type": "Person", "id": "ann"},
            "to": {"type": "Person", "id": "bob"},
        }
    ]
    json.dumps(document)


def test_nodes_and_the_edges_among_them(graph):
    named = states.SubgraphRequest(nodes=(("Person", "ann"), ("Person", "bob"), ("Person", "no")))
    document = states.subgraph(graph, named)
    assert list(document) == ["nodes", "missing", "edges", "truncated", "graph_commit_id", "as_of"]
    assert document["missing"] == [{"type": "Person", "id": "no"}]
    text = "query q($n: String) { match { $a: Person { name: $n } $a knows $b } return { $b.age } }"
    found = states.subgraph(
        graph, states.SubgraphRequest(query=text, name="q", params={"n": "ann"}, tag=None)
    )
    assert found["nodes"] == document["nodes"]
    assert (found["edges"], found["total_nodes"]) == (document["edges"], 2)
    with pytest.raises(BadRequest, match="one of the two"):
        states.subgraph(graph, states.SubgraphRequest())


def test_the_types_as_a_document(graph):
    document = states.catalog(graph)
    assert [node["name"] for node in document["nodes"]] == ["Person"]
    assert document == graph.catalog_document()
    json.dumps(document)


def test_a_blob_is_opened_with_what_is_known_of_it(graph):
    request = blobs.BlobRequest(kind="node", type="Person", id="ann", property="photo")
    with blobs.open_blob(graph, request) as file:
        assert (file.read(), file.stat) == (b"hello", blobs.look_at_blob(graph, request))
    assert file.stat.to_json() == blobs.stat_blob(graph, request)
