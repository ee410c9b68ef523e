"""Processes that do everything at once are killed at random moments, over and over.

What a worker was told is there stays there; what it was not told of is there as a whole or not at all. There
are always two at work, so that the living meet what the dead left behind, and some die while they open the
graph. After a few kills a reader that recovers nothing, and after it an ordinary open, are judged by the
journals of the dead (`ledger.py`). `./dev faults --kills 1000` is the long run, `--seed S` another one.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import shutil
import time
from collections import Counter, deque
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import omnigraph as og
from omnigraph.commit.audit import read_audit
from omnigraph.runner.session import spark_problem
from tests.faults.kills.journal import read_journal
from tests.faults.kills.ledger import Ledger
from tests.faults.kills.work import schema
from tests.faults.kills.worker import work_until_killed
from tests.measured import MEASURED
from tests.opened import workspace_of
from tests.sampling import seed
from tests.storage.processes import context

KILLS = int(os.environ.get("FAULTS_KILLS") or 20)
KILLS_OF_A_ROUND = 5
ROUNDS_OF_A_GRAPH = 3
SPARK_EVERY = 50
"""After how many kills one hits a load on Spark, whose session takes seconds to start."""
LIMIT = 600.0
"""Seconds that no worker ever needs to begin its next operation."""


@dataclass
class Tally:
    """What happened in a run."""

    kills: Counter[str] = field(default_factory=Counter)
    operations: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    recovered: Counter[str] = field(default_factory=Counter)
    seconds: dict[str, float] = field(default_factory=dict)
    """How long an operation of a kind takes, roughly; a kill is aimed by it."""

    maintained: int = 0
    spark: int = 0
    """How many kills hit a worker that loads on Spark."""

    def took(self, kind: str, seconds: float) -> None:
        self.seconds[kind] = 0.7 * self.seconds.get(kind, seconds) + 0.3 * seconds

    def __str__(self) -> str:
        told = ", ".join(f"{n} {what}" for what, n in sorted(self.operations.items()))
        at = ", ".join(f"{kind} {n}" for kind, n in self.kills.most_common())
        ways = ", ".join(f"{n} {kind}" for kind, n in sorted(self.recovered.items()))
        why = ", ".join(f"{n} {code}" for code, n in self.refusals.most_common())
        total = self.kills.total()
        return (
            f"{total} kills (seed {seed()}; {at}); operations: {told} ({why}); "
            f"{self.maintained} commits of maintenance; recovered: {ways}"
        )


class Worker:
    """A process at work, and what it has told us so far."""

    def __init__(self, uri: str, journals: Path, name: str, season: str, tally: Tally) -> None:
        self.name = name
        self.kind = "open"
        self._tally = tally
        self._since = time.monotonic()
        self._java: int | None = None
        self._recovery = Path(uri) / "__recovery"
        self._pipe, theirs = context.Pipe()
        arguments = (theirs, uri, str(journals), name, season, seed())
        self.process = context.Process(target=work_until_killed, args=arguments, daemon=True)
        self.process.start()
        theirs.close()

    def begin(self, operations: int) -> None:
        """Wait until it has begun so many more operations."""
        while self._pipe.poll():
            self._hear()
        while operations > 0:
            assert self._pipe.poll(LIMIT), f"{self.name} stands still in {self.kind}"
            operations -= self._hear()

    def _hear(self) -> int:
        what, told, now = self._pipe.recv()
        if what == "java":
            self._java, self._since = told, now
            return 0
        self._tally.took(self.kind, now - self._since)
        self.kind, self._since = told, now
        return what == "begun"

    def kill(self, chance: Random) -> None:
        """Kill it at some moment of what it is doing, or soon after somebody's sidecar has appeared."""
        usual = self._tally.seconds.get(self.kind, 0.05)
        share = chance.uniform(0, 1.2)
        if chance.random() < 0.5:
            share /= 4
            end = time.monotonic() + 3 * usual
            while time.monotonic() < end and not any(self._recovery.glob("*.json")):
                time.sleep(0.001)
        time.sleep(share * usual)
        self.end()
        self._tally.kills[self.kind] += 1

    def end(self) -> None:
        """Kill it now, and hear what it had said; its last word may be cut off."""
        self.process.kill()
        self.process.join()
        with contextlib.suppress(EOFError, OSError, pickle.UnpicklingError):
            while True:
                self._hear()
        self._pipe.close()
        # Java ends by itself when its driver is gone; until then it may still write.
        while self._java is not None and _is_running(self._java):
            time.sleep(0.01)


