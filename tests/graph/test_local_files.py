"""Which files of this machine a record may take in: below the directory its owner named, links followed."""

import json
import os
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.errors import BadRequest, ConstraintError, InputError
from omnigraph.policy import Decision
from omnigraph.storage.local_files import open_real
from omnigraph.storage.tables.blobs import writing

SCHEMA = "node Plate { tag: String @key  scan: Blob?  back: Blob? }"
SECRET = b"a secret of another folder"


class Everything:
    """A policy that allows everything."""

    def check(self, _question):
        return Decision(allowed=True)


@pytest.fixture
def place(tmp_path):
    """A directory `in`, a secret beside it, and links from the one to the other."""
    inside = tmp_path / "in"
    (inside / "deep").mkdir(parents=True)
    (inside / "own").write_bytes(b"own")
    (inside / "deep" / "own").write_bytes(b"deep")
    (inside / "a b%").write_bytes(b"odd")
    (tmp_path / "secret").write_bytes(SECRET)
    (tmp_path / "in-other").mkdir()
    (tmp_path / "in-other" / "own").write_bytes(SECRET)
    (inside / "out").symlink_to(tmp_path / "secret")
    (inside / "far").symlink_to(tmp_path)
    (inside / "near").symlink_to("deep/own")
    (inside / "loop").symlink_to("loop")
    (tmp_path / "alias").symlink_to(inside)
    return tmp_path


@pytest.fixture
def uri(tmp_path):
    og.init(tmp_path / "graph", SCHEMA).close()
    return tmp_path / "graph"


def record(path, tag="p", prop="scan"):
    return {"type": "Plate", "data": {"tag": tag, prop: {"$file": str(path)}}}


def scan(graph, tag="p", prop="scan"):
    return graph.blobs.read("node", "Plate", tag, prop)


def refused(graph, path):
    """The message that a record with this file is refused with; nothing was changed."""
    head = graph.snapshot().graph_commit_id
    with pytest.raises(InputError) as caught:
        graph.load([record(path)])
    assert graph.snapshot().graph_commit_id == head
    return str(caught.value)


def ways_out(place):
    """Paths that lead out of `in`, and what is no file there."""
    secret = place / "secret"
    return [
        "/etc/passwd",
        secret,
        "../secret",
        "deep/../../secret",
        "out",
        "far/secret",
        "far/in-other/own",
        "../in-other/own",
        place / "in" / ".." / "secret",
        place / "missing",
        "/dev/zero",
        "/proc/self/environ",
        secret.as_uri(),
        "file:///etc/passwd",
        f"FILE://localhost{secret}",
        f"file://{place}/in/%2e%2e/secret",
        f"file://{place}/in/..%2Fsecret",
        f"file://{place}/in/out",
        ".",
        "..",
        "/",
    ]


class TestOneDirectory:
    def test_files_below_it_are_taken_in(self, uri, place):
        within = place / "in"
        given = {
            "own": b"own",
            "deep/own": b"deep",
            "near": b"deep",  # a link that stays inside
            "far/in/own": b"own",  # out and in again
            "deep/../own": b"own",
            str(within / "own"): b"own",
            str(place / "alias" / "own"): b"own",
            (within / "a b%").as_uri(): b"odd",
            f"file://localhost{within}/own": b"own",
        }
        for folder in (within, str(within), place / "alias", within / "deep" / ".."):
            with og.open(uri, local_files=folder) as graph:
                graph.load([record(path, str(n)) for n, path in enumerate(given)])
                for n, expected in enumerate(given.values()):
                    assert scan(graph, str(n)) == expected

    def test_nothing_else_is(self, uri, place):
        with og.open(uri, local_files=place / "in") as graph:
            for path in ways_out(place):
                message = refused(graph, path)
                assert "local_files" in message or "no regular file" in message, path

    def test_whether_a_file_is_there_is_not_told(self, uri, place):
        with og.open(uri, local_files=place / "in") as graph:
            there, missing = (
                refused(graph, place / name).replace(name, "") for name in ("secret", "missing")
            )
        assert there == missing

    @pytest.mark.parametrize("name", ["loop", "missing", "deep", "pipe", "deep/own/x"])
    def test_what_is_no_file_says_so(self, uri, place, name):
        os.mkfifo(place / "in" / "pipe")
        with og.open(uri, local_files=place / "in") as graph:
            assert "cannot be read" in refused(graph, name)

    def test_a_relative_directory_is_that_of_the_moment_it_was_given(self, uri, place, monkeypatch):
        monkeypatch.chdir(place)
        with og.open(uri, local_files="in") as graph:
            monkeypatch.chdir("/")
            graph.load([record("own")])
            assert scan(graph) == b"own"

    @pytest.mark.parametrize("given", ["", 7, b"", ["x"], "no/such/folder", __file__])
    def test_what_is_no_directory_is_refused(self, uri, tmp_path, given):
        with pytest.raises(BadRequest, match="local_files"):
            og.open(uri, local_files=given)
        with pytest.raises(BadRequest, match="local_files"):
            og.init(tmp_path / "new", SCHEMA, local_files=given)
        assert not (tmp_path / "new").exists()

    def test_a_file_on_another_host_is_not_here(self, uri, place):
        with og.open(uri, local_files=True) as graph:
            assert "another host" in refused(graph, f"file://elsewhere{place}/in/own")


