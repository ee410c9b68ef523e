"""`omnigraph blob`: bytes in and out, its documents, and its exit codes."""

import json
import subprocess
import sys

import pytest

import omnigraph as og
from tests.cli.running import environment

SCHEMA = "node Plate { tag: String @key  scan: Blob?  caption: String? }"
FAR = "s3://far/p.png"


@pytest.fixture
def store(place):
    with og.init(place / "p.omni", SCHEMA, external_blobs=["s3://far/"]) as graph:
        graph.load(
            [
                {"type": "Plate", "data": {"tag": tag, "scan": scan}}
                for tag, scan in (("p", b"0123456789"), ("e", b""), ("n", None), ("far", FAR))
            ]
        )
    return ("--store", "p.omni")


def test_get(omnigraph, store, place):
    out = place / "out.bin"
    assert omnigraph("blob", "get", "node", "Plate", "p", "scan", *store).stdout == "0123456789"
    part = ("--offset", "8", "--length", "5", "--out", "out.bin")
    assert omnigraph("blob", "get", "node", "Plate", "p", "scan", *part, *store).exit == 0
    assert out.read_bytes() == b"89"
    for wrong in (("--length", "0"), ("--offset", "10"), ("--offset", "-1"), ("--json",)):
        done = omnigraph(
            "blob", "get", "node", "Plate", "p", "scan", "--out", "out.bin", *wrong, *store
        )
        assert done.exit == 1
    for tag in ("n", "nobody", "far"):
        done = omnigraph("blob", "get", "node", "Plate", tag, "scan", "--out", "out.bin", *store)
        assert done.exit == 1
    assert FAR in done.stderr
    assert out.read_bytes() == b"89", "untouched until the first byte"
    assert (
        omnigraph("blob", "get", "node", "Plate", "e", "scan", "--out", "out.bin", *store).exit == 0
    )
    assert out.read_bytes() == b""
    out.chmod(0o600)
    link = place / "link.bin"
    link.symlink_to(out)
    done = omnigraph("blob", "get", "node", "Plate", "p", "scan", "--out", "link.bin", *store)
    assert (done.exit, link.is_symlink(), out.read_bytes()) == (0, True, b"0123456789")
    assert out.stat().st_mode & 0o777 == 0o600
    assert omnigraph("blob", "get", "nod", "Plate", "p", "scan", *store).exit == 2


def test_a_file_that_takes_no_bytes_is_told(omnigraph, store):
    done = omnigraph("blob", "get", "node", "Plate", "p", "scan", "--out", "/dev/full", *store)
    assert (done.exit, "internal" in done.stderr) == (1, False)
    assert 'cannot write "/dev/full"' in done.stderr


def test_put_without_stdin(store, place):
    put = ("blob", "put", "node", "Plate", "p", "scan", "--data", "-", *store)
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" <&-', "sh", sys.executable, "-m", "omnigraph", *put],
        cwd=place, env=environment(place / "home"), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, "stdin is closed" in done.stderr) == (1, True), done.stderr


def test_stat(omnigraph, store, place):
    with og.open(place / "p.omni", mode="r") as graph:
        head = graph.commits.list()[0].graph_commit_id
        etag = graph.blobs.stat("node", "Plate", "p", "scan").etag
    target = {"branch": "main", "resolved_snapshot": head}
    expected = {
        "p": {"kind": "managed", "size": 10, "etag": etag, "target": target},
        "far": {"kind": "external", "uri": FAR, "target": target},
    }
    for tag, document in expected.items():
        done = omnigraph("blob", "stat", "node", "Plate", tag, "scan", "--json", *store)
        selector = {"kind": "node", "type": "Plate", "id": tag, "property": "scan"}
        assert json.loads(done.stdout) == {"selector": selector, **document}
    done = omnigraph("blob", "stat", "node", "Plate", "n", "scan", "--json", *store)
    assert (done.exit, json.loads(done.stdout)["kind"]) == (1, "entity_not_found")


def test_put(omnigraph, store, place):
    (place / "new.bin").write_bytes(b"new bytes")
    where = ("node", "Plate", "p", "scan")
    done = omnigraph("blob", "put", *where, "--data", "new.bin", "--json", "--as", "ada", *store)
    assert done.exit == 0, done.stderr
    with og.open(place / "p.omni") as graph:
        assert graph.blobs.read(*where) == b"new bytes"
        head, etag = graph.commits.list()[0].to_json(), graph.blobs.stat(*where).etag
    assert json.loads(done.stdout) == {
        "selector": {"kind": "node", "type": "Plate", "id": "p", "property": "scan"},
        "branch": "main", "size": 9, "etag": etag, "actor_id": "ada", "commit": head,
    }  # fmt: skip
    done = omnigraph(
        "blob", "put", *where, "--data", "-", "--if-match", etag, *store, stdin="piped"
    )
    assert done.stdout.startswith("wrote 5 bytes to scan of Plate p; commit ")
    done = omnigraph("blob", "put", *where, "--clear", "--if-match", etag, "--json", *store)
    assert (done.exit, json.loads(done.stdout)["kind"]) == (1, "blob_changed")
    done = omnigraph("blob", "put", *where, "--clear", "--json", *store)
    document = json.loads(done.stdout)
    assert (document["size"], document["etag"]) == (None, None)
    assert omnigraph("blob", "put", *where, *store).exit == 2
    assert omnigraph("blob", "put", *where, "--data", "x", "--clear", *store).exit == 2
    done = omnigraph("blob", "put", *where, "--data", "missing.bin", *store)
    assert (done.exit, "missing.bin" in done.stderr) == (1, True)


def test_a_load_takes_in_what_lies_beside_its_file(omnigraph, store, place):
    folder = place / "in"
    folder.mkdir()
    (folder / "own").write_bytes(b"own")
    (place / "secret").write_bytes(b"not yours")
    lines = folder / "rows.jsonl"

    def load(name, *, data="in/rows.jsonl", **how):
        record = {"type": "Plate", "data": {"tag": "new", "scan": {"$file": name}}}
        lines.write_text(json.dumps(record) + "\n")
        return omnigraph("load", "--data", data, "--mode", "merge", *store, **how)

    assert load("own").exit == 0
    assert omnigraph("blob", "get", "node", "Plate", "new", "scan", *store).stdout == "own"
    for name in ("../secret", str(place / "secret"), (place / "secret").as_uri()):
        done = load(name)
        assert done.exit == 1
        assert "outside the directory" in done.stderr
