"""The states of the model: what is stored, and where every process stands.

A table is the list of its transactions, and a version is a number of them. Writers append themselves, so the
content of a version tells whose work a reader of it sees. While the sidecar of a
writer is pending, the base of the writer is what it says.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Any, NamedTuple

UNFORKED = -1
"""The pin of a table that the branch has not forked yet; its content is the parent's, here none."""

SIDECAR_LIST = "recovery.sidecar_list"
"""Where a writer begins: it heals first."""
BEFORE_LOCKS = "load.before_locks"
READ, LOOK, IDLE = "read", "look", "idle"
DONE, DEAD = "done", "dead"
REFUSED = "refused"
"""Told an error that promises that nothing was changed."""
UNKNOWN = "unknown"
"""Told that the operation stopped half way and that recovery will settle it."""
ENDED = frozenset({DONE, DEAD, REFUSED, UNKNOWN, IDLE})

Sid = tuple[int, int]
"""A sidecar: the writer, and which of its operation ids. Two in a row share one commit id."""


class Txn(NamedTuple):
    """One version of a table: written, restored to an earlier version, or by a foreign program."""

    kind: str
    op: int = -1
    gen: int = 0
    to: int = 0


class Plan(NamedTuple):
    """What a recovery decided: forward or back, the tables left to restore, and the pins to publish."""

    kind: str
    left: tuple[int, ...]
    pins: tuple[int | None, ...]
    seen: tuple[int, ...] | None


class Process(NamedTuple):
    """A writer, or the process that opens the graph read-write (the last one)."""

    at: str
    held: tuple[int, ...] = ()
    expired: bool = False
    checked: bool = False
    fresh: bool = False
    base: tuple[int, ...] = ()
    step: int = 0
    gen: int = 0
    blocked_by: Sid | None = None
    relock: bool = False
    todo: tuple[Sid, ...] = ()
    postponed: tuple[Sid, ...] = ()
    current: Sid | None = None
    copy: tuple[int, ...] = ()
    """What the sidecar under recovery says; its writer may have gone on since."""
    plan: Plan | None = None


class State(NamedTuple):
    """Everything: manifest, tables, control objects, processes, and the failures that may still come."""

    pins: tuple[int, ...] | None
    tables: tuple[tuple[Txn, ...] | None, ...]
    commits: tuple[tuple[str, int, int], ...]
    sidecars: tuple[Sid, ...]
    audits: tuple[Sid, ...]
    processes: tuple[Process, ...]
    crashes: int = 0
    faults: int = 0
    expiries: int = 0
    foreign: int = 0


class Spec(NamedTuple):
    """A writer: the tables it writes, in order, and those its validation only read."""

    writes: tuple[int, ...]
    relies: tuple[int, ...] = ()

    @property
    def locks(self) -> tuple[int, ...]:
        """The tables it needs the locks of."""
        return tuple(sorted({*self.writes, *self.relies}))


@dataclass(frozen=True)
class Config:
    """A scenario: who writes, how often something fails, and which rules of the protocol are broken."""

    writers: tuple[Spec, ...]
    crashes: int = 1
    faults: int = 0
    expiries: int = 0
    """How often a lease may end under a process that is only slow; with 0 the locks are files."""
    foreign: int = 0
    unforked: tuple[int, ...] = ()
    branch_ends: bool = False
    begins_with_the_dead: bool = False
    """The first writer died when all its tables were committed; the others had read before."""
    optional_step: bool = False
    compacts: bool = False
    without: frozenset[str] = frozenset()
    tables: int = 2

    @cached_property
    def groups(self) -> list[list[int]]:
        """The writers, those together that do the same; such writers stand side by side."""
        same = groupby(range(len(self.writers)), key=lambda i: self.writers[i])
        return [list(group) for _, group in same]

    def start(self) -> State:
        """Return the first state."""
        pins = tuple(UNFORKED if t in self.unforked else 0 for t in range(self.tables))
        tables = tuple(None if t in self.unforked else () for t in range(self.tables))
        processes = (*(Process(SIDECAR_LIST) for _ in self.writers), Process(IDLE))
        start = State(
            pins, tables, (), (), (), processes,
            self.crashes, self.faults, self.expiries, self.foreign,
        )  # fmt: skip
        if not self.begins_with_the_dead:
            return start
        waiting = Process(BEFORE_LOCKS, base=pins)
        return start._replace(
            tables=((Txn("write", 0),),) * self.tables,
            sidecars=((0, 0),),
            processes=(
                Process(DEAD, base=pins),
                *(waiting for _ in self.writers[1:]),
                Process(IDLE),
            ),
        )


def content(chain: tuple[Txn, ...] | None, version: int) -> tuple[int, ...]:
    """Return whose rows a reader of this version sees; a writer that is in it twice is there twice."""
    if chain is None or version == UNFORKED:
        return ()
    made: list[tuple[int, ...]] = [()]
    for one in chain[:version]:
        if one.kind == "write":
            made.append((*made[-1], one.op))
        elif one.kind == "restore":
            made.append(made[one.to])
        else:
            made.append(made[-1])
    return made[-1]


def visible(state: State, table: int) -> tuple[int, ...]:
    """Return whose rows a reader of the branch sees in a table."""
    assert state.pins is not None
    return content(state.tables[table], state.pins[table])


def canonical(state: State, config: Config) -> State:
    """Return one state for all that differ only in which of several equal writers is which."""
    groups = config.groups
    if len(groups) == len(config.writers):
        return state
    order = [i for group in groups for i in sorted(group, key=lambda i: _key(state, i))]
    if order == list(range(len(order))):
        return state
    new = {old: at for at, old in enumerate(order)}

    def sid(one: Sid) -> Sid:
        return new[one[0]], one[1]

    def process(one: Process) -> Process:
        return one._replace(
            blocked_by=None if one.blocked_by is None else sid(one.blocked_by),
            todo=tuple(sorted(sid(s) for s in one.todo)),
            postponed=tuple(sorted(sid(s) for s in one.postponed)),
            current=None if one.current is None else sid(one.current),
        )

    return state._replace(
        tables=tuple(
            None
            if chain is None
            else tuple(t if t.op < 0 else t._replace(op=new[t.op]) for t in chain)
            for chain in state.tables
        ),
        commits=tuple(sorted((kind, new[op], gen) for kind, op, gen in state.commits)),
        sidecars=tuple(sorted(sid(s) for s in state.sidecars)),
        audits=tuple(sorted(sid(s) for s in state.audits)),
        processes=(*(process(state.processes[i]) for i in order), process(state.processes[-1])),
    )


def _key(state: State, i: int) -> tuple[Any, ...]:
    """Tell equal writers apart by where they stand and what they left, never by their number."""
    me = state.processes[i]
    return (
        me.at, me.held, me.expired, me.checked, me.fresh, me.base, me.step, me.gen,
        me.relock, len(me.todo), me.current is None, repr(me.plan) if me.plan else "",
        tuple(
            tuple((at, t.kind, t.gen) for at, t in enumerate(chain or ()) if t.op == i)
            for chain in state.tables
        ),
        tuple((kind, gen) for kind, op, gen in state.commits if op == i),
        tuple(gen for op, gen in state.sidecars if op == i),
        tuple(gen for op, gen in state.audits if op == i),
    )  # fmt: skip
