"""Handles that stay open while others change the schema: each answer is of one state, old or new."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import omnigraph as og
from omnigraph import failpoints
from omnigraph.errors import (
    BranchNotFound,
    EntityNotFound,
    ExpectedVersionMismatch,
    HistoryReclaimed,
    StorageError,
    TypeCheckError,
)
from tests.commit.synthetic import dying_at
from tests.opened import fresh_reader

CHANGES = 20
PEOPLE = 30

# Asks as fast as it can under the names it finds, until its input ends. A byte on its input is answered
# with the number of the newest schema under which an answer came.
READER = """
import json, os, select, sys
import omnigraph as og
from omnigraph.errors import TypeCheckError

people, answers, late, seen, failures = int(sys.argv[2]), 0, 0, [], []
with og.open(sys.argv[1], mode="r") as graph:
    print("ready", flush=True)
    while True:
        node = next(iter(graph.schema.catalog.nodes.values()))
        edge = next(iter(graph.schema.catalog.edges))
        name = next(name for name in node.properties if name.startswith("v"))
        asked = f'''query q() {{ match {{ $a: {node.name}  $a {edge[0].lower() + edge[1:]} $b }}
            return {{ $a.key as key, $a.{name} as v, $b.{name} as w }} order {{ $a.key }} }}'''
        try:
            rows = graph.query(asked).rows
        except TypeCheckError:
            late += 1
            continue
        except Exception as error:
            failures.append(repr(error))
            break
        answers += 1
        number = int(name[1:])
        if rows != [{"key": f"p{at:02}", "v": at, "w": (at + 1) % people} for at in range(people)]:
            failures.append(f"{asked}: {rows}")
        if not seen or seen[-1] != number:
            seen.append(number)
        if select.select([0], [], [], 0)[0]:
            if not os.read(0, 1):
                break
            print(number, flush=True)
