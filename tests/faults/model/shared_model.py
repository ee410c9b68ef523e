"""What writers and recoveries of the model have in common: small changes, and publishing."""

from __future__ import annotations

from collections.abc import Iterator

from tests.faults.model.explorer import Broken
from tests.faults.model.points import (
    AFTER_PUBLISH,
    AFTER_WRITE,
    BEFORE_COMPACT,
    BEFORE_D,
    BEFORE_WRITE,
    PUBLISH,
    RECORD_AUDIT,
    SIDECAR_DELETE,
)
from tests.faults.model.states import DONE, IDLE, LOOK, Config, Process, Sid, State, Txn


class Shared:
    """One scenario; ``passed`` collects the failpoints on the way."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.opener = len(config.writers)
        self.passed: set[str] = set()

    def _set(self, state: State, p: int, **changes: object) -> State:
        return self._put(state, p, state.processes[p]._replace(**changes))  # type: ignore[arg-type]

    def _put(self, state: State, p: int, process: Process) -> State:
        return state._replace(processes=(*state.processes[:p], process, *state.processes[p + 1 :]))

    def _at(self, state: State, p: int, *points: str, **changes: object) -> State:
        """Stand at the last point, having passed those before it."""
        self.passed.update(points)
        return self._set(state, p, at=points[-1], **changes)

    def _end(self, state: State, p: int, at: str) -> State:
        me = state.processes[p]
        if p == self.opener:
            return self._put(state, p, Process(IDLE))
        return self._put(state, p, Process(at, base=me.base, gen=me.gen))

    def _commit(self, state: State, table: int, txn: Txn) -> State:
        chain = state.tables[table]
        assert chain is not None
        return self._table(state, table, (*chain, txn))

    def _table(self, state: State, table: int, chain: tuple[Txn, ...] | None) -> State:
        return state._replace(tables=(*state.tables[:table], chain, *state.tables[table + 1 :]))

    def _stale(self, state: State, p: int) -> State:
        """The manifest has a new version: what other processes read of it is out of date."""
        return state._replace(
            processes=tuple(
                one._replace(fresh=False) if at != p and one.fresh else one
                for at, one in enumerate(state.processes)
            )
        )

    def _free(self, state: State, p: int, tables: tuple[int, ...]) -> bool:
        return not any(
            set(tables) & set(one.held) for at, one in enumerate(state.processes) if at != p
        )

    def _own(self, p: int, gen: int) -> tuple[int, int]:
        """What the transactions of a writer's attempt are known by."""
        return p, gen // 2

    def _is_own(self, txn: Txn, p: int, gen: int) -> bool:
        return txn.kind == "write" and (txn.op, txn.gen) == self._own(p, gen)

    def _mine(self, txn: Txn, writer: int, gen: int) -> bool:
        return txn.kind in {"write", "index"} and (txn.op, txn.gen) == self._own(writer, gen)

    def _overslept(self, state: State) -> bool:
        """Whether a process may do one more thing after its locks went to others."""
        return self.config.expiries > state.expiries

    # -- publishing, by a writer or a recovery

    def _expected(self, p: int) -> tuple[int, ...]:
        spec = self.config.writers[p]
        return spec.writes if "relied_on" in self.config.without else spec.locks

    def _read_to_publish(self, state: State, p: int) -> Iterator[State]:
        me = state.processes[p]
        ready = self._at(state, p, BEFORE_WRITE, fresh=True)
        if me.current is None:
            if state.pins is None or (
                "pin_check" not in self.config.without
                and any(me.base[t] != state.pins[t] for t in self._expected(p))
            ):
                yield self._after_publish_failure(state, p)
                return
            yield ready
            return
        assert me.plan is not None
        if state.pins is None or me.plan.seen != state.pins:
            yield self._examine(self._set(state, p, plan=None), p)
            return
        yield ready

    def _publish(self, state: State, p: int) -> State:
        me = state.processes[p]
        if not me.fresh:
            return self._set(state, p, at=PUBLISH)
        assert state.pins is not None
        if me.current is None:
            writer, kind, gen = p, "forward", me.gen
            pins = {t: self._committed(state, p, t) for t in self.config.writers[p].writes}
        else:
            assert me.plan is not None
            writer, gen = me.current
            kind = me.plan.kind
            pins = {
                t: pin
                for t, pin in zip(self.config.writers[writer].writes, me.plan.pins, strict=True)
                if pin is not None
            }
        if kind == "forward":
            self._must_be_current(state, writer, me.base if me.current is None else me.copy)
        after = tuple(pins.get(t, pin) for t, pin in enumerate(state.pins))
        what = (kind, writer, gen // 2 if kind == "forward" else gen)
        state = state._replace(pins=after, commits=tuple(sorted((*state.commits, what))))
        state = self._stale(self._at(state, p, AFTER_WRITE, fresh=False), p)
        if self.config.compacts:
            return self._at(state, p, BEFORE_COMPACT)
        return self._after_publish(state, p)

    def _committed(self, state: State, p: int, table: int) -> int:
        """The version of a table that a writer's own commits made."""
        me = state.processes[p]
        optional = self.config.optional_step and table == self.config.writers[p].writes[0]
        made = max(me.base[table], 0) + 1
        chain = state.tables[table] or ()
        if optional and len(chain) > made and chain[made].kind == "index":
            return made + 1
        return made

    def _must_be_current(self, state: State, writer: int, base: tuple[int, ...]) -> None:
        """What an operation read is what its commit comes right after: it is as if alone."""
        assert state.pins is not None
        if any(base[t] != state.pins[t] for t in self.config.writers[writer].locks):
            raise Broken("published although something that was read has changed")

    def _after_publish(self, state: State, p: int) -> State:
        if state.processes[p].current is None:
            if "phase_order" in self.config.without:
                return self._next_table(self._set(state, p, step=-1), p)
            return self._at(state, p, BEFORE_D, SIDECAR_DELETE)
        return self._at(state, p, AFTER_PUBLISH, RECORD_AUDIT)

    def _delete(self, state: State, sid: Sid) -> State:
        return state._replace(sidecars=tuple(s for s in state.sidecars if s != sid))

    def _delete_sidecar(self, state: State, p: int) -> State:
        me = state.processes[p]
        if me.current is None:
            return self._end(self._delete(state, (p, me.gen)), p, DONE)
        todo = tuple(s for s in me.todo if s != me.current)
        state = self._delete(state, me.current)
        return self._set(state, p, at=LOOK, current=None, copy=(), plan=None, held=(), todo=todo)
