"""Two schemas that are compared: which elements are one, which were dropped, and the steps between them.

They may be of two branches that know nothing of each other. What both added alike, and a merge would join,
counts as one element here too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

from omnigraph.lang.schema.catalog import Catalog
from omnigraph.lang.schema.ir import Ir, TypeIr
from omnigraph.lang.schema.joins import Joins, has_dropped
from omnigraph.lang.schema.merge.join_added import join_added
from omnigraph.lang.schema.migrate.compare import compare
from omnigraph.lang.schema.migrate.plan_steps import SchemaStep
from omnigraph.lang.schema.migrate.schema_change import SchemaChange
from omnigraph.manifest.history.identity_counter import single_line_below
from omnigraph.manifest.history.resolve import schema_at
from omnigraph.manifest.manifest import Manifest
from omnigraph.manifest.snapshot import Snapshot


class TwoSchemas:
    """Two schemas of one graph. Ids below ``line`` were given before schemas recorded what they dropped."""

    def __init__(self, before: Ir, after: Ir, line: int = 0) -> None:
        self.before = before
        self.after = after
        self._line = line
        nothing = Ir(before.schema_identity_domain, 1)
        self.joins: Joins = join_added(nothing, before, after, line).joins

    def learn(self, current: Catalog) -> None:
        """Heed the joins of a third schema as well: the one whose names are used."""
        for entity in current.entities():
            for other in entity.joined_incarnations:
                self.joins.join(entity.table_incarnation_id, other)
            for prop in entity.properties.values():
                for other in prop.joined_ids:
                    self.joins.join(prop.property_id, other)

    def has_dropped(self, schema: Ir, number: int) -> bool:
        """Whether one of the two, which lacks an element of the other, dropped it."""
        return has_dropped(schema, number, self.joins, self._line)

    @cached_property
    def steps(self) -> tuple[SchemaStep, ...]:
        """The steps from the first to the second; ids alone are no difference."""
        return compare(self._one_numbering(self.before), self._one_numbering(self.after), "soft")

    def _one_numbering(self, schema: Ir) -> Ir:
        def of(type_: TypeIr) -> TypeIr:
            table, one = type_.table_incarnation_id, self.joins.one
            return replace(
                type_,
                type_id=one(type_.type_id),
                table_incarnation_id=None if table is None else one(table),
                property_ids={name: one(number) for name, number in type_.property_ids.items()},
            )

        return replace(
            schema,
            interfaces=tuple(map(of, schema.interfaces)),
            nodes=tuple(map(of, schema.nodes)),
            edges=tuple(map(of, schema.edges)),
        )

    @property
    def change(self) -> SchemaChange:
        """The steps from the first to the second, with the hashes of both."""
        return SchemaChange(self.before.ir_hash, self.after.ir_hash, self.steps)


def two_schemas(manifest: Manifest, before: Snapshot, after: Snapshot) -> TwoSchemas | None:
    """Return the schemas of two snapshots; None if they are one, which costs a comparison of hashes."""
    if before.ir_hash == after.ir_hash:
        return None
    then, now = (schema_at(manifest, one).ir for one in (before, after))
    return TwoSchemas(then, now, single_line_below(manifest))


def schema_change(
    manifest: Manifest, before: Snapshot, after: Snapshot
) -> Mapping[str, Any] | None:
    """Return what a diff says of the schemas of its sides; None if they do not differ by a step."""
    both = two_schemas(manifest, before, after)
    return both.change.to_json() if both is not None and both.steps else None
