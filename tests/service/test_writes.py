"""The documents of writes: every member, in the order that is published."""

from __future__ import annotations

import io
import json

import pytest

import omnigraph as og
from omnigraph.clock import new_ulid
from omnigraph.errors import (
    BadRequest,
    BranchNotFound,
    MergeConflicts,
    PreconditionFailed,
    SchemaConflict,
)
from omnigraph.service import branches, maintenance
from omnigraph.service.blobs import PutBlobRequest, put_blob
from omnigraph.service.loads import STREAM, FillRequest, LoadRequest, TypedFile, embed, load
from omnigraph.service.query import MutateRequest, mutate
from omnigraph.service.schema import ApplyRequest, InitRequest, apply_schema, guarded, init
from tests.answers import check_answer
from tests.pipeline.embedders import Recording

SCHEMA = """
node Person { name: String @key  age: I32?  photo: Blob? }
node Note { slug: String @key  body: String  vec: Vector(4)? @embed("body") }
edge Knows: Person -> Person
"""
URI = "https://somewhere/graphs/g"
COMMIT = [
    "graph_commit_id",
    "branch",
    "manifest_version",
    "parent_commit_id",
    "merged_parent_commit_id",
    "actor_id",
    "created_at",
    "operation",
    "operation_id",
    "facts",
]
AGE = "query age($n: String, $a: I32) { update Person set { age: $a } where name = $n }"


def person(name, **data):
    return json.dumps({"type": "Person", "data": {"name": name, **data}}).encode() + b"\n"


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    place = tmp_path_factory.mktemp("writes") / "g.omni"
    with og.init(place, SCHEMA, actor="act-ann") as graph:
        load(graph, LoadRequest(mode="append", data=(person("ada") + person("bob"),)), URI)
        yield graph


def set_age(graph, name, age, branch=None):
    request = MutateRequest(query=AGE, params={"n": name, "a": age}, branch=branch)
    return mutate(graph, request)


def test_a_load_takes_everything_as_one_commit(graph, tmp_path):
    (tmp_path / "more.csv").write_text("Name;age\ncy;7\n")
    (tmp_path / "knows.csv").write_text("Name;to\nada;cy\n")
    request = LoadRequest(
        mode="merge",
        data=(person("di"), STREAM),
        nodes=(TypedFile("Person", str(tmp_path / "more.csv")),),
        edges=(TypedFile("Knows", str(tmp_path / "knows.csv")),),
        from_col="name",
        columns={"Name": "name"},
        delimiter=";",
        branch=" loads ",
        from_="main",
        operation_id=new_ulid(),
    )
    document = load(graph, request, URI, stream=io.BytesIO(person("eve")))
    assert list(document) == [
        *(
            "uri",
            "branch",
            "base_branch",
            "branch_created",
            "mode",
            "engine",
            "tables",
            "total_rows",
        ),
        *("bad_records", "skipped", "note", "timings", "indexes_built", "embeddings_pending"),
        *("actor_id", "commit"),
    ]
    assert document["uri"] == URI
    assert (document["branch"], document["base_branch"], document["branch_created"]) == (
        "loads",
        "main",
        True,
    )
    assert document["tables"] == [
        {"table_key": "edge:Knows", "rows_loaded": 1},
        {"table_key": "node:Person", "rows_loaded": 3},
    ]
    assert document["bad_records"] == {"total": 0, "first": []}
    assert list(document["commit"]) == COMMIT
    assert document["actor_id"] == document["commit"]["actor_id"] == "act-ann"
    assert document["commit"]["operation_id"] == request.operation_id
    again = load(graph, request, URI, stream=io.BytesIO(person("eve")))
    assert again == {**document, "replayed": True}


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({}, "nothing to load"),
        ({"data": (STREAM, STREAM)}, "twice"),
        ({"data": ("x",), "to_col": "b"}, "--to-col"),
        ({"data": ("x",), "columns": {"A": "b"}}, "there is none"),
        ({"nodes": (TypedFile("Person", "p.csv"),), "header": False}, "give names"),
    ],
)
def test_sources_that_fit_no_option_are_refused_before_a_graph_is_opened(values, said):
    with pytest.raises(BadRequest, match=said):
        LoadRequest(mode="merge", **values).check_sources()


def test_a_mutation(graph):
    document = set_age(graph, "ada", 36, " main ")
    assert list(document) == [
        *("branch", "query_name", "affected_nodes", "affected_edges", "actor_id", "commit"),
    ]
    assert (document["branch"], document["query_name"], document["affected_nodes"]) == (
        "main",
        "age",
        1,
    )
    assert list(document["commit"]) == COMMIT
    assert set_age(graph, "nobody", 1)["commit"] is None
    stale = MutateRequest(
        query=AGE, params={"n": "ada", "a": 1}, if_commit=document["commit"]["parent_commit_id"]
    )
    with pytest.raises(PreconditionFailed):
        mutate(graph, stale)