class TestDefaults:
    def test_records_of_a_program_take_in_nothing(self, uri, place, monkeypatch):
        monkeypatch.chdir(place / "in")
        line = json.dumps(record("own")).encode()
        for options in ({}, {"external_blobs": []}, {"local_files": False}):
            with og.open(uri, **options) as graph:
                for path in [*ways_out(place), "own", place / "in" / "own"]:
                    assert "local_files=DIR" in refused(graph, path)
                with pytest.raises(InputError, match="local_files=DIR"):
                    graph.load(line)
                with pytest.raises(InputError, match="local_files=DIR"):
                    graph.load(iter([record("own")]))

    def test_those_of_a_file_take_in_what_lies_below_its_directory(self, uri, place, monkeypatch):
        monkeypatch.chdir("/")
        for folder, name in ((place / "in", "own"), (place / "in" / "deep", "own")):
            (folder / "rows.jsonl").write_text(json.dumps(record(name, folder.name)))
        with og.open(uri) as graph:
            graph.load([place / "in" / "rows.jsonl", place / "in" / "deep" / "rows.jsonl"])
            assert (scan(graph, "in"), scan(graph, "deep")) == (b"own", b"deep")
            graph.load(f"{place}/in/*.jsonl")
            graph.load(place / "alias")  # a directory that is a link
            head = graph.snapshot().graph_commit_id
            for path in ways_out(place):
                (place / "in" / "rows.jsonl").write_text(json.dumps(record(path)))
                with pytest.raises(InputError, match=r"local_files|regular"):
                    graph.load(place / "in" / "rows.jsonl")
            # Each file has its own directory.
            (place / "in" / "deep" / "rows.jsonl").write_text(json.dumps(record("../own")))
            with pytest.raises(InputError, match="local_files"):
                graph.load([place / "in" / "deep" / "rows.jsonl"])
            assert graph.snapshot().graph_commit_id == head

    def test_false_takes_in_nothing_beside_a_file_either(self, uri, place):
        (place / "in" / "rows.jsonl").write_text(json.dumps(record("own")))
        with (
            og.open(uri, local_files=False) as graph,
            pytest.raises(InputError, match="local_files"),
        ):
            graph.load(place / "in" / "rows.jsonl")

    def test_false_takes_in_nothing_below_a_base_either(self, uri, place):
        base = (place / "in").as_uri()
        with og.open(uri, external_blobs=[base], local_files=False) as graph:
            for path in (f"{base}/own", place / "in" / "own", "own", "in/own"):
                assert "local_files" in refused(graph, path)
            # An address is stored, and nothing is read.
            graph.load([{"type": "Plate", "data": {"tag": "p", "scan": f"{base}/own"}}])
            assert graph.blobs.stat("node", "Plate", "p", "scan").kind == "external"

    def test_true_takes_in_everything(self, uri, place, monkeypatch):
        monkeypatch.chdir(place)
        (place / "in" / "rows.jsonl").write_text(json.dumps(record("../secret", "file")))
        with og.open(uri, local_files=True) as graph:
            graph.load([record("secret"), record(place / "in" / "out", "q")])
            graph.load(place / "in" / "rows.jsonl")
            assert scan(graph) == scan(graph, "q") == scan(graph, "file") == SECRET

    def test_behind_a_policy_only_a_directory_that_was_named(self, uri, place):
        lines = place / "in" / "rows.jsonl"
        lines.write_text(json.dumps(record("own")))
        with og.open(uri, policy=Everything(), actor="ann") as graph:
            for who in (graph, graph.session("ben")):
                for source in (lines, [record("own")], [record(place / "in" / "own")]):
                    with pytest.raises(InputError, match="local_files=DIR"):
                        who.load(source)
        with og.open(uri, policy=Everything(), actor="ann", local_files=place / "in") as graph:
            session = graph.session("ben")
            session.load([record("own")])
            assert scan(session) == b"own"
            with pytest.raises(InputError, match="local_files"):
                session.load([record("../secret")])

    def test_a_caller_writes_any_file_by_its_own_hand(self, uri, place):
        with og.open(uri, policy=Everything(), actor="ann", local_files=False) as graph:
            graph.load([{"type": "Plate", "data": {"tag": "p"}}])
            graph.blobs.write("node", "Plate", "p", "scan", place / "secret")
            assert scan(graph) == SECRET