print(json.dumps({"answers": answers, "late": late, "seen": seen, "failures": failures}))
"""


def schema(number: int) -> str:
    """A property is renamed by every change, types by every other, and one is added; every fifth drops those."""

    def was(name: str) -> str:
        return f' @rename_from("{name}")' if number else ""

    old, new = (f"T{(number + back) // 2}" for back in (0, 1))
    renamed = was(old) if old != new else ""
    edge = f' @rename_from("To{number // 2}")' if renamed else ""
    more = "  ".join(f"more{at}: I32?" for at in range(number % 5))
    return f"""
    node {new}{renamed} {{ key: String @key  v{number}: I32{was(f"v{number - 1}")}  {more} }}
    edge To{(number + 1) // 2}: {new} -> {new}{edge}
    """


@pytest.fixture
def graph(tmp_path):
    with og.init(tmp_path / "g", schema(0)) as graph:
        nodes = [{"type": "T0", "data": {"key": f"p{at:02}", "v0": at}} for at in range(PEOPLE)]
        edges = [
            {"edge": "To0", "from": f"p{at:02}", "to": f"p{(at + 1) % PEOPLE:02}"}
            for at in range(PEOPLE)
        ]
        graph.load([*nodes, *edges])
        yield graph


def test_a_reader_in_another_process_beside_schema_changes(graph):
    with subprocess.Popen(
        [sys.executable, "-c", READER, graph.uri, str(PEOPLE)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    ) as reader:

        def ask():
            reader.stdin.write(".")
            reader.stdin.flush()

        assert reader.stdout.readline() == "ready\n"
        for number in range(1, CHANGES + 1):
            ask()
            # Every fifth removes the versions that the reader may be reading.
            graph.schema.apply(schema(number), allow_data_loss=True)
            assert number - 2 <= int(reader.stdout.readline()) <= number
        for _ in range(2):
            ask()
            last = reader.stdout.readline()
        assert last == f"{CHANGES}\n"
        reader.stdin.close()
        told = json.loads(reader.stdout.readline())
    assert told["failures"] == []
    assert told["seen"] == sorted(told["seen"])
    assert told["answers"] >= CHANGES


def test_a_handle_that_stays_open_reads_and_writes_under_the_schema_of_now(graph):
    asked = 'query q() { match { $t: T0 { key: "p03" } } return { $t.v0 } }'
    assert graph.query(asked).rows == [{"t.v0": 3}]
    with og.open(graph.uri) as other:
        other.schema.apply(schema(1))
    with pytest.raises(TypeCheckError):
        graph.query(asked)
    with pytest.raises(TypeCheckError):
        graph.mutate('query q() { update T0 set { v0: 4 } where key = "p03" }')
    graph.mutate('query q() { update T1 set { v1: 4, more0: 5 } where key = "p03" }')
    graph.load([{"type": "T1", "data": {"key": "p04", "v1": 6, "more0": 7}}])
    found = graph.query(
        "query q() { match { $t: T1  $t.more0 > 0 } return { $t.key, $t.v1, $t.more0 } order { $t.key } }"
    )
    assert [list(row.values()) for row in found.rows] == [["p03", 4, 5], ["p04", 6, 7]]


GONE = "node Gone { key: String @key  secret: String?  open: String? }"


@pytest.fixture
def dropping(graph):
    """A graph with a type to be dropped, and a view of it that has not read anything yet."""
    graph.schema.apply(schema(0) + GONE)
    graph.load([{"type": "Gone", "data": {"key": "a", "secret": "s", "open": "o"}}])
    old = graph.snapshot()
    return graph, old, fresh_reader(graph).view(old, graph.schema.catalog)


def test_a_type_whose_rows_are_removed_while_it_is_read_is_reclaimed(dropping):
    graph, old, view = dropping
    graph.schema.apply(schema(0), allow_data_loss=True)
    with pytest.raises(HistoryReclaimed, match="node:Gone"), view.reading():
        view.nodes("Gone")
    assert view.nodes("T0").size == PEOPLE
    with pytest.raises(TypeCheckError):
        graph.query("query q() { match { $g: Gone } return { $g } }", snapshot=old.graph_commit_id)


def test_a_property_whose_bytes_are_removed_takes_the_past_of_its_table_with_it(dropping):
    graph, old, view = dropping
    graph.schema.apply(schema(0) + GONE.replace("secret: String?", ""), allow_data_loss=True)
    asked = "query q() { match { $g: Gone } return { $g.key, $g.open } }"
    assert graph.query(asked).rows == [{"g.key": "a", "g.open": "o"}]
    with pytest.raises(HistoryReclaimed, match="node:Gone"):
        graph.query(asked, snapshot=old.graph_commit_id)
    with pytest.raises(HistoryReclaimed, match="node:Gone"), view.reading():
        view.nodes("Gone")
    others = "query q() { match { $t: T0 } return { count($t) as n } }"
    assert graph.query(others, snapshot=old.graph_commit_id).rows == [{"n": PEOPLE}]


def test_what_a_purge_takes_while_it_is_read_is_reclaimed(dropping):
    """Data files go before the version does, which therefore still opens."""
    graph, _, view = dropping
    gone = graph.schema.catalog.nodes["Gone"]
    with dying_at("schema_apply.before_purge"):
        graph.schema.apply(schema(0) + GONE.replace("secret: String?", ""), allow_data_loss=True)
    assert view.table(gone).table.version == 2
    with pytest.raises(HistoryReclaimed, match="node:Gone"), view.reading():
        raise StorageError("a file is missing")
    # What nobody removes is damaged.
    others = fresh_reader(graph).view(graph.snapshot(), graph.schema.catalog)
    assert others.nodes("Gone").size == 1
    with pytest.raises(StorageError, match="missing"), others.reading():
        raise StorageError("a file is missing")


def test_a_blob_that_is_open_while_its_version_is_removed_is_reclaimed(tmp_path):
    kept = "node Plate { tag: String @key  scan: Blob? }"
    with og.init(tmp_path / "b", kept.replace("}", "  note: String? }")) as graph:
        graph.load([{"type": "Plate", "data": {"tag": "a", "scan": "base64:aGVsbG8="}}])
        old = graph.snapshot()
        blob = "node", "Plate", "a", "scan"
        with graph.blobs.open(*blob) as stream:
            graph.schema.apply(kept, allow_data_loss=True)
            with pytest.raises(HistoryReclaimed, match="node:Plate"):
                stream.read()
        with pytest.raises(HistoryReclaimed, match="node:Plate"):
            graph.blobs.read(*blob, snapshot=old.graph_commit_id)
        assert graph.blobs.read(*blob) == b"hello"
        # A property that is added later is null in the past.
        past = graph.snapshot().graph_commit_id
        graph.schema.apply(kept.replace("}", "  back: Blob? }"))
        with pytest.raises(EntityNotFound, match="back of node Plate 'a' is null"):
            graph.blobs.stat("node", "Plate", "a", "back", snapshot=past)


@pytest.mark.parametrize("again", [False, True], ids=["gone", "made again"])
def test_an_apply_whose_branch_is_deleted_meanwhile_leaves_the_new_one_alone(tmp_path, again):
    base = "node P { k: String @key }"
    with og.init(tmp_path / "g", base) as graph, og.open(tmp_path / "g") as other:
        graph.branches.create("side")
        graph.mutate('insert P { k: "old" }', branch="side")

        def remake(_point: str) -> None:
            other.branches.delete("side")
            if again:
                other.branches.create("side")
                other.mutate('insert P { k: "new" }', branch="side")

        error = ExpectedVersionMismatch if again else BranchNotFound
        stop = failpoints.arm("schema_apply.before_locks", remake, times=1)
        with stop, pytest.raises(error, match="side"):
            graph.schema.apply("node P { k: String @key  n: I32? }", branch="side")
        assert graph.branches.list() == (["main", "side"] if again else ["main"])
        assert graph.schema.source == base
        if again:
            assert graph.schema.show(branch="side").source == base
            found = graph.query("match { $p: P } return { $p.k as k }", branch="side")
            assert found.rows == [{"k": "new"}]
            graph.schema.apply("node P { k: String @key  n: I32? }", branch="side")
        assert graph.verify(deep=True).ok


def test_a_branch_made_just_after_a_schema_apply_died_has_its_schema(tmp_path, monkeypatch):
    """All branches share one schema, so the apply is finished first, even if it died this moment."""
    with og.init(tmp_path / "g", "node P { k: String @key }") as graph:
        put_one = 'query q() { insert P { k: "x" } }'
        graph.mutate(put_one)
        with dying_at("schema_apply.after_phase_b_before_phase_c"):
            graph.schema.apply("node P { k: String @key  n: I32? }")
        # The branch is created by somebody who looked for dead writers just before that.
        monkeypatch.setattr("omnigraph.write.branches.heal", lambda _workspace: None)
        graph.branches.create("side")
        heads = {graph.snapshot(branch=name).ir_hash for name in ("main", "side")}
        assert len(heads) == 1
        assert graph.commits.list()[0].operation == "schema_apply"
        assert graph.query("query q() { match { $p: P } return { $p.n } }", branch="side").rows == [
            {"p.n": None}
        ]