def test_branches(graph):
    head = graph.snapshot()
    request = branches.CreateBranchRequest(name=" side ", from_=og.at(branch="main"))
    assert list(branches.create_branch(graph, request, URI).items()) == [
        ("uri", URI),
        ("from", "main"),
        ("name", "side"),
        ("actor_id", "act-ann"),
        ("head_commit_id", head.graph_commit_id),
        ("version", head.manifest_version),
    ]
    branches.create_branch(graph, branches.CreateBranchRequest(name="a-side"), URI)
    listed = branches.list_branches(graph)["branches"]
    assert listed[0] == "main"
    assert listed[1:] == sorted(listed[1:])
    for name in ("a-side", " side "):
        gone = branches.delete_branch(graph, name, URI)
        assert list(gone.items()) == [
            ("uri", URI),
            ("name", name.strip()),
            ("actor_id", "act-ann"),
        ]
    with pytest.raises(BranchNotFound):
        branches.delete_branch(graph, "side", URI)


def test_a_merge_its_plan_and_a_revert(graph):
    branches.create_branch(graph, branches.CreateBranchRequest(name="other"), URI)
    set_age(graph, "bob", 1, "other")
    ours = set_age(graph, "bob", 2)["commit"]["graph_commit_id"]
    request = {"source": "other", "target": " main "}
    plan = branches.merge(graph, branches.MergeRequest(**request, dry_run=True, images=True))
    assert list(plan) == [
        *("source", "target", "dry_run", "outcome", "base_commit_id", "source_commit_id"),
        *("target_commit_id", "commit", "stats", "conflicts", "conflict_count"),
    ]
    assert (plan["outcome"], plan["commit"], plan["target_commit_id"]) == ("merged", None, ours)
    assert plan["conflict_count"] == 1
    assert plan["conflicts"][0]["kind"] == "divergent_update"
    with pytest.raises(MergeConflicts):
        branches.merge(graph, branches.MergeRequest(**request))
    with pytest.raises(BadRequest, match="dry run"):
        branches.merge(graph, branches.MergeRequest(**request, dry_run=True, delete_branch=True))
    chosen = [{"table_key": "node:Person", "row_id": "bob", "take": "theirs"}]
    asked = branches.MergeRequest(
        **request, resolve=chosen, delete_branch=True, operation_id=new_ulid()
    )
    done = branches.merge(graph, asked)
    assert done["commit"]["operation_id"] == asked.operation_id
    assert list(done) == [
        *("source", "target", "outcome", "base_commit_id", "actor_id", "commit", "stats"),
        "branch_deleted",
    ]
    assert (done["outcome"], done["stats"]["resolved"], done["branch_deleted"]) == (
        "merged",
        1,
        True,
    )
    undone = f" {done['commit']['graph_commit_id']} "
    planned = branches.revert(graph, branches.RevertRequest(graph_commit_id=undone, dry_run=True))
    assert (planned["dry_run"], planned["conflicts"], planned["commit"]) == (True, [], None)
    request = branches.RevertRequest(graph_commit_id=undone, operation_id=new_ulid())
    reverted = branches.revert(graph, request)
    assert branches.revert(graph, request) == {**reverted, "replayed": True}
    assert list(reverted) == [
        *("reverted", "target", "outcome", "base_commit_id", "actor_id", "commit", "stats"),
    ]
    assert (reverted["reverted"], reverted["outcome"]) == (undone.strip(), "reverted")
    assert graph.entity("node", "Person", "bob")["properties"]["age"] == 2


def test_tags(graph):
    request = branches.CreateTagRequest(name=" v1 ", target=og.at(branch="main"))
    made = branches.create_tag(graph, request)
    names = ["name", "graph_commit_id", "branch", "manifest_version", "actor_id", "created_at"]
    assert list(made) == names
    assert (made["name"], made["branch"], made["actor_id"]) == ("v1", None, "act-ann")
    assert branches.list_tags(graph) == {"tags": [made]}
    assert branches.delete_tag(graph, " v1 ") == {
        "name": "v1",
        "graph_commit_id": made["graph_commit_id"],
        "actor_id": "act-ann",
    }


def test_a_blob_is_put_and_cleared(graph):
    asked = {"kind": "node", "type": "Person", "id": "ada", "property": "photo"}
    request = PutBlobRequest(**asked, operation_id=new_ulid())
    document = put_blob(graph, request, io.BytesIO(b"12345"))
    assert put_blob(graph, request, io.BytesIO(b"12345")) == {**document, "replayed": True}
    assert list(document) == ["selector", "branch", "size", "etag", "actor_id", "commit"]
    assert (document["size"], document["branch"]) == (5, "main")
    cleared = put_blob(graph, PutBlobRequest(**asked), None)
    assert (cleared["size"], cleared["etag"]) == (None, None)


