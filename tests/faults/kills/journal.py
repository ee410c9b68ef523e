"""What a worker writes down before and after every operation, so that its death loses none of it.

One file per worker, one JSON line per entry, on the disk before the worker goes on:

    {"begin": 3, "at": …, "intent": {"kind": "merge", …}}
    {"end": 3, "at": …, "outcome": "done", "commit": "01J…"}

An operation without an end was under way when the worker was killed.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any, Literal, Self

Outcome = Literal["done", "refused", "unknown", "broken", "undone", "completed"]


@dataclass
class Entry:
    """One operation. Times are those of the machine's one monotonic clock, ``end`` is infinite while open.

    ``outcome``: done is acknowledged, refused changed nothing, unknown is left to a recovery, which makes it
    completed or undone; broken is an error that no operation may end with.
    """

    worker: str
    number: int
    intent: Mapping[str, Any]
    begin: float
    end: float = inf
    outcome: Outcome = "unknown"
    commit: str | None = None
    error: str | None = None

    @property
    def actor(self) -> str:
        """Under which name its commit is made."""
        return actor_of(self.worker, self.number)

    @property
    def may_have_happened(self) -> bool:
        return self.outcome not in {"refused", "undone"}

    @property
    def kind(self) -> str:
        return self.intent["kind"]

    def __str__(self) -> str:
        return f"{self.actor} {dict(self.intent)}: {self.outcome} {self.commit or self.error or ''}"


def actor_of(worker: str, number: int) -> str:
    return f"{worker}.{number}"


class Journal:
    """The journal of this process."""

    def __init__(self, directory: Path, worker: str) -> None:
        self._file = os.open(directory / f"{worker}.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._file)

    def begin(self, number: int, intent: Mapping[str, Any]) -> None:
        self._write({"begin": number, "at": time.monotonic(), "intent": intent})

    def end(self, number: int, outcome: Outcome, **more: Any) -> None:
        self._write({"end": number, "at": time.monotonic(), "outcome": outcome, **more})

    def _write(self, entry: Mapping[str, Any]) -> None:
        os.write(self._file, json.dumps(entry).encode() + b"\n")
        os.fsync(self._file)


def read_journal(directory: Path, worker: str) -> list[Entry]:
    """What a dead worker had written down; none if it died before its first operation."""
    path = directory / f"{worker}.jsonl"
    entries: list[Entry] = []
    if not path.exists():
        return entries
    for line in path.read_bytes().split(b"\n")[:-1]:  # a line without its end was never told
        said = json.loads(line)
        if "begin" in said:
            entries.append(Entry(worker, said["begin"], said["intent"], said["at"]))
        else:
            assert entries[-1].number == said["end"]
            entries[-1].end, entries[-1].outcome = said["at"], said["outcome"]
            entries[-1].commit, entries[-1].error = said.get("commit"), said.get("error")
    return entries
