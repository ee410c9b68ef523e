"""What a mutation costs, against the Lance calls that any correct implementation must make.

`./dev bench write` also inserts into graphs of 10,000 and of 1,000,000 edges (`--large`: 10,000,000; `--edges N`:
any number), and compares mutations of many rows with loads of the same rows. `--only lance`, `--only size` and
`--only loads` take one of these; `--small` makes the last ones a tenth.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import omnigraph
from omnigraph.clock import new_ulid, stamp_us
from omnigraph.commit.changes import StagedStep, TableChange, Write
from omnigraph.commit.protocol import commit
from omnigraph.graph.graph import state_of
from omnigraph.lang.schema.indexes import IndexKind
from omnigraph.manifest import rows
from omnigraph.manifest.publisher import Intent
from omnigraph.storage.filters import Condition, filter_expression
from omnigraph.storage.tables.indexing.table_indexes import stage_create_index
from omnigraph.storage.tables.staging import Staged, stage_append
from omnigraph.storage.tables.table import Table, create_table, open_table, table_of
from omnigraph.storage.tables.table_commits import commit_staged, merge_insert_exclusive
from omnigraph.storage.tables.table_ref import TableRef

SCHEMA = """
node Person { name: String @key  age: I64? }
edge Knows: Person -> Person { since: I64? }
"""
NODE = "query q($n: String) { insert Person { name: $n, age: 1 } }"
EDGE = "query q($a: String, $b: String) { insert Knows { from: $a, to: $b } }"
UPSERT = """
($rows: [{ name: String, age: I64 }]) for $r in $rows upsert Person { name: $r.name, age: $r.age }
"""
MATCHED = "($n: I64) match { $p: Person } update $p set { age: $n }"
UPDATE = 'query q($n: I64) { update Person set { age: $n } where name >= "p" }'
SAMPLES, MANY, SMALL = 30, 1000, 10_000
RECORDS, NODES = 10_000, 100_000
MEDIUM, LARGE, STEP = 1_000_000, 10_000_000, 1_000_000


def timed(action: Callable[[int], object], samples: int = SAMPLES) -> float:
    """The median of some runs, in milliseconds; the first ones warm up and do not count."""
    for number in range(3):
        action(number)
    taken = []
    for number in range(3, samples + 3):
        start = time.perf_counter()
        action(number)
        taken.append((time.perf_counter() - start) * 1000)
    return statistics.median(taken)


def person_rows(names: list[str], age: int = 1) -> pa.Table:
    """Rows of the node table."""
    ages = pa.array([age] * len(names), pa.int64())
    return pa.table({"id": names, "name": names, "age": ages})


def edge_rows(start: int, count: int, nodes: int) -> pa.Table:
    """Rows of the edge table, spread over that many nodes."""
    numbers = np.arange(start, start + count)
    people = pa.array([f"p{number}" for number in range(nodes)])
    return pa.table(
        {
            "id": [f"e{number:09}" for number in numbers.tolist()],
            "src": people.take(pa.array(numbers % nodes)),
            "dst": people.take(pa.array(numbers * 7 % nodes)),
            "since": pa.nulls(count, pa.int64()),
        }
    )


# ------------------------------------------------------------------ the floor


class Raw:
    """The same rows through Lance alone: stage, commit, and one exclusive write of the manifest."""

    def __init__(self, directory: Path, graph: omnigraph.Graph) -> None:
        self.directory = directory
        tables = graph.snapshot().tables
        self.node = self._copy("person", graph, tables["node:Person"])
        self.edge = self._copy("knows", graph, tables["edge:Knows"])
        self.head = state_of(graph).workspace.manifest.state("main").head
        self._source = state_of(graph).workspace.manifest.state("main").table
        self._fresh_manifest()

    def _copy(self, name: str, graph: omnigraph.Graph, pin: rows.TableState) -> Table:
        source = open_table(state_of(graph).workspace.pinned(pin))
        copy = create_table(TableRef(str(self.directory / name)), source.schema, source.read())
        return commit_staged(stage_create_index(copy, "id", IndexKind.BTREE))

    def _fresh_manifest(self) -> None:
        ref = TableRef(str(self.directory / f"manifest{time.monotonic_ns()}"))
        self.manifest = create_table(ref, self._source.schema, self._source.read())

    def publish(self) -> None:
        """One merge-insert of the rows a publish of one table writes."""
        if len(self.manifest.fragments()) >= 32:
            self._fresh_manifest()
        made = replace(self.head.commit, graph_commit_id=new_ulid())
        new = [
            rows.version_row(self.head.tables["node:Person"], self.head.commit.graph_commit_id),
            rows.commit_row(made),
            rows.head_row(replace(self.head, commit=made)),
        ]
        self.manifest = merge_insert_exclusive(
            self.manifest, rows.to_table(new, self.manifest.schema)
        )

    def upsert(self, data: pa.Table) -> None:
        """Rows with a key: Lance's merge-insert."""
        writer = open_table(self.node.ref.at(None)).dataset
        merge = writer.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
        merge.execute(data)
        self.node = table_of(self.node.ref, writer)
        self.publish()

    def append(self, data: pa.Table) -> None:
        """Edges: a look at their ends, and an append."""
        ends = {*data.column("src").to_pylist(), *data.column("dst").to_pylist()}
        wanted = filter_expression(self.node.schema, [Condition("id", "in", sorted(ends))])
        assert self.node.read(["id"], wanted).num_rows == len(ends)
        self.edge = commit_staged(stage_append(self.edge, data.select(self.edge.schema.names)))
        self.publish()


