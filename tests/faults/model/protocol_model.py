"""The commit protocol and its recovery as a state machine, one step for each effect on what is shared.

A process stands at a failpoint of the product and does next what the product does there. Work that nobody
else can see (staging, building a sidecar) is no step of its own. ``Config.without`` names rules to leave out:
the tests prove that the invariants notice each of them.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.faults.model.explorer import Step
from tests.faults.model.points import CHECKED, PINNED, RECORD_AUDIT, Steps
from tests.faults.model.recovery_model import Recoveries
from tests.faults.model.states import (
    BEFORE_LOCKS,
    DEAD,
    DONE,
    ENDED,
    IDLE,
    READ,
    REFUSED,
    SIDECAR_LIST,
    UNFORKED,
    Process,
    State,
    Txn,
    canonical,
    visible,
)
from tests.faults.model.writer_model import Writers


class Model(Writers, Recoveries):
    """The steps and invariants of one scenario."""

    # -- what may happen next

    def steps(self, state: State) -> Steps:
        """Return every step from a state, with its outcome in canonical form."""
        for name, to, failure in self._all_steps(state):
            yield Step(name, canonical(to, self.config), failure)

    def _all_steps(self, state: State) -> Steps:
        for p, process in enumerate(state.processes):
            if process.at == IDLE:
                if state.sidecars:
                    yield Step("open", self._at(state, p, SIDECAR_LIST))
            elif process.at not in ENDED:
                yield from self._process(state, p, process)
                yield from self._failures(state, p, process)
        yield from self._environment(state)

    def _process(self, state: State, p: int, me: Process) -> Steps:
        if me.at in CHECKED and not me.checked:
            if me.expired and "lease_checks" not in self.config.without:
                yield Step(f"{me.at}: lock lost", self._lock_lost(state, p))
                return
            if self.config.expiries:
                yield Step(f"{me.at}: checked", self._set(state, p, checked=True))
                return
        for to in self._effect(self._set(state, p, checked=False), p):
            yield Step(me.at, to)

    def _failures(self, state: State, p: int, me: Process) -> Steps:
        if (
            state.crashes
            and me.at not in {READ, PINNED, BEFORE_LOCKS}
            and (me.current or me.at != SIDECAR_LIST)
        ):
            at = IDLE if p == self.opener else DEAD
            # A lease outlives its process for a while.
            held = me.held if self.config.expiries else ()
            dead = Process(at, held, expired=False, base=me.base, gen=me.gen)
            yield Step(
                f"crash at {me.at}",
                self._put(state, p, dead)._replace(crashes=state.crashes - 1),
                failure=True,
            )
        if state.expiries and me.held:
            late = self._set(state, p, held=(), expired=True)
            yield Step(
                f"lease of {me.at} ends", late._replace(expiries=state.expiries - 1), failure=True
            )
        if state.faults and p != self.opener and me.current is None:
            left = state._replace(faults=state.faults - 1)
            for to in self._fault(self._set(left, p, checked=False), p):
                yield Step(f"fault at {me.at}", to, failure=True)

    def _environment(self, state: State) -> Steps:
        for p, process in enumerate(state.processes):
            if process.at in {DEAD, IDLE} and process.held:
                yield Step("lease of the dead ends", self._set(state, p, held=()))
        if state.pins is None:
            return
        if self.config.branch_ends and not any(one.held for one in state.processes):
            gone = state._replace(pins=None, tables=(None,) * self.config.tables)
            yield Step("branch deleted", self._stale(gone, -1), failure=True)
        if state.foreign:
            for t, chain in enumerate(state.tables):
                if chain is not None:
                    to = self._commit(state, t, Txn("foreign"))
                    yield Step("foreign", to._replace(foreign=state.foreign - 1), failure=True)

    # -- what each process does where it stands

    def _effect(self, state: State, p: int) -> Iterator[State]:
        me = state.processes[p]
        match me.at:
            case "recovery.sidecar_list":
                yield self._list(state, p)
            case "look":
                yield from self._look(state, p)
            case "recovery.before_restore":
                yield self._restore(state, p)
            case "recovery.before_discard":
                yield self._at(state, p, RECORD_AUDIT)
            case "recovery.record_audit":
                yield self._audit(state, p)
            case "publish":
                yield from self._read_to_publish(state, p)
            case "publish.before_write":
                yield self._publish(state, p)
            case "publish.before_compact":
                yield self._after_publish(self._stale(state, p), p)
            case "recovery.sidecar_delete":
                yield self._delete_sidecar(state, p)
            case _:
                yield from self._write(state, p)

    # -- what must always hold

    def broken(self, state: State) -> str | None:
        """Return the invariant that a state breaks, or None."""
        if len(set(state.audits)) != len(state.audits):
            return "an operation has two audit rows"
        if len(set(state.commits)) != len(state.commits):
            return "an operation was committed twice"
        undone = {(op, gen // 2) for kind, op, gen in state.commits if kind == "back"}
        done = {(op, gen) for kind, op, gen in state.commits if kind == "forward"}
        if undone & done and not self._overslept(state):
            return "an operation was finished and undone"
        if state.pins is None:
            return self._broken_at_end(state) if self.is_end(state) else None
        seen = [visible(state, t) for t in range(self.config.tables)]
        for i, spec in enumerate(self.config.writers):
            counts = {seen[t].count(i) for t in spec.writes}
            if len(counts) > 1:
                return f"half of a commit is visible: {seen}"
            (count,) = counts
            if count > 1:
                return "an operation was applied twice"
            if state.processes[i].at == DONE and not count:
                return "an acknowledged commit is not visible"
            if state.processes[i].at == REFUSED and count:
                return "a refused operation changed something"
            if state.processes[i].at == DONE and self._is_quiet(state) and self._audited(state, i):
                return "an audit row for an operation that was not recovered"
            committed = any(kind == "forward" and op == i for kind, op, _ in state.commits)
            if committed != bool(count):
                return "content and history differ"
        return self._broken_at_end(state) if self.is_end(state) else None

    def is_end(self, state: State) -> bool:
        """Return whether every process has ended and nothing is pending."""
        return not state.sidecars and all(
            one.at in ENDED and not one.held for one in state.processes
        )

    def _is_quiet(self, state: State) -> bool:
        """Whether no error or slowness could have kept a live writer from ending as it should."""
        return not self.config.faults and not self._overslept(state)

    def _audited(self, state: State, i: int) -> bool:
        return any(op == i for op, _ in state.audits)

    def _broken_at_end(self, state: State) -> str | None:
        if state.pins is None:
            return None
        failures = (
            self.config.crashes,
            self.config.faults,
            self.config.expiries,
            self.config.foreign,
        )
        if not any(failures) and any(one.at != DONE for one in state.processes[:-1]):
            return "a writer did not get through although nothing failed"
        for t, chain in enumerate(state.tables):
            head = UNFORKED if chain is None else len(chain)
            if chain == () and state.pins[t] == UNFORKED:
                continue  # an empty fork that the next write reclaims
            ahead = {txn.kind for txn in (chain or ())[max(state.pins[t], 0) :]}
            if head != state.pins[t] and "foreign" not in ahead:
                # It slept past its lease, committed, and died before it could tell; or what it
                # committed late changes no content. Repair publishes what is there.
                died = self.config.crashes > state.crashes
                if self._overslept(state) and (died or ahead == {"index"}):
                    continue
                return f"table {t} is ahead of its pin and nothing is pending"
        return None
