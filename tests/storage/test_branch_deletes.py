"""A branch is deleted with its ref, whoever puts files into its directory meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.errors import BranchNotFound
from omnigraph.storage.tables.table_branches import (
    create_branch,
    delete_branch,
    list_branches,
    remove_residue,
)
from tests.storage.branch_workers import littering
from tests.storage.table_places import contents, new_table, rows

TRIES = 3


def crowded(directory):
    """Removing it takes so long that more files come meanwhile."""
    directory.mkdir(exist_ok=True)
    for number in range(2_000):
        (directory / f"old-{number}.lance").touch()
    return directory


def test_a_branch_is_deleted_while_writers_put_files_into_it(ref):
    table = new_table(ref, rows("a"))
    for _ in range(TRIES):
        create_branch(table, "b")
        with littering(crowded(Path(ref.uri, "tree/b/data"))):
            delete_branch(ref, "b")
            assert list_branches(ref) == {}
            delete_branch(ref, "b")
    # What the last writer left behind is in nobody's way, and goes.
    assert contents(create_branch(table, "b")) == {"a": 0}
    delete_branch(ref, "b")
    remove_residue(ref, "b")
    assert not Path(ref.uri, "tree/b").exists()


def test_residue_is_removed_while_more_of_it_comes(ref):
    table = new_table(ref, rows("a"))
    create_branch(table, "b")
    table.files.delete_file("_refs/branches/b.json")
    with littering(Path(ref.uri, "tree/b/data"), Path(ref.uri, "tree/b/_indices/x")):
        assert remove_residue(ref, "b") > 0
        assert contents(create_branch(table, "b")) == {"a": 0}


def test_a_graph_branch_is_deleted_and_made_again_under_writers(tmp_path):
    with og.init(tmp_path / "g", "node Doc { ref: String @key }") as graph:
        graph.load([{"type": "Doc", "data": {"ref": "a"}}])
        for number in range(TRIES):
            mine = {"type": "Doc", "data": {"ref": f"b{number}"}}
            graph.load([mine], branch="b", from_branch="main")
            fork = Path(tmp_path, "g", graph.snapshot().tables["node:Doc"].location, "tree/b/data")
            manifest = crowded(tmp_path / "g/__manifest/tree/b/data")
            with littering(manifest, fork):
                graph.branches.delete("b")
                assert graph.branches.list() == ["main"]
                with pytest.raises(BranchNotFound):
                    graph.snapshot(branch="b")
            graph.branches.create("b")
            assert graph.snapshot(branch="b").tables["node:Doc"].row_count == 1
            graph.branches.delete("b")
