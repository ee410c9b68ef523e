"""What stored rows say against a schema change: rules that they break, and vectors that would be lost."""

from __future__ import annotations

from omnigraph.display.text import counted
from omnigraph.errors import SchemaConflict
from omnigraph.lang.schema.catalog import Catalog
from omnigraph.lang.schema.migrate.data_steps import ChangeEmbed
from omnigraph.lang.schema.migrate.migration import MigrationPlan
from omnigraph.lang.schema.migrate.plan_steps import SchemaStep
from omnigraph.manifest.manifest import BranchState
from omnigraph.manifest.rows import TableIdentity
from omnigraph.manifest.workspace import Workspace
from omnigraph.storage.filters import Condition, filter_expression
from omnigraph.storage.tables.table import open_table
from omnigraph.validate.new_rules import broken_rules, new_rules, violation_of


class RowChecks:
    """Judges the stored rows of a branch against a plan, and remembers which tables passed it.

    So a check before the locks are taken counts under them as well, for every table that did not move.
    """

    def __init__(self, workspace: Workspace, *, allow_data_loss: bool) -> None:
        self.workspace = workspace
        self.allow_data_loss = allow_data_loss
        self._steps: tuple[SchemaStep, ...] = ()
        self._passed: set[TableIdentity] = set()

    def run(
        self, state: BranchState, found: MigrationPlan, accepted: Catalog, target: Catalog
    ) -> None:
        """Raise ``SchemaViolation`` with every rule of the plan that stored rows break.

        ``SchemaConflict`` where vectors would be lost without consent.
        """
        pins = {table.incarnation: table for table in state.head.tables.values()}
        if self._steps != found.steps:
            self._steps, self._passed = found.steps, set()
        asked = [
            rule
            for rule in new_rules(found.steps, accepted, target)
            if (pin := pins.get(rule.entity.table_incarnation_id)) is not None
            and pin.identity not in self._passed
        ]
        broken = broken_rules(asked, accepted, target, pins, self.workspace.pinned)
        if broken:
            raise violation_of(broken)
        self._passed |= {pins[rule.entity.table_incarnation_id].identity for rule in asked}
        if not self.allow_data_loss:
            self._refuse_lost_vectors(state, found, accepted, target)

    def _refuse_lost_vectors(
        self, state: BranchState, found: MigrationPlan, accepted: Catalog, target: Catalog
    ) -> None:
        """Refuse to set vectors to null without consent."""
        lost: dict[str, int] = {}
        old = {entity.table_incarnation_id: entity for entity in accepted.entities()}
        pins = {table.incarnation: table for table in state.head.tables.values()}
        for step in found.steps:
            if not isinstance(step, ChangeEmbed) or step.type_kind == "interface":
                continue
            entity = target.entity(f"{step.type_kind}:{step.type_name}")
            prop = entity.properties[step.property_name]
            number = entity.table_incarnation_id
            stored = {one.property_id: one.name for one in old[number].properties.values()}
            table = open_table(self.workspace.pinned(pins[number]))
            there = Condition(stored[prop.property_id], "is_not_null", None)
            vectors = table.count_rows(filter_expression(table.schema, [there]))
            if vectors:
                lost[f"{entity.table_key}.{prop.name}"] = vectors
        if lost:
            named = ", ".join(f"{counted(n, 'vector')} of {place}" for place, n in lost.items())
            raise SchemaConflict(
                f"another @embed sets {named} to null, which were made of another text or by another "
                "model; allow data loss, and fill them anew by embed",
                vectors=lost,
            )
