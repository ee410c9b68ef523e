"""What differs between two accepted schemas: how results, commits and diffs show it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from omnigraph.display.panel import Panel, Shown
from omnigraph.display.text import counted
from omnigraph.lang.schema.migrate.plan_steps import SchemaStep
from omnigraph.lang.schema.migrate.read_steps import read_step


@dataclass(frozen=True, slots=True, repr=False)
class SchemaChange(Shown):
    """The steps from one schema to another, and the hashes that name both.

    An ``unsupported_change`` among the steps only says what differs.
    """

    from_hash: str
    to_hash: str
    steps: tuple[SchemaStep, ...]

    @classmethod
    def read(cls, document: dict[str, Any]) -> SchemaChange:
        """Return a change from its public form."""
        steps = tuple(read_step(step) for step in document["steps"])
        return cls(document["from_hash"], document["to_hash"], steps)

    def _panel(self) -> Panel:
        title = f"difference of schemas, {counted(len(self.steps), 'step')}"
        facts = [("from", self.from_hash), ("to", self.to_hash)]
        rows = [(step.kind, step.describe()) for step in self.steps]
        return (
            Panel.of_rows(title, ("step", ""), rows, facts=facts) if rows else Panel(title, facts)
        )

    def to_json(self) -> dict[str, Any]:
        """Return the public form."""
        return {
            "from_hash": self.from_hash,
            "to_hash": self.to_hash,
            "steps": [step.to_json() for step in self.steps],
        }
