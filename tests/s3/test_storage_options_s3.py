"""A handle that is told how to reach S3: everything it does goes there, and nothing tells the secrets."""

from __future__ import annotations

import io
import json
import logging
import pickle
import urllib.request
from uuid import uuid4

import obstore
import pyarrow as pa
import pytest
from pyarrow import parquet

import omnigraph as og
from omnigraph.errors import BadRequest, OmniGraphError
from omnigraph.graph.graph import state_of
from omnigraph.storage.objects.stores import open_bucket
from omnigraph.storage.store_kinds.s3_options import S3Options
from omnigraph.storage.uris import Root
from tests.s3_server import BUCKET

SCHEMA = """
node Person { name: String @key  age: I32? @range(age, 0..150)  photo: Blob? }
edge Knows: Person -> Person
"""
KEY, SECRET = "the-handles-key", "the-handles-secret-0123"


@pytest.fixture
def given(s3, monkeypatch):
    """Options that lead to the server, which the environment does not."""
    for name in s3.environment():
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "https://127.0.0.1:9")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "the-environments-key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "the-environments-secret")
    return {
        "endpoint": s3.endpoint,
        "region": "us-east-1",
        "access_key_id": KEY,
        "secret_access_key": SECRET,
        "allow_http": "true",
    }


@pytest.fixture
def bucket(given):
    return open_bucket(Root("s3", BUCKET, "", S3Options.parse(given)))


@pytest.fixture
def signed(s3):
    """The keys that requests were signed with."""
    keys: set[str] = set()

    def look(environ):
        told = environ.get("HTTP_AUTHORIZATION", "")
        keys.add(told.partition("Credential=")[2].partition("/")[0])

    s3.before(look)
    return keys


def pending_uploads(server):
    with urllib.request.urlopen(f"{server.endpoint}/{BUCKET}?uploads") as answer:
        return answer.read().count(b"<UploadId>")


def text_of(bucket, key):
    return bytes(obstore.get(bucket, key).bytes()).decode()


def person(name, **data):
    return json.dumps({"type": "Person", "data": {"name": name, **data}})


