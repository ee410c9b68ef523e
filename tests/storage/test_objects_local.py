import os
import stat
import subprocess
import sys
import textwrap
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from omnigraph.errors import BadRequest
from omnigraph.storage.objects.local_objects import LocalObjectStore
from omnigraph.storage.objects.store_errors import AlreadyExists, InvalidText, ObjectNotFound
from omnigraph.storage.objects.stores import open_store
from omnigraph.storage.uris import Root
from tests.storage.objects_contract import ODD_NAMES, ObjectsContract, SharedContract


@pytest.fixture(params=["graph", "a graph é#%20"])
def directory(request, tmp_path):
    return tmp_path / request.param


@pytest.fixture
def store(directory):
    return open_store(Root.parse(directory))


class TestContract(ObjectsContract, SharedContract):
    nests_objects = False
    many = 120

    @pytest.fixture
    def place(self, directory):
        return str(directory)

    @pytest.fixture
    def environment(self):
        return {}


def test_nothing_is_made_before_the_first_write(store, directory):
    assert store.list() == []
    assert not store.exists("x")
    store.delete("x")
    store.delete_prefix("x")
    with pytest.raises(ObjectNotFound):
        store.read_text("x")
    assert not directory.exists()


@pytest.mark.parametrize("name", ODD_NAMES)
def test_other_programs_find_the_file_under_its_very_name(store, directory, name):
    store.write_text(name, "línea\r\n")
    assert (directory / name).read_bytes() == "línea\r\n".encode()
    (directory / name).write_bytes(b"theirs")
    assert store.read_text(name) == "theirs"


def test_an_empty_directory_does_not_exist(store, directory):
    (directory / "empty" / "nested").mkdir(parents=True)
    assert not store.exists("empty")
    assert not store.exists("empty/nested")
    assert store.list() == []
    with pytest.raises(ObjectNotFound):
        store.read_text("empty")


def test_an_empty_directory_is_not_in_the_way_of_an_object(store, directory):
    for name in ["claimed", "written", "renamed"]:
        (directory / name / "nested").mkdir(parents=True)
    store.write_text_if_absent("claimed", "1")
    store.write_text("written", "2")
    store.write_text("source", "3")
    store.rename("source", "renamed")
    assert [store.read_text(name) for name in store.list()] == ["1", "3", "2"]


def test_a_directory_with_objects_is_in_the_way(store):
    store.write_text("dir/object", "x")
    for write in (store.write_text, store.write_text_if_absent):
        with pytest.raises(AlreadyExists):
            write("dir", "y")
        with pytest.raises(AlreadyExists):
            write("dir/object/below", "y")
    assert store.list() == ["dir/object"]


def test_delete_prefix_leaves_no_empty_skeleton(store, directory):
    store.write_text("a/b/c/object", "x")
    (directory / "a/b/empty/nested").mkdir(parents=True)
    store.delete_prefix("a/b/c")
    assert not (directory / "a/b/c").exists()
    assert (directory / "a/b/empty").exists()
    store.delete_prefix("a/b")
    assert not (directory / "a").exists()
    assert directory.exists()


def test_residue_of_a_dead_writer_shows_nowhere_and_goes_with_its_prefix(store, directory):
    store.write_text("dir/object", "x")
    residue = {
        child.name
        for child in directory.rglob("*")
        if child.is_file() and child.parent.name != "__locks"
    }
    assert residue == {"object"}
    (directory / "dir/.omnigraph-0123").write_text("half a te")
    (directory / "dir/object#1").write_text("half a te")
    (directory / ".omnigraph-trash-0123/sub").mkdir(parents=True)
    (directory / ".omnigraph-trash-0123/sub/object").write_text("deleted")
    assert store.list() == ["dir/object"]
    store.delete("dir/object")
    assert not store.exists("dir")
    store.delete_prefix("dir")
    assert [child.name for child in directory.iterdir()] == ["__locks"]