def test_vectors_are_filled_as_far_as_the_limit_goes(graph):
    for slug in "ab":
        note = {"type": "Note", "data": {"slug": slug, "body": slug}}
        load(graph, LoadRequest(mode="append", data=(json.dumps(note).encode(),)), URI)
    request = FillRequest(types=("Note",), limit=1, operation_id=new_ulid())
    with og.open(graph.uri, embedder=Recording()) as embedding:
        document = embed(embedding, request, URI)
    assert list(document) == ["uri", "branch", "filled", "pending", "failed", "commit"]
    assert (document["filled"], document["pending"], document["failed"]) == (1, 1, 0)
    assert document["commit"]["operation_id"] == request.operation_id


def test_maintenance(graph):
    optimized, _ = maintenance.optimize(graph, None, URI)
    assert list(optimized) == ["uri", "tables"]
    indexed, remarks = maintenance.ensure_indices(graph, " main ", URI)
    assert list(indexed) == ["uri", "branch", "built", "failed", "commit"]
    assert indexed["branch"] == "main"
    assert remarks.commits == int(indexed["commit"] is not None)
    repaired, _ = maintenance.repair(graph, confirm=False, force=False, uri=URI)
    assert list(repaired) == ["uri", "confirm", "force", "manifest_version", "tables"]
    request = maintenance.CleanupRequest()
    preview, _ = maintenance.cleanup(graph, request, URI)
    assert list(preview) == ["uri", "preview", "keep_versions", "older_than_secs", "tables"]
    assert (preview["keep_versions"], preview["older_than_secs"]) == (10, None)
    alone, _ = maintenance.cleanup(graph, maintenance.CleanupRequest(older_than_secs=60), URI)
    assert (alone["keep_versions"], alone["older_than_secs"]) == (None, 60)


def test_a_schema_is_applied_or_is_the_accepted_one(graph):
    for name in graph.branches.list()[1:]:
        graph.branches.delete(name)
    source = SCHEMA.replace("age: I32?", "age: I32?  city: String?")
    request = ApplyRequest(schema_source=source, operation_id=new_ulid())
    document = apply_schema(graph, request, URI)
    assert document["commit"]["operation_id"] == request.operation_id
    assert document["uri"] == URI
    assert list(document) == [
        *("uri", "supported", "step_count", "steps", "applied", "manifest_version", "commit"),
    ]
    assert (document["applied"], document["step_count"]) == (True, 1)
    again = apply_schema(graph, ApplyRequest(schema_source=source), URI)
    assert (again["applied"], again["commit"]) == (False, None)


def test_a_graph_is_made_but_not_in_a_place_of_a_cluster(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    document = init(InitRequest(schema_source="// nothing\n"), "plain.omni")
    assert list(document) == ["uri", "graph_commit_id", "internal_schema_version", "warnings"]
    (tmp_path / "__cluster").mkdir()
    init(InitRequest(schema_source=SCHEMA), "graphs/early.omni")
    (tmp_path / "__cluster" / "state.json").write_text("{}")
    wider = SCHEMA.replace("age: I32?", "age: I32?  city: String?")
    with og.open("graphs/early.omni") as graph, pytest.raises(SchemaConflict, match="cluster"):
        apply_schema(graph, ApplyRequest(schema_source=wider), URI)
    with og.open("graphs/early.omni") as graph:
        graph.branches.create("wider")
        asked = ApplyRequest(schema_source=wider, branch="wider")
        assert apply_schema(graph, asked, URI)["applied"]
        for dry in (False, True):
            asked_for = branches.MergeRequest(source="wider", dry_run=dry)
            with pytest.raises(SchemaConflict, match="cluster") as refused:
                branches.merge(guarded(graph, None), asked_for)
            assert refused.value.details["root"] == str(tmp_path)
        assert graph.schema.source == SCHEMA
    (tmp_path / "graphs" / "inner").mkdir()
    monkeypatch.chdir(tmp_path / "graphs" / "inner")
    for place in ("../late.omni", str(tmp_path / "graphs" / "late.omni"), "../x/../late.omni/"):
        with pytest.raises(BadRequest, match="cluster"):
            init(InitRequest(schema_source=SCHEMA, force=True), place)
    assert not (tmp_path / "graphs" / "late.omni").exists()
    assert "warnings" not in init(InitRequest(schema_source=SCHEMA), "deeper.omni")


def test_a_mutation_shows_the_rows_of_its_return(graph):
    text = "upsert $p: Person { name: $n } return { $p.name as n, 9007199254740993 as big }"
    request = MutateRequest(
        query=f"($n: String) {text}", params={"n": "ada"}, operation_id=new_ulid(), branch="main"
    )
    first, again = mutate(graph, request), mutate(graph, request)
    assert first["columns"] == again["columns"] == ["n", "big"]
    assert first["rows"] == [{"n": "ada", "big": "9007199254740993"}]
    assert (again["rows"], again["replayed"]) == (None, True)
    for document in (first, again):
        check_answer("MutationAnswer", document)