class TestAddresses:
    def test_a_base_is_a_place_of_files_too(self, uri, place):
        base = (place / "in").as_uri()
        with og.open(uri, external_blobs=[base]) as graph:
            graph.load([record(f"{base}/own")])
            assert scan(graph) == b"own"
            for path in ways_out(place):
                assert "local_files" in refused(graph, path)
            # A path is no address: it lies below no base.
            assert "local_files" in refused(graph, place / "in" / "own")

    def test_an_address_does_not_leave_its_base_over_a_link(self, uri, place):
        base = (place / "in").as_uri()
        with og.open(uri, external_blobs=[base]) as graph:
            graph.load([{"type": "Plate", "data": {"tag": "p", "scan": f"{base}/own"}}])
            assert graph.blobs.stat("node", "Plate", "p", "scan").uri == f"{base}/own"
            for name in ("out", "far/secret", "../secret", "%2e%2e/secret"):
                with pytest.raises(ConstraintError, match="external blob"):
                    graph.load([{"type": "Plate", "data": {"tag": "q", "scan": f"{base}/{name}"}}])
        with (
            og.open(uri, local_files=place / "in") as graph,
            pytest.raises(ConstraintError, match="no external place"),
        ):
            graph.load([{"type": "Plate", "data": {"tag": "q", "scan": f"{base}/own"}}])


class TestBetweenCheckAndRead:
    """What is swapped after a record was judged, and before its row is written."""

    @pytest.fixture
    def swap(self, monkeypatch):
        """Run a function when the first file is about to be opened for Lance."""

        def install(change):
            real, todo = open_real, [change]

            def opening(path):
                while todo:
                    todo.pop()()
                return real(path)

            monkeypatch.setattr(writing, "open_real", opening)

        return install

    @staticmethod
    def _replace(path, target):
        if path.is_dir():
            path.rename(path.with_name("moved"))
        else:
            path.unlink()
        path.symlink_to(target)

    @pytest.mark.parametrize("name", ["own", "deep/own"])
    def test_a_link_put_there_is_not_followed(self, uri, place, swap, name):
        (place / "in" / "own").write_bytes(SECRET[::-1])
        swapped = place / "in" / Path(name).parts[0]
        (place / "in-other" / "own").write_bytes(SECRET)
        swap(lambda: self._replace(swapped, place / ("secret" if name == "own" else "in-other")))
        with og.open(uri, local_files=place / "in") as graph:
            assert "replaced while it was taken in" in refused(graph, name)
            assert graph.query("query q() { match { $p: Plate } return { $p.tag } }").rows == []

    def test_a_file_that_became_shorter_or_vanished_is_noticed(self, uri, place, swap):
        with og.open(uri, local_files=place / "in") as graph:
            swap(lambda: (place / "in" / "own").write_bytes(b"o"))
            assert "changed" in refused(graph, "own")
            swap((place / "in" / "deep" / "own").unlink)
            assert "changed" in refused(graph, "deep/own")


@pytest.mark.parametrize("linked", [True, False])
def test_many_files_of_all_sizes(uri, place, monkeypatch, linked):
    """More than are open at once, in two columns; also where a system has no names for open files."""
    if not linked:
        monkeypatch.setattr(writing, "_DESCRIPTORS", place / "no such folder")
    sizes = [1, 100, 70_000, 1_100_000, 5_000_000]
    count = 400
    for n in range(count):
        size = sizes[n % 5] if n < 50 else 1 + n
        (place / "in" / f"f{n}").write_bytes(n.to_bytes(2, "big") * (size // 2 + 1))
    with og.open(uri, local_files=place / "in") as graph:
        graph.load(
            [
                {
                    "type": "Plate",
                    "data": {
                        "tag": str(n),
                        "scan": {"$file": f"f{n}"},
                        "back": {"$file": f"f{count - n - 1}"} if n % 3 else None,
                    },
                }
                for n in range(count)
            ]
        )
        for n in range(0, count, 7):
            assert scan(graph, str(n)) == (place / "in" / f"f{n}").read_bytes()
            if n % 3:
                back = scan(graph, str(n), "back")
                assert back == (place / "in" / f"f{count - n - 1}").read_bytes()
    assert not [name for name in os.listdir("/proc/self/fd") if _is_ours(name, place)]


def _is_ours(name, place):
    try:
        return os.readlink(f"/proc/self/fd/{name}").startswith(str(place / "in" / "f"))
    except OSError:
        return False
