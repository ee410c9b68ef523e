"""How much processor time commands take in a process of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import omnigraph as og

RUNS = 7
SCHEMA = "node Person { name: String @key }\n"
QUERY = "query people() { match { $p: Person } return { $p.name } }"
BARS = {
    "version": (["version"], 0.15),
    "query": (["query", "-e", QUERY, "--store", "g.omni"], 0.8),
}


def main() -> None:
    """Print the least time of several runs beside its bar: what others use of the machine only adds."""
    with tempfile.TemporaryDirectory() as place:
        og.init(Path(place) / "g.omni", SCHEMA).close()
        for name, (argv, bar) in BARS.items():
            least = min(cpu_of(argv, place) for _ in range(RUNS))
            print(f"{name:<8} {least:.3f} s, bar {bar} s, ratio {least / bar:.2f}")


def cpu_of(argv: list[str], place: str) -> float:
    """Return the processor seconds, of user and system, that a command line takes."""
    before = os.times()
    subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-m", "omnigraph", *argv],
        cwd=place,
        env=environment(place),
        stdout=subprocess.DEVNULL,
        check=True,
    )
    after = os.times()
    return (
        after.children_user - before.children_user + after.children_system - before.children_system
    )


def environment(place: str) -> dict[str, str]:
    """Return what surrounds a command: no file of its user's, and compiled modules after one run."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "OMNIGRAPH_HOME": place, "PYTHONPYCACHEPREFIX": f"{place}/compiled"}


if __name__ == "__main__":
    main()
