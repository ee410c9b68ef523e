"""Every code of a directory once, with its place; and digests that do not depend on the place."""

from __future__ import annotations

import hashlib
import json
import os
import re
from pathlib import Path

import pytest

from omnigraph.cluster.declared.diagnostics import Code
from tests.cluster.conftest import CONFIG, QUERIES, SCHEMA, Cluster

GRAPH = "version: 1\ngraphs:\n  library: { schema: library.pg"
PROVIDER = "version: 1\nproviders: {{ embedding: {{ e: {} }} }}\ngraphs: {{}}\n"


@pytest.mark.parametrize(
    ("config", "code", "path"),
    [
        ("version: 1\nversion: 1\n", "duplicate_yaml_key", "cluster.yaml"),
        ("version: [1\n", "invalid_cluster_yaml", "cluster.yaml"),
        ("version: 1\ngraphs: &a {}\n", "invalid_cluster_yaml", "cluster.yaml"),
        ("version: 1\ngraph: {}\n", "invalid_cluster_yaml", "graph"),
        ("version: 1\npipelines: {}\n", "future_phase_field", "pipelines"),
        ("version: 2\n", "unsupported_cluster_config_version", "version"),
        ("version: 1\nmetadata: { name: '' }\n", "empty_metadata_name", "metadata.name"),
        ("version: 1\nstorage: ftp://x\n", "invalid_storage_root", "storage"),
        ("version: 1\ngraphs: { a_b: { schema: library.pg } }\n", "invalid_resource_id", "graphs.a_b"),
        ("version: 1\ngraphs: { healthz: { schema: library.pg } }\n", "invalid_resource_id", "graphs.healthz"),
        ("version: 1\ngraphs: { A: { schema: library.pg }, a: { schema: library.pg } }\n", "invalid_resource_id", "graphs.a"),
        ("version: 1\ngraphs: { l: { schema: ../x.pg } }\n", "invalid_resource_path", "graphs.l.schema"),
        ("version: 1\ngraphs: { l: { schema: /etc/passwd } }\n", "invalid_resource_path", "graphs.l.schema"),
        ("version: 1\ngraphs: { l: { schema: 'a\\b.pg' } }\n", "invalid_resource_path", "graphs.l.schema"),
        ("version: 1\ngraphs: { l: { schema: d/../../x.pg } }\n", "invalid_resource_path", "graphs.l.schema"),
        ("version: 1\ngraphs: { l: { schema: none.pg } }\n", "schema_file_missing", "graphs.l.schema"),
        ("version: 1\ngraphs: { l: { schema: broken.pg } }\n", "schema_parse_error", "graphs.l.schema"),
        ("version: 1\ngraphs: { l: { schema: latin.pg } }\n", "schema_parse_error", "graphs.l.schema"),
        ("version: 1\ngraphs: { l: { schema: long.pg } }\n", "schema_parse_error", "graphs.l.schema"),
        ("version: 1\ngraphs: { l: { schema: twice.pg } }\n", "schema_catalog_error", "graphs.l.schema"),
        (f"{GRAPH}, queries: none.gq }}\n", "query_file_missing", "graphs.library.queries"),
        (f"{GRAPH}, queries: broken.gq }}\n", "query_parse_error", "graphs.library.queries"),
        (f"{GRAPH}, queries: [reads.gq, again.gq] }}\n", "duplicate_query_name", "graphs.library.queries[1]"),
        (f"{GRAPH}, queries: {{ other: {{ file: reads.gq }} }} }}\n", "query_key_mismatch", "graphs.library.queries.other.file"),
        (f"{GRAPH}, queries: ghosts.gq }}\n", "query_typecheck_error", "graphs.library.queries"),
        (f"{GRAPH}, queries: {{ authors: {{ file: reads.gq, tool_name: query }} }} }}\n", "reserved_tool_name", "graphs.library.queries.authors.file"),
        (f"{GRAPH}, queries: {{ authors: {{ file: reads.gq }}, more: {{ file: more.gq, tool_name: authors }} }} }}\n", "duplicate_tool_name", "graphs.library.queries.more.file"),
        (f"{GRAPH}, queries: empty }}\n", "query_dir_empty", "graphs.library.queries"),
        ("version: 1\ngraphs: { l: { schema: broken.pg, queries: reads.gq } }\n", "query_typecheck_skipped", "graphs.l"),
        ("version: 1\ngraphs: { l: { schema: blobs.pg } }\n", "external_blob_ingress_default_deny", "graphs.l"),
        ("version: 1\npolicies: { p: { file: none.yaml, applies_to: [cluster] } }\n", "policy_file_missing", "policies.p.file"),
        ("version: 1\npolicies: { p: { file: team.yaml, applies_to: [cluster] } }\n", "policy_invalid", "policies.p.file"),
        ("version: 1\npolicies: { p: { file: team.yaml } }\n", "policy_missing_applies_to", "policies.p"),
        (f"{GRAPH} }}\npolicies: {{ p: {{ file: team.yaml, applies_to: [cluster, library] }} }}\n", "policy_mixed_binding_kinds", "policies.p"),
        (f"{CONFIG}  other: {{ file: team.yaml, applies_to: [library] }}\n", "duplicate_policy_binding", "policies.other"),
        ("version: 1\npolicies: { p: { file: team.yaml, applies_to: [ghost] } }\n", "dangling_graph_reference", "policies.p.applies_to"),
        ("version: 1\npolicies: { p: { file: team.yaml, applies_to: [p] } }\n", "wrong_kind_reference", "policies.p.applies_to"),
        (f"{GRAPH}, embedding_provider: ghost }}\n", "dangling_embedding_provider_reference", "graphs.library.embedding_provider"),
        (PROVIDER.format("{ kind: magic }"), "invalid_embedding_provider", "providers.embedding.e.kind"),
        (PROVIDER.format("{ kind: openai }"), "embedding_api_key_required", "providers.embedding.e"),
        (PROVIDER.format("{ kind: openai, api_key: sk-1 }"), "embedding_api_key_inline", "providers.embedding.e.api_key"),
        (f"{GRAPH}, external_blobs: {{ allow: ['file:///x/'] }} }}\n", "invalid_external_blob_base", "graphs.library.external_blobs.allow[0]"),
        (f"{GRAPH}, external_blobs: {{ allow: ['s3://b/p', 's3://b/p/q'] }} }}\n", "invalid_external_blob_base", "graphs.library.external_blobs.allow"),
        (f"{GRAPH}, external_blobs: [] }}\n", "invalid_external_blob_policy", "graphs.library.external_blobs"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_its_place(cluster, config, code, path):
    for name, text in {
        "broken.pg": "node Author { name String",
        "latin.pg": b"node Caf\xe9 {}",
        "long.pg": b"//" + b"x" * (1 << 20),
        "twice.pg": "node A { n: String @key }\nnode A { n: String @key }\n",
        "blobs.pg": "node A {\n    n: String @key\n    data: Blob?\n}\n",
        "broken.gq": "query (",
        "again.gq": QUERIES,
        "more.gq": QUERIES.replace("authors", "more"),
        "ghosts.gq": QUERIES.replace("Author", "Ghost"),
        "empty/readme.txt": "",
    }.items():
        cluster.write(name, text)
    cluster.config(config)
    assert (code, path) in cluster.codes(reserved={"query"})


def test_a_directory_that_is_not_there(tmp_path):
    assert Cluster(tmp_path / "a").codes() == set()
    missing = Cluster(tmp_path / "b")
    (missing.path / "cluster.yaml").unlink()
    assert missing.codes() == {("cluster_config_read_error", "cluster.yaml")}
    missing.path = tmp_path / "c"
    assert {code for code, _ in missing.codes()} == {"config_dir_not_found"}


def test_links_do_not_lead_out(cluster, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside") / "x.pg"
    outside.write_text(SCHEMA)
    os.symlink(outside, cluster.path / "link.pg")
    cluster.config("version: 1\ngraphs: { l: { schema: link.pg } }\n")
    assert ("invalid_resource_path", "graphs.l.schema") in cluster.codes()


def test_all_faults_are_found_at_once_each_with_its_line(cluster):
    cluster.config(
        "version: 1\ngraphs:\n  a_b: { schema: x.pg }\n  good: { schema: none.pg }\nui: {}\n"
    )
    found = {(one.code.value, one.line) for one in cluster.read()[1]}
    assert found == {
        ("invalid_resource_id", 3),
        ("schema_file_missing", 4),
        ("future_phase_field", 5),
    }


def test_digests_are_of_the_bytes_and_of_canonical_json(cluster, tmp_path_factory):
    desired, _ = cluster.read()

    def sha(data):
        return f"sha256:{hashlib.sha256(data).hexdigest()}"

    schema, query = sha(SCHEMA.encode()), sha(QUERIES.encode())
    graph = {"queries": {"authors": query}, "schema": schema}
    digests = desired.digests
    assert digests["schema.library"] == schema
    assert digests["query.library.authors"] == query
    assert digests["graph.library"] == sha(json.dumps(graph, separators=(",", ":")).encode())
    whole = {"bindings": {"team": ["library"]}, "resources": digests}
    assert desired.config_digest == sha(
        json.dumps(whole, separators=(",", ":"), sort_keys=True).encode()
    )
    other = Cluster(tmp_path_factory.mktemp("other"))
    other.config(CONFIG.replace("reads.gq", "./sub/../reads.gq"))
    (other.path / "sub").mkdir()
    assert other.read()[0].config_digest == desired.config_digest


def test_a_list_or_directory_takes_every_declaration_and_a_map_picks(cluster):
    two = QUERIES + QUERIES.replace("authors", "others")
    cluster.write("queries/two.gq", two)
    for queries, names in (
        ("queries/", {"authors", "others"}),
        ("[queries/two.gq]", {"authors", "others"}),
        ("{ others: { file: queries/two.gq, expose: false } }", {"others"}),
    ):
        cluster.config(f"{GRAPH}, queries: {queries} }}\n")
        desired, found = cluster.read()
        assert list(found) == []
        assert {at for at in desired.resources if at.startswith("query.")} == {
            f"query.library.{name}" for name in names
        }
    assert desired.resources["query.library.others"].facts == {"expose": False}


def test_what_depends_on_what(cluster):
    desired, _ = cluster.read()
    assert desired.depends["graph.library"] == ("query.library.authors", "schema.library")
    assert desired.affected_by(["schema.library"]) == {
        "schema.library": ["graph.library", "policy.team", "query.library.authors"]
    }


def test_every_code_is_in_the_manual():
    page = (Path(__file__).parents[2] / "docs" / "user" / "clusters.md").read_text("utf-8")
    listed = re.findall(r"`([a-z_]+)`", page.partition("## Codes")[2])
    assert sorted(listed) == sorted(Code)
