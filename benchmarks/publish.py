"""What a publish, an open and a whole commit cost, also late in a history, against raw Lance.

`./dev bench publish [COMMITS]` measures up to that many commits, 2000 if not said.
"""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pyarrow as pa

from omnigraph.clock import new_ulid, stamp_us
from omnigraph.commit.changes import StagedStep, TableChange, Write
from omnigraph.commit.heal import heal
from omnigraph.commit.protocol import commit
from omnigraph.graph import Graph, init
from omnigraph.graph.graph import state_of
from omnigraph.manifest import rows
from omnigraph.manifest.manifest import Manifest
from omnigraph.manifest.publisher import Intent, ManifestChanges, publish
from omnigraph.storage.tables.staging import stage_append
from omnigraph.storage.tables.table import Table, create_table, open_table
from omnigraph.storage.tables.table_commits import commit_staged, merge_insert_exclusive
from omnigraph.storage.tables.table_ref import TableRef

EARLY, WINDOW = 50, 50
ROWS, WARM = 100, 5


def schema(types: int) -> str:
    """A schema of that many node types."""
    return "\n".join(f"node T{number} {{ key: String @key  n: I64? }}" for number in range(types))


def timed(action: Callable[[], object]) -> float:
    """The milliseconds one run takes."""
    start = time.perf_counter()
    action()
    return (time.perf_counter() - start) * 1000


def median(samples: list[float]) -> float:
    """The middle of the samples."""
    return statistics.median(samples)


def publish_one(manifest: Manifest, branch: str = "main") -> None:
    """Publish a commit that moves one table by one version."""
    table = manifest.state(branch).head.tables["node:T0"]
    moved = replace(table, table_version=table.table_version + 1)
    intent = Intent(new_ulid(), "load", stamp_us())
    publish(manifest, branch, ManifestChanges(tables=(moved,)), [table], intent)


def window(graph: Graph) -> dict[str, float]:
    """Medians over the next commits: publish, fresh open, warm read without a change."""
    publishes, opens, warm = [], [], []
    for _ in range(WINDOW):
        publishes.append(timed(lambda: publish_one(state_of(graph).workspace.manifest)))
        opens.append(timed(lambda: Manifest(state_of(graph).workspace.root).state("main")))
        graph.snapshot()
        warm.append(timed(graph.snapshot))
    return {"publish": median(publishes), "open": median(opens), "warm read": median(warm)}


def raw_publish(directory: Path, graph: Graph) -> float:
    """The one Lance call a publish must make, on a manifest-like table of the same size."""
    state = state_of(graph).workspace.manifest.state("main")
    table = create_table(TableRef(str(directory / "raw")), state.table.schema, state.table.read())
    samples = []
    for _ in range(WINDOW):
        head = state.head
        commit = replace(head.commit, graph_commit_id=new_ulid())
        new = [
            rows.version_row(head.tables["node:T0"], commit.graph_commit_id),
            rows.commit_row(commit),
            rows.head_row(replace(head, commit=commit)),
        ]
        batch = rows.to_table(new, table.schema)
        start = time.perf_counter()
        table = merge_insert_exclusive(table, batch)
        samples.append((time.perf_counter() - start) * 1000)
        if len(table.fragments()) >= 32:
            shutil.rmtree(directory / "raw")
            table = create_table(TableRef(str(directory / "raw")), table.schema, state.table.read())
    return median(samples)


def history(directory: Path, late: int) -> None:
    """The same operations after few commits and after many."""
    graph = init(directory / "history", schema(5))
    while (
        len(graph.commits.list(limit=1))
        and state_of(graph).workspace.manifest.state("main").head.commit.manifest_version < EARLY
    ):
        publish_one(state_of(graph).workspace.manifest)
    early = window(graph)
    raw = raw_publish(directory, graph)
    made = EARLY + WINDOW
    while made < late:
        publish_one(state_of(graph).workspace.manifest)
        made += 1
    now = window(graph)
    bars = {"publish": "1.4 x", "open": "2 x, 8 ms", "warm read": "0.3 ms"}
    print(
        f"\n{'ms, medians of ' + str(WINDOW):24}{'commit ' + str(EARLY):>12}{'commit ' + str(late):>14}{'ratio':>8}   bar"
    )
    for name in early:
        ratio = now[name] / early[name]
        print(f"{name:24}{early[name]:12.2f}{now[name]:14.2f}{ratio:8.2f}   {bars[name]}")
    print(
        f"{'publish / raw call':24}{early['publish'] / raw:12.2f}{'':14}{'':8}   2 x (raw: {raw:.2f} ms)"
    )
    graph.close()


