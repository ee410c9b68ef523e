"""What a writer hands to the protocol: table changes, and what else its publish carries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from omnigraph.clock import new_ulid
from omnigraph.errors import OmniGraphError
from omnigraph.manifest.manifest import BranchPin
from omnigraph.manifest.publisher import Intent
from omnigraph.manifest.rows import GraphCommit, SchemaRow, TableState
from omnigraph.storage.tables.staging import Staged, new_transaction_uuid
from omnigraph.storage.tables.table import Table

Writer = Literal["mutation", "load", "schema_apply", "branch_merge", "ensure_indices", "optimize"]
WRITERS: tuple[Writer, ...] = get_args(Writer)


@dataclass(frozen=True, slots=True)
class StagedStep:
    """One staged transaction. The UUID is chosen beforehand, so the sidecar can name it.

    ``stage`` prepares it on the table as the step finds it: the first step of a table that needs no
    fork is staged before any lock is taken, every other one in Phase B. A ``best_effort`` step that
    fails (or stages nothing) is left out; an index build is one. Steps with ``stop`` may be staged
    beside each other in threads; it makes a staging that goes on elsewhere give up.
    """

    stage: Callable[[Table], Staged | None]
    best_effort: bool = False
    uuid: str = field(default_factory=new_transaction_uuid)
    stop: Callable[[], object] | None = None


@dataclass(frozen=True, slots=True)
class InlineStep:
    """A named inline residual: it commits by itself and moves HEAD by at least ``versions``."""

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
        """By how many versions HEAD moves at the least."""
        return sum(
            step.versions if isinstance(step, InlineStep) else 1
            for step in self.steps
            if isinstance(step, InlineStep) or not step.best_effort
        )

    def staged(self) -> Iterator[StagedStep]:
        """The steps that have a UUID."""
        return (step for step in self.steps if isinstance(step, StagedStep))


@dataclass(frozen=True, slots=True)
class NewDataset:
    """A table to be created (version 1, empty) and registered."""

    state: TableState
    create: Callable[[], Table]


class NothingToPublish(OmniGraphError):
    """No table was changed by a write that is published only if one was."""


@dataclass(frozen=True, slots=True)
class Write:
    """One operation: everything its commit will make visible at once.

    ``pin`` is the branch as the operation found it. ``relied_on`` are the pins of tables whose content
    validation looked at without changing them; ``ir_hash`` names the schema it was validated against.
    With ``exact_head`` the operation rests on the very head it was prepared on, and no other commit may
    come between. With ``only_if_changed`` a write that left out every step ends with
    ``NothingToPublish``. ``is_large``: it takes its time under its locks when it is prepared again.
    """

    writer: Writer
    pin: BranchPin
    intent: Intent
    tables: tuple[TableChange, ...] = ()
    created: tuple[NewDataset, ...] = ()
    relied_on: tuple[TableState, ...] = ()
    renamed: Mapping[int, str] = field(default_factory=dict)
    dropped: tuple[TableState, ...] = ()
    schema: SchemaRow | None = None
    adopted: tuple[GraphCommit, ...] = ()
    exact_head: bool = False
    takes_graph_lock: bool = False
    ir_hash: str | None = None
    only_if_changed: bool = False
    is_large: bool = False
    operation_id: str = field(default_factory=new_ulid)

    @property
    def branch(self) -> str:
        """The name of the branch it is meant for."""
        return self.pin.name

    @property
    def expected(self) -> tuple[TableState, ...]:
        """The pins that the publish rests on."""
        return (*(change.base for change in self.tables), *self.relied_on, *self.dropped)

    @property
    def head_commit_id(self) -> str | None:
        """The commit that must be the head, where the operation rests on it."""
        return self.pin.head_commit_id if self.exact_head else None

    @property
    def touches_no_table(self) -> bool:
        """Whether the publish is all there is to do."""
        return not self.tables and not self.created