def _is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


class Life:
    """One graph, from its making until it has been through some rounds."""

    def __init__(self, place: Path, season: str, chance: Random, tally: Tally) -> None:
        self.journals = place / "journals"
        self.journals.mkdir(parents=True)
        self.season, self.chance, self.tally = season, chance, tally
        self.workers = 0
        with og.init(place / "g", schema(())) as graph:
            self.uri = graph.uri
            self.ledger = Ledger(graph, chance)

    def start(self, stack: ExitStack, season: str) -> Worker:
        self.workers += 1
        worker = Worker(self.uri, self.journals, f"w{self.workers}", season, self.tally)
        stack.callback(self.bury, worker)
        return worker

    def bury(self, worker: Worker) -> None:
        """Take what a worker wrote down; one that was not killed by us is ended here."""
        if worker.process.is_alive():
            worker.end()
        self.ledger.add(read_journal(self.journals, worker.name))

    def round(self, *, spark: bool) -> None:
        """Kill one worker after the other, while another one works, and judge what is left."""
        with ExitStack() as stack:
            if spark:
                # Alone: the others would do far too much while its session starts.
                loader = self.start(stack, "spark")
                loader.begin(self.chance.randint(1, 2))
                loader.kill(self.chance)
                self.tally.spark += 1
            workers = deque([self.start(stack, self.season)])
            for number in range(KILLS_OF_A_ROUND):
                if number < KILLS_OF_A_ROUND - 1:
                    workers.append(self.start(stack, self.season))
                victim = workers.popleft()
                victim.begin(self.chance.choice((0, 1, 1, 2, 2, 3)))
                victim.kill(self.chance)
        self.judge()

    def judge(self) -> None:
        """Whatever the dead left, a reader sees whole states, and an open settles it."""
        with og.open(self.uri, mode="r") as graph:
            self.ledger.judge_state(graph)
        with og.open(self.uri) as graph:
            self.ledger.judge_state(graph)
            self.ledger.judge_settled(graph)
            self.ledger.end_round(graph)

    def end(self) -> None:
        """Every branch takes another write; then count."""
        with og.open(self.uri) as graph:
            for branch in graph.branches.list():
                row = {"type": "Person", "data": {"name": "last", "n": 1}}
                assert graph.load([row], branch=branch).commit is not None
                assert graph.entity("node", "Person", "last", branch=branch) is not None
            for audit in read_audit(workspace_of(graph)):
                self.tally.recovered[audit.recovery_kind] += 1
        self.tally.maintained += self.ledger.maintained
        for entry in self.ledger.entries.values():
            self.tally.operations[entry.outcome] += 1
            if entry.outcome == "refused":
                self.tally.refusals[(entry.error or "").partition(":")[0]] += 1


def test_killed_workers(tmp_path, record_property):
    chance = Random(seed())
    tally = Tally()
    problem = spark_problem()
    assert problem is None or not os.environ.get("CI"), problem
    lives = 0
    # A few more where chance, or a busy machine, let no kill hit a write half way.
    while tally.kills.total() < KILLS or not (
        tally.recovered.total() or tally.kills.total() > KILLS + 100
    ):
        lives += 1
        place = tmp_path / f"life{lives}"
        life = Life(place, ("branches", "schemas")[lives % 2], chance, tally)
        for number in range(ROUNDS_OF_A_GRAPH):
            owed = tally.kills.total() // SPARK_EVERY + 1
            life.round(spark=number == 1 and lives > 1 and problem is None and owed > tally.spark)
        life.end()
        shutil.rmtree(place)
        print(f"{tally.kills.total()} of {KILLS} kills", flush=True)  # noqa: T201 - with -s
    record_property(MEASURED, f"{tally}{f'; no load on Spark: {problem}' if problem else ''}")
    # Nothing of this would be worth much if the workers got nothing done, or always finished.
    assert tally.operations["done"] > tally.kills.total() / 2
    assert tally.recovered.total() > 0
