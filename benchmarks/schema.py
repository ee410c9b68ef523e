"""What a schema change costs on a large table, against the Lance call alone, and what it leaves alone.

`./dev bench schema` changes a table of 1,000,000 nodes with as many edges; `--rows N` takes any number.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa

import omnigraph
from omnigraph.graph.graph import state_of
from omnigraph.lang.schema import compile_schema
from omnigraph.read.view.view import View
from omnigraph.runner.local_runner import LocalRunner
from omnigraph.storage.tables.table import open_table
from omnigraph.validate.change_set import ORDER, ChangeSet, TableDelta, needed_columns
from omnigraph.validate.column_rules import row_violations
from omnigraph.validate.committed import Committed
from omnigraph.validate.evaluate import Evaluation

ROWS, STEP, ADDS, WARM = 1_000_000, 10_000_000, 5, 7
PERSON = "node:Person"
TWO_HOPS = """query q() { match { $a knows $b  $b knows $c  $c.age > 40 }
              return { count($c) as n } }"""
FIRST = {
    "key": "String @key",
    "name": "String",
    "age": "I32 @index",
    "note": "String?",
    "extra": "String?",
    "left": "String?",
}
MAX_BYTES, MAX_MS = 1_000_000, 100
# Against plain Lance calls, and against the same check in a load.
MOST = {"widen a number": 1.5, "add a @range": 2.0, "add a @unique": 2.0, "tighten a @card": 2.0}


def schema(properties: dict[str, str], most: str = "") -> str:
    """The schema with these properties of a person, who knows at most so many others."""
    body = "  ".join(f"{name}: {type_}" for name, type_ in properties.items())
    return f"node Person {{ {body} }}\nedge Knows: Person -> Person @card(0..{most})"


def filled(place: Path, rows: int) -> omnigraph.Graph:
    """Persons with indexes on id and age, each of whom knows one other on average."""
    draw = np.random.default_rng(3)
    graph = omnigraph.init(place, schema(FIRST))
    keys = np.char.add("p", np.arange(rows).astype(str))
    for begin in range(0, rows, STEP):
        part = keys[begin : begin + STEP]
        texts = {name: np.char.add(f"{name} ", part) for name in ("name", "note", "extra", "left")}
        ages = pa.array(draw.integers(18, 66, len(part)), pa.int32())
        graph.load_nodes("Person", pa.table({"key": part, **texts, "age": ages}), mode="append")
    for begin in range(0, rows, STEP):
        ends = draw.integers(0, rows, (2, min(STEP, rows - begin)))
        frame = pa.table({"from": keys[ends[0]], "to": keys[ends[1]]})
        graph.load_edges("Knows", frame, mode="append")
    graph.ensure_indices()
    return graph


def view_of(graph: omnigraph.Graph) -> View:
    """The newest state as the handle reads it."""
    return state_of(graph).reader.view(graph.snapshot(), graph.schema.catalog)


class State:
    """What a schema change has to leave as it is."""

    def __init__(self, graph: omnigraph.Graph) -> None:
        view = view_of(graph)
        pinned = view.table(graph.schema.catalog.nodes["Person"])
        self.row_ids = pinned.table.read(["id"], with_row_id=True)["_rowid"].to_numpy()
        # Not by column: that is what a rename changes.
        self.indexes = sorted((str(one.kind), one.tail) for one in pinned.indexes())
        self.kept = [view.nodes("Person").node_ids, view.topology("Knows").out()]

    def differences(self, before: State) -> dict[str, Any]:
        """How a later state differs: in row ids, in indexes, in what had to be built anew."""
        rebuilt = sum(one is not other for one, other in zip(self.kept, before.kept, strict=True))
        return {
            "row_ids_kept": bool(np.array_equal(self.row_ids, before.row_ids)),
            "indexes_kept": self.indexes == before.indexes,
            "indexes_covering_all": sum(not tail for _, tail in self.indexes),
            "rebuilt": rebuilt,
        }


def files(place: Path) -> dict[str, int]:
    """Every file below a directory with its size."""
    return {
        str(Path(folder) / name): (Path(folder) / name).stat().st_size
        for folder, _, names in os.walk(place)
        for name in names
    }


def timed(action: Callable[[], object]) -> float:
    """The milliseconds one run takes."""
    return both_times(action)[0]


def both_times(action: Callable[[], object]) -> tuple[float, float]:
    """The milliseconds one run takes, and those it has a core for: a busy machine changes the former."""
    start, cpu = time.perf_counter(), time.process_time()
    action()
    return (time.perf_counter() - start) * 1000, (time.process_time() - cpu) * 1000


def check_rows(graph: omnigraph.Graph, source: str) -> None:
    """Judge the rows of Person by the rules of values as a load of them does."""
    catalog = compile_schema(source).catalog
    pin = graph.snapshot().tables[PERSON]
    table = open_table(state_of(graph).workspace.pinned(pin))
    for batch in table.scan(["id", "age"]):
        assert not row_violations(catalog.nodes["Person"], pa.Table.from_batches([batch]))


def check_set(graph: omnigraph.Graph, source: str, key: str, rule: str) -> None:
    """Judge all rows of a table by a rule of sets as a load that overwrites the table does."""
    catalog = compile_schema(source).catalog
    entity, pins = catalog.entity(key), graph.snapshot().tables
    workspace, runner = state_of(graph).workspace, LocalRunner()
    try:
        scanned = runner.scan(workspace.pinned(pins[key]), ["id", *needed_columns(entity)])
        numbered = f"SELECT *, row_number() OVER () AS `{ORDER}` FROM f"  # noqa: S608 - a constant
        pending = runner.sql(numbered, {"f": scanned})
        changes = ChangeSet(catalog, {key: TableDelta(entity, pending, replaced=True)})
        committed = Committed(runner, pins, workspace.pinned)
        assert not list(getattr(Evaluation(changes, committed), rule)())
    finally:
        runner.close()


class Bench:
    """One graph that is changed step by step, and a copy of its node table for the Lance calls."""

    def __init__(self, place: Path, rows: int) -> None:
        self.place = place / "graph"
        self.graph = filled(self.place, rows)
        self.properties = dict(FIRST)
        self.most = ""
        workspace = state_of(self.graph).workspace
        copied = open_table(workspace.pinned(self.graph.snapshot().tables[PERSON])).ref.dataset_uri
        shutil.copytree(copied, place / "raw")
        self.raw: Any = lance.dataset(str(place / "raw"))
        self.result: dict[str, Any] = {}

    def run(self) -> dict[str, Any]:
        """Every kind of change; the answers of a warm query before and after each."""
        self.result["first two-hop query, ms"] = timed(self.two_hops)
        for number in range(ADDS):
            added = pa.schema([pa.field(f"more{number}", pa.string())])
            self.change(
                "add a property",
                {f"more{number}": "String?"},
                partial(self.raw.add_columns, added),
            )
        self.change(
            "rename a property",
            {"note": None, "remark": 'String? @rename_from("note")'},
            partial(self.raw.alter_columns, {"path": "note", "name": "remark"}),
        )
        self.change(
            "make one optional",
            {"remark": "String?", "age": "I32? @index"},
            partial(self.raw.alter_columns, {"path": "age", "nullable": True}),
        )
        self.change("widen a number", {"age": "I64? @index"}, self.widen)
        ranged = {"age": "I64? @index @range(age, 0..200)"}
        self.change("add a @range", ranged, partial(self.as_a_load, ranged, check_rows), check=True)
        unique = {"name": "String @unique"}
        by_names = partial(check_set, key=PERSON, rule="unique")
        self.change("add a @unique", unique, partial(self.as_a_load, unique, by_names), check=True)
        by_edges = partial(check_set, key="edge:Knows", rule="cardinality")
        self.most = "1000"
        self.change("tighten a @card", {}, partial(self.as_a_load, {}, by_edges), check=True)
        self.change("drop a @unique", {"name": "String"}, None)
        self.change("drop one, soft", {"extra": None}, partial(self.raw.drop_columns, ["extra"]))
        self.change("drop one, hard", {"left": None}, self.rewrite, allow_data_loss=True)
        return self.result

    def two_hops(self) -> int:
        """The answer of the query."""
        found: int = self.graph.query(TWO_HOPS).rows[0]["n"]
        return found

    def widen(self) -> None:
        """The column read, written in its new type, and indexed again."""
        self.raw.drop_index(
            next(one["name"] for one in self.raw.list_indices() if one["fields"] == ["age"])
        )
        self.raw.alter_columns({"path": "age", "data_type": pa.int64()})
        self.raw.create_scalar_index("age", "BTREE")

    def as_a_load(
        self, changed: dict[str, str], check: Callable[[omnigraph.Graph, str], None]
    ) -> None:
        """The same check of the same rows by what checks a load."""
        check(self.graph, schema({**self.properties, **changed}, self.most))

    def rewrite(self) -> None:
        """What removes a column's bytes: the other columns written once more, and their indexes."""
        self.raw.drop_columns(["left"])
        written = lance.write_dataset(self.raw.scanner(), self.raw.uri, mode="overwrite")
        for column in ("id", "age"):
            written.create_scalar_index(column, "BTREE")

    def change(
        self,
        name: str,
        changed: Mapping[str, str | None],
        raw: Callable[[], object] | None,
        *,
        allow_data_loss: bool = False,
        check: bool = False,
    ) -> None:
        """Apply one change, then do the same to the copy, and note what each took.

        With ``check`` it is the check of all rows whose time counts, not that of the commit.
        """
        expected, before, there = self.two_hops(), State(self.graph), files(self.place)
        warm = statistics.median(timed(self.two_hops) for _ in range(WARM))
        properties = {**self.properties, **changed}
        self.properties = {key: type_ for key, type_ in properties.items() if type_ is not None}
        source = schema(self.properties, self.most)
        apply = partial(self.graph.schema.apply, source, allow_data_loss=allow_data_loss)
        if check:
            ours, cpu = both_times(partial(self.graph.schema.plan, source, check=True))
            apply()
        else:
            ours, cpu = both_times(apply)
        written = sum(size for path, size in files(self.place).items() if path not in there)
        raw_ms = math.nan if raw is None else timed(raw)
        first = timed(self.two_hops)
        assert self.two_hops() == expected
        empty: dict[str, Any] = {"ours": [], "cpu": [], "raw": [], "written": []}
        noted = self.result.setdefault(name, empty)
        noted["ours"].append(ours)
        noted["cpu"].append(cpu)
        noted["raw"].append(raw_ms)
        noted["written"].append(written)
        noted |= {"two_hops_before": warm, "two_hops_after": first}
        noted |= State(self.graph).differences(before)


