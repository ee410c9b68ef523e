"""What large blobs cost in memory: in, out, and along with their rows. Each step is a process of its own.

`./dev bench blobs` takes one blob of 1,000 MB, and as many bytes in blobs of 1 MB; `--mb N` any other size. The
bar is 300 MB over idle for every step.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, BinaryIO, Literal, cast

import omnigraph

SCHEMA = """
node Plate { tag: String @key  scan: Blob?  caption: String? }
node Word { key: String @key  text: String?  picture: Blob? }
"""
MB, PIECE, BAR = 1_000_000, 4 << 20, 300
SCAN: tuple[Literal["node"], str, str, str] = ("node", "Plate", "large", "scan")


UPDATE = 'query q($c: String) { update Plate set { caption: $c } where tag != "" }'
"""Changes another property of every plate."""


def digest(file: BinaryIO) -> str:
    """The hash of all bytes of a file."""
    found = hashlib.sha256()
    while piece := file.read(PIECE):
        found.update(piece)
    return found.hexdigest()


def write(graph: omnigraph.Graph, source: Path) -> None:
    """In, by `graph.blobs.write`."""
    with source.open("rb") as file:
        graph.blobs.write(*SCAN, iter(lambda: file.read(PIECE), b""))


def load(graph: omnigraph.Graph, source: Path) -> None:
    """In, by a record that names the file."""
    record = {"type": "Plate", "data": {"tag": "large", "scan": {"$file": str(source)}}}
    graph.load([record, *small("loaded")], mode="merge")


def read(graph: omnigraph.Graph, _: Path) -> str:
    """Out, as a stream."""
    with graph.blobs.open(*SCAN) as file:
        return digest(file)


def mutate(graph: omnigraph.Graph, _: Path) -> None:
    """Along with an update of another property."""
    graph.mutate(UPDATE, params={"c": "b"})


def branch(graph: omnigraph.Graph, _: Path) -> None:
    """Along with an update on a branch, whose table is forked for it."""
    graph.branches.create("side")
    graph.mutate(UPDATE, params={"c": "c"}, branch="side")


def branch_read(graph: omnigraph.Graph, _: Path) -> str:
    """Out of the branch."""
    with graph.blobs.open(*SCAN, branch="side") as file:
        return digest(file)


def compaction(graph: omnigraph.Graph, _: Path) -> None:
    """Beside small fragments that are compacted."""
    removed = {row.table_key: row.fragments_removed for row in graph.optimize()}
    assert removed["node:Plate"], "there was nothing to compact"


def diff(graph: omnigraph.Graph, _: Path) -> None:
    """What differs on the branch, of which the blobs are compared and not shown."""
    found = graph.diff("main", "side", images=False)
    assert {change.id for change in found} >= {"large"}


def merge(graph: omnigraph.Graph, _: Path) -> None:
    """The branch into `main`, where another row came meanwhile."""
    graph.mutate('query q() { insert Plate { tag: "new" } }')
    assert graph.branches.merge("side").stats.updates


def many(graph: omnigraph.Graph, source: Path) -> None:
    """As many bytes in blobs of 1 MB, in ten loads."""
    size = source.stat().st_size // MB
    for part in range(10):
        names = range(part * size // 10, (part + 1) * size // 10)
        graph.load(_records(names, source), mode="append")


def _records(names: range, source: Path) -> Iterator[dict[str, object]]:
    with source.open("rb") as file:
        for number in names:
            file.seek(number * MB)
            data = {"key": f"k{number}", "picture": file.read(MB)}
            yield {"type": "Word", "data": data}


def many_changed(graph: omnigraph.Graph, _: Path) -> None:
    """Another property of all of them."""
    graph.branches.create("text")
    graph.mutate('query q() { update Word set { text: "y" } where key != "w" }', branch="text")


def many_compared(graph: omnigraph.Graph, source: Path) -> None:
    """What differs, with every blob in it before and after."""
    found = graph.diff("main", "text")
    size = sum(len(change.after["properties"]["picture"]) for change in found if change.after)
    assert size > source.stat().st_size


def many_compacted(graph: omnigraph.Graph, _: Path) -> None:
    """Their fragments made one."""
    removed = {row.table_key: row.fragments_removed for row in graph.optimize()}
    assert removed["node:Word"] > 5, "there was nothing to compact"


class Decoded:
    """A file that takes an export and hashes the bytes of its largest blob."""

    def __init__(self) -> None:
        self._line = b""
        self._hash = hashlib.sha256()
        self._inside = False

    def write(self, piece: bytes) -> int:
        """Take a piece: of a large blob, quotes and base64 come one after another."""
        if piece == b'"base64:' and b'"large"' in self._line:
            self._inside = True
        elif piece == b'"':
            self._inside = False
        elif self._inside:
            self._hash.update(base64.b64decode(piece))
        else:
            self._line = piece if self._line.endswith(b"\n") else (self._line + piece)[-MB:]
        return len(piece)

    def digest(self) -> str:
        """The hash of the blob."""
        return self._hash.hexdigest()


def export(graph: omnigraph.Graph, _: Path) -> str:
    """Out, as base64 in an export of the whole graph."""
    out = Decoded()
    graph.export(cast("IO[bytes]", out))
    return out.digest()


STEPS: tuple[Callable[[omnigraph.Graph, Path], str | None], ...] = (
    write,
    read,
    mutate,
    load,
    branch,
    branch_read,
    compaction,
    read,
    diff,
    merge,
    read,
    export,
    many,
    many_changed,
    many_compared,
    many_compacted,
)


def small(name: str) -> list[dict[str, object]]:
    """Records with small blobs."""
    return [
        {"type": "Plate", "data": {"tag": f"{name}{n}", "scan": b"small" * 20_000}}
        for n in range(3)
    ]


def memory(field: str) -> float:
    """`VmRSS` or `VmHWM` of this process, in MB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024 / MB
    raise RuntimeError(f"no {field} in /proc/self/status; this benchmark needs Linux")


