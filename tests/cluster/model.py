"""A plain model of a cluster: what each command does to it, effect by effect.

A command is a generator that yields the name of every failpoint it passes, so that one that is killed at its
n-th point is one that is left there. A graph is a schema (a number) and, or not, one query (a number).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field
from typing import Any

Points = Iterator[str]
DONE = {"applied", "derived"}
WAITS = "dependency_not_applied"
LEDGER = ("schemas", "queries", "graphs", "config", "statuses")


@dataclass
class Live:
    """A graph that is there: its schema, and how many commits it has."""

    schema: int
    commits: int = 1
    is_half_deleted: bool = False


@dataclass(eq=False)
class Approval:
    """A delete that somebody approved, of a graph as it was, by the config as it was."""

    graph: str
    before: Any
    config: Any
    is_used: bool = False


@dataclass(eq=False)
class Recovery:
    """A move that was begun."""

    move: str
    graph: str
    expected: int | None = None
    approval: Approval | None = None


@dataclass
class Change:
    """A difference, and what becomes of it."""

    operation: str
    becomes: str = "applied"
    reason: str | None = None
    approval: Approval | None = None

    @property
    def is_done(self) -> bool:
        return self.becomes in DONE

    def block(self, reason: str) -> None:
        self.becomes, self.reason = "blocked", reason


@dataclass
class Model:
    """Everything there is."""

    declared: dict[str, tuple[int, int | None]] = field(default_factory=dict)
    live: dict[str, Live] = field(default_factory=dict)
    schemas: dict[str, int] = field(default_factory=dict)
    """The schemas in the ledger."""
    queries: dict[str, int] = field(default_factory=dict)
    """The queries in the ledger."""
    graphs: set[str] = field(default_factory=set)
    """The graphs in the ledger; each is what its schema and query are."""
    config: Any = None
    """What was declared when everything was applied."""
    statuses: dict[str, tuple[str, str | None]] = field(default_factory=dict)
    blobs: dict[tuple[str, int], bool] = field(default_factory=dict)
    """Whether each blob is whole."""
    approvals: list[Approval] = field(default_factory=list)
    recoveries: list[Recovery] = field(default_factory=list)
    changes: dict[str, Change] = field(default_factory=dict)
    """Those of the last apply."""
    is_ok: bool = True
    converged: bool = False

    def ledger(self) -> dict[str, Any]:
        """What the ledger has by address."""
        return {
            **{f"graph.{name}": self.composite(name) for name in self.graphs},
            **{f"schema.{name}": schema for name, schema in self.schemas.items()},
            **{f"query.{name}.q": query for name, query in self.queries.items()},
        }

    def composite(self, name: str) -> Any:
        return self.schemas.get(name), self.queries.get(name)

    def wanted(self) -> dict[str, Any]:
        """What is declared by address."""
        found: dict[str, Any] = {}
        for name, (schema, query) in self.declared.items():
            found |= {f"graph.{name}": (schema, query), f"schema.{name}": schema}
            if query is not None:
                found[f"query.{name}.q"] = query
        return found

    def declares(self) -> Any:
        return tuple(sorted(self.wanted().items(), key=lambda one: one[0]))

    # ---------------------------------------------------------------- commands

    def apply(self) -> Points:
        self.is_ok, self.converged, self.changes = True, False, {}
        before = self.saved()
        yield "cluster.after_lock"
        with self.unwritten(before):
            swept, pending = yield from self.sweep()
            self.changes = changes = self.find(pending)
            made: list[Recovery] = []
            yield from self.move_all("create", "graph", "create", changes, made)
            yield from self.move_all("migrate", "schema", "update", changes, made)
            yield from self.put_blobs(changes)
            yield from self.move_all("delete", "graph", "delete", changes, made)
            left = self.find(set())
            self.converged = self.is_ok and not left
            if self.converged:
                self.config = self.declares()
            self.statuses = {
                at: ("blocked", changes[at].reason)
                if at in changes and not changes[at].is_done
                else ("pending" if at in left else "applied", None)
                for at in {*self.wanted(), *self.ledger()}
            }
        if self.saved() != before or swept:
            yield from self.swap(before)
        yield from self.finish([*swept, *made])
        yield "cluster.before_unlock"

    def move_all(
        self, move: str, kind: str, operation: str, changes: dict[str, Change], made: list[Recovery]
    ) -> Points:
        word = "schema_apply" if move == "migrate" else f"graph_{move}"
        for at in sorted(at for at in changes if at.startswith(f"{kind}.")):
            change, name = changes[at], at.split(".")[1]
            if change.operation != operation or not change.is_done:
                continue
            if any(str(one.reason).endswith("_failed") for one in changes.values()):
                self.fail(changes, name, f"{word}_skipped")
            elif not (yield from getattr(self, move)(name, change, made)):
                self.is_ok = False
                self.fail(changes, name, f"{word}_failed")

    def refresh(self) -> Points:
        self.is_ok = True
        before = self.saved()
        yield "cluster.after_lock"
        with self.unwritten(before):
            swept, _ = yield from self.sweep()
            for name in sorted({*self.graphs, *self.declared}):
                self.observe(name)
            for name, query in list(self.queries.items()):
                if not self.blobs.get((name, query)):
                    found = "mismatch" if (name, query) in self.blobs else "missing"
                    self.statuses[f"query.{name}.q"] = ("drifted", f"payload_{found}")
                    del self.queries[name]
        yield from self.swap(before)
        yield from self.finish(swept)
        yield "cluster.before_unlock"

    def observe(self, name: str) -> None:
        """Take over what is seen of a graph."""
        if name in self.live:
            declared = self.declared.get(name, (None,))[0]
            found = self.live[name].schema
            status = ("applied" if found == self.schemas.get(name, declared) else "drifted", None)
            self.schemas[name] = found
            self.graphs.add(name)
        else:
            status = ("drifted", "graph_missing") if name in self.graphs else ("pending", None)
            self.forget(name)
        self.statuses |= {f"graph.{name}": status, f"schema.{name}": status}

    def approve(self, name: str) -> bool:
        """Whether there is something to approve."""
        change = self.find(set()).get(f"graph.{name}")
        if change is None or change.operation != "delete":
            return False
        self.approvals.append(Approval(name, self.composite(name), self.declares()))
        return True

    # ---------------------------------------------------------------- what changes

    def find(self, pending: set[str]) -> dict[str, Change]:
        wanted, ledger = self.wanted(), self.ledger()
        changes = {}
        for at in sorted({*wanted, *ledger}):
            if at not in wanted:
                changes[at] = Change("delete")
            elif at not in ledger:
                changes[at] = Change("create")
            elif wanted[at] != ledger[at]:
                changes[at] = Change("update", "derived" if at.startswith("graph.") else "applied")
        for name in [
            at[6:]
            for at, one in changes.items()
            if at[:6] == "graph." and one.operation == "delete"
        ]:
            about = [one for one in self.approvals if one.graph == name and not one.is_used]
            fits = [
                one
                for one in about
                if (one.before, one.config) == (self.composite(name), self.declares())
            ]
            for change in of_graph(changes, name):
                if fits:
                    change.approval = fits[-1]
                else:
                    change.block("approval_stale" if about else "approval_required")
        for name in pending:
            for change in of_graph(changes, name):
                change.block("cluster_recovery_pending")
        self.spread(changes)
        return changes

    def spread(self, changes: dict[str, Change]) -> None:
        """Block what depends on something that is blocked: queries on schemas and new graphs, graphs on both."""
        for name in {at.split(".")[1] for at in changes}:
            graph, schema, query = (
                changes.get(at) for at in (f"graph.{name}", f"schema.{name}", f"query.{name}.q")
            )
            made = graph if graph is not None and graph.operation == "create" else None
            for change, below in ((query, (schema, made)), (graph, (schema, query))):
                if change is None or not change.is_done or change.operation == "delete":
                    continue
                if any(one is not None and not one.is_done for one in below):
                    change.block(WAITS)

    def fail(self, changes: dict[str, Change], name: str, reason: str) -> None:
        """A move failed: it is blocked with its schema; a delete with all that would have gone."""
        is_delete = changes.get(f"graph.{name}", Change("")).operation == "delete"
        for at in (f"graph.{name}", f"schema.{name}", *([f"query.{name}.q"] if is_delete else [])):
            if at in changes and changes[at].is_done:
                changes[at].block(reason)
        self.spread(changes)

    # ---------------------------------------------------------------- moves

    def create(self, name: str, _: Change, made: list[Recovery]) -> Iterator[str]:
        record = Recovery("create", name)
        yield from self.begin(record)
        if name in self.live:
            yield from self.remove(record)
            return False
        self.live[name] = Live(self.declared[name][0])
        made.append(record)
        yield "cluster.after_move"
        self.graphs.add(name)
        self.schemas[name] = self.declared[name][0]
        return True

    def migrate(self, name: str, _: Change, made: list[Recovery]) -> Iterator[str]:
        wanted = self.declared[name][0]
        if name not in self.live or self.live[name].schema != wanted:
            record = Recovery("migrate", name, wanted)
            yield from self.begin(record)
            if name not in self.live:
                yield from self.remove(record)
                return False
            self.live[name] = Live(wanted, self.live[name].commits + 1)
            made.append(record)
            yield "cluster.after_move"
        self.schemas[name] = wanted
        return True

    def delete(self, name: str, change: Change, made: list[Recovery]) -> Iterator[str]:
        record = Recovery("delete", name, approval=change.approval)
        yield from self.begin(record)
        if name in self.live:
            yield "graph_delete.before_tombstone"
            yield "graph_delete.after_tombstone"
            self.live[name].is_half_deleted = True
            yield "graph_delete.after_manifest"
            yield "graph_delete.before_tombstone_removed"
            del self.live[name]
        made.append(record)
        yield "cluster.after_move"
        self.forget_all(name)
        return True

    def put_blobs(self, changes: dict[str, Change]) -> Points:
        for at, change in sorted(changes.items()):
            kind, name = at.split(".")[:2]
            if kind != "query" or not change.is_done:
                continue
            if change.operation != "delete":
                query = self.declared[name][1]
                assert query is not None
                self.blobs[name, query] = True
                yield "cluster.after_blob"
                self.queries[name] = query
            elif name in self.declared or name not in self.graphs:
                del self.queries[name]
                self.statuses.pop(at, None)

    def begin(self, record: Recovery) -> Points:
        self.recoveries.append(record)
        yield "cluster.after_recovery_file"

    def remove(self, record: Recovery) -> Points:
        yield "cluster.before_recovery_removed"
        self.recoveries.remove(record)

    def finish(self, records: list[Recovery]) -> Points:
        for record in records:
            if record.approval is not None:
                record.approval.is_used = True
                yield "cluster.after_approval_used"
            yield from self.remove(record)

    def sweep(self) -> Iterator[str]:
        """Look after what was begun: return what is to be removed after the swap, and what nobody can finish."""
        swept, pending, known = [], set(), dict(self.schemas)
        for record in list(self.recoveries):
            name, live = record.graph, self.live.get(record.graph)
            if record.move == "delete":
                if live is not None and not live.is_half_deleted:
                    yield from self.remove(record)
                    continue
                if live is not None:
                    yield "graph_delete.before_tombstone_removed"
                    del self.live[name]
                assert record.approval is not None
                record.approval.is_used = True
                yield "cluster.after_approval_used"
                self.forget_all(name)
            elif live_schema(live) == (known.get(name) if record.move == "migrate" else None):
                yield from self.remove(record)
                continue
            elif record.move == "migrate" and live_schema(live) != record.expected:
                self.is_ok = False
                pending.add(name)
                continue
            else:
                assert live is not None
                self.graphs.add(name)
                self.schemas[name] = live.schema
            swept.append(record)
        return swept, pending

    # ---------------------------------------------------------------- the ledger

    def forget(self, name: str) -> None:
        self.graphs.discard(name)
        self.schemas.pop(name, None)

    def forget_all(self, name: str) -> None:
        """Its statuses go with what the ledger has of a graph."""
        for at in self.ledger():
            if at.split(".")[1] == name:
                self.statuses.pop(at, None)
        self.forget(name)
        self.queries.pop(name, None)

    def saved(self) -> dict[str, Any]:
        return {key: copy(getattr(self, key)) for key in LEDGER}

    def restore(self, saved: dict[str, Any]) -> None:
        for key, value in saved.items():
            setattr(self, key, copy(value))

    @contextmanager
    def unwritten(self, before: dict[str, Any]) -> Iterator[None]:
        """What a command notes while it works is lost if it is left."""
        try:
            yield
        except GeneratorExit:
            self.restore(before)
            raise

    def swap(self, before: dict[str, Any]) -> Points:
        after = self.saved()
        self.restore(before)
        yield "cluster.before_ledger"
        self.restore(after)
        yield "cluster.after_ledger"


def live_schema(live: Live | None) -> int | None:
    return None if live is None else live.schema


def of_graph(changes: dict[str, Change], name: str) -> list[Change]:
    return [one for at, one in changes.items() if at.split(".")[1] == name]
