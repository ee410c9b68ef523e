"""What a writer hands to the protocol: a ``Write`` with its table changes and its schema changes.

For example, a mutation that inserts one Person hands over one ``TableChange`` whose base is the pin
of ``node:Person`` at version 7, with one ``StagedStep`` that appends the row. Once committed, the
manifest pins ``node:Person`` at version 8.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, get_args

from omnigraph.clock import new_ulid
from omnigraph.errors import OmniGraphError
from omnigraph.manifest.history.stream_records import StreamBatch, StreamRecord
from omnigraph.manifest.manifest import BranchPin
from omnigraph.manifest.publisher import Intent
from omnigraph.manifest.rows import GraphCommit, Purge, SchemaRow, TableState
from omnigraph.storage.tables.staging import Staged, new_transaction_uuid
from omnigraph.storage.tables.table import Table

Writer = Literal[
    "mutation",
    "load",
    "schema_apply",
    "branch_merge",
    "revert",
    "embed",
    "ensure_indices",
    "optimize",
    "purge",
    "relocate",
]
RELOCATE: Final = "relocate"
"""Settles the forks of a graph at its new place (``relocation.py``); no commit moves a table."""
WRITERS: tuple[Writer, ...] = tuple(one for one in get_args(Writer) if one != RELOCATE)
"""Those that hand over a ``Write``."""


@dataclass(frozen=True, slots=True)
class StagedStep:
    """One staged transaction. Its UUID is chosen beforehand, so that the sidecar can name it.

    ``stage`` prepares the transaction on the table as the step finds it. The first step of a table
    that needs no fork is staged before any lock is taken; every other step is staged in Phase B. A
    ``best_effort`` step, such as an index build, is left out when it fails or stages nothing;
    ``settled`` is then called with the error, and with None once it is committed. Steps that have
    ``stop`` may be staged at the same time in threads; calling ``stop`` makes a staging that is running
    in another thread give up. ``opened`` is the table at its pin, if whoever made the step has it open.
    """

    stage: Callable[[Table], Staged | None]
    best_effort: bool = False
    uuid: str = field(default_factory=new_transaction_uuid)
    stop: Callable[[], object] | None = None
    settled: Callable[[OmniGraphError | None], object] = lambda _error: None
    opened: Table | None = None


@dataclass(frozen=True, slots=True)
class InlineStep:
    """A step that commits by itself, without staging, and moves HEAD by at least ``versions``."""

    name: str
    run: Callable[[Table], Table]
    versions: int = 1


Step = StagedStep | InlineStep


@dataclass(frozen=True, slots=True)
class TableChange:
    """The steps that take one table from its pin to its new version."""

    base: TableState
    steps: tuple[Step, ...]

    @property
    def required_versions(self) -> int:
        """The number of versions by which HEAD moves at least."""
        return sum(
            step.versions if isinstance(step, InlineStep) else 1
            for step in self.steps
            if isinstance(step, InlineStep) or not step.best_effort
        )

    @property
    def opened(self) -> Table | None:
        """The table at its pin, if whoever made the first step has it open."""
        first = self.steps[0] if self.steps else None
        return first.opened if isinstance(first, StagedStep) else None

    def staged_steps(self) -> Iterator[StagedStep]:
        """Return the staged steps, which are those that have a UUID."""
        return (step for step in self.steps if isinstance(step, StagedStep))


@dataclass(frozen=True, slots=True)
class NewDataset:
    """A table to create (version 1, empty) and to register in the manifest; ``steps`` write its first rows."""

    state: TableState
    create: Callable[[], Table]
    steps: tuple[StagedStep, ...] = ()


LateFacts = Callable[[Sequence[TableState]], Mapping[str, Any]]


class NothingToPublish(OmniGraphError):
    """Raised by a write with ``only_if_changed`` that changed no table."""


@dataclass(frozen=True, slots=True)
class Write:
    """One operation: everything its commit will make visible at once.

    ``pin`` is the branch as the operation found it. ``relied_on`` are the pins of tables that
    validation read but the write does not change; ``ir_hash`` names the schema it was validated
    against. ``purged`` are the incarnations of which a hard drop removes all that is there before
    the commit; the commit records what is owed. ``exact_head``: no other commit may come between the head the operation was prepared on
    and this one. ``only_if_changed``: a write that left out every step ends with
    ``NothingToPublish``. ``is_large``: preparing it again under its locks takes long, so others
    should expect to wait. ``taken_over`` are states of tables that other branches made and that this
    branch pins from now on; the pins they replace are among ``relied_on``. ``brought_in`` are states of tables
    on the main lineage that this branch did not know, and registers. ``adopted`` are the records
    of commits that the branch does not know yet, and ``streams`` the greater batches of streams that come
    with them. ``batch``: the operation is this micro-batch of a stream. ``late_facts`` gives facts that are known only once the
    tables are committed, from their new pins; it raises nothing, and a recovered commit lacks them.
    ``forgotten`` are versions of tables that hold what a purge removes, and ``audit`` is what is kept of it.
    """

    writer: Writer
    pin: BranchPin
    intent: Intent
    tables: tuple[TableChange, ...] = ()
    created: tuple[NewDataset, ...] = ()
    relied_on: tuple[TableState, ...] = ()
    taken_over: tuple[TableState, ...] = ()
    brought_in: tuple[TableState, ...] = ()
    renamed: Mapping[int, str] = field(default_factory=dict)
    dropped: tuple[TableState, ...] = ()
    purged: tuple[int, ...] = ()
    schema: SchemaRow | None = None
    adopted: tuple[GraphCommit, ...] = ()
    streams: tuple[StreamRecord, ...] = ()
    batch: StreamBatch | None = None
    exact_head: bool = False
    takes_graph_lock: bool = False
    ir_hash: str | None = None
    only_if_changed: bool = False
    is_large: bool = False
    late_facts: LateFacts | None = None
    forgotten: tuple[Purge, ...] = ()
    audit: Mapping[str, Any] | None = None
    operation_id: str = field(default_factory=new_ulid)

    @property
    def branch(self) -> str:
        """The name of the branch the operation is meant for."""
        return self.pin.name

    @property
    def expected(self) -> tuple[TableState, ...]:
        """The pins that must still be current when the operation is published."""
        return (*(change.base for change in self.tables), *self.relied_on, *self.dropped)

    @property
    def stream_records(self) -> tuple[StreamRecord, ...]:
        """What the manifest will say about streams: those taken over, and that of its own batch."""
        if self.batch is None:
            return self.streams
        return (*self.streams, StreamRecord(self.batch, self.intent.graph_commit_id))

    @property
    def head_commit_id(self) -> str | None:
        """The commit that must be the head, or None if the operation accepts any head."""
        return self.pin.head_commit_id if self.exact_head else None

    @property
    def touches_no_table(self) -> bool:
        """Whether the operation consists of a publish and nothing else: no table gets a version."""
        return not self.tables and not self.created
