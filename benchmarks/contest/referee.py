"""Starts the engines, asks them in turns, compares what they answer, and writes the score down."""

from __future__ import annotations

import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from benchmarks.contest.engines import Question, Row
from benchmarks.contest.peers import PEERS, peers_directory

ROOT = Path(__file__).parents[2]
OURS = "omnigraph"


class Failed(Exception):
    """An engine did not answer; the message is its own."""


class Player:
    """One engine in one process."""

    def __init__(self, name: str, dataset: Path, place: Path, peers: Path | None) -> None:
        paths = [str(ROOT), os.environ.get("PYTHONPATH", ""), str(peers) if peers else ""]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
        # The peers came with bytecode; ours is kept by the first process that imports it.
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        self.name = name
        self._process = subprocess.Popen(  # noqa: S603
            [sys.executable, "-m", "benchmarks.contest.worker", name, str(dataset), str(place)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            cwd=ROOT,
        )

    def order(self, do: str, **more: Any) -> dict[str, Any]:
        """Send one order, wait for the answer."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        try:
            stdin.write(json.dumps({"do": do, **more}) + "\n")
            stdin.flush()
            line = stdout.readline()
        except OSError:
            line = ""
        if not line:
            raise Failed(f"{self.name} ended with status {self._process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise Failed(f"{self.name}: {answer['error']}")
        return answer

    def ask(self, question: Question) -> tuple[float, list[Row]]:
        """Seconds and rows of one run."""
        answer = self.order("ask", question=asdict(question))
        return answer["seconds"], answer["rows"]

    def write(self, question: Question) -> float:
        """Seconds of one mutation."""
        seconds: float = self.order("write", question=asdict(question))["seconds"]
        return seconds

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


@dataclass
class Score:
    """What one engine achieved; seconds by question."""

    load: float = 0.0
    load_peak: int = 0
    warm: dict[str, float] = field(default_factory=dict)
    best: dict[str, float] = field(default_factory=dict)
    cold: dict[str, float] = field(default_factory=dict)
    peak: int = 0
    faults: dict[str, str] = field(default_factory=dict)


@dataclass
class Contest:
    """Questions to several engines about one dataset, with the right answers; without one, the first engine's is."""

    dataset: Path
    questions: Sequence[Question]
    expected: Mapping[str, list[Row]]
    engines: Sequence[str]
    budget: float = 4.0
    samples: int = 15
    scores: dict[str, Score] = field(default_factory=dict)

    def run(self, cold: bool = True) -> dict[str, Score]:
        """Load, measure warm in turns, then every question in a fresh process."""
        peers = peers_directory() if set(self.engines) & set(PEERS) else None
        playing = [name for name in self.engines if name not in PEERS or peers is not None]
        for name in set(self.engines) - set(playing):
            note(f"{name} is not installed; going on without it")
        self._peers = peers
        loaded = [name for name in playing if self._load(name)]
        self._warm(loaded)
        if cold:
            for name in loaded:
                self._cold(name)
        return self.scores

    def _player(self, name: str) -> Player:
        return Player(name, self.dataset, self.dataset / f"{name}.db", self._peers)

    def _load(self, name: str) -> bool:
        score = self.scores[name] = Score()
        try:
            with self._player(name) as player:
                score.load = player.order("load")["seconds"]
                score.load_peak = player.order("peak")["peak"]
        except Failed as fault:
            note(f"load failed: {fault}")
            del self.scores[name]
            return False
        note(f"{name}: loaded in {score.load:.1f} s, {score.load_peak / 2**20:.0f} MiB")
        return True

    def _warm(self, names: Sequence[str]) -> None:
        players = [self._player(name) for name in names]
        try:
            for player in players:
                player.order("open")
            for question in self.questions:
                self._in_turns(players, question)
            for player in players:
                self.scores[player.name].peak = player.order("peak")["peak"]
        finally:
            for player in players:
                player.__exit__(None, None, None)

    def _in_turns(self, players: Sequence[Player], question: Question) -> None:
        """Samples of every engine alternate, so that a busy machine slows all of them."""
        taken: dict[str, list[float]] = {}
        expected = self.expected.get(question.name)
        spent: dict[str, float] = {}
        for player in players:
            score = self.scores[player.name]
            try:
                spent[player.name], rows = player.ask(question)
            except Failed as fault:
                score.faults[question.name] = str(fault)
                note(f"{question.name}: {fault}")
                continue
            expected = rows if expected is None else expected
            if not same(rows, expected):
                score.faults[question.name] = "wrong answer"
                note(f"{question.name}: {player.name} answers {str(rows)[:200]}, "
                     f"right is {str(expected)[:200]}")  # fmt: skip
            taken[player.name] = []
        for _ in range(self.samples):
            for player in players:
                if player.name not in taken:
                    continue
                wanted = 3 if spent[player.name] < 5 * self.budget else 0
                if len(taken[player.name]) < wanted or spent[player.name] < self.budget:
                    seconds, _ = player.ask(question)
                    taken[player.name].append(seconds)
                    spent[player.name] += seconds
        for name, counted in taken.items():
            # Of what takes very long the first run is enough.
            samples = counted or [spent[name]]
            self.scores[name].warm[question.name] = statistics.median(samples)
            self.scores[name].best[question.name] = min(samples)

    def _cold(self, name: str) -> None:
        """Import, open and the first question, each in a process that did nothing before."""
        for question in self.questions:
            if question.name not in self.scores[name].warm:
                continue
            with self._player(name) as player:
                player.order("peak")  # The interpreter is up.
                start = time.perf_counter()
                player.order("open")
                player.ask(question)
                self.scores[name].cold[question.name] = time.perf_counter() - start


def same(left: list[Row], right: list[Row]) -> bool:
    """Equal rows, floats up to rounding."""
    return len(left) == len(right) and all(
        len(a) == len(b)
        and all(
            math.isclose(x, y, rel_tol=1e-9) if isinstance(y, float) else x == y
            for x, y in zip(a, b, strict=True)
        )
        for a, b in zip(left, right, strict=True)
    )


def note(text: str) -> None:
    """Progress goes to stderr."""
    print(text, file=sys.stderr, flush=True)


def fastest_peer(scores: Mapping[str, Score], question: str) -> float | None:
    """The best warm time of an engine that is not ours and answered right."""
    times = [
        score.warm[question]
        for name, score in scores.items()
        if name != OURS and question in score.warm and question not in score.faults
    ]
    return min(times, default=None)


def table(
    title: str, scores: Mapping[str, Score], questions: Sequence[Question], kind: str
) -> None:
    """Milliseconds per question and engine; for ours also the ratio to the fastest peer."""
    print(f"\n{title:46}" + "".join(f"{name:>12}" for name in scores) + f"{'ratio':>9}")
    for question in questions:
        times = {name: getattr(score, kind).get(question.name) for name, score in scores.items()}
        cells = "".join(
            f"{value * 1000:12.2f}" if value is not None else f"{'-':>12}"
            for value in times.values()
        )
        others = [value for name, value in times.items() if name != OURS and value is not None]
        mine = times.get(OURS)
        ratio = f"{mine / min(others):9.2f}" if mine is not None and others else f"{'-':>9}"
        print(f"{question.title:46}{cells}{ratio}")


def totals(scores: Mapping[str, Score]) -> None:
    """Time and memory of the load, and memory of the warm process."""
    for title, cells in (
        ("load, s", [f"{score.load:12.1f}" for score in scores.values()]),
        ("peak memory of the load, MiB", [f"{s.load_peak / 2**20:12.0f}" for s in scores.values()]),
        (
            "peak memory of the warm process, MiB",
            [f"{s.peak / 2**20:12.0f}" for s in scores.values()],
        ),
    ):
        print(f"{title:46}" + "".join(cells))


def verdict(scores: Mapping[str, Score], question: Question, tenfold: bool = False) -> str:
    """Whether ours is within the bar for this question, as a line."""
    head = f"{question.title:46}"
    mine = scores[OURS].warm.get(question.name) if OURS in scores else None
    if mine is None or question.name in scores[OURS].faults:
        return f"{head}FAIL  no right answer"
    rival = fastest_peer(scores, question.name)
    if rival is None:
        return f"{head}-     no peer to compare with"
    passed, text = mine <= rival, f"{mine / rival:.2f} x the fastest peer (bar 1.0)"
    kuzu = scores["kuzu"].warm.get(question.name) if "kuzu" in scores else None
    if tenfold and kuzu is not None:
        passed = passed and kuzu >= 10 * mine
        text += f", {kuzu / mine:.1f} x faster than Kùzu (bar 10)"
    return f"{head}{'pass' if passed else 'FAIL'}  {text}"


def load_verdicts(scores: Mapping[str, Score]) -> list[str]:
    """Whether our load is within the bars against Kùzu's, as lines."""
    if OURS not in scores or "kuzu" not in scores:
        return []
    ours, kuzu = scores[OURS], scores["kuzu"]
    ratios = (
        ("load, time", ours.load / kuzu.load, 1.2),
        ("load, peak memory", ours.load_peak / kuzu.load_peak, 1.5),
    )
    return [
        f"{title:46}{'pass' if ratio <= bar else 'FAIL'}  {ratio:.2f} x Kùzu's (bar {bar})"
        for title, ratio, bar in ratios
    ]


def as_json(scores: Mapping[str, Score]) -> str:
    """Everything measured, for programs."""
    return json.dumps({name: asdict(score) for name, score in scores.items()}, indent=2)
