"""What the processes of the lock tests do. Each talks to the test over a pipe."""

from __future__ import annotations

import os
import time
from multiprocessing.connection import Connection
from pathlib import Path

from omnigraph.errors import Contention
from omnigraph.storage.locks.locks import LockManager
from omnigraph.storage.locks.waiting import Patience
from omnigraph.storage.objects.store_errors import LockLost
from omnigraph.storage.uris import Root


def open_locks(place: str, environment: dict[str, str], lease_period: float) -> LockManager:
    os.environ.update(environment)
    return LockManager(Root.parse(place), lease_period=lease_period)


def count_under_lock(
    place: str, environment: dict[str, str], lease_period: float, counter: str, times: int
) -> int:
    """Raise a number in a file the unsafe way, safely; the number of acquisitions."""
    locks = open_locks(place, environment, lease_period)
    file = Path(counter)
    for _ in range(times):
        with locks.acquire(["counter"], Patience(600_000)) as held:
            value = int(file.read_text())
            time.sleep(0.001)
            held.check()
            file.write_text(str(value + 1))
    return times


def take_both(
    place: str, environment: dict[str, str], lease_period: float, names: list[str], times: int
) -> int:
    """Take two locks together, given in this order, again and again."""
    locks = open_locks(place, environment, lease_period)
    for _ in range(times):
        with locks.acquire(names, Patience(600_000)) as held:
            held.check()
    return times


def hold(
    pipe: Connection, place: str, environment: dict[str, str], lease_period: float, names: list[str]
) -> None:
    """Take locks, say so, then obey: `check`, `release` or `stop`."""
    locks = open_locks(place, environment, lease_period)
    held = locks.acquire(names, Patience(600_000))
    pipe.send(("held", held.owner.as_json()))
    while True:
        order = pipe.recv()
        if order == "check":
            try:
                held.check()
                pipe.send("still held")
            except LockLost:
                pipe.send("lost")
            except Contention:
                pipe.send("contention")
        elif order == "release":
            held.release()
            pipe.send("released")
        else:
            return


def check_at_once(
    pipe: Connection, place: str, environment: dict[str, str], lease_period: float, effect: str
) -> None:
    """Hold a lock and make an effect after each check, as fast as it goes, until a check fails."""
    locks = open_locks(place, environment, lease_period)
    held = locks.acquire(["table"], Patience(600_000))
    pipe.send("held")
    with Path(effect).open("a") as file:
        try:
            while True:
                held.check()
                file.write(f"{os.getpid()}\n")
                file.flush()
                time.sleep(0.01)
        except LockLost as error:
            pipe.send(("lost", str(error)))
