"""Bulk loads of Parquet beside Kùzu's, in turns: `social`, and `lsqb` at its large size with 19 tables.

    ./dev bench loads [--turns N] [--small] [--only social,lsqb]

Every load runs in a process of its own. On a busy machine go by the processor time, which says how much work a
load is; on a quiet one by the seconds. Afterwards a new process merges 100 edges by their ids into the largest
table of edges, twice: an index on ids that is not there would make the first time slower.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks import lsqb, social
from benchmarks.contest import snb
from benchmarks.contest.dataset import write_dataset
from benchmarks.contest.peers import peers_directory
from benchmarks.contest.referee import OURS, Failed, Player

PEER = "kuzu"
BAR = 1.2
TURNS = 3
SMALLER = 20


def _social(small: bool) -> tuple[Any, Any]:
    return social.frames(social.network(100_000 // (SMALLER if small else 1)))


def _lsqb(small: bool) -> tuple[Any, Any]:
    return snb.frames(snb.network(lsqb.SIZES["large"] // (SMALLER if small else 1)))


DATA: dict[str, Callable[[bool], tuple[Any, Any]]] = {"social": _social, "lsqb": _lsqb}


def remove(place: Path) -> None:
    """Remove what a load made."""
    if place.is_dir():
        shutil.rmtree(place)
    place.unlink(missing_ok=True)


def loaded(name: str, dataset: Path, peers: Path | None) -> dict[str, float]:
    """The costs of one load, in a process of its own."""
    place = dataset / f"{name}.db"
    remove(place)
    with Player(name, dataset, place, peers) as player:
        return player.order("load") | player.order("peak")


def compare(name: str, dataset: Path, players: Sequence[str], turns: int) -> None:
    """Load in turns and print the ratios of the medians."""
    peers = peers_directory() if PEER in players else None
    found: dict[str, list[dict[str, float]]] = {player: [] for player in players}
    for _ in range(turns):
        for player, costs in found.items():
            costs.append(loaded(player, dataset, peers))
            shown = costs[-1]
            print(
                f"  {player:10}{shown['seconds']:8.2f} s, processor {shown['cpu']:6.2f} s, "
                f"{shown['peak'] / 2**20:,.0f} MiB",
                flush=True,
            )
    middle = {
        player: {kind: statistics.median(one[kind] for one in costs) for kind in ("seconds", "cpu")}
        for player, costs in found.items()
    }
    if PEER in middle:
        for kind, what in (("seconds", "seconds"), ("cpu", "processor time")):
            ratio = middle[OURS][kind] / middle[PEER][kind]
            met = "met" if ratio <= BAR else "MISSED"
            print(f"  {name}: {what} {ratio:.2f} times Kùzu's (bar {BAR}): {met}", flush=True)


def merge_edges(name: str, dataset: Path) -> None:
    """Merge edges by their ids into the loaded graph, in a new process."""
    with Player(OURS, dataset, dataset / f"{OURS}.db", None) as player:
        for time in ("first", "second"):
            cost = player.order("merge")
            print(
                f"  {name}: the {time} merge of {cost['rows']} edges by id into {cost['stored']:,}: "
                f"{cost['seconds'] * 1000:,.0f} ms, processor {cost['cpu'] * 1000:,.0f} ms",
                flush=True,
            )


def main() -> None:
    """All data, or what was asked for."""
    parser = argparse.ArgumentParser(prog="./dev bench loads")
    parser.add_argument("--turns", type=int, default=TURNS, help="loads of each engine")
    parser.add_argument("--small", action="store_true", help="a twentieth of the size")
    parser.add_argument("--only", default=",".join(DATA), help="names, with commas")
    parser.add_argument("--engines", default=f"{OURS},{PEER}", help="names, with commas")
    chosen = parser.parse_args()
    for name in chosen.only.split(","):
        with tempfile.TemporaryDirectory() as directory:
            nodes, edges = DATA[name](chosen.small)
            dataset = Path(directory)
            write_dataset(dataset, nodes, edges)
            rows = sum(len(one) for one in nodes.values()) + sum(len(e[2]) for e in edges.values())
            print(f"{name}: {rows:,} rows in {len(nodes) + len(edges)} tables")
            try:
                compare(name, dataset, chosen.engines.split(","), chosen.turns)
                merge_edges(name, dataset)
            except Failed as fault:
                print(f"  {fault}")


if __name__ == "__main__":
    main()
