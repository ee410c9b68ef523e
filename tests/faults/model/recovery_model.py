"""Recovery in the model: by a writer that heals first, or by a process that opens the graph read-write."""

from __future__ import annotations

from collections.abc import Iterator

from tests.faults.model.explorer import Broken
from tests.faults.model.points import (
    AFTER_RESTORE,
    BEFORE_DISCARD,
    BEFORE_PUBLISH,
    BEFORE_RESTORE,
    PUBLISH,
    RECORD_AUDIT,
    SIDECAR_DELETE,
)
from tests.faults.model.shared_model import Shared
from tests.faults.model.states import (
    ENDED,
    IDLE,
    LOOK,
    READ,
    SIDECAR_LIST,
    UNFORKED,
    Plan,
    Sid,
    State,
    Txn,
)


class Recoveries(Shared):
    """What a process does with the operations that others left."""

    def _list(self, state: State, p: int) -> State:
        """List the pending operations. With none, a writer goes on at once: nobody can tell."""
        self.passed.add(SIDECAR_LIST)
        me = state.processes[p]
        if not state.sidecars and p != self.opener and not me.relock:
            return self._read(state, p)
        return self._set(state, p, at=LOOK, todo=state.sidecars, postponed=())

    def _look(self, state: State, p: int) -> Iterator[State]:
        """Take up one of the pending operations; with none left, go on with what this was for."""
        me = state.processes[p]
        if not me.todo:
            if p == self.opener:
                yield self._end(state, p, IDLE)
            else:
                yield self._set(state, p, at=READ, postponed=())
            return
        for sid in me.todo:
            rest = tuple(s for s in me.todo if s != sid)
            locks = self.config.writers[sid[0]].locks
            if not self._free(state, p, locks) and "writer_locks" not in self.config.without:
                yield self._set(state, p, todo=rest)  # in flight
                continue
            copy = state.processes[sid[0]].base
            taken = self._set(state, p, held=locks, expired=False, current=sid, copy=copy)
            if sid not in state.sidecars and "still_pending" not in self.config.without:
                yield self._drop(taken, p)
                continue
            yield self._examine(taken, p)

    def _drop(self, state: State, p: int) -> State:
        me = state.processes[p]
        rest = tuple(s for s in me.todo if s != me.current)
        return self._set(state, p, at=LOOK, current=None, copy=(), plan=None, held=(), todo=rest)

    def _examine(self, state: State, p: int) -> State:
        """Look at one operation under its locks and decide."""
        me = state.processes[p]
        assert me.current is not None
        writer, gen = me.current
        owner = state.processes[writer]
        if owner.gen == gen and owner.at not in ENDED and not owner.expired:
            raise Broken("recovered a live writer")
        if state.pins is None:
            return self._at(state, p, BEFORE_DISCARD)
        if "published_check" not in self.config.without and (
            ("forward", writer, gen // 2) in state.commits or ("back", writer, gen) in state.commits
        ):
            return self._at(state, p, RECORD_AUDIT)
        classes = self._classes(state, me.current, me.copy)
        if "foreign" in classes.values() and me.current not in me.postponed:
            others = {s[0] for s in me.todo if s != me.current}
            if any(self._moved_by(state, t, others) for t, c in classes.items() if c == "foreign"):
                postponed = tuple(sorted((*me.postponed, me.current)))
                return self._set(
                    state, p, at=LOOK, current=None, copy=(), held=(), postponed=postponed
                )
        if "behind" in classes.values():
            raise Broken("a table is behind its pin")
        if self._is_whole(state, me.current, classes, me.copy):
            pins = tuple(len(state.tables[t] or ()) for t in self.config.writers[writer].writes)
            plan = Plan("forward", (), pins, state.pins)
            return self._at(state, p, BEFORE_PUBLISH, PUBLISH, plan=plan)
        if p != self.opener:
            # A rollback waits for a read-write open.
            if me.blocked_by == me.current and "judged_rollback" not in self.config.without:
                return self._told_to_reopen(state, p, me.current)
            return self._drop(state, p)
        return self._begin_rollback(state, p, classes)

    def _is_whole(
        self, state: State, sid: Sid, classes: dict[int, str], base: tuple[int, ...]
    ) -> bool:
        """Whether it may be finished: all its commits are there and what it read still holds."""
        assert state.pins is not None
        if "all_tables" in self.config.without:
            return "whole" in classes.values()
        if any(base[t] != state.pins[t] for t in self._expected(sid[0])):
            return False
        return all(one == "whole" for one in classes.values())

    def _needs_rollback(self, state: State, sid: Sid) -> bool:
        writer, gen = sid
        if state.pins is None or ("forward", writer, gen // 2) in state.commits:
            return False
        if ("back", writer, gen) in state.commits:
            return False
        base = state.processes[writer].base
        return not self._is_whole(state, sid, self._classes(state, sid, base), base)

    def _classes(self, state: State, sid: Sid, base: tuple[int, ...]) -> dict[int, str]:
        return {t: self._classify(state, sid, t, base) for t in self.config.writers[sid[0]].writes}

    def _classify(self, state: State, sid: Sid, table: int, base: tuple[int, ...]) -> str:
        """How far a table of an operation got."""
        writer, gen = sid
        chain = state.tables[table]
        assert state.pins is not None
        pin = state.pins[table]
        if base[table] == UNFORKED and pin == UNFORKED:
            pin = 0
        if chain is None or len(chain) == pin:
            return "unmoved"
        if len(chain) < pin:
            return "behind"
        made = chain[pin:]
        if made[-1].kind == "restore" and (made[-1].op, made[-1].gen) == sid:
            before = made[:-1]
            return "restored" if all(self._mine(t, writer, gen) for t in before) else "foreign"
        if not all(self._mine(txn, writer, gen) for txn in made):
            return "foreign"
        return "whole" if any(self._is_own(txn, writer, gen) for txn in made) else "partial"

    def _moved_by(self, state: State, table: int, others: set[int]) -> bool:
        assert state.pins is not None
        made = (state.tables[table] or ())[max(state.pins[table], 0) :]
        return any(txn.kind in {"write", "index"} and txn.op in others for txn in made)

    def _begin_rollback(self, state: State, p: int, classes: dict[int, str]) -> State:
        me = state.processes[p]
        assert me.current is not None
        assert state.pins is not None
        base = me.copy
        left: list[int] = []
        pins: list[int | None] = []
        for t, one in classes.items():
            pin: int | None = None
            if one == "foreign":
                pass
            elif base[t] == UNFORKED:
                if state.pins[t] == UNFORKED:
                    state = self._table(state, t, None)
            elif one == "restored":
                pin = len(state.tables[t] or ())
            elif one in {"whole", "partial"}:
                left.append(t)
                pin = len(state.tables[t] or ()) + 1
            pins.append(pin)
        if "pins_restored" in self.config.without:
            pins = [None for _ in pins]
        plan = Plan("back", tuple(left), tuple(pins), state.pins)
        if left:
            return self._at(state, p, BEFORE_RESTORE, plan=plan)
        return self._at(state, p, BEFORE_PUBLISH, PUBLISH, plan=plan)

    def _restore(self, state: State, p: int) -> State:
        me = state.processes[p]
        assert me.plan is not None
        assert me.current is not None
        assert state.pins is not None
        table, *left = me.plan.left
        at = self.config.writers[me.current[0]].writes.index(table)
        chain = state.tables[table] or ()
        if "pins_restored" not in self.config.without and len(chain) + 1 != me.plan.pins[at]:
            return self._examine(
                self._set(state, p, plan=None), p
            )  # it moved meanwhile: look again
        gen = -2 if "restore_id" in self.config.without else me.current[1]
        state = self._commit(state, table, Txn("restore", me.current[0], gen, state.pins[table]))
        state = self._set(state, p, plan=me.plan._replace(left=tuple(left)))
        if left:
            return self._at(state, p, AFTER_RESTORE, BEFORE_RESTORE)
        return self._at(state, p, AFTER_RESTORE, BEFORE_PUBLISH, PUBLISH)

    def _audit(self, state: State, p: int) -> State:
        sid = state.processes[p].current
        assert sid is not None
        if sid not in state.audits or "audit_check" in self.config.without:
            state = state._replace(audits=tuple(sorted((*state.audits, sid))))
        return self._at(state, p, SIDECAR_DELETE)