def test_all_that_a_handle_does_in_s3(given, bucket, signed, tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    at = uuid4().hex
    place = f"s3a://{BUCKET}/{at}"
    obstore.put(bucket, f"{at}/in/a.jsonl", f"{person('ada', age=36)}\n{person('bo')}\n".encode())
    obstore.put(bucket, f"{at}/photo.png", b"pixels" * 100)
    sink = io.BytesIO()
    parquet.write_table(pa.table({"name": ["cy", "dan"], "age": [1, 2]}), sink)
    obstore.put(bucket, f"{at}/people.parquet", sink.getvalue())

    with og.init(
        f"{place}/g", SCHEMA, storage_options=given, external_blobs=[f"{place}/"]
    ) as graph:
        assert graph.uri == f"s3://{BUCKET}/{at}/g"
        graph.load(f"{place}/in/*.jsonl")
        graph.load_nodes("Person", f"{place}/people.parquet")
        graph.load(
            [{"edge": "Knows", "from": "ada", "to": "bo"}], branch="side", from_branch="main"
        )
        graph.branches.merge("side")
        graph.load(
            [
                {
                    "type": "Person",
                    "data": {"name": "eve", "photo": {"$file": f"{place}/photo.png"}},
                },
                {"type": "Person", "data": {"name": "far", "photo": f"{place}/far.png"}},
            ]
        )
        assert graph.blobs.read("node", "Person", "eve", "photo") == b"pixels" * 100
        assert (
            graph.blobs.stat("node", "Person", "far", "photo").uri == f"s3://{BUCKET}/{at}/far.png"
        )
        assert SECRET not in repr(graph)

        # Bad records and exports go to S3 as well.
        rejects = f"{place}/bad.jsonl"
        obstore.put(bucket, f"{at}/bad.jsonl", b"of an earlier load")
        bad = [{"type": "Person", "data": {"name": "old", "age": 200}}]
        result = graph.load(bad, on_bad="skip", rejects=rejects)
        assert result.skipped == 1
        assert json.loads(text_of(bucket, f"{at}/bad.jsonl"))["record"] == bad[0]
        graph.load([{"type": "Person", "data": {"name": "new"}}], rejects=rejects)
        assert text_of(bucket, f"{at}/bad.jsonl") == ""
        with pytest.raises(BadRequest, match="inside the graph"):
            graph.load(bad, rejects=f"{place}/g/bad.jsonl")
        with pytest.raises(BadRequest, match="which this load reads"):
            graph.load(f"s3://{BUCKET}/{at}/in/a.jsonl", rejects=f"{place}/in/a.jsonl")
        local = tmp_path / "all.jsonl"
        assert (
            graph.export(f"{place}/all.jsonl").graph_commit_id
            == graph.export(local).graph_commit_id
        )
        assert text_of(bucket, f"{at}/all.jsonl") == local.read_text()

    # Another handle, on a disk, has a way of its own to the same objects.
    with og.init(tmp_path / "copy", SCHEMA, storage_options=given) as copy:
        copy.load(f"{place}/in")
        assert copy.query("query q() { match { $p: Person } return { $p.name } }").row_count == 2
    with og.open(f"{place}/g", mode="r", storage_options=given) as graph:
        assert state_of(graph).workspace.root.canonical == f"s3://{BUCKET}/{at}/g"

    assert signed == {KEY}
    assert SECRET not in caplog.text
    for listed in obstore.list(bucket, at):
        for meta in listed:
            assert SECRET.encode() not in bytes(obstore.get(bucket, meta["path"]).bytes())


def test_without_them_the_environment_counts_again(given):
    at = f"s3://{BUCKET}/{uuid4().hex}"
    og.init(at, "node A { name: String @key }", storage_options=given).close()
    with pytest.raises(OmniGraphError) as caught:
        og.open(
            at, storage_options={"endpoint": "https://127.0.0.1:9", "secret_access_key": SECRET}
        )
    assert SECRET not in str(caught.value)
    wrong = {**given, "endpoint": "https://127.0.0.1:9"}
    with pytest.raises(OmniGraphError) as caught:
        og.open(at, storage_options=wrong)
    shown = f"{caught.value!r} {caught.value} {caught.value.details} {caught.value.__cause__!r}"
    assert SECRET not in shown
    assert KEY not in shown


def test_an_export_that_fails_leaves_what_was_there(s3, given, bucket, monkeypatch):
    from omnigraph.storage.objects import output_files

    monkeypatch.setattr(output_files, "PART_BYTES", 5 << 20)
    at = uuid4().hex
    store = f"s3://{BUCKET}/{at}"
    obstore.put(bucket, f"{at}/all.jsonl", b"older")
    file = output_files.ObjectFile(f"{store}/all.jsonl", S3Options.parse(given))
    for _ in range(3):
        file.write(b"x" * (5 << 20))
    assert pending_uploads(s3) == 1
    file.end(complete=False)
    assert pending_uploads(s3) == 0
    assert text_of(bucket, f"{at}/all.jsonl") == "older"
    with output_files.ObjectFile(f"{store}/all.jsonl", S3Options.parse(given)) as file:
        for _ in range(3):
            file.write(b"y" * (5 << 20))
        assert text_of(bucket, f"{at}/all.jsonl") == "older"
    assert obstore.head(bucket, f"{at}/all.jsonl")["size"] == 3 * (5 << 20)
    for wrong in (f"s3://{BUCKET}", f"{store}/"):
        with pytest.raises(BadRequest, match="names no object"):
            output_files.ObjectFile(wrong)


def test_what_goes_to_executors_has_the_way_to_s3_in_it(given, monkeypatch):
    """The address of a table and the rules about blobs, where the environment leads nowhere."""
    at = f"s3://{BUCKET}/{uuid4().hex}"
    with og.init(at, SCHEMA, storage_options=given, external_blobs=[at]) as graph:
        state = state_of(graph)
        ref, policy = state.workspace.ref("nodes/1"), state.blob_policy
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    sent = pickle.loads(pickle.dumps((ref, policy)))
    assert sent[0].storage_options["aws_secret_access_key"] == SECRET
    assert sent[1].options.endpoint == given["endpoint"]
    assert SECRET not in repr(sent)
