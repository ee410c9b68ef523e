"""Reads: the threads they run in, who waits for one, and how their results come back.

Reads that wait are let in actor by actor in turn. An actor whose reads take long pays for that time: it is let in
again when the others have had as much. And while several actors are about, none of them has more than half of
the turns: a short read gives up the interpreter a score of times and has to get it back from every long one
that runs, so with three of them beside it there were half as many short reads as with two, and no more long ones.
One turn is never had by an actor who has all the others: somebody else who comes along meets a free one, even if
what runs would take minutes. On a server without tokens everybody is the same actor, who has all turns.

Python computes in one thread at a time, and every change of threads costs. Hence two rules beside the bound on
reads at once. A thread that is done takes the next read by itself, without the event loop. And a further
thread joins only when those at work are slow: two that both compute would only take the interpreter from
each other, while a read that waits for storage lets another one begin after a few milliseconds.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from time import monotonic
from typing import Any, Final, TypeVar

from omnigraph.cancel import Cancel, out_of_time, within
from omnigraph.errors import Busy
from omnigraph.server.limits import (
    WAITING_READERS,
    WAITING_READERS_PER_ACTOR,
    WAITING_SECONDS,
)

T = TypeVar("T")

SLOW: Final = 0.005
"""Seconds after which a read is no short one: another thread then takes what waits."""
GRACE: Final = 1.0
"""Seconds that a read has after its time to notice; then it is answered for, whatever it waits for."""
ABOUT: Final = 0.1
"""Seconds for which an actor is about after a read of it: so long nobody else has more than half of the turns."""


def run_ordinary(work: Callable[[], T], token: Cancel, seconds: float | None) -> T:
    """Run work that looks at a token. Nothing that would end the event loop leaves the thread."""
    token.limit(seconds)
    try:
        with within(None, token):
            return work()
    except Exception:
        raise
    except BaseException as error:
        raise RuntimeError(f"the engine was ended by {type(error).__name__}") from error


class ReadJob:
    """A read: what to do for whom, what stops it, after how many seconds, and where its result goes."""

    __slots__ = (
        "actor",
        "answer",
        "arrived",
        "began",
        "failure",
        "is_waiting",
        "made",
        "seconds",
        "token",
        "work",
    )

    def __init__(
        self,
        actor: str | None,
        work: Callable[[], Any],
        token: Cancel,
        seconds: float | None = None,
    ) -> None:
        self.actor = actor
        self.work: Callable[[], Any] | None = work
        self.token = token
        self.seconds = seconds
        self.answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.arrived = self.began = monotonic()
        self.is_waiting = False
        self.made: Any = None
        self.failure: Exception | None = None

    def do(self) -> None:
        """Do it, in a thread."""
        assert self.work is not None, "a read is done once"
        try:
            self.made = run_ordinary(self.work, self.token, self.seconds)
        except Exception as failure:  # noqa: BLE001 - raised where the result is wanted
            self.failure = failure

    def tell(self) -> None:
        """Give the result to whoever still waits for it, in the thread of the event loop."""
        made, failure = self.made, self.failure
        self.work = self.made = self.failure = None
        if self.answer.done():
            return
        if failure is None:
            self.answer.set_result(made)
        else:
            self.answer.set_exception(failure)

    def refuse(self, failure: Exception) -> None:
        """Tell whoever waits that it was not begun and will not be."""
        if not self.answer.done():
            self.answer.set_exception(failure)


class _Reader:
    """An actor: the reads that wait, how many run, when it was last about, and the seconds it had."""

    __slots__ = ("had", "leaves_free", "queue", "running", "seen")

    def __init__(self, actor: str | None) -> None:
        self.leaves_free = 0 if actor is None else 1
        self.queue: deque[ReadJob] = deque()
        self.running = 0
        self.seen = 0.0
        self.had = 0.0


class ReadLane:
    """Reads at once, and those that wait. Everything but the threads of reads is used by the event loop alone."""

    def __init__(
        self,
        together: int,
        *,
        an_actor: int = WAITING_READERS_PER_ACTOR,
        in_all: int = WAITING_READERS,
        patience: float = WAITING_SECONDS,
    ) -> None:
        self._together = together
        self._an_actor = an_actor
        self._in_all = in_all
        self._patience = patience
        self._lock = threading.Lock()
        # The actors of a server are few and stay. Whoever was let in last stands at the end.
        self._readers: dict[str | None, _Reader] = {}
        self._level = 0.0
        self._at_work: set[ReadJob] = set()
        self._arrivals: deque[ReadJob] = deque()
        self._idle: list[SimpleQueue[ReadJob | None]] = []
        self._done: deque[ReadJob] = deque()
        self._is_told = False
        self._is_closed = False
        self._joining: asyncio.TimerHandle | None = None
        self._refusing: asyncio.TimerHandle | None = None
        self.waiting = 0

    @property
    def running(self) -> int:
        """How many reads are under way, waited for or not."""
        return len(self._at_work)

    def tokens(self) -> list[Cancel]:
        """Return what stops the reads under way."""
        with self._lock:
            return [job.token for job in self._at_work]

    async def run(self, job: ReadJob) -> Any:
        """Run a read in its turn, or refuse it."""
        self._begin(job)
        try:
            return await job.answer
        except asyncio.CancelledError:
            # Whoever waited is gone. If a thread has begun, it ends at its next look.
            job.token.cancel()
            self.forget(job)
            raise

    def forget(self, job: ReadJob, failure: Exception | None = None) -> None:
        """Take a read out of its queue, if it waits there; whoever asked for it gets the failure."""
        with self._lock:
            if not job.is_waiting:
                return
            self._readers[job.actor].queue.remove(job)
            self._stops_waiting(job)
        if failure is not None:
            job.refuse(failure)

    def end_by(self, job: ReadJob, seconds: float | None) -> None:
        """Answer for a read that is over its time and does not notice: a store that hangs may keep it for long.

        Its thread and its turn are free when it has ended.
        """
        if seconds is None or job.answer.done():
            return
        now = monotonic()
        left = (now if job.is_waiting else job.began) + seconds + GRACE - now
        if left <= 0:
            job.refuse(out_of_time(seconds, now - job.began))
            return
        timer = asyncio.get_running_loop().call_later(left, self.end_by, job, seconds)
        job.answer.add_done_callback(lambda _: timer.cancel())

    def close(self) -> None:
        """Let the threads end when they are done, and take no more work."""
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for inbox in idle:
            inbox.put(None)

    # -- in the thread of the event loop

    def _begin(self, job: ReadJob) -> None:
        """Let a read in, or let it wait, or refuse it."""
        begins = None
        with self._lock:
            reader = self._readers.get(job.actor)
            if reader is None:
                reader = self._readers[job.actor] = _Reader(job.actor)
            reader.seen = job.arrived
            is_free = self._has_turn(job.arrived) and self._may_begin(reader, job.arrived)
            if not is_free and (
                self.waiting >= self._in_all or len(reader.queue) >= self._an_actor
            ):
                raise _no_turn()
            self._waits(job, reader)
            if is_free:
                begins = self._take_next(job.arrived)
        if begins is not None:
            self._hand_over(begins)
        if self.waiting:
            self._look_later()

    def _hand_over(self, job: ReadJob) -> None:
        """Give a read that was taken out of its queue to a thread."""
        # The thread that was busy last: what it needs is still near its processor.
        if self._idle:
            self._idle.pop().put(job)
            return
        inbox: SimpleQueue[ReadJob | None] = SimpleQueue()
        inbox.put(job)
        thread = threading.Thread(
            target=self._work, args=(inbox,), name="omnigraph-read", daemon=True
        )
        try:
            thread.start()
        except RuntimeError as failure:  # the system has no more of them
            with self._lock:
                self._at_work.discard(job)
                self._readers[job.actor].running -= 1
            job.refuse(failure)

    def _look_later(self) -> None:
        """See to the reads that wait: whether another thread should join, and who has waited too long."""
        loop = asyncio.get_running_loop()
        if self._joining is None and self.running < self._together:
            self._joining = loop.call_later(SLOW, self._join)
        if self._refusing is None:
            self._refusing = loop.call_later(self._patience, self._refuse_the_late)

    def _join(self) -> None:
        self._joining = None
        now = monotonic()
        with self._lock:
            begins = self._take_next(now) if self._has_turn(now) else None
        if begins is not None:
            self._hand_over(begins)
        if self.waiting:
            self._look_later()

    def _refuse_the_late(self) -> None:
        self._refusing = None
        late, now = [], monotonic()
        with self._lock:
            while self._arrivals and self._arrivals[0].arrived + self._patience <= now:
                job = self._arrivals[0]
                self._readers[job.actor].queue.remove(job)
                self._stops_waiting(job)
                late.append(job)
            first = self._arrivals[0] if self._arrivals else None
        for job in late:
            job.refuse(_no_turn())
        if first is not None:
            left = first.arrived + self._patience - now
            self._refusing = asyncio.get_running_loop().call_later(left, self._refuse_the_late)

    def _deliver(self) -> None:
        """Give out what the threads have made since they last said so."""
        self._is_told = False
        while self._done:
            self._done.popleft().tell()
        if self.waiting:
            self._look_later()

    # -- in the threads of reads

    def _work(self, inbox: SimpleQueue[ReadJob | None]) -> None:
        while (job := inbox.get()) is not None:
            # Nothing of a read that is over stays here while the next one is awaited.
            while job is not None:
                job.do()
                job = self._end(job, inbox)

    def _end(self, job: ReadJob, inbox: SimpleQueue[ReadJob | None]) -> ReadJob | None:
        """Give the result of a read back, and return the next one, if this thread is to go on."""
        now = monotonic()
        with self._lock:
            self._at_work.discard(job)
            reader = self._readers[job.actor]
            reader.running -= 1
            reader.seen = now
            # Whole milliseconds: among reads that take no time, turns alone count.
            reader.had += int((now - job.began) * 1000) / 1000
            following = self._take_next(now) if self._has_turn(now) else None
            if following is None and self._is_closed:
                inbox.put(None)
            elif following is None:
                self._idle.append(inbox)
            self._done.append(job)
            is_told, self._is_told = self._is_told, True
        if not is_told:
            with suppress(RuntimeError):  # the loop has ended, and with it all who wait
                job.answer.get_loop().call_soon_threadsafe(self._deliver)
        return following

    # -- with the lock

    def _has_turn(self, now: float) -> bool:
        """Whether one more read may begin: within the bound, and beside slow ones only."""
        return len(self._at_work) < self._together and not any(
            now - job.began < SLOW for job in self._at_work
        )

    def _may_begin(self, reader: _Reader, now: float) -> bool:
        """Whether a turn is for this actor: half of them are, and all but one if nobody else is about."""
        if reader.running < (self._together + 1) // 2:
            return True
        if reader.running >= self._together - reader.leaves_free:
            return False
        return not any(
            other is not reader and now - other.seen < ABOUT for other in self._readers.values()
        )

    def _take_next(self, now: float) -> ReadJob | None:
        """Take the read whose turn it is out of its queue, and count it as begun."""
        waiting = [
            (reader.had, place, actor)
            for place, (actor, reader) in enumerate(self._readers.items())
            if reader.queue and self._may_begin(reader, now)
        ]
        if not waiting or self._is_closed:
            return None
        *_, actor = min(waiting, key=lambda each: each[:2])
        reader = self._readers.pop(actor)
        self._readers[actor] = reader
        job = reader.queue.popleft()
        self._stops_waiting(job)
        job.began = now
        reader.running += 1
        self._at_work.add(job)
        self._level = max(self._level, reader.had)
        return job

    def _waits(self, job: ReadJob, reader: _Reader) -> None:
        if not reader.queue and not reader.running:
            # Whoever was away is not owed the time that others had meanwhile.
            reader.had = max(reader.had, self._level)
        job.is_waiting = True
        reader.queue.append(job)
        self._arrivals.append(job)
        self.waiting += 1

    def _stops_waiting(self, job: ReadJob) -> None:
        job.is_waiting = False
        self.waiting -= 1
        while self._arrivals and not self._arrivals[0].is_waiting:
            self._arrivals.popleft()


def _no_turn() -> Busy:
    return Busy(
        "too many reads are waiting for their turn on this server; send the request again in a second",
        cause="queries",
    )