# ------------------------------------------------------------------ graphs


def appending(make: Callable[[], pa.Table]) -> StagedStep:
    """Add rows to a table, made when their turn comes: a large graph need not fit in memory."""

    def stage(table: Table) -> Staged:
        return stage_append(table, make().select(table.schema.names).cast(table.schema))

    return StagedStep(stage)


def indexing(column: str) -> StagedStep:
    """Build the BTREE of a column."""
    return StagedStep(lambda table: stage_create_index(table, column, IndexKind.BTREE))


def filled(place: Path, nodes: int, edges: int) -> omnigraph.Graph:
    """A graph of that size with the indexes that every table has."""
    graph = omnigraph.init(place, SCHEMA)
    names = [f"p{number}" for number in range(nodes)]
    steps = {"node:Person": [appending(partial(person_rows, names))], "edge:Knows": []}
    for start in range(0, edges, STEP):
        count = min(STEP, edges - start)
        steps["edge:Knows"].append(appending(partial(edge_rows, start, count, nodes)))
    steps["node:Person"].append(indexing("id"))
    steps["edge:Knows"] += [indexing(column) for column in ("id", "src", "dst")] if edges else []
    state = state_of(graph).workspace.manifest.state("main")
    pins = state.head.tables
    changes = tuple(TableChange(pins[key], tuple(each)) for key, each in steps.items() if each)
    commit(
        state_of(graph).workspace,
        Write("load", state.pin, Intent(new_ulid(), "load", stamp_us()), changes),
    )
    return graph


# ------------------------------------------------------------------ measurements


def report(what: str, ours: float, floor: float, bar: str = "") -> None:
    """One line: our time, that of the calls nobody can avoid, and the ratio."""
    print(f"{what:44}{ours:10.1f}{floor:10.1f}{ours / floor:8.2f}   {bar}")


def run(graph: omnigraph.Graph, query: str, **params: Any) -> None:
    """One mutation."""
    graph.mutate(query, params=params)


