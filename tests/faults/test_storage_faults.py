"""Stores that fail: each row of the table of storage faults, unreadable sidecars, full disks."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from omnigraph import failpoints
from omnigraph.commit.audit import read_audit
from omnigraph.commit.heal import heal
from omnigraph.errors import CorruptSidecar, OmniGraphError, RecoveryRequired, StorageError
from omnigraph.graph import open as open_graph
from tests.commit.synthetic import (
    ALL,
    MEMBER_OF,
    PERSON,
    TEAM,
    contents,
    drifted,
    dying_at,
    write,
)
from tests.faults.small_disks import fill, small_disk
from tests.graphs import graph_of
from tests.manifest.publishing import SCHEMA, new_graph
from tests.opened import workspace_of
from tests.storage.processes import run_processes

EMPTY = {PERSON: [], TEAM: [], MEMBER_OF: []}


graph = graph_of(SCHEMA)


# ------------------------------------------------------------------ the table of faults


def test_a_sidecar_that_cannot_be_written_aborts_before_anything_moves(graph):
    with failpoints.arm("recovery.sidecar_write"), pytest.raises(StorageError, match="failpoint"):
        write(workspace_of(graph), {key: ["a"] for key in ALL})
    assert workspace_of(graph).store.list("__recovery") == []
    assert drifted(graph) == []
    write(workspace_of(graph), {key: ["b"] for key in ALL})
    assert contents(graph) == {key: ["b"] for key in ALL}
    assert read_audit(workspace_of(graph)) == []


@pytest.mark.parametrize("next_one", ["write", "open"])
def test_a_sidecar_that_cannot_be_deleted_is_a_warning(graph, next_one, caplog):
    with failpoints.arm("recovery.sidecar_delete", times=1), caplog.at_level("WARNING"):
        made = write(workspace_of(graph), {PERSON: ["a"]}, actor="ada")
    assert "the commit is durable" in caplog.text
    assert contents(graph)[PERSON] == ["a"]
    if next_one == "write":
        write(workspace_of(graph), {TEAM: ["t"]})
    else:
        open_graph(graph.uri).close()
    assert workspace_of(graph).store.list("__recovery") == []
    (audit,) = read_audit(workspace_of(graph))
    assert audit.recovery_kind == "RolledForward"
    assert audit.graph_commit_id == made.graph_commit_id
    assert graph.commits.show(made.graph_commit_id).actor_id == "ada"


def test_a_listing_that_fails_fails_the_write_and_the_open(graph):
    with failpoints.arm("recovery.sidecar_list"):
        with pytest.raises(StorageError, match="failpoint"):
            write(workspace_of(graph), {PERSON: ["a"]})
        with pytest.raises(StorageError, match="failpoint"):
            open_graph(graph.uri)
        with pytest.raises(StorageError, match="failpoint"):
            graph.refresh()
        open_graph(graph.uri, mode="r").close()
    assert contents(graph) == EMPTY


@pytest.mark.parametrize("again", [1, 3])
@pytest.mark.parametrize("next_one", ["write", "open"])
def test_an_audit_row_that_cannot_be_appended_keeps_the_sidecar(graph, again, next_one):
    with dying_at("load.after_phase_b_before_phase_c"):
        write(workspace_of(graph), {PERSON: ["a"]})
    pending = workspace_of(graph).store.list("__recovery")
    with failpoints.arm("recovery.record_audit"):
        for _ in range(again):
            with pytest.raises(StorageError, match="failpoint"):
                write(workspace_of(graph), {TEAM: ["t"]})
            assert workspace_of(graph).store.list("__recovery") == pending
    if next_one == "write":
        write(workspace_of(graph), {TEAM: ["t"]})
    else:
        open_graph(graph.uri).close()
    assert len(read_audit(workspace_of(graph))) == 1
    assert contents(graph)[PERSON] == ["a"]
    assert workspace_of(graph).store.list("__recovery") == []


@pytest.mark.parametrize("committed", [1, 2])
def test_a_table_commit_that_fails_after_others_succeeded(graph, committed):
    with (
        failpoints.arm("load.before_table_commit", skip=committed),
        pytest.raises(RecoveryRequired) as caught,
    ):
        write(workspace_of(graph), {key: ["a"] for key in ALL})
    assert list(workspace_of(graph).store.list("__recovery")) == [
        f"__recovery/{caught.value.details['operation_id']}.json"
    ]
    with open_graph(graph.uri) as reopened:
        assert contents(reopened) == EMPTY
        assert drifted(reopened) == []
        write(workspace_of(reopened), {key: ["b"] for key in ALL})


def test_a_publish_that_fails_after_all_tables_moved(graph):
    with failpoints.arm("publish.before_write"), pytest.raises(RecoveryRequired):
        write(workspace_of(graph), {key: ["a"] for key in ALL})
    assert contents(graph) == EMPTY
    write(workspace_of(graph), {key: ["b"] for key in ALL})
    assert contents(graph) == {key: ["a", "b"] for key in ALL}


def test_a_publish_whose_answer_is_lost_is_no_failure(graph):
    with failpoints.arm("publish.after_write", times=1):
        made = write(workspace_of(graph), {key: ["a"] for key in ALL})
    assert graph.snapshot().commit == made
    assert workspace_of(graph).store.list("__recovery") == []
    assert len(graph.commits.list()) == 2


# ------------------------------------------------------------------ unreadable sidecars


def a_sidecar(graph) -> tuple[str, dict]:
    with dying_at("load.before_table_commit"):
        write(workspace_of(graph), {PERSON: ["a"]})
    (name,) = workspace_of(graph).store.list("__recovery")
    return name, json.loads(workspace_of(graph).store.read_text(name))


def check_refused(graph, name: str, match: str) -> None:
    """Heal, open and refresh refuse and name the file, which stays; reading goes on."""
    before = Path(workspace_of(graph).root.path, name).read_bytes()
    for attempt in (
        lambda: write(workspace_of(graph), {TEAM: ["t"]}),
        lambda: open_graph(graph.uri),
        graph.refresh,
    ):
        with pytest.raises(CorruptSidecar, match=match) as refused:
            attempt()
        assert name in str(refused.value)
        assert refused.value.details["file"] == name
    with open_graph(graph.uri, mode="r") as reader:
        assert contents(reader) == EMPTY
    assert Path(workspace_of(graph).root.path, name).read_bytes() == before
    workspace_of(graph).store.delete(name)
    write(workspace_of(graph), {TEAM: ["t"]})


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"null", b"{}", b"\xff\xfe\x00", b"5", b"[" * 100_000,
     b'{"schema_version": 2}', b'{"schema_version": 2, "tables": 7}'],
    ids=lambda content: repr(content[:12]),
)  # fmt: skip
def test_a_file_that_is_no_sidecar(graph, content):
    name = "__recovery/01HZZZZZZZZZZZZZZZZZZZZZZZ.json"
    Path(workspace_of(graph).root.path, "__recovery").mkdir(exist_ok=True)
    Path(workspace_of(graph).root.path, name).write_bytes(content)
    check_refused(graph, name, "sidecar")


def test_half_a_sidecar(graph):
    name, document = a_sidecar(graph)
    text = json.dumps(document)
    workspace_of(graph).store.write_text(name, text[: len(text) // 2])
    check_refused(graph, name, "sidecar")


def test_a_sidecar_of_a_later_version(graph):
    name, document = a_sidecar(graph)
    workspace_of(graph).store.write_text(name, json.dumps({**document, "schema_version": 3}))
    check_refused(graph, name, "upgrade")


def test_a_sidecar_of_another_graph(graph):
    name, document = a_sidecar(graph)
    workspace_of(graph).store.write_text(name, json.dumps({**document, "graph_id": "another"}))
    check_refused(graph, name, "another graph")


def test_a_sidecar_under_another_name(graph):
    name, document = a_sidecar(graph)
    workspace_of(graph).store.delete(name)
    other = "__recovery/01HZZZZZZZZZZZZZZZZZZZZZZZ.json"
    workspace_of(graph).store.write_text(other, json.dumps(document))
    check_refused(graph, other, "name")


@pytest.mark.parametrize(
    "stray",
    [".DS_Store", "notes.txt", "01HZZZZZZZZZZZZZZZZZZZZZZZ.json.bak", "other.json",
     "01hzzzzzzzzzzzzzzzzzzzzzzz.json", "deep/01HZZZZZZZZZZZZZZZZZZZZZZZ.json"],
)  # fmt: skip
def test_a_file_that_is_not_named_like_a_sidecar_stops_nobody(graph, stray):
    name, _ = a_sidecar(graph)
    place = Path(workspace_of(graph).root.path, "__recovery", stray)
    place.parent.mkdir(exist_ok=True)
    place.write_bytes(b"\xff not ours")
    status = graph.status()
    assert status["pending_recoveries"] == 1
    assert status["stray_files"] == [f"__recovery/{stray}"]
    with open_graph(graph.uri) as reopened:
        write(workspace_of(reopened), {TEAM: ["t"]})
        assert workspace_of(reopened).store.list("__recovery") == [f"__recovery/{stray}"]
        assert reopened.status()["pending_recoveries"] == 0
    assert name != f"__recovery/{stray}"
    assert place.read_bytes() == b"\xff not ours"


def leaves(document, path=()):
    if isinstance(document, dict):
        for key, value in document.items():
            yield from leaves(value, (*path, key))
    elif isinstance(document, list) and document:
        for at, value in enumerate(document):
            yield from leaves(value, (*path, at))
    else:
        yield path


def changed(document, path, value):
    copy = json.loads(json.dumps(document))
    place = copy
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return copy


def test_a_damaged_value_anywhere_is_refused_or_harmless(graph):
    """Another type in any place: never anything but an error of the product."""
    name, document = a_sidecar(graph)
    refused = 0
    for path in leaves(document):
        for value in ([], {"a": 1}, "text", -1, None, True):
            workspace_of(graph).store.write_text(name, json.dumps(changed(document, path, value)))
            try:
                heal(workspace_of(graph))
            except CorruptSidecar as error:
                assert name in str(error)
                refused += 1
            except StorageError:
                # A text that means nothing, such as the place of no table.
                assert value == "text", (path, value)
    assert refused > 50
    workspace_of(graph).store.write_text(name, json.dumps(document))
    open_graph(graph.uri).close()
    assert contents(graph) == EMPTY


# ------------------------------------------------------------------ the recovery directory


def test_a_file_in_the_place_of_the_recovery_directory(graph):
    shutil.rmtree(Path(workspace_of(graph).root.path, "__recovery"), ignore_errors=True)
    Path(workspace_of(graph).root.path, "__recovery").write_text("in the way")
    with pytest.raises(StorageError, match="__recovery"):
        write(workspace_of(graph), {PERSON: ["a"]})
    with pytest.raises(StorageError, match="__recovery"):
        open_graph(graph.uri)
    with open_graph(graph.uri, mode="r") as reader:
        assert contents(reader) == EMPTY
    Path(workspace_of(graph).root.path, "__recovery").unlink()
    write(workspace_of(graph), {PERSON: ["a"]})


@pytest.fixture
def open_to_all():
    """A graph where everybody may go: pytest closes its own directory to others at any start."""
    with TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        with new_graph(Path(place)) as graph:
            yield graph


def as_nobody(uri: str) -> list[str]:
    """What a user without rights on `__recovery/` is told when writing, opening and reading."""
    os.setgid(65534)
    os.setuid(65534)
    told = []
    with open_graph(uri, mode="r") as reader:
        told.append(contents(reader)[PERSON])
        for attempt in (
            lambda: write(workspace_of(reader), {PERSON: ["b"]}),
            lambda: open_graph(uri),
        ):
            try:
                attempt()
            except StorageError as error:
                told.append(str(error))
    return told


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_recovery_directory_that_may_not_be_listed(open_to_all):
    graph = open_to_all
    write(workspace_of(graph), {PERSON: ["a"]})
    subprocess.run(["chmod", "-R", "a+rwX", workspace_of(graph).root.path], check=True)
    recovery = Path(workspace_of(graph).root.path, "__recovery")
    recovery.chmod(0)
    ((rows, *refused),) = run_processes(as_nobody, [(graph.uri,)])
    assert rows == ["a"]
    assert len(refused) == 2
    assert all("permission denied" in text.lower() for text in refused), refused
    recovery.chmod(0o755)
    write(workspace_of(graph), {PERSON: ["c"]})
    assert contents(graph)[PERSON] == ["a", "c"]


# ------------------------------------------------------------------ full disks


@pytest.fixture
def disk(tmp_path):
    with small_disk(tmp_path / "disk", "4m") as place:
        yield place


@pytest.mark.parametrize(
    ("point", "skip", "survives"),
    [
        ("recovery.sidecar_list", 0, False),
        ("load.before_phase_a", 0, False),
        ("load.before_phase_b", 0, False),
        ("load.before_table_commit", 0, False),
        ("load.before_table_commit", 1, False),
        ("load.before_table_commit", 2, False),
        ("load.after_phase_b_before_phase_c", 0, True),
        ("load.after_phase_c_before_phase_d", 0, None),
    ],
)
def test_a_disk_that_fills_up_in_each_phase(disk, point, skip, survives):
    with new_graph(disk) as graph:
        write(workspace_of(graph), {key: ["old"] for key in ALL})
        fillers = []

        def fill_up(_: str) -> None:
            fillers.append(fill(disk))

        outcome: object = None
        with failpoints.arm(point, fill_up, times=1, skip=skip):
            try:
                outcome = write(workspace_of(graph), {key: ["new"] for key in ALL})
            except OmniGraphError as error:
                outcome = error
        assert fillers
        with open_graph(graph.uri, mode="r") as reader:
            seen = contents(reader)
        fillers[0].unlink()
        if survives is None:
            assert not isinstance(outcome, OmniGraphError)
            survives = True
        else:
            assert isinstance(outcome, OmniGraphError)
            assert seen == {key: ["old"] for key in ALL}
        with open_graph(graph.uri) as reopened:
            assert drifted(reopened) == []
            wanted = ["new", "old"] if survives else ["old"]
            assert contents(reopened) == dict.fromkeys(ALL, wanted)
            write(workspace_of(reopened), {key: ["after"] for key in ALL})
            assert workspace_of(reopened).store.list("__recovery") == []
