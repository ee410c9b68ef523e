"""What a micro-batch of a streaming sink costs, early and late in a stream.

`./dev bench streams [BATCHES] [append|merge]` sends that many, 10,000 if not said, in both modes if none is
named. Where it measures, each is planned, written and committed as Spark does it, on a graph that is opened
for each step; Spark itself is not measured. In between the graph stays open, which leaves the same files and
takes half as long.

Processor time counts, and a young stream is measured beside the old one, batch by batch in turns: on a busy
machine the clock is slow, and processor time grows too. Figures are printed as soon as the stream has come
so far.
"""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from omnigraph.graph import Graph, init
from omnigraph.graph import open as open_graph
from omnigraph.graph.graph import state_of
from omnigraph.manifest.history.stream_records import find_stream
from omnigraph.pipeline.datasource.write import plan_write
from omnigraph.pipeline.streams.sink import Sink, sink_options

EARLY, WINDOW, ROWS = 50, 50, 10
AT = (500, 1000, 2000, 5000)
BAR = 1.4
SCHEMA = "node Event { key: String @key  n: I64? }"
STEPS = ("plan and tasks", "look-up", "commit")
Costs = tuple[float, ...]


def spent(action: Callable[[], object]) -> float:
    """The milliseconds of processor time that one run takes."""
    start = time.process_time()
    action()
    return (time.process_time() - start) * 1000


class Stream:
    """A stream into one type of a graph, one micro-batch after another."""

    def __init__(self, place: Path, *, merge: bool) -> None:
        self.uri = str(place)
        self.merge = merge
        self.sent = 0
        self.options = {"graph": self.uri, "type": "Event", "app_id": "bench", "merge": str(merge)}
        init(place, SCHEMA).close()

    def rows(self, number: int) -> pa.RecordBatch:
        """New rows; in a merge every other one replaces a row of the batch before."""
        first = number * ROWS // (2 if self.merge else 1)
        keys = range(first, first + ROWS)
        return pa.record_batch(
            {"key": [f"k{key}" for key in keys], "n": pa.array(keys, pa.int64())}
        )

    def grow(self, batches: int) -> None:
        """Send micro-batches until there are that many, on a graph that stays open."""
        with open_graph(self.uri) as graph:
            while self.sent < batches:
                rows = self.rows(self.sent)
                sink = self.planned_by(graph, rows.schema)
                outputs = [sink.write([rows], 0, "query")]
                sink.commit(state_of(graph).workspace, outputs, self.sent)
                self.sent += 1

    def planned(self, schema: pa.Schema) -> Sink:
        """The sink as a process of Spark's plans it."""
        with open_graph(self.uri, mode="r") as graph:
            return self.planned_by(graph, schema)

    def planned_by(self, graph: Graph, schema: pa.Schema) -> Sink:
        """The sink of the next micro-batch."""
        asked = sink_options(self.options, complete=False)
        state = state_of(graph)
        schemas = state.schemas.of("main")
        accepted = schemas.ir_hash, schemas.catalog
        plan = plan_write(state.workspace, accepted, asked.write, schema, overwrite=False)
        return Sink(plan, asked.app_id)

    def look_up(self) -> None:
        """Find the record of the stream in a graph that was just opened."""
        with open_graph(self.uri, mode="r") as graph:
            manifest = state_of(graph).workspace.manifest
            find_stream(manifest, manifest.state("main"), "bench")

    def send(self) -> Costs:
        """Run a micro-batch; what its steps took."""
        rows = self.rows(self.sent)
        outputs = []

        def write() -> None:
            outputs.append(self.planned(rows.schema).write([rows], 0, "query"))

        def commit() -> None:
            committing = self.planned(rows.schema)
            with open_graph(self.uri) as graph:
                committing.commit(state_of(graph).workspace, outputs, self.sent)
            self.sent += 1

        return spent(write), spent(self.look_up), spent(commit)


def compare(old: Stream, young: Stream) -> tuple[Costs, Costs]:
    """The medians of what the steps of both take, in turns; the old one comes first every other time."""
    costs: dict[Stream, list[Costs]] = {old: [], young: []}
    for turn in range(WINDOW):
        for stream in (old, young) if turn % 2 else (young, old):
            costs[stream].append(stream.send())
    one, other = (
        tuple(statistics.median(step) for step in zip(*costs[stream], strict=True))
        for stream in (old, young)
    )
    return one, other


def measure(batches: int, *, merge: bool) -> bool:
    """Send the batches and compare at some places; whether all steps stay within the bar at the last one."""
    place = Path(tempfile.mkdtemp(prefix="omnigraph-streams-"))
    print(f"\n{batches} micro-batches of {ROWS} rows, {'merge' if merge else 'append'}")
    print(f"{'ms of processor':<18}" + "".join(f"{name:>24}" for name in STEPS), flush=True)
    ratios: list[float] = []
    try:
        old = Stream(place / "old", merge=merge)
        for at in (*(at for at in AT if at < batches), batches):
            old.grow(at - WINDOW // 2)
            young = Stream(place / "young", merge=merge)
            young.grow(EARLY - WINDOW // 2)
            found = list(zip(*compare(old, young), strict=True))
            ratios = [late / early for late, early in found]
            shown = "".join(
                f"{late:>12.1f} : {early:<5.1f}{late / early:>4.2f}" for late, early in found
            )
            print(f"{f'around {at} : {EARLY}':<18}{shown}", flush=True)
            shutil.rmtree(place / "young")
    finally:
        shutil.rmtree(place)
    print(f"bar {BAR}: " + ("kept" if max(ratios) <= BAR else "not kept"))
    return max(ratios) <= BAR


def main() -> int:
    """Measure both modes, or the one that is named."""
    batches = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    modes = sys.argv[2:] or ["append", "merge"]
    results = [measure(batches, merge=mode == "merge") for mode in modes]
    return 0 if all(results) else 1


if __name__ == "__main__":
    raise SystemExit(main())
