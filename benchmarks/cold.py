"""The first answer of a new process: with and without what another process kept on disk, and Kùzu's.

    ./dev bench cold [--small]

The graph is that of `social`; `--small` is a twentieth of its size. The bar is 1.25 times `import lance`
and one look-up in an index. Processor time is what is compared, the least of several processes.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.contest.dataset import write_dataset
from benchmarks.contest.engines import Question, Row
from benchmarks.contest.peers import peers_directory
from benchmarks.contest.referee import ROOT, same
from benchmarks.social import QUESTIONS, answers, frames, network

RUNS = 5
BAR = 1.25
ASKED = ("q1", "q8", "q9")
LOOK_UP = """
import lance, sys
table = lance.dataset(sys.argv[1])
assert table.scanner(columns=["dst"], filter="src = '42'").to_table().num_rows
"""
ASK = """
import json, sys
from pathlib import Path
from benchmarks.contest.engines import Question, engine
name, place, question = sys.argv[1:]
player = engine(name)
player.open(Path(place))
print(json.dumps(player.ask(Question(**json.loads(question)))))
"""
LOAD = """
import sys
from pathlib import Path
from benchmarks.contest.dataset import read_dataset
from benchmarks.contest.engines import engine
name, dataset, place = sys.argv[1:]
engine(name).load(read_dataset(Path(dataset)), Path(place))
"""


class Processes:
    """New processes with a cache directory of their own, and what each took."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._peers = peers_directory()
        self.engines = ["omnigraph"] if self._peers is None else ["omnigraph", "kuzu"]

    def run(self, script: str, *argv: str, disk_mb: int = 4096) -> tuple[float, str]:
        """Processor seconds and output of one process."""
        kept = {name: text for name, text in os.environ.items() if name[:10] != "OMNIGRAPH_"}
        kept.pop("PYTHONDONTWRITEBYTECODE", None)
        paths = [str(ROOT), kept.get("PYTHONPATH", ""), str(self._peers or "")]
        environment = {
            **kept,
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            "OMNIGRAPH_CACHE_DIR": str(self._place / "cache"),
            "OMNIGRAPH_DISK_CACHE_MB": str(disk_mb),
        }
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(  # noqa: S603 - our own scripts
            [sys.executable, "-c", script, *argv],
            env=environment,
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
        return used, done.stdout

    def least(self, script: str, *argv: str, disk_mb: int = 4096) -> tuple[float, str]:
        """The least of several runs: what else the machine does only adds."""
        return min(self.run(script, *argv, disk_mb=disk_mb) for _ in range(RUNS))


def asked(question: Question) -> str:
    """A question for the command line of a process."""
    fields = ("name", "title", "ours", "cypher", "sql", "params")
    return json.dumps({name: getattr(question, name) for name in fields})


def main() -> None:
    """Load, then ask every question in processes that did nothing before."""
    parser = argparse.ArgumentParser(prog="./dev bench cold")
    parser.add_argument("--small", action="store_true", help="a twentieth of the size")
    net = network(5_000 if parser.parse_args().small else 100_000)
    right = answers(net)
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        write_dataset(place, *frames(net))
        processes = Processes(place)
        for player in processes.engines:
            processes.run(LOAD, player, name, str(place / f"{player}.db"))
        largest = max((place / "omnigraph.db/edges").iterdir(), key=size_below)
        bar, _ = processes.least(LOOK_UP, str(largest))
        print(f"{len(net.age):,} persons, {net.follows.shape[1]:,} follows; processor seconds")
        print(f"{'import lance and one look-up':40}{bar:10.2f}")
        titles = ("nothing kept", "kept", "kuzu", "kept / bar")
        print(f"\n{'first answer of a process':40}" + "".join(f"{one:>14}" for one in titles))
        for question in QUESTIONS:
            if question.name in ASKED:
                show(processes, place, question, right[question.name], BAR * bar)


def show(
    processes: Processes, place: Path, question: Question, right: list[Row], bar: float
) -> None:
    """One line; every answer is compared with the right one."""
    cells = []
    for player, disk_mb in (("omnigraph", 0), ("omnigraph", 4096), ("kuzu", 0)):
        if player not in processes.engines:
            cells.append(f"{'-':>14}")
            continue
        argv = (ASK, player, str(place / f"{player}.db"), asked(question))
        processes.run(*argv, disk_mb=disk_mb)  # Keeps what the others use.
        used, rows = processes.least(*argv, disk_mb=disk_mb)
        is_right = same(json.loads(rows), right)
        cells.append(f"{used:14.2f}" if is_right else f"{'wrong':>14}")
        if disk_mb:
            ratio = used / bar
    print(f"{question.title:40}{''.join(cells)}{ratio:14.2f}")


def size_below(place: Path) -> int:
    """The bytes of all files in a directory."""
    return sum(path.stat().st_size for path in place.rglob("*") if path.is_file())


if __name__ == "__main__":
    main()