def branches(directory: Path) -> None:
    """Making a branch of a graph with few types and with many."""
    print(f"\n{'branch create, ms':24}", end="")
    medians = []
    for types in (5, 200):
        graph = init(directory / f"types{types}", schema(types))
        samples = [timed(partial(graph.branches.create, f"b{number}")) for number in range(15)]
        medians.append(median(samples))
        print(f"{str(types) + ' types':>12}{medians[-1]:8.2f}", end="")
        graph.close()
    print(f"   ratio {medians[1] / medians[0]:.2f}")


def rows_for(table: Table, start: int) -> pa.Table:
    """A batch of new rows."""
    keys = [f"{start + number:012}" for number in range(ROWS)]
    columns = [
        pa.array(keys, field.type) if not field.nullable else pa.nulls(ROWS, field.type)
        for field in table.schema
    ]
    return pa.Table.from_arrays(columns, schema=table.schema)


def commit_once(graph: Graph, keys: list[str], start: int) -> None:
    """What a writer does: heal, pin, stage, phases A to D."""
    heal(state_of(graph).workspace)
    state = state_of(graph).workspace.manifest.state("main")
    pins = state.head.tables
    changes = tuple(
        TableChange(pins[key], (StagedStep(lambda t: stage_append(t, rows_for(t, start))),))
        for key in keys
    )
    commit(
        state_of(graph).workspace,
        Write("load", state.pin, Intent(new_ulid(), "load", stamp_us()), changes),
    )


class Raw:
    """The same tables and a manifest of the same rows, moved by Lance calls and nothing else."""

    def __init__(self, directory: Path, graph: Graph, keys: list[str]) -> None:
        self.head = state_of(graph).workspace.manifest.state("main").head
        self.keys = keys
        schema = open_table(state_of(graph).workspace.pinned(self.head.tables[keys[0]])).schema
        self.tables = [create_table(TableRef(str(directory / key[5:])), schema) for key in keys]
        state = state_of(graph).workspace.manifest.state("main")
        rows_now = state.table.read()
        self.manifest = create_table(
            TableRef(str(directory / "manifest")), state.table.schema, rows_now
        )

    def once(self, start: int) -> None:
        """Stage and commit every table, then one exclusive upsert."""
        self.tables = [
            commit_staged(stage_append(table, rows_for(table, start))) for table in self.tables
        ]
        made = replace(self.head.commit, graph_commit_id=new_ulid())
        pins = [replace(self.head.tables[key], table_version=start + 2) for key in self.keys]
        new = [rows.version_row(pin, made.graph_commit_id) for pin in pins]
        new += [rows.commit_row(made), rows.head_row(replace(self.head, commit=made))]
        batch = rows.to_table(new, self.manifest.schema)
        self.manifest = merge_insert_exclusive(self.manifest, batch)


def commits(directory: Path) -> None:
    """One commit over several tables against the sum of the Lance calls it cannot do without."""
    print(
        f"\n{'commit of ' + str(ROWS) + ' rows each, ms':32}{'commit':>8}{'raw':>8}{'ratio':>8}   aim 2 x"
    )
    for tables in (1, 2, 8):
        graph = init(directory / f"commits{tables}", schema(8))
        keys = [f"node:T{number}" for number in range(tables)]
        ours, raws = [], []
        for half in range(2):
            # Afresh half way: raw Lance, left alone, grows slower with every version.
            raw = Raw(directory / f"raw{tables}-{half}", graph, keys)
            for number in range(WARM + WINDOW // 2):
                start = (half * 1000 + number) * ROWS
                once, call = partial(commit_once, graph, keys, start), partial(raw.once, start)
                # In turns, so that a busy machine slows both.
                ms, raw_ms = timed(once), timed(call)
                if number >= WARM:
                    ours.append(ms)
                    raws.append(raw_ms)
        ratio = median(ours) / median(raws)
        name = f"{tables} table{'s' if tables > 1 else ''}"
        print(f"{name:32}{median(ours):8.2f}{median(raws):8.2f}{ratio:8.2f}")
        graph.close()


def main() -> None:
    """Measure a growing history, then branches, then commits over several tables."""
    late = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    with tempfile.TemporaryDirectory() as name:
        history(Path(name), late)
        branches(Path(name))
        commits(Path(name))


if __name__ == "__main__":
    main()
