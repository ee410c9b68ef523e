"""Numbered tables kept on disk: used again by other processes, and by nobody when anything differs."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import shutil
import stat
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import omnigraph as og
from omnigraph import cancel
from omnigraph.lang.query.ir import Direction
from omnigraph.read.kept.kept_file import KeptFile, KeptWriter, is_mapped
from omnigraph.read.kept.kept_files import KeptFiles, KeptName, digest
from omnigraph.read.thresholds import Thresholds, ViewThresholds
from omnigraph.read.view.edges import EdgeList
from omnigraph.read.view.ends import Ends
from omnigraph.read.view.nodes import NodeIds
from tests.graphs import graph_of, person
from tests.opened import read_with
from tests.read.kept_helpers import (
    another_process,
    kept_paths,
    plain_view,
    use_everything,
    write_kept,
)
from tests.read.random_commits import PEOPLE, Writer, fill
from tests.read.view_helpers import (
    SCHEMA,
    check_against_rows,
    check_same,
    check_same_adjacency,
    counted,
    edge,
    view_of,
)
from tests.write.writing import run


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """A cache directory that keeps what is numbered."""
    monkeypatch.setenv("OMNIGRAPH_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("OMNIGRAPH_DISK_CACHE_MB")
    return tmp_path / "cache"


graph = graph_of(SCHEMA, fill, upkeep="off")


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


class TestByParts:
    """Tables too large for the cache are numbered straight into their files."""

    @pytest.fixture(params=[1, 7, 1000])
    def reader(self, request, graph):
        return another_process(graph, by_parts(request.param))

    def test_everything_is_the_same(self, graph, reader, reads):
        use_everything(view_of(graph, reader))
        assert reads()[1] == 0
        view = check(graph, reader=reader)
        for name in view.catalog.edges:
            topology = view.topology(name)
            parts = [topology.out(), topology.into()]
            parts += [topology.multi(Direction.OUT), topology.multi(Direction.IN)]
            arrays = [getattr(part, array) for part in parts for array in part.ARRAYS]
            assert all(map(is_mapped, [topology.src, topology.dst, *arrays]))

    def test_other_processes_use_it(self, graph, reader, reads):
        use_everything(view_of(graph, reader))
        before = reads()
        use_everything(view_of(graph, another_process(graph)))
        assert reads() == before
        check(graph)

    def test_damage_is_read_again(self, graph, reader, place, reads):
        view = view_of(graph, reader)
        topology = view.topology("Knows")
        for path in kept_paths(place):
            if path.stem.endswith("-ends"):
                data = path.read_bytes()
                # In place, so that the file that is mapped changes.
                with path.open("r+b") as file:
                    file.seek(len(data) - 64)
                    file.write(bytes(byte ^ 0xFF for byte in data[-64:]))
        topology.out()
        assert reads()[1] == 1
        check(graph, reader=reader)

    def test_a_state_after_a_commit_is_derived_once(self, graph, reader, reads, monkeypatch):
        view_of(graph, reader).topology("Knows").out()
        graph.load([edge("Knows", "p02", "p03")])
        derived = counted(monkeypatch, Ends, "after")
        before = reads()
        for _ in range(3):
            topology = view_of(graph, reader).topology("Knows")
            assert is_mapped(topology.src)
        assert derived["after"] == 1
        assert reads() == before
        check(graph, reader=reader)

    def test_rows_out_of_order(self, graph, reads):
        """An updated row moves to the end of its table and keeps its row id."""
        first = {"edge": "Knows", "from": "p01", "to": "p02", "data": {"id": "k", "since": 1}}
        graph.load([first])
        graph.load([edge("Knows", "p02", "p03")])
        graph.load([{**first, "data": {"id": "k", "since": 2}}], mode="merge")
        use_everything(view_of(graph, another_process(graph, by_parts(5))))
        assert reads()[1] == 1
        check(graph, reader=another_process(graph, by_parts(5)))

    def test_no_room_on_disk(self, graph, monkeypatch, place):
        def full(descriptor, data, at):
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patched:
            patched.setattr(os, "pwrite", full)
            check(graph, reader=another_process(graph, by_parts(5)))
        assert kept_paths(place) == []
        check(graph, reader=another_process(graph, by_parts(5)))

    def test_queries_answer_as_ever(self, graph, monkeypatch):
        monkeypatch.setenv("OMNIGRAPH_TRAVERSAL_MODE", "csr")
        asked = [
            "match { $a knows $b  $b knows $c } return { $a.age, count($c) as n }",
            "match { $a knows{1,3} $b } return { $a, $b }",
            "match { $a <knows> $b  not { $a knows $b } } return { $a, $b }",
            "match { $a $e:knows $b  $b knows $c } return { $a, $b, $e.since, count($c) as n }",
            "match { $a knows $b  $a livesIn $c  $b livesIn $c } return { $c, count($a) as n }",
        ]
        texts = [f"query q() {{ {one} }}" for one in asked]
        expected = [graph.query(text).rows for text in texts]
        assert all(expected)
        monkeypatch.setenv("OMNIGRAPH_CACHE_MB", "0")
        for _ in range(2):
            with og.open(graph.uri, mode="r") as other:
                read_with(other, by_parts(3))
                for text, rows in zip(texts, expected, strict=True):
                    found = other.query(text, engine="local")
                    assert canonical(found.rows) == canonical(rows)


def by_parts(edges):
    """Thresholds at which every table is too large, and so many edges are in memory at a time."""
    return Thresholds(
        view=ViewThresholds(
            kept_rows=0,
            derived_rows=0,
            mapped_share=1 << 40,
            part_edges=edges,
            threaded_rows=0,
            batch_rows=3,
            chunk_rows=edges,
        )
    )


def canonical(rows):
    return sorted(json.dumps(row, sort_keys=True) for row in rows)


def _grow(arrays):
    """One item more, or less."""
    for name, array in list(arrays.items()):
        is_long = len(name) % 2
        arrays[name] = np.append(array, array[:1]) if is_long else array[:-1]


OTHER_FACTS = {
    "none": lambda facts, arrays: facts.clear(),
    "sizes": lambda facts, arrays: facts.update(size=facts["size"] + 1),
    "text": lambda facts, arrays: facts.update(size=str(facts["size"]), shape="wide"),
    "negative": lambda facts, arrays: facts.update(size=-1, shape=[-1, -1]),
    "flags": lambda facts, arrays: facts.update(complete=1, is_wide=0),
    "wide": lambda facts, arrays: facts.update(is_wide=True),
    "lengths": lambda facts, arrays: _grow(arrays),
    "names": lambda facts, arrays: arrays.update(more=np.arange(2)),
    "gone": lambda facts, arrays: arrays.popitem(),
    "ends": lambda facts, arrays: arrays.update(
        {name: array[::-1] for name, array in arrays.items() if name in {"starts", "indptr"}}
    ),
}


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

    def test_a_pipe_in_the_place_of_a_file(self, kept, place):
        """Whoever opens one to read waits for a writer, and there is none."""

        def replace(path: Path) -> None:
            path.unlink()
            os.mkfifo(path, 0o600)

        self.damage(place, replace)
        check(kept)

    @pytest.mark.parametrize("change", OTHER_FACTS.values(), ids=OTHER_FACTS)
    def test_other_facts_under_a_right_checksum(self, kept, place, change):
        """As another version of the engine may have written them."""

        def rewrite(path: Path) -> None:
            file = KeptFile(path)
            facts, arrays = dict(file.facts), {name: file.array(name) for name in file.names}
            change(facts, arrays)
            path.unlink()
            write_kept(path, file.key, file.part, facts, arrays)

        self.damage(place, rewrite)
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
        files = KeptFiles(44_000, tmp_path / "topology")
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

    def test_drafts_of_others_count_and_stay(self, tmp_path):
        files = KeptFiles(40_000, tmp_path / "topology")
        names = [KeptName(number, "0" * 16, digest(f"key {number}"), "ends") for number in range(2)]
        assert files.write("t", names[0], "key 0", {}, {"a": np.arange(1200)})
        draft = tmp_path / "topology/t/draft-of-another"
        draft.write_bytes(bytes(25_000))
        empty = tmp_path / "topology/just-made"
        empty.mkdir()
        assert files.write("t", names[1], "key 1", {}, {"a": np.arange(1200)})
        assert files.names("t") == [names[1]]
        assert draft.exists()
        assert empty.exists()

    def test_a_writer_killed_at_any_point(self, tmp_path):
        for number in range(4):
            command = [sys.executable, "-c", WRITER, str(tmp_path / "topology")]
            writer = subprocess.Popen(command, stdout=subprocess.PIPE)
            assert writer.stdout is not None
            writer.stdout.readline()
            time.sleep(0.003 * number)
            writer.kill()
            writer.wait()
            writer.stdout.close()
        files = KeptFiles(1 << 30, tmp_path / "topology")
        for name in files.names("t"):
            file = files.open("t", name)
            assert file is not None
            assert file.array("a").tolist() == list(range(200_000))
        old = time.time() - 4000
        for path in kept_paths(tmp_path):
            os.utime(path, (old, old))
        name = KeptName(0, "0" * 16, digest("key"), "ends")
        assert files.write("t", name, "key", {}, {"a": np.arange(2)})
        assert not [path for path in kept_paths(tmp_path) if path.name.startswith("draft")]

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


WRITER = """
import sys
from pathlib import Path
import numpy as np
from omnigraph.read.kept.kept_files import KeptFiles, KeptName, digest

files = KeptFiles(1 << 30, Path(sys.argv[1]))
name = KeptName(1, "0" * 16, digest("key"), "ends")
print("begins", flush=True)
while True:
    assert files.write("t", name, "key", {}, {"a": np.arange(200_000)})
"""


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


def test_a_thread_that_writes_too_late_hits_no_other_file(tmp_path):
    items = np.arange(9, dtype=np.int32)
    with KeptWriter(tmp_path / "kept", "key", "part", {"a": (items.dtype, 18)}) as writer:
        writer.append("a", items)
    # Very likely it gets the number that the closed file had.
    with (tmp_path / "other").open("wb") as other:
        with pytest.raises(OSError, match="closed"):
            writer.append("a", items)
        assert os.fstat(other.fileno()).st_size == 0


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
    found = [results.get(timeout=600) for _ in range(24)]
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0]
    assert all(one == expected for one in found)
    check(kept)
