"""What a micro-batch of a streaming sink costs, early and late in a stream.

`./dev bench streams [BATCHES] [append|merge]` sends that many, 10,000 if not said, in both modes if none is
named. Each is planned, written and committed as Spark does it, on a graph that is opened for each step; Spark
itself is not measured. Processor time counts, because a busy machine makes the clock slow. Figures are
printed as soon as the stream has come so far.
"""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from omnigraph.graph import init
from omnigraph.graph import open as open_graph
from omnigraph.graph.graph import state_of
from omnigraph.manifest.streams import find_stream
from omnigraph.pipeline.datasource.write import plan_write
from omnigraph.pipeline.streams.sink import Sink, sink_options

EARLY, WINDOW, ROWS = 50, 50, 10
BAR = 1.4
SCHEMA = "node Event { key: String @key  n: I64? }"
STEPS = ("plan and tasks", "look-up", "commit")


def spent(action: Callable[[], object]) -> float:
    """The milliseconds of processor time that one run takes."""
    start = time.process_time()
    action()
    return (time.process_time() - start) * 1000


class Stream:
    """A stream into one type of a graph, one micro-batch after another."""

    def __init__(self, uri: str, *, merge: bool) -> None:
        self.uri = uri
        self.merge = merge
        self.options = {"graph": uri, "type": "Event", "app_id": "bench", "merge": str(merge)}

    def rows(self, number: int) -> pa.RecordBatch:
        """New rows; in a merge every other one replaces a row of the batch before."""
        first = number * ROWS // (2 if self.merge else 1)
        keys = range(first, first + ROWS)
        return pa.record_batch(
            {"key": [f"k{key}" for key in keys], "n": pa.array(keys, pa.int64())}
        )

    def planned(self, schema: pa.Schema) -> Sink:
        """The sink as a process of Spark's plans it."""
        asked = sink_options(self.options, complete=False)
        with open_graph(self.uri, mode="r") as graph:
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

    def send(self, number: int) -> tuple[float, float, float]:
        """Run a micro-batch; what its steps took."""
        rows = self.rows(number)
        outputs = []

        def write() -> None:
            outputs.append(self.planned(rows.schema).write([rows], 0, "query"))

        def commit() -> None:
            committing = self.planned(rows.schema)
            with open_graph(self.uri) as graph:
                committing.commit(state_of(graph).workspace, outputs, number)

        return spent(write), spent(self.look_up), spent(commit)


def measure(batches: int, *, merge: bool) -> bool:
    """Send the batches and compare the windows; whether all steps stay within the bar."""
    place = Path(tempfile.mkdtemp(prefix="omnigraph-streams-"))
    print(f"\n{batches} micro-batches of {ROWS} rows, {'merge' if merge else 'append'}")
    print(f"{'ms of processor':<18}" + "".join(f"{name:>16}" for name in STEPS), flush=True)
    windows = {at for at in (EARLY, 500, 1000, 2000, 5000, batches) if EARLY <= at <= batches}
    found: list[list[float]] = []
    try:
        init(place / "g", SCHEMA).close()
        stream = Stream(str(place / "g"), merge=merge)
        newest: deque[tuple[float, ...]] = deque(maxlen=WINDOW)
        for number in range(batches):
            newest.append(stream.send(number))
            if number + 1 in windows:
                found.append([statistics.median(step) for step in zip(*newest, strict=True)])
                shown = "".join(f"{value:>16.1f}" for value in found[-1])
                print(f"{'around ' + str(number + 1):<18}{shown}", flush=True)
    finally:
        shutil.rmtree(place)
    ratios = [last / first for first, last in zip(found[0], found[-1], strict=True)]
    print(f"{'last to first':<18}" + "".join(f"{one:>16.2f}" for one in ratios) + f"   bar {BAR}")
    return all(ratio <= BAR for ratio in ratios)


def main() -> int:
    """Measure both modes, or the one that is named."""
    batches = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    modes = sys.argv[2:] or ["append", "merge"]
    results = [measure(batches, merge=mode == "merge") for mode in modes]
    return 0 if all(results) else 1


if __name__ == "__main__":
    raise SystemExit(main())
