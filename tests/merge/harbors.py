"""A small graph to merge in, and short ways to change it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import omnigraph as og
from omnigraph import failpoints
from tests.opened import workspace_of
from tests.stored import read_back

SCHEMA = """
node Ship { imo: String @key name: String @unique tonnage: I32? flag: String? photo: Blob? }
node Port { code: String @key city: String? }
edge CallsAt: Ship -> Port { visits: I32? }
"""


def new_harbor(place: Any) -> og.Graph:
    """Ships S1 to S4, two ports, and one call of S1 at OSL."""
    graph = og.init(place, SCHEMA)
    fleet = [ship(f"S{n}", tonnage=n) for n in range(1, 5)]
    graph.load([*fleet, port("OSL"), port("GOT"), call("c1", "S1", "OSL")])
    return graph


def ship(imo: str, **values: Any) -> dict[str, Any]:
    return {"type": "Ship", "data": {"imo": imo, "name": f"ship {imo}", **values}}


def port(code: str, **values: Any) -> dict[str, Any]:
    return {"type": "Port", "data": {"code": code, **values}}


def call(id: str, src: str, dst: str, **values: Any) -> dict[str, Any]:
    return {"edge": "CallsAt", "from": src, "to": dst, "data": {"id": id, **values}}


def put(graph: og.Graph, branch: str, *records: dict[str, Any]) -> og.GraphCommit:
    """Patch these records into a branch."""
    return graph.load(list(records), branch=branch, mode="patch").commit


def drop_ship(graph: og.Graph, branch: str, imo: str) -> None:
    graph.mutate(f'query d() {{ delete Ship where imo = "{imo}" }}', branch=branch)


def ships(graph: og.Graph, branch: str = "main") -> dict[str, Any]:
    """The tonnage of every ship."""
    found = read_back(graph, branch).nodes["Ship"]
    return {imo: row["tonnage"] for imo, row in found.items()}


def pins(graph: og.Graph, branch: str = "main") -> dict[str, og.TableState]:
    return dict(graph.snapshot(branch=branch).tables)


def files_of(graph: og.Graph) -> list[str]:
    """Every file of the graph."""
    root = Path(workspace_of(graph).root.path)
    return sorted(str(path.relative_to(root)) for path in root.rglob("*"))


class Paused:
    """What runs in another thread and stands at a failpoint."""

    def __init__(self, work: Callable[[], Any], pause: failpoints.Pause) -> None:
        self._pause = pause
        self._outcome: list[Any] = []
        self._thread = threading.Thread(target=self._run, args=(work,))

    def _run(self, work: Callable[[], Any]) -> None:
        try:
            self._outcome.append(work())
        except BaseException as error:  # noqa: BLE001 - raised again in the thread of the test
            self._outcome.append(error)

    def begin(self) -> None:
        self._thread.start()
        self._pause.wait_until_reached()

    def go_on(self) -> Any:
        """Let it run to its end; return its result, or raise its error."""
        self.end()
        (outcome,) = self._outcome
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    def end(self) -> None:
        self._pause.resume()
        self._thread.join()


@contextmanager
def paused(point: str, work: Callable[[], Any]) -> Iterator[Paused]:
    """Run something until it reaches a failpoint; the block decides when it goes on."""
    pause = failpoints.Pause()
    with failpoints.arm(point, pause, times=1):
        running = Paused(work, pause)
        running.begin()
        try:
            yield running
        finally:
            running.end()
