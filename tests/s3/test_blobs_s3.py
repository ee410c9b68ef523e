"""Blobs of a graph in S3: in from files and objects, along with updates and branches, and out."""

import os

import obstore
import pytest

import omnigraph as og
from omnigraph.errors import InputError
from omnigraph.storage.objects.stores import open_bucket
from omnigraph.storage.uris import Root
from tests.s3_server import BUCKET

SCHEMA = "node Plate { tag: String @key  scan: Blob?  caption: String? }"
LARGE = os.urandom(5_000_000)
OBJECTS = f"s3://{BUCKET}/objects/"


@pytest.fixture
def large(s3):
    """An object with a name that has to be encoded, and a file."""
    obstore.put(open_bucket(Root("s3", BUCKET, "")), "objects/a scan ü%20.tif", LARGE)
    return f"{OBJECTS}a scan ü%20.tif"


def plate(tag, **data):
    return {"type": "Plate", "data": {"tag": tag, **data}}


def test_a_graph_in_s3(s3_root, large, tmp_path):
    path = tmp_path / "scan.tif"
    path.write_bytes(LARGE[::-1])
    options = {"external_blobs": [OBJECTS], "local_files": tmp_path}
    with og.init(s3_root.canonical, SCHEMA, **options) as graph:
        far = f"{OBJECTS}other.tif"
        graph.load(
            [
                plate("s3", scan={"$file": large}),
                plate("file", scan={"$file": str(path)}),
                plate("far", scan=far),
            ]
        )
        graph.branches.create("side")
        update = 'query q() { update Plate set { caption: "b" } where tag != "" }'
        graph.mutate(update, branch="side")
        graph.mutate(update, branch="side")
        graph.blobs.write("node", "Plate", "file", "scan", path)
        for branch in ("main", "side"):
            assert graph.blobs.read("node", "Plate", "s3", "scan", branch=branch) == LARGE
            assert graph.blobs.read("node", "Plate", "file", "scan", branch=branch) == LARGE[::-1]
            assert graph.blobs.stat("node", "Plate", "far", "scan", branch=branch).uri == far
        assert graph.blobs.read("node", "Plate", "s3", "scan", offset=7, length=9) == LARGE[7:16]


def test_a_graph_on_disk_takes_objects_in(tmp_path, large):
    with og.init(tmp_path / "graph", SCHEMA, external_blobs=[OBJECTS]) as graph:
        graph.load([plate("p", scan={"$file": large})])
        assert graph.blobs.read("node", "Plate", "p", "scan") == LARGE
        with pytest.raises(InputError, match="missing"):
            graph.load([plate("q", scan={"$file": f"{OBJECTS}missing.tif"})])
    with og.open(tmp_path / "graph") as graph, pytest.raises(InputError, match="no external place"):
        graph.load([plate("q", scan={"$file": large})])
