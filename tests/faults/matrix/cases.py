"""One case of the matrix: an operation is disturbed at one cut point, and somebody comes next.

Whoever comes, the graph shows all of the operation or nothing of it, at once and for good; nothing is left
pending or ahead of its pin; what was recovered has one audit row; the operation can be repeated, and the
next write works.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Literal

from omnigraph.commit.audit import read_audit
from omnigraph.errors import CorruptSidecar, NotAGraph, OmniGraphError, RecoveryRequired
from omnigraph.graph import Graph
from omnigraph.storage import layout
from tests.commit.synthetic import drifted
from tests.faults.matrix.children import Child
from tests.faults.matrix.operations import (
    CHOSEN,
    GRAPHS,
    OPERATIONS,
    TYPES,
    Operation,
    next_write,
    opened,
    shown,
)
from tests.faults.matrix.schema_graphs import left_over
from tests.faults.matrix.seams import Cut, Fault, Tap, stale_listings
from tests.opened import workspace_of
from tests.put_back import put_back

Follower = Literal["same", "other", "read-only"]
FOLLOWERS: tuple[Follower, ...] = ("same", "other", "read-only")
State = dict[str, Any]


@dataclass(frozen=True)
class Recorded:
    """What a clean run of an operation shows before and after it, and the cut points it passes."""

    before: State | None
    after: State
    cuts: tuple[Cut, ...]
    pending: frozenset[Cut]
    commits_before: int
    commits_made: int
    work: Any


@dataclass(frozen=True)
class Case:
    """A disturbance of an operation, and who comes next."""

    operation: str
    cut: Cut
    fault: Fault | Literal["torn sidecar", "stale listing"]
    follower: Follower

    def __str__(self) -> str:
        return f"{self.operation} | {self.cut} | {self.fault} | {self.follower}"

    @property
    def is_deadly(self) -> bool:
        """Whether the process of the operation dies."""
        return self.fault not in ("error before", "error after", "sent again", "lost reply")


def cases_of(name: str, recorded: Recorded) -> list[Case]:
    """Every case of an operation."""
    found = []
    for cut in recorded.cuts:
        faults: list[Any] = list(cut.faults)
        if cut in recorded.pending:
            faults += ["torn sidecar", "stale listing"]
        found += [Case(name, cut, fault, who) for fault in faults for who in FOLLOWERS]
    return found


# ------------------------------------------------------------------ the graph that is put back


@dataclass(frozen=True)
class Place:
    """Where the prepared graphs lie, and where each is put back for a case.

    Branches know their place, so every graph always has the same.
    """

    directory: Path

    def uri(self, graph: str) -> str:
        return str(self.directory / graph / "graph")

    def kept(self, graph: str) -> Path:
        return self.directory / graph / "kept"

    def build(self) -> None:
        """Make all graphs, each in a process of its own."""
        for name in GRAPHS:
            (self.directory / name).mkdir(parents=True)
            Child(_build, name, self.uri(name)).wait()
            if Path(self.uri(name)).exists():
                shutil.move(self.uri(name), self.kept(name))

    def put_back(self, graph: str) -> str:
        """The graph as it was built."""
        uri, kept = self.uri(graph), self.kept(graph)
        if kept.exists():
            put_back(kept, Path(uri))
        else:
            shutil.rmtree(uri, ignore_errors=True)
        return uri


def _build(_: Connection, name: str, uri: str) -> bool:
    GRAPHS[name](uri)
    return True


# ------------------------------------------------------------------ a clean run


def record(place: Place, name: str) -> Recorded:
    """Run an operation undisturbed, in a child."""
    uri = place.put_back(OPERATIONS[name].graph)
    found: Recorded = Child(_record, uri, name).wait()
    return found


def _record(_: Connection, uri: str, name: str) -> Recorded:
    operation = OPERATIONS[name]
    before, commits = None, 0
    if operation.graph != "nothing":
        with opened(uri, "r") as graph:
            before, commits = shown(graph), _commits(graph, operation)
    graph = None if operation.opens else opened(uri)
    with Tap(TYPES) as tap:
        operation.run(graph or uri)
    with opened(uri) as graph:
        return Recorded(
            before,
            shown(graph),
            tuple(tap.cuts),
            frozenset(_pending(tap.cuts, operation.recovers)),
            commits,
            _commits(graph, operation) - commits,
            operation.work(graph) if operation.work else None,
        )


def _pending(cuts: Sequence[Cut], is_there: bool) -> list[Cut]:
    """The cut points at which a sidecar is there."""
    found = []
    for cut in cuts:
        if cut.name.startswith((f"delete {layout.RECOVERY_DIR}", f"discard {layout.RECOVERY_DIR}")):
            found.append(cut)
            is_there = False
        if is_there:
            found.append(cut)
        if cut.name.startswith(f"write_text_if_absent {layout.RECOVERY_DIR}"):
            is_there = True
    return found


def _commits(graph: Graph, operation: Operation) -> int:
    return 0 if operation.branch is None else len(graph.commits.list(operation.branch))


# ------------------------------------------------------------------ a case


def run_case(place: Place, case: Case, recorded: Recorded) -> str:
    """Run a case in children of this process; what became of the operation, for the statistics."""
    operation = OPERATIONS[case.operation]
    uri = place.put_back(operation.graph)
    watcher = None
    if case.is_deadly and case.follower == "same" and not operation.opens:
        # Somebody else has the graph open and goes on.
        watcher = Child(_go_on, uri, case, recorded)
        watcher.pipe.recv()
    victim = Child(_disturb, uri, case, recorded)
    told = victim.wait()
    assert (told is None) == case.is_deadly, f"the process {'lived' if told else 'died'}"
    if watcher is not None:
        watcher.pipe.send("go on")
        return str(watcher.wait())
    if case.follower == "same" and told is not None:
        return str(told)
    return str(Child(_come_next, uri, case, recorded, told).wait())


def _disturb(_: Connection, uri: str, case: Case, recorded: Recorded) -> str:
    """Run the operation with its disturbance. Who survives it may go on."""
    operation = OPERATIONS[case.operation]
    fault: Fault = "kill before" if case.is_deadly and "kill" not in case.fault else case.fault  # type: ignore[assignment]
    target = uri if operation.opens else opened(uri)
    with Tap(TYPES, case.cut, fault) as tap:
        ended = _attempt(operation, target)
    assert tap.reached, "the operation did not pass its cut point"
    if case.follower != "same":
        return ended
    judge = _Judge(uri, case, recorded, ended)
    judge.retry(target)
    return judge.settle()


def _attempt(operation: Operation, target: Graph | str) -> str:
    """Run the operation; "done", or the code of its error, which must be one of ours."""
    try:
        operation.run(target)
    except OmniGraphError as error:
        return error.code
    return "done"


def _go_on(pipe: Connection, uri: str, case: Case, recorded: Recorded) -> str:
    """Have the graph open while another process dies, and then go on with it."""
    with opened(uri) as graph:
        shown(graph)
        pipe.send("ready")
        pipe.recv()
        judge = _Judge(uri, case, recorded, None)
        judge.retry(graph)
    return judge.settle()


def _come_next(_: Connection, uri: str, case: Case, recorded: Recorded, told: str | None) -> str:
    judge = _Judge(uri, case, recorded, told)
    if case.follower == "read-only":
        judge.look()
    elif case.follower == "same":
        judge.retry(uri)
    elif case.fault == "stale listing":
        with stale_listings(layout.RECOVERY_DIR), opened(uri) as graph:
            judge.retry(uri if judge.operation.opens else graph)
    return judge.settle()


class _Judge:
    """What must be true of a graph after a disturbed operation."""

    def __init__(self, uri: str, case: Case, recorded: Recorded, told: str | None) -> None:
        self.uri = uri
        self.case = case
        self.recorded = recorded
        self.operation = OPERATIONS[case.operation]
        self.acknowledged = told == "done"
        self.told = told
        self.repeated = False
        folder = Path(uri, layout.RECOVERY_DIR)
        self.sidecars = {path: path.read_bytes() for path in sorted(folder.glob("*.json"))}
        assert len(self.sidecars) <= 1
        self.torn = case.fault == "torn sidecar"
        if self.torn:
            assert self.sidecars
            for path, data in self.sidecars.items():
                path.write_bytes(data[: len(data) // 2])

    # -- who comes next

    def look(self) -> None:
        """A read-only open shows a whole state and changes nothing."""
        before = _files(self.uri)
        try:
            with opened(self.uri, "r") as graph:
                self._check_whole(shown(graph))
        except NotAGraph:
            assert self.recorded.before is None
            assert not self.acknowledged
        assert _files(self.uri) == before

    def retry(self, target: Graph | str) -> None:
        """Whoever has the graph open repeats the operation; an operation that opens it is begun anew."""
        if self.case.fault == "stale listing":
            with stale_listings(layout.RECOVERY_DIR), suppress(OmniGraphError):
                self.operation.run(target)
                # An open that saw nothing to recover has recovered nothing.
                self.acknowledged = not self.operation.recovers
            self.repeated = True
        else:
            self._retry(target)
        if isinstance(target, Graph):
            self._check_whole(shown(target))

    def _retry(self, target: Graph | str) -> None:
        try:
            self.operation.run(target)
        except RecoveryRequired:
            # A rollback takes a read-write open.
            assert self.sidecars
        except CorruptSidecar as error:
            assert self.torn
            assert any(path.name in str(error) for path in self.sidecars)
        except OmniGraphError as error:
            if self.operation.again is None or not isinstance(error, self.operation.again):
                raise
            self.acknowledged = True  # it has happened, as this error says
        else:
            self.acknowledged = self.repeated = True

    # -- in the end

    def settle(self) -> str:
        """A read-write open settles it."""
        if self.torn:
            self._check_torn()
        if self.recorded.before is None:
            return self._settle_init()
        with opened(self.uri) as graph:
            state = shown(graph)
            self._check_whole(state)
            self._check_sound(graph, self.operation.graph != "drifted")
            self._check_audit(graph)
            self._check_told(state)
            happened = state == self.recorded.after and self.operation.work is None
            if not self.repeated and self.operation.branch is not None:
                self._check_commits(graph, happened)
            if happened:
                next_write(graph, self.operation)
            else:
                self.operation.run(self.uri if self.operation.opens else graph)
                assert shown(graph) == self.recorded.after
                self._check_work(graph)
            self._check_once(graph)
            self._check_sound(graph)
            self._check_tidy(graph)
        return "happened" if happened else "did not happen"

    def _settle_init(self) -> str:
        happened = True
        try:
            self.operation.run(self.uri)
            happened = False
        except OmniGraphError as error:
            assert self.operation.again is not None
            if not isinstance(error, self.operation.again):
                raise
        assert happened or not self.acknowledged
        if happened and not self.repeated:
            self._check_told(self.recorded.after)
        with opened(self.uri) as graph:
            assert shown(graph) == self.recorded.after
            next_write(graph, self.operation)
            self._check_sound(graph)
        return "happened" if happened else "did not happen"

    def _check_whole(self, state: State) -> None:
        """All of the operation or nothing of it; and all, if somebody was told that it is done."""
        if self.acknowledged:
            assert state == self.recorded.after, "what was acknowledged is not there"
        else:
            assert state in (self.recorded.before, self.recorded.after), "it is there in part"

    def _check_sound(self, graph: Graph, no_drift: bool = True) -> None:
        """Nothing is pending, and no table is ahead of its pin."""
        assert workspace_of(graph).store.list(layout.RECOVERY_DIR) == []
        for branch in graph.branches.list() if no_drift else ():
            assert drifted(graph, branch) == [], branch

    def _check_tidy(self, graph: Graph) -> None:
        """After a cleanup nothing lies about, and everything reads as before."""
        if self.operation.tidy:
            before = shown(graph)
            graph.cleanup(keep_versions=1)
            assert left_over(graph) == []
            assert shown(graph) == before

    def _check_told(self, state: State) -> None:
        """Who was told that it failed, although what is there could have been looked at, was told the truth.

        An error of a look is another matter: the store repeats those, so it cannot be reached by then.
        """
        clear = self.case.cut.kind == "effect" and self.case.fault != "lost reply"
        failed = self.told not in (None, "done", "recovery_required")
        if not (clear and failed) or self.repeated or self.operation.recovers:
            return
        if self.recorded.before != self.recorded.after:
            assert state == self.recorded.before, f"{self.told}, and it has happened"

    def _check_audit(self, graph: Graph) -> None:
        """What was pending has one audit row."""
        rows = [one.operation_id for one in read_audit(workspace_of(graph))]
        if self.operation.recovers:
            assert len(rows) == 1
        else:
            assert rows == [path.stem for path in self.sidecars]

    def _check_commits(self, graph: Graph, happened: bool) -> None:
        """As many commits as a clean run makes, or none; and one for a rollback."""
        made = _commits(graph, self.operation) - self.recorded.commits_before
        full, none = self.recorded.commits_made, len(self.sidecars)
        if self.operation.recovers:
            none = full
        shows = self.recorded.before != self.recorded.after
        assert made in ((full if happened else none,) if shows else (full, none))

    def _check_once(self, graph: Graph) -> None:
        """What was sent under an id is there once, and is answered when it is sent again."""
        if self.operation.once:
            assert self.operation.branch is not None
            answer: Any = self.operation.run(graph)
            named = f"operation_id={CHOSEN}"
            assert answer.replayed
            assert graph.commits.list(self.operation.branch, named) == [answer.commit]

    def _check_work(self, graph: Graph) -> None:
        """Maintenance that was repeated has done all its work."""
        if self.operation.work is not None:
            assert self.operation.work(graph) == self.recorded.work

    def _check_torn(self) -> None:
        """A sidecar that cannot be read stops every writer, and stays until somebody puts it back."""
        try:
            opened(self.uri).close()
        except CorruptSidecar as error:
            assert any(path.name in str(error) for path in self.sidecars)
        else:
            raise AssertionError("a torn sidecar was not noticed")
        for path, data in self.sidecars.items():
            assert path.read_bytes() == data[: len(data) // 2]
            path.write_bytes(data)


def _files(uri: str) -> dict[str, tuple[int, int]]:
    """Every file with its size and time, except the locks that come and go."""
    return {
        path.relative_to(uri).as_posix(): (path.stat().st_size, path.stat().st_mtime_ns)
        for path in sorted(Path(uri).rglob("*"))
        if path.is_file() and layout.LOCKS_DIR not in path.parts
    }