def test_bytes_that_are_no_text_are_reported_as_such(store, directory):
    directory.mkdir()
    (directory / "object").write_bytes(b"ok \xff\xfe")
    with pytest.raises(InvalidText, match="byte 3"):
        store.read_text("object")


def test_a_name_too_long_for_the_disk(store):
    with pytest.raises(BadRequest, match="too long"):
        store.write_text("n" * 300, "x")


def test_an_unlocked_change_of_the_file_is_seen_by_compare_and_set(store, directory):
    token = store.write_text("object", "same size")
    (directory / "object").write_text("SAME SIZE")
    assert store.read_versioned("object").version != token


def test_a_write_is_on_disk_before_it_is_visible_and_before_it_returns(
    store, directory, monkeypatch
):
    """Every file and directory the write makes is synced, the file before its name is taken."""
    events = []
    real_fsync = os.fsync

    def fsync(descriptor):
        status = os.fstat(descriptor)
        target = Path(f"/proc/self/fd/{descriptor}").readlink()
        visible = (directory / "new/dir/object").exists()
        events.append((stat.S_ISDIR(status.st_mode), os.path.relpath(target, directory), visible))
        real_fsync(descriptor)

    directory.mkdir()
    monkeypatch.setattr(os, "fsync", fsync)
    store.write_text_if_absent("new/dir/object", "text")
    directories = [(path, visible) for is_dir, path, visible in events if is_dir]
    files = [(path, visible) for is_dir, path, visible in events if not is_dir]
    assert directories[:2] == [(".", False), ("new", False)]
    assert directories[-1] == ("new/dir", True)
    assert [visible for _, visible in files] == [False]


def test_only_what_is_discarded_may_come_back_after_a_loss_of_power(store, directory, monkeypatch):
    synced = []
    for name in ("one", "two"):
        store.write_text(f"dir/{name}", "x")
    real_fsync = os.fsync

    def fsync(descriptor):
        synced.append(os.path.relpath(Path(f"/proc/self/fd/{descriptor}").readlink(), directory))
        real_fsync(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    store.discard("dir/one")
    assert synced == []
    store.delete("dir/two")
    assert synced == ["dir"]


@pytest.fixture
def open_to_all():
    """A directory where everybody may go: pytest closes its own to others at any start."""
    with TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        yield Path(place)


@pytest.mark.skipif(os.getuid() != 0, reason="drops root's rights to meet permissions")
def test_permission_failures_are_errors_and_not_absence(open_to_all):
    root = open_to_all / "graph"
    LocalObjectStore(str(root)).write_text("shut/object", "x")
    LocalObjectStore(str(root)).write_text("open/secret", "x")
    (root / "shut").chmod(0o700)
    (root / "open").chmod(0o755)
    (root / "open/secret").chmod(0o600)
    script = """
        import os, sys
        from omnigraph.storage.objects.store_errors import PermissionDenied
        from omnigraph.storage.objects.stores import open_store
        from omnigraph.storage.uris import Root
        store = open_store(Root.parse(sys.argv[1]))
        os.setgid(65534); os.setuid(65534)
        calls = [
            lambda: store.exists("shut/object"),
            lambda: store.exists("shut/missing"),
            lambda: store.exists("shut"),
            lambda: store.read_text("open/secret"),
            lambda: store.list("shut"),
            lambda: store.list(),
            lambda: store.write_text("open/new", "x"),
            lambda: store.write_text_if_absent("open/new", "x"),
            lambda: store.rename("open/secret", "open/moved"),
            lambda: store.delete("open/secret"),
            lambda: store.delete_prefix("shut"),
        ]
        for number, call in enumerate(calls):
            try:
                print(number, call())
            except PermissionDenied as error:
                print(number, "denied")
    """
    answer = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), str(root)],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(Path(__file__).parents[2] / "src")},
    )
    assert answer.stdout.split("\n")[:-1] == [f"{number} denied" for number in range(11)]