def show(result: dict[str, Any]) -> None:
    """One line for each kind of change, and what had to stay."""
    print(f"the first two-hop query: {result.pop('first two-hop query, ms'):.0f} ms")
    head = f"{'change, ms':20}{'apply':>10}{'CPU':>10}{'Lance':>10}{'ratio':>8}{'kB written':>12}"
    print(f"\n{head}{'two hops before':>17}{'first after':>13}   rows, indexes, rebuilt")
    for name, one in result.items():
        ours, cpu, raw = (statistics.median(one[what]) for what in ("ours", "cpu", "raw"))
        line = f"{name:20}{ours:10.1f}{cpu:10.1f}{raw:10.1f}{ours / raw:8.2f}"
        line += f"{max(one['written']) / 1000:12.0f}"
        line += f"{one['two_hops_before']:17.1f}{one['two_hops_after']:13.1f}"
        rows, indexes = (
            "kept" if one[f"{what}_kept"] else "LOST" for what in ("row_ids", "indexes")
        )
        covering = one["indexes_covering_all"]
        print(f"{line}   {rows}, {indexes} ({covering} cover all), {one['rebuilt']}")
    added = result["add a property"]
    ratios = {
        name: statistics.median(one["ours"]) / statistics.median(one["raw"])
        for name, one in result.items()
    }
    bars = {
        f"add a property in {MAX_MS} ms of a core": statistics.median(added["cpu"]) <= MAX_MS,
        "less than 1 MB written": max(added["written"]) < MAX_BYTES,
        "row ids kept": added["row_ids_kept"],
        "indexes kept": added["indexes_kept"],
        "nothing rebuilt": added["rebuilt"] == 0,
        **{f"{name} within {most} x": ratios[name] <= most for name, most in MOST.items()},
    }
    print("\n" + "   ".join(f"{name}: {'pass' if met else 'FAIL'}" for name, met in bars.items()))


def main() -> None:
    """Build the graph, change it, print."""
    parser = argparse.ArgumentParser(prog="./dev bench schema")
    parser.add_argument("--rows", type=int, default=ROWS, help="nodes, and edges (1,000,000)")
    parser.add_argument("--json", action="store_true", help="everything measured as JSON")
    chosen = parser.parse_args()
    os.environ.setdefault("OMNIGRAPH_CACHE_MB", "8192")
    with tempfile.TemporaryDirectory() as name:
        bench = Bench(Path(name), chosen.rows)
        result = bench.run()
        bench.graph.close()
    if chosen.json:
        print(json.dumps(result, indent=2))
    else:
        show(result)


if __name__ == "__main__":
    main()