def against_lance(directory: Path) -> None:
    """Single rows and a thousand rows, against the calls they need."""
    graph = filled(directory / "graph", SMALL, SMALL)
    raw = Raw(directory / "raw", graph)
    print(f"\n{'ms, medians':44}{'mutation':>10}{'Lance':>10}{'ratio':>8}")
    report(
        "insert one node with a key",
        timed(lambda at: run(graph, NODE, n=f"n{at}")),
        timed(lambda at: raw.upsert(person_rows([f"n{at}"]))),
    )
    report(
        "insert one edge",
        timed(lambda at: run(graph, EDGE, a=f"p{at}", b=f"p{at * 3}")),
        timed(lambda at: raw.append(edge_rows(10**8 + at, 1, SMALL))),
    )
    texts = [
        " ".join(f'insert Person {{ name: "m{at}-{row}", age: 1 }}' for row in range(MANY))
        for at in range(8)
    ]
    names = [[f"m{at}-{row}" for row in range(MANY)] for at in range(8)]
    report(
        f"{MANY} insert statements in one query",
        timed(lambda at: run(graph, f"query q() {{ {texts[at]} }}"), 5),
        timed(lambda at: raw.upsert(person_rows(names[at])), 5),
    )
    graph.close()
    thousand = filled(directory / "thousand", MANY, 0)
    raw = Raw(directory / "raw2", thousand)
    people = [f"p{row}" for row in range(MANY)]
    report(
        f"update of {MANY} rows",
        timed(lambda at: run(thousand, UPDATE, n=at), 10),
        timed(lambda at: raw.upsert(person_rows(people, at)), 10),
    )
    thousand.close()


def against_size(directory: Path, edges: int) -> None:
    """One edge into a small graph and into a large one, on a warm handle."""
    medians = []
    for count in (SMALL, edges):
        graph = filled(directory / f"edges{count}", SMALL, count)
        before = peak_mb()
        medians.append(timed(lambda at: run(graph, EDGE, a=f"p{at}", b=f"p{at * 3}")))  # noqa: B023
        print(f"{count:,} edges: peak memory {before:.0f} MB when built, {peak_mb():.0f} MB after")
        graph.close()
    what = f"insert one edge among {edges:,}"
    print(f"\n{'ms, medians':44}{'large':>10}{'small':>10}{'ratio':>8}")
    report(f"{what} (small: {SMALL:,})", medians[1], medians[0], "1.5 x")


def against_loads(directory: Path, part: int) -> None:
    """Mutations of many rows, against loads of the same ones."""
    records, nodes = RECORDS // part, NODES // part
    print(f"\n{'ms, medians':44}{'mutation':>10}{'load':>10}{'ratio':>8}")
    # Half of the records are there already.
    graph = filled(directory / "upserts", records, 0)

    def some(at: int) -> list[dict[str, Any]]:
        names = [f"p{number}" for number in range(0, records, 2)]
        names += [f"n{at}-{number}" for number in range(records - len(names))]
        return [{"name": name, "age": at} for name in names]

    report(
        f"upsert of {records:,} records by `for`",
        timed(lambda at: run(graph, UPSERT, rows=some(at)), 5),
        timed(
            lambda at: graph.load(
                [{"type": "Person", "data": one} for one in some(100 + at)], mode="merge"
            ),
            5,
        ),
        "2 x",
    )
    graph.close()
    graph = filled(directory / "updates", nodes, 0)
    names = [f"p{number}" for number in range(nodes)]

    def patch(at: int) -> pa.Table:
        return pa.table({"name": names, "age": pa.array([at] * nodes, pa.int64())})

    report(
        f"update of {nodes:,} nodes by `match`",
        timed(lambda at: run(graph, MATCHED, n=at), 5),
        timed(lambda at: graph.load_nodes("Person", patch(100 + at), mode="patch"), 5),
        "2 x",
    )
    graph.close()


def peak_mb() -> float:
    """The most memory this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Measure mutations against Lance, against the size of the graph, and against loads."""
    parser = argparse.ArgumentParser(description=__doc__)
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--edges", type=int, default=MEDIUM)
    size.add_argument("--large", action="store_const", const=LARGE, dest="edges")
    parser.add_argument("--only", choices=["lance", "size", "loads"])
    parser.add_argument("--small", action="store_true", help="a tenth of the rows beside loads")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        if chosen.only in (None, "lance"):
            against_lance(place)
        if chosen.only in (None, "size"):
            against_size(place, chosen.edges)
        if chosen.only in (None, "loads"):
            against_loads(place, 10 if chosen.small else 1)


if __name__ == "__main__":
    main()
