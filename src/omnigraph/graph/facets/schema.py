"""`graph.schema`: the accepted schema of the newest commit, and how to change it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from omnigraph.display.panel import Panel, Shown
from omnigraph.display.text import counted
from omnigraph.graph.arguments import check_flag
from omnigraph.graph.caches import AcceptedSchema
from omnigraph.graph.facets.facet import Facet
from omnigraph.lang.schema.catalog import Catalog, Entity, InterfaceType
from omnigraph.lang.schema.catalog_document import catalog_document
from omnigraph.language import read_source
from omnigraph.manifest.branch_names import MAIN, trim_branch_name
from omnigraph.manifest.history.resolve import catalog_at, resolve, schema_row_at
from omnigraph.manifest.snapshot import Target, TargetKeywords, TargetLike
from omnigraph.policy.checker import Action

# Writes import what they need inside their methods, so that a process that only reads stays light.
if TYPE_CHECKING:
    from omnigraph.lang.schema.migrate.schema_change import SchemaChange
    from omnigraph.write.schema_apply import SchemaApplied, SchemaPlan, SchemaRequest


@dataclass(frozen=True, slots=True, repr=False)
class ShownSchema(Shown):
    """An accepted schema: its source text, the hash that names it, and its types."""

    source: str
    schema_hash: str
    catalog: Catalog

    def to_json(self) -> dict[str, Any]:
        """Return the public form, with the types as ``catalog_document`` shows them."""
        document = catalog_document(self.catalog, self.schema_hash)
        return {"source": self.source, "schema_hash": self.schema_hash, "catalog": document}

    def _panel(self) -> Panel:
        types = [(f"{kind} {name}", len(one.properties)) for kind, name, one in self._types()]
        return Panel.of_rows(
            f"schema of {counted(len(types), 'type')}",
            ("type", "properties"),
            types,
            facts=[("hash", self.schema_hash)],
        )

    def _types(self) -> Iterator[tuple[str, str, InterfaceType | Entity]]:
        for kind, types in (
            ("interface", self.catalog.interfaces),
            ("node", self.catalog.nodes),
            ("edge", self.catalog.edges),
        ):
            yield from ((kind, name, one) for name, one in types.items())


class Schema(Facet):
    """`graph.schema`: the accepted schema of the newest commit, and how to change it."""

    @property
    def source(self) -> str:
        """The accepted source text."""
        return self._accepted().row.source

    @property
    def catalog(self) -> Catalog:
        """The accepted types."""
        return self._accepted().catalog

    def show(self, *, clean: bool = False, **target: Unpack[TargetKeywords]) -> ShownSchema:
        """The source text of a schema, the hash that names it, and its types: the newest of `main`, or the one
        of another state, under the names of that state.

        ``clean`` leaves the rename hints out of the text: they did their work when they were applied.
        ``apply`` takes either text.
        """
        from omnigraph.lang.schema.syntax.hints import without_hints

        check_flag("clean", clean)
        if target:
            shown = self._at(self._access.reading(**target))
        else:
            accepted = self._accepted()
            shown = ShownSchema(accepted.row.source, accepted.ir_hash, accepted.catalog)
        return replace(shown, source=without_hints(shown.source)) if clean else shown

    def _at(self, target: Target) -> ShownSchema:
        manifest = self._state.workspace.manifest
        snapshot = resolve(manifest, target)
        row = schema_row_at(manifest, snapshot)
        return ShownSchema(row.source, row.ir_hash, catalog_at(manifest, snapshot))

    def diff(self, from_: TargetLike, to: TargetLike) -> SchemaChange:
        """The steps from the schema of one state to that of another, and the hashes of both.

        They are those of ``graph.diff``: what both sides added alike is no difference. An ``unsupported_change``
        among them only says what differs.
        """
        from omnigraph.changes.schemas.two_schemas import two_schemas
        from omnigraph.lang.schema.migrate.schema_change import SchemaChange

        self._state.ensure_open()
        manifest = self._state.workspace.manifest
        sides = [self._access.ask_read(Target.of_value(side)) for side in (from_, to)]
        before, after = (resolve(manifest, side) for side in sides)
        both = two_schemas(manifest, before, after)
        return SchemaChange(before.ir_hash, after.ir_hash, ()) if both is None else both.change

    def plan(
        self,
        schema: str | Path,
        allow_data_loss: bool = False,
        *,
        check: bool = False,
        branch: str = MAIN,
    ) -> SchemaPlan:
        """Return the steps from the accepted schema of a branch to a new one; nothing is written.

        ``schema`` is source text, or a ``Path`` to a file. With ``allow_data_loss`` drops are hard.
        With ``check`` all stored rows are judged by the new rules, as ``apply`` does it: those that
        break one are ``SchemaViolation``.
        """
        from omnigraph.write.schema_apply import plan_schema

        self._state.ensure_open()
        named = trim_branch_name(branch)
        # What the newest schema says is no secret of a branch, as for `source`; what others say is.
        self._access.ask(Action.READ, None if named == MAIN else named)
        check_flag("check", check)
        request = _request(schema, allow_data_loss, branch=named)
        return plan_schema(self._state.workspace, request, check=check)

    def apply(
        self,
        schema: str | Path,
        allow_data_loss: bool = False,
        actor: str | None = None,
        *,
        branch: str = MAIN,
        operation_id: str | None = None,
        message: str | None = None,
    ) -> SchemaApplied:
        """Give a branch a new schema as one commit, or change nothing; other branches keep theirs.

        Without ``allow_data_loss`` what is dropped stays readable in earlier snapshots; with it,
        the old versions of those tables are removed from disk. ``operation_id`` and
        ``message`` as for ``mutate``.
        """
        from omnigraph.write.schema_apply import apply_schema

        self._state.ensure_writable()
        acting, named = self._access.acting(actor), trim_branch_name(branch)
        acting.ask(Action.SCHEMA_APPLY, target=named)
        request = _request(
            schema, allow_data_loss, acting.actor, operation_id, message, branch=named
        )
        return apply_schema(self._state.workspace, request)

    def _accepted(self) -> AcceptedSchema:
        self._state.ensure_open()
        self._access.ask(Action.READ)
        return self._state.schemas.of(MAIN)


def _request(
    schema: str | Path,
    allow_data_loss: object,
    actor_id: str | None = None,
    operation_id: object = None,
    message: object = None,
    *,
    branch: str,
) -> SchemaRequest:
    from omnigraph.commit.replays import WriteRequest
    from omnigraph.write.schema_apply import SchemaRequest

    source, filename = read_source(schema)
    asked = WriteRequest.checked("schema_apply", operation_id, message)
    hard = check_flag("allow_data_loss", allow_data_loss)
    return SchemaRequest(source, filename, hard, actor_id, branch, asked)
