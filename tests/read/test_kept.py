"""Numbered tables kept on disk: used again by other processes, and by nobody when anything differs."""

from __future__ import annotations

import multiprocessing
import os
import random
import shutil
import stat
import time
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph import cancel
from omnigraph.lang.query.ir import Direction
from omnigraph.read.kept.kept_files import KeptFiles
from omnigraph.read.thresholds import Thresholds, ViewThresholds
from omnigraph.read.view.edges import EdgeList
from omnigraph.read.view.nodes import NodeIds
from tests.read.kept_helpers import (
    another_process,
    kept_paths,
    plain_view,
    use_everything,
)
from tests.read.random_commits import PEOPLE, Writer, fill
from tests.read.view_helpers import (
    SCHEMA,
    check_against_rows,
    check_same,
    check_same_adjacency,
    counted,
    edge,
    person,
    view_of,
)
from tests.write.writing import run


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """A cache directory that keeps what is numbered."""
    monkeypatch.setenv("OMNIGRAPH_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("OMNIGRAPH_DISK_CACHE_MB")
    return tmp_path / "cache"


@pytest.fixture
def graph(tmp_path):
    graph = og.init(tmp_path / "g", SCHEMA, upkeep="off")
    fill(graph)
    return graph


@pytest.fixture
def kept(graph):
    """The same graph, of which one process has kept everything."""
    use_everything(view_of(graph, another_process(graph)))
    return graph


@pytest.fixture
def reads(monkeypatch):
    """How often a table was read whole: node tables and edge tables."""
    of_nodes, of_edges = (
        counted(monkeypatch, NodeIds, "read"),
        counted(monkeypatch, EdgeList, "read"),
    )
    return lambda: (of_nodes["read"], of_edges["read"])


def check(graph, branch="main", reader=None):
    """Another process sees what is stored, under the numbers that a process of its own would give."""
    view = view_of(graph, reader or another_process(graph), branch)
    use_everything(view)
    check_same(view, plain_view(graph, branch))
    check_against_rows(graph, view, branch)
    return view


class TestUse:
    def test_another_process_reads_no_table(self, kept, reads):
        view = view_of(kept, another_process(kept))
        use_everything(view)
        assert reads() == (0, 0)
        check(kept)

    def test_every_form_of_adjacency_is_the_same(self, kept):
        left, right = view_of(kept, another_process(kept)), plain_view(kept)
        one, other = left.topology("Knows"), right.topology("Knows")
        for direction in Direction:
            check_same_adjacency(one.csr(direction), other.csr(direction))
            found, wanted = one.multi(direction), other.multi(direction)
            assert found.positions.tolist() == wanted.positions.tolist()
            assert found.indices.tolist() == wanted.indices.tolist()
            assert found.indptr.tolist() == wanted.indptr.tolist()

    def test_nothing_is_loaded_before_it_is_used(self, kept):
        view = view_of(kept, another_process(kept))
        assert view.has_topology("Knows")
        edges = view._cache.peek(
            next(key for key in view._cache.kept() if key.table.lineage.location.startswith("edge"))
        )
        assert not edges.is_loaded

    def test_what_is_kept_takes_no_memory_of_the_cache(self, kept):
        reader = another_process(kept)
        view = view_of(kept, reader)
        view.topology("Knows").out()
        plain = plain_view(kept)
        plain.topology("Knows").out()
        reader.cache.get("count", lambda: 0, lambda _: 0)
        assert reader.cache.nbytes < plain.cache.nbytes / 4

    def test_a_few_changes_start_from_what_is_kept(self, kept, reads):
        run(kept, 'insert Person { name: "new" } insert Knows { from: "new", to: "p01" }')
        run(kept, 'delete Person where name = "p02"')
        before = reads()
        view = view_of(kept, another_process(kept))
        use_everything(view)
        assert reads() == before
        check(kept)

    def test_indexes_and_compaction_change_nothing(self, kept, reads):
        for name in ("x", "y"):
            kept.load([person(name)])
        use_everything(view_of(kept, another_process(kept)))
        kept.ensure_indices()
        kept.optimize()
        before = reads()
        use_everything(view_of(kept, another_process(kept)))
        assert reads() == before
        check(kept)

    def test_a_schema_change_changes_nothing(self, kept, reads):
        kept.schema.apply(SCHEMA.replace("age: I64?", "age: I64?\n  nick: String?"))
        before = reads()
        use_everything(view_of(kept, another_process(kept)))
        assert reads() == before
        check(kept)

    def test_a_branch_starts_from_main(self, kept, reads):
        kept.branches.create("b")
        run(kept, 'insert Person { name: "there" }', branch="b")
        before = reads()
        use_everything(view_of(kept, another_process(kept), "b"))
        assert reads() == before
        check(kept, "b")

    def test_the_past_is_not_the_present(self, kept):
        old = kept.snapshot()
        run(kept, 'delete Person where name = "p03"')
        use_everything(view_of(kept, another_process(kept)))
        past = another_process(kept).view(old, kept.schema.catalog)
        assert past.nodes("Person").id_array.to_pylist() == sorted(PEOPLE)

    def test_random_commits(self, kept):
        writer = Writer(kept, seed=5)
        for step in range(24):
            writer.step()
            if step % 4 == 3:
                for branch in writer.branches:
                    check(kept, branch)

    @pytest.mark.parametrize("part", ["out", "into", "both", "multi-out", "multi-in", "multi-both"])
    def test_a_part_that_is_missing_is_built_in_another_thread(
        self, kept, place, part, monkeypatch
    ):
        """Large lists are built aside, by a thread that needs the ends while the caller holds the list."""
        monkeypatch.setattr(cancel, "LONG_ITEMS", 0)
        for path in kept_paths(place):
            if path.stem.endswith(f"-{part}"):
                path.unlink()
        topology = view_of(kept, another_process(kept)).topology("Knows")
        form, _, direction = part.rpartition("-")
        with cancel.within(60, None):
            topology.multi(Direction(direction)) if form else getattr(topology, part)()
        check(kept)

    def test_large_arrays_are_used_from_disk(self, graph):
        share = ViewThresholds(kept_rows=0, mapped_share=1 << 40)
        reader = another_process(graph, Thresholds(view=share))
        use_everything(view_of(graph, reader))
        assert reader.cache.nbytes < 20_000  # The lookup tables of row ids remain.
        check(graph, reader=reader)


class TestDistrust:
    def damage(self, place, change):
        paths = kept_paths(place)
        assert len(paths) > 8
        for path in paths:
            change(path)
        return paths

    @pytest.mark.parametrize("seed", range(6))
    def test_a_flipped_byte_anywhere(self, kept, place, seed):
        chance = random.Random(seed)

        def flip(path: Path) -> None:
            data = bytearray(path.read_bytes())
            # In the prelude, in the description, or in an array.
            at = chance.choice([chance.randrange(64), chance.randrange(64, 600), len(data) - 65])
            data[min(at, len(data) - 1)] ^= 1 << chance.randrange(8)
            path.write_bytes(data)

        self.damage(place, flip)
        check(kept)

    @pytest.mark.parametrize("part", ["ends", "nodes", "out", "into", "multi-in"])
    def test_every_byte_of_an_array(self, kept, place, part):
        """Bytes of arrays are checked when they are used, after the file was taken for good."""
        for path in kept_paths(place):
            if path.stem.endswith(f"-{part}"):
                data = path.read_bytes()
                described = int.from_bytes(data[20:24], "little")
                begin = -(-(64 + described) // 64) * 64
                path.write_bytes(data[:begin] + bytes(byte ^ 0xFF for byte in data[begin:]))
        check(kept)

    @pytest.mark.parametrize("left", [0, 1, 63, 64, 200, -1, -64])
    def test_a_file_cut_off(self, kept, place, left):
        self.damage(place, lambda path: path.write_bytes(path.read_bytes()[:left]))
        check(kept)

    def test_a_file_that_grew(self, kept, place):
        self.damage(place, lambda path: path.write_bytes(path.read_bytes() + bytes(64)))
        check(kept)

    def test_another_format(self, kept, place):
        def newer(path: Path) -> None:
            data = bytearray(path.read_bytes())
            data[16] += 1
            path.write_bytes(data)

        paths = self.damage(place, newer)
        use_everything(view_of(kept, another_process(kept)))
        assert all(path.read_bytes()[16] == 1 for path in paths)
        check(kept)

    def test_another_byte_order(self, kept, place, monkeypatch):
        import sys

        shutil.rmtree(place)
        other = "big" if sys.byteorder == "little" else "little"
        with monkeypatch.context() as patched:
            patched.setattr(sys, "byteorder", other)
            use_everything(view_of(kept, another_process(kept)))
        assert kept_paths(place)
        check(kept)

    def test_files_of_two_graphs_changed_places(self, kept, place, tmp_path):
        other = og.init(tmp_path / "other", SCHEMA)
        other.load([person("a"), person("b"), edge("Knows", "a", "b")])
        use_everything(view_of(other, another_process(other)))
        paths = kept_paths(place)
        contents = [path.read_bytes() for path in paths]
        for path, content in zip(paths, contents[1:] + contents[:1], strict=True):
            path.write_bytes(content)
        check(kept)
        check(other)

    def test_parts_of_one_graph_changed_places(self, kept, place):
        names = (path for path in kept_paths(place) if "multi" not in path.name)
        out = next(path for path in names if path.stem.endswith("-out"))
        into = out.with_name(out.name.replace("-out.", "-into."))
        content = out.read_bytes()
        out.write_bytes(into.read_bytes())
        into.write_bytes(content)
        check(kept)

    @pytest.mark.parametrize("mode", [0o640, 0o606, 0o777])
    def test_a_file_that_others_may_touch(self, kept, place, mode, reads):
        self.damage(place, lambda path: path.chmod(mode))
        use_everything(view_of(kept, another_process(kept)))
        assert min(reads()) > 0
        check(kept)

    def test_a_link_or_a_directory_in_the_place_of_a_file(self, kept, place, tmp_path):
        for number, path in enumerate(kept_paths(place)):
            moved = tmp_path / f"moved-{number}"
            path.rename(moved)
            if number % 2:
                path.symlink_to(moved)
            else:
                path.mkdir()
        check(kept)

    def test_names_that_mean_nothing(self, kept, place):
        folder = kept_paths(place)[0].parent
        for name in ("x", "1-2-3-nodes.kept", "99999999999999999999-" + "0" * 16 + "-x.kept"):
            (folder / name).write_bytes(b"x")
        check(kept)


class TestIdentity:
    """Tables of one graph id, location, branch and version whose rows differ."""

    def test_a_copy_that_took_the_place_of_its_original(self, kept, tmp_path):
        root = tmp_path / "g"
        shutil.copytree(root, tmp_path / "copy")
        run(kept, 'insert Person { name: "here" } insert Knows { from: "here", to: "p01" }')
        use_everything(view_of(kept, another_process(kept)))
        pin = kept.snapshot().tables["node:Person"]
        kept.close()
        shutil.rmtree(root)
        (tmp_path / "copy").rename(root)
        with og.open(root) as copy:
            run(copy, 'insert Person { name: "there" } insert Knows { from: "there", to: "p02" }')
            assert copy.snapshot().tables["node:Person"].table_version == pin.table_version
            check(copy)

    def test_a_branch_that_was_deleted_and_made_again(self, kept):
        for name in ("first", "second"):
            kept.branches.create("b")
            run(kept, f'insert Person {{ name: "{name}" }}', branch="b")
            check(kept, "b")
            kept.branches.delete("b")

    def test_two_branches_share_version_numbers(self, kept):
        for branch in ("one", "two"):
            kept.branches.create(branch)
            run(kept, f'insert Person {{ name: "{branch}" }}', branch=branch)
        for branch in ("one", "two", "main"):
            check(kept, branch)

    def test_a_type_that_was_dropped_and_made_again(self, kept):
        without = "\n".join(line for line in SCHEMA.splitlines() if "LivesIn" not in line)
        kept.schema.apply(without, allow_data_loss=True)
        kept.schema.apply(SCHEMA)
        kept.load([edge("LivesIn", "p01", "c1")])
        check(kept)

    def test_a_graph_made_again_at_its_root(self, kept, tmp_path):
        kept.close()
        shutil.rmtree(tmp_path / "g")
        with og.init(tmp_path / "g", SCHEMA) as again:
            again.load([person("a"), person("b"), edge("Knows", "b", "a")])
            check(again)


class TestDirectory:
    def test_only_the_owner_may_read(self, kept, place):
        topology = place / "topology"
        folders = [topology, *(path for path in topology.iterdir())]
        assert {stat.S_IMODE(path.stat().st_mode) for path in folders} == {0o700}
        assert {stat.S_IMODE(path.stat().st_mode) for path in kept_paths(place)} == {0o600}

    def test_turned_off(self, graph, place, monkeypatch):
        monkeypatch.setenv("OMNIGRAPH_DISK_CACHE_MB", "0")
        check(graph)
        assert not place.exists()

    def test_small_tables_are_not_kept(self, graph, place):
        use_everything(view_of(graph))
        assert not place.exists()

    @pytest.mark.parametrize("is_file", [True, False])
    def test_a_directory_that_cannot_be_used(self, graph, place, is_file):
        if is_file:
            place.write_text("no directory")
        else:
            (place / "topology").mkdir(parents=True)
            (place / "topology").chmod(0o777)
        check(graph)
        assert not kept_paths(place)

    def test_no_home_directory(self, graph, monkeypatch):
        monkeypatch.delenv("OMNIGRAPH_CACHE_DIR")
        monkeypatch.setattr(Path, "home", lambda: (_ for _ in ()).throw(RuntimeError("none")))
        monkeypatch.setattr(os.path, "expanduser", lambda path: path)
        for name in ("HOME", "XDG_CACHE_HOME"):
            monkeypatch.delenv(name, raising=False)
        check(graph)

    def test_the_directory_disappears_while_it_is_used(self, kept, place):
        view = view_of(kept, another_process(kept))
        topology = view.topology("Knows")
        out = topology.out()
        wanted = out.indices.tolist()
        shutil.rmtree(place)
        assert out.indices.tolist() == wanted
        use_everything(view)
        check_same(view, plain_view(kept))
        check(kept)

    def test_the_longest_unused_files_go_first(self, tmp_path):
        import numpy as np

        from omnigraph.read.kept.kept_files import KeptName, digest

        files = KeptFiles(40_000, tmp_path / "topology")
        names = [KeptName(number, "0" * 16, digest(f"key {number}"), "ends") for number in range(6)]
        now = time.time()
        for age, name in enumerate(names[:4]):
            assert files.write("t", name, f"key {name.version}", {}, {"a": np.arange(1200)})
            os.utime(tmp_path / "topology/t" / str(name), (now - 900 + age,) * 2)
        assert files.names("t") == names[3::-1]  # 9,600 bytes each, and what describes them.
        assert files.open("t", names[0]) is not None  # A use makes it the youngest.
        assert files.write("t", names[4], "key 4", {}, {"a": np.arange(1200)})
        assert files.names("t") == [names[4], names[3], names[2], names[0]]
        assert not files.write("t", names[5], "key 5", {}, {"a": np.arange(6000)})
        assert files.names("t") == [names[4], names[3], names[2], names[0]]

    def test_forgotten_files_and_drafts_of_the_dead_are_removed(self, kept, place, tmp_path):
        draft = kept_paths(place)[0].with_name("draft-0123")
        draft.write_bytes(b"half")
        fresh = draft.with_name("draft-4567")
        fresh.write_bytes(b"half")
        old = time.time() - 40 * 24 * 3600
        forgotten = kept_paths(place)[0]
        for path in (draft, forgotten):
            os.utime(path, (old, old))
        other = og.init(tmp_path / "other", SCHEMA)
        other.load([person("a")])
        use_everything(view_of(other, another_process(other)))
        assert not draft.exists()
        assert not forgotten.exists()
        assert fresh.exists()


def _read_in_turns(root: str, seed: int, results: multiprocessing.Queue) -> None:
    chance = random.Random(seed)
    with og.open(root, mode="r") as graph:
        for _ in range(12):
            view = view_of(graph, another_process(graph))
            topology = view.topology("Knows")
            results.put((topology.out().indices.tolist(), topology.src.tolist()))
            for path in kept_paths(Path(os.environ["OMNIGRAPH_CACHE_DIR"])):
                if chance.random() < 0.3:
                    path.unlink(missing_ok=True)


def test_many_processes_keep_use_and_remove_at_once(kept):
    wanted = plain_view(kept).topology("Knows")
    expected = wanted.out().indices.tolist(), wanted.src.tolist()
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    workers = [
        context.Process(target=_read_in_turns, args=(kept.uri, seed, results)) for seed in range(2)
    ]
    for worker in workers:
        worker.start()
    found = [results.get(timeout=120) for _ in range(24)]
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0]
    assert all(one == expected for one in found)
    check(kept)