def measure(step: int, root: str, source: str) -> None:
    """Run one step in this process, and print what it took beyond what an idle process has."""
    with omnigraph.open(root, local_files=True) as graph:
        # Libraries are loaded and caches are warm before the step begins.
        graph.mutate('query q() { update Word set { text: "x" } where text = "none" }')
        graph.blobs.write("node", "Word", "w", "picture", b"warm")
        graph.blobs.read("node", "Word", "w", "picture")
        idle = memory("VmRSS")
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
        start = time.perf_counter()
        found = STEPS[step](graph, Path(source))
        seconds = time.perf_counter() - start
        print(json.dumps({"mb": memory("VmHWM") - idle, "seconds": seconds, "digest": found}))


def main() -> None:
    """Run every step, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mb", type=int, default=1000, help="the size of the blob")
    parser.add_argument("--step", nargs=3, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.step is not None:
        number, root, source = asked.step
        measure(int(number), root, source)
        return
    place = Path(tempfile.mkdtemp(prefix="blobs-"))
    try:
        run(place, asked.mb)
    finally:
        shutil.rmtree(place)


def run(place: Path, size: int) -> None:
    """Make the blob and the graph, then measure each step."""
    source, root = place / "source.bin", place / "graph"
    piece = hashlib.shake_256(b"blob").digest(MB)
    with source.open("wb") as out:
        for number in range(size):
            out.write(number.to_bytes(8, "big") + piece[8:])
    with source.open("rb") as file:
        wanted = digest(file)
    with omnigraph.init(root, SCHEMA) as graph:
        graph.load([{"type": "Word", "data": {"key": "w"}}])
        graph.load([{"type": "Plate", "data": {"tag": "large"}}, *small("a")])
        for name in "bcd":
            graph.load(small(name), mode="append")
    print(f"a blob of {size} MB; memory over idle, bar {BAR} MB")
    worst = 0.0
    for number, step in enumerate(STEPS):
        command = [
            sys.executable,
            "-m",
            "benchmarks.blobs",
            "--step",
            str(number),
            str(root),
            str(source),
        ]
        done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603 - our own command
        figures = json.loads(done.stdout.splitlines()[-1])
        assert figures["digest"] in {None, wanted}, f"{step.__name__}: other bytes came out"
        worst = max(worst, figures["mb"])
        print(f"{step.__name__:14} {figures['mb']:7.0f} MB {figures['seconds']:7.1f} s")
    print(f"worst {worst:.0f} MB: {'within' if worst < BAR else 'PAST'} the bar")


if __name__ == "__main__":
    main()
