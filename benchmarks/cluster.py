"""What a cluster costs: validating, planning and applying one without changes, and booting a server of it.

    ./dev bench cluster [--large]

Bars: 100 graphs with 1,000 queries are validated in 3 s of processor time; a plan without changes asks the store at
most ten times, and a converged apply writes nothing; opening 50 graphs four at a time takes at most 1.5 times the
processor time of opening them one by one, 1 MB of memory each, and on a store that answers after 20 ms at most half
the time. `--large` also validates 1,000 graphs with 10,000 queries.
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

from omnigraph.cluster.apply import apply
from omnigraph.cluster.commands import import_cluster, validate
from omnigraph.cluster.planning import plan
from omnigraph.graph import open as open_graph
from omnigraph.server.process.boot import AT_ONCE

SCHEMA = "node Author {\n    name: String @key\n    born: I32?\n}\nedge Knows: Author -> Author\n"
QUERY = "query q%d() {\n    match { $a: Author\n        $a knows $b }\n    return { $a.name, $b.born }\n}\n"
BOOTED = 50
DELAY_SECONDS = 0.02


def write_cluster(place: Path, graphs: int, queries: int, storage: str | None = None) -> None:
    """Write a directory of so many graphs with so many queries each."""
    lines = ["version: 1", *([] if storage is None else [f"storage: {storage}"]), "graphs:"]
    for number in range(graphs):
        (place / f"g{number}.pg").write_text(SCHEMA)
        given = ""
        if queries:
            given = f", queries: g{number}.gq"
            (place / f"g{number}.gq").write_text("".join(QUERY % one for one in range(queries)))
        lines.append(f"  g{number}: {{ schema: g{number}.pg{given} }}")
    (place / "cluster.yaml").write_text("\n".join(lines) + "\n")


def processor_seconds(work: Callable[[], object]) -> tuple[float, float]:
    """Return the processor time and the time that something took."""
    cpu, wall = time.process_time(), time.perf_counter()
    work()
    return time.process_time() - cpu, time.perf_counter() - wall


def memory_mb() -> float:
    """Return how much memory this process holds."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


@contextmanager
def directory() -> Iterator[Path]:
    """A directory that goes at the end."""
    with tempfile.TemporaryDirectory() as place:
        yield Path(place)


def validating(graphs: int, queries: int) -> None:
    """Validate a directory."""
    with directory() as place:
        write_cluster(place, graphs, queries // graphs)
        documents: list[dict[str, object]] = []
        cpu, _ = processor_seconds(lambda: documents.append(dict(validate(str(place)))))
        assert documents[0]["ok"], documents[0]["diagnostics"]
        print(f"validate {graphs} graphs, {queries} queries: {cpu:.2f} s of CPU")


def opening(uris: list[str], at_once: int) -> tuple[float, float, float]:
    """Open graphs as a server does; return processor time, time, and memory in MB for each."""
    with ExitStack() as ending:
        before = memory_mb()

        def all_of_them() -> None:
            with ThreadPoolExecutor(at_once) as pool:
                for graph in pool.map(lambda uri: open_graph(uri, upkeep="background"), uris):
                    ending.callback(graph.close)

        cpu, wall = processor_seconds(all_of_them)
        return cpu, wall, (memory_mb() - before) / len(uris)


def booting(root: str, where: str) -> None:
    """Open the graphs of a cluster one by one, and as boot does; the first round warms up."""
    uris = [f"{root}/graphs/g{number}.omni" for number in range(BOOTED)]
    opening(uris, 1)
    one_cpu, one_wall, _ = opening(uris, 1)
    cpu, wall, each = opening(uris, AT_ONCE)
    print(
        f"open {BOOTED} graphs {where}: {cpu:.2f} s of CPU ({cpu / one_cpu:.2f} x one by one), "
        f"{wall:.2f} s ({wall / one_wall:.2f} x), {each:.2f} MB each"
    )


def unchanged() -> None:
    """Plan and apply a cluster that has no changes, and count what a store is asked; then boot it."""
    from tests.s3_server import BUCKET, S3Server

    server = S3Server().start()
    os.environ |= server.environment()
    try:
        with directory() as place:
            root = f"s3://{BUCKET}/cluster"
            write_cluster(place, BOOTED, 2, root)
            assert import_cluster(str(place))["ok"]
            assert apply(str(place))["converged"]
            asked: list[str] = []
            server.before(lambda environ: asked.append(environ["REQUEST_METHOD"]))
            assert plan(str(place))["changes"] == []
            print(f"plan without changes of {BOOTED} graphs: {len(asked)} requests")
            asked.clear()
            assert not apply(str(place))["state_written"]
            writes = [one for one in asked if one not in {"GET", "HEAD"}]
            print(f"converged apply: {len(asked)} requests, {len(writes)} of them for the lock")
            server.disarm()
            server.before(lambda _: time.sleep(DELAY_SECONDS))
            booting(root, "on S3 with 20 ms a call (the processor time is also the store's)")
    finally:
        server.disarm()
        server.stop()


def main() -> None:
    """Run everything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--large", action="store_true")
    large = parser.parse_args().large
    validating(100, 1_000)
    if large:
        validating(1_000, 10_000)
    with directory() as place:
        write_cluster(place, BOOTED, 2)
        assert import_cluster(str(place))["ok"]
        assert apply(str(place))["converged"]
        booting(str(place), "on disk")
    unchanged()


if __name__ == "__main__":
    main()
