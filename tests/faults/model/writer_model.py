"""The writers of the model: up to their locks, then phases A to D, and what they do when something fails."""

from __future__ import annotations

from collections.abc import Iterator

from tests.faults.model.explorer import Broken
from tests.faults.model.points import (
    AFTER_COMMIT,
    AFTER_FORK,
    BEFORE_A,
    BEFORE_B,
    BEFORE_C,
    BEFORE_COMMIT,
    BEFORE_FORK,
    LOCKED,
    OPTIONAL,
    PINNED,
    PUBLISH,
    SIDECAR_WRITE,
)
from tests.faults.model.shared_model import Shared
from tests.faults.model.states import (
    BEFORE_LOCKS,
    DONE,
    READ,
    REFUSED,
    SIDECAR_LIST,
    UNFORKED,
    UNKNOWN,
    Process,
    Sid,
    State,
    Txn,
)


class Writers(Shared):
    """What a writer does where it stands."""

    def _write(self, state: State, p: int) -> Iterator[State]:
        me = state.processes[p]
        match me.at:
            case "read":
                yield self._read(state, p)
            case "load.before_locks":
                if self._free(state, p, self.config.writers[p].locks):
                    held = self.config.writers[p].locks
                    yield self._set(state, p, at=LOCKED, held=held, expired=False)
            case "locked":
                yield self._check(state, p)
            case "load.before_phase_a":
                yield self._phase_a(state, p)
            case "load.before_fork":
                table = self.config.writers[p].writes[me.step]
                yield self._at(self._table(state, table, ()), p, AFTER_FORK, BEFORE_COMMIT)
            case "load.before_table_commit":
                yield self._commit_table(state, p)
            case "optional step":
                yield self._commit_optional(state, p)
            case unknown:
                raise AssertionError(unknown)

    # -- a writer: up to its locks

    def _read(self, state: State, p: int) -> State:
        """Pin the branch and prepare on it; the locks are kept if an earlier attempt took them."""
        me = state.processes[p]
        if state.pins is None:
            return self._end(state, p, REFUSED)
        if me.relock and not me.held:
            if not self._free(state, p, self.config.writers[p].locks):
                return state
            state = self._set(state, p, held=self.config.writers[p].locks, expired=False)
            me = state.processes[p]
        state = self._set(state, p, base=state.pins, step=0, relock=False)
        if me.held or me.expired:
            self.passed.add(PINNED)
            return self._check(state, p)
        return self._at(state, p, PINNED, BEFORE_LOCKS)

    def _check(self, state: State, p: int) -> State:
        """The checks under the locks."""
        me, spec = state.processes[p], self.config.writers[p]
        if state.pins is None:
            return self._end(state, p, REFUSED)
        expected = spec.writes if "relied_on" in self.config.without else spec.locks
        if "pin_check" not in self.config.without and any(
            me.base[t] != state.pins[t] for t in expected
        ):
            return self._set(state, p, at=READ)
        for t in spec.writes:
            chain = state.tables[t]
            forks = me.base[t] == UNFORKED
            if forks or chain is None or len(chain) != state.pins[t]:
                covering = [s for s in state.sidecars if t in self.config.writers[s[0]].writes]
                if forks and not covering:
                    if chain is not None:
                        state = self._table(state, t, None)  # a leftover that nobody claims
                    continue
                return self._drift(state, p, t, covering)
        return self._at(state, p, BEFORE_A)

    def _drift(self, state: State, p: int, table: int, covering: list[Sid]) -> State:
        me = state.processes[p]
        if not covering:
            chain = state.tables[table] or ()
            foreign = any(one.kind == "foreign" for one in chain)
            if not foreign and not self._overslept(state):
                raise Broken(f"table {table} is ahead of its pin and nothing covers it")
            return self._end(state, p, REFUSED)
        for sid in covering:
            others = set(self.config.writers[sid[0]].locks) - set(me.held)
            if not self._free(state, p, tuple(others)):
                # Its writer seems to be alive: let go, and come back.
                if "let_go" in self.config.without:
                    return self._set(state, p, at=READ)
                return self._set(state, p, at=READ, held=(), relock=False)
        sid = covering[0]
        if "judged_rollback" in self.config.without and me.blocked_by == sid:
            return self._told_to_reopen(state, p, sid)
        return self._at(state, p, SIDECAR_LIST, held=(), blocked_by=sid, relock=True)

    def _told_to_reopen(self, state: State, p: int, sid: Sid) -> State:
        """The write is refused: the operation in its way must be rolled back."""
        undone = ("back", *sid) in state.commits or self._overslept(state)
        if not undone and not self._needs_rollback(state, sid):
            raise Broken(f"told that {sid} must be rolled back, which can be finished")
        return self._end(state, p, REFUSED)

    # -- a writer: phases A to D

    def _phase_a(self, state: State, p: int) -> State:
        me = state.processes[p]
        self.passed.add(SIDECAR_WRITE)
        if "sidecar" not in self.config.without:
            state = state._replace(sidecars=tuple(sorted((*state.sidecars, (p, me.gen)))))
        if "phase_order" in self.config.without:
            return self._at(state, p, BEFORE_B, PUBLISH)
        return self._next_table(self._at(state, p, BEFORE_B, step=-1), p)

    def _next_table(self, state: State, p: int) -> State:
        """Stand before the commit of the next table, or at the end of Phase B."""
        me, spec = state.processes[p], self.config.writers[p]
        if self.config.optional_step and me.step == 0 and me.at != AFTER_COMMIT:
            self.passed.add(BEFORE_COMMIT)
            return self._set(state, p, at=OPTIONAL)
        step = me.step + 1
        if step == len(spec.writes):
            if "phase_order" in self.config.without:
                return self._set(self._delete(state, (p, me.gen)), p, at=DONE, held=())
            if "locks_until_d" in self.config.without:
                state = self._set(state, p, held=())
            if "sidecar_until_c" in self.config.without:
                state = self._delete(state, (p, me.gen))
            self.passed.add(BEFORE_C)
            return self._set(state, p, at=PUBLISH, step=step)
        at = BEFORE_FORK if me.base[spec.writes[step]] == UNFORKED else BEFORE_COMMIT
        return self._at(state, p, at, step=step)

    def _commit_table(self, state: State, p: int) -> State:
        me = state.processes[p]
        table = self.config.writers[p].writes[me.step]
        chain = state.tables[table]
        if chain is None or len(chain) != max(me.base[table], 0):
            return self._after_failure(state, p, REFUSED)  # somebody else was first
        landed = self._commit(state, table, Txn("write", *self._own(p, me.gen)))
        self.passed.add(AFTER_COMMIT)
        return self._next_table(landed, p)

    def _commit_optional(self, state: State, p: int) -> State:
        me = state.processes[p]
        table = self.config.writers[p].writes[0]
        if len(state.tables[table] or ()) != max(me.base[table], 0) + 1:
            return self._after_failure(state, p, REFUSED)
        landed = self._commit(state, table, Txn("index", *self._own(p, me.gen)))
        return self._next_table(self._at(landed, p, AFTER_COMMIT), p)

    def _after_failure(self, state: State, p: int, end: str) -> State:
        """Phase B failed: take the sidecar away if nothing moved, leave it for recovery otherwise."""
        me = state.processes[p]
        if self._finished_by_others(state, p):
            return self._delete_sidecar(state, p)
        if not self._has_moved(state, p) or "keeps_sidecar" in self.config.without:
            state = self._delete(state, (p, me.gen))
            if end == READ:
                # It runs again, as a new operation with new ids.
                return self._put(state, p, Process(READ, gen=me.gen // 2 * 2 + 2))
            return self._end(state, p, end)
        return self._end(self._cover(state, p), p, UNKNOWN)

    def _after_publish_failure(self, state: State, p: int) -> State:
        """Phase C failed: its caller cannot know how it ends, unless the locks are lost."""
        if state.processes[p].expired:
            return self._after_failure(state, p, READ)
        return self._end(state, p, UNKNOWN)

    def _finished_by_others(self, state: State, p: int) -> bool:
        if "finds_own_commit" in self.config.without:
            return False
        return ("forward", *self._own(p, state.processes[p].gen)) in state.commits

    def _has_moved(self, state: State, p: int) -> bool:
        """Whether a transaction of the writer lies ahead of its pin."""
        me = state.processes[p]
        pins = state.pins or (0,) * self.config.tables
        return any(
            self._mine(txn, p, me.gen)
            for t in self.config.writers[p].writes
            for txn in (state.tables[t] or ())[max(pins[t], 0) :]
        )

    def _cover(self, state: State, p: int) -> State:
        """Have a sidecar for what moved, a new one if the old one is none or no longer counts.

        Whoever has the locks now may have looked before the table moved.
        """
        me = state.processes[p]
        uncovered = me.expired or (p, me.gen) not in state.sidecars
        if not uncovered or "covers_again" in self.config.without:
            return state
        state = self._set(state, p, gen=me.gen + 1)
        return state._replace(sidecars=tuple(sorted((*state.sidecars, (p, me.gen + 1)))))

    def _lock_lost(self, state: State, p: int) -> State:
        """The locks were checked, and are gone."""
        me = state.processes[p]
        if me.current is not None:
            return self._end(state, p, REFUSED)  # recovery stops; whoever ran it is told
        if me.at == BEFORE_A:
            return self._put(state, p, Process(READ, gen=me.gen))
        if me.at == PUBLISH:
            return self._after_publish_failure(state, p)
        return self._after_failure(state, p, READ)

    def _fault(self, state: State, p: int) -> Iterator[State]:
        """The store fails once under a writer, before its effect or after it without an answer."""
        me = state.processes[p]
        match me.at:
            case "load.before_phase_a":
                yield self._end(state, p, REFUSED)
            case "load.before_fork":
                yield self._after_failure(state, p, REFUSED)
            case "load.before_table_commit":
                yield self._after_failure(state, p, REFUSED)
                table = self.config.writers[p].writes[me.step]
                chain = state.tables[table]
                if chain is not None and len(chain) == max(me.base[table], 0):
                    landed = self._commit(state, table, Txn("write", *self._own(p, me.gen)))
                    yield self._after_failure(landed, p, REFUSED)
            case "publish.before_write":
                yield self._end(state, p, UNKNOWN)
                if me.fresh:
                    # The commit is found by its id.
                    yield self._publish(state, p)
            case "recovery.sidecar_delete":
                yield self._end(state, p, DONE)
