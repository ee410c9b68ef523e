"""`graph.schema`: the accepted schema of the newest commit, and how to change it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omnigraph.graph.arguments import check_flag
from omnigraph.graph.caches import AcceptedSchema
from omnigraph.graph.facets.facet import Facet
from omnigraph.lang.schema.catalog import Catalog
from omnigraph.lang.schema.catalog_document import catalog_document
from omnigraph.language import read_source
from omnigraph.manifest.branch_names import MAIN
from omnigraph.policy.checker import Action

# Writes import what they need inside their methods, so that a process that only reads stays light.
if TYPE_CHECKING:
    from omnigraph.write.schema_apply import SchemaApplied, SchemaPlan, SchemaRequest


@dataclass(frozen=True, slots=True)
class ShownSchema:
    """An accepted schema: its source text, the hash that names it, and its types."""

    source: str
    schema_hash: str
    catalog: Catalog

    def to_json(self) -> dict[str, Any]:
        """Return the public form, with the types as ``catalog_document`` shows them."""
        document = catalog_document(self.catalog, self.schema_hash)
        return {"source": self.source, "schema_hash": self.schema_hash, "catalog": document}

    def __str__(self) -> str:
        return self.source


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

    def show(self, *, clean: bool = False) -> ShownSchema:
        """The accepted source text, the hash that names the schema, and its types.

        ``clean`` leaves the rename hints out of the text: they did their work when they were applied.
        ``apply`` takes either text.
        """
        from omnigraph.lang.schema.syntax.hints import without_hints

        check_flag("clean", clean)
        accepted = self._accepted()
        source = accepted.row.source
        return ShownSchema(
            without_hints(source) if clean else source, accepted.row.ir_hash, accepted.catalog
        )

    def plan(
        self, schema: str | Path, allow_data_loss: bool = False, *, check: bool = False
    ) -> SchemaPlan:
        """Return the steps from the accepted schema to a new one; nothing is written.

        ``schema`` is source text, or a ``Path`` to a file. With ``allow_data_loss`` drops are hard.
        With ``check`` all stored rows are judged by the new rules, as ``apply`` does it: those that
        break one are ``SchemaViolation``.
        """
        from omnigraph.write.schema_apply import plan_schema

        self._state.ensure_open()
        self._access.ask(Action.READ)
        check_flag("check", check)
        request = _request(schema, allow_data_loss)
        return plan_schema(self._state.workspace, request, check=check)

    def apply(
        self,
        schema: str | Path,
        allow_data_loss: bool = False,
        actor: str | None = None,
        *,
        operation_id: str | None = None,
        message: str | None = None,
    ) -> SchemaApplied:
        """Give the graph a new schema as one commit, or change nothing.

        Without ``allow_data_loss`` what is dropped stays readable in earlier snapshots; with it,
        the old versions of those tables are removed from disk. ``operation_id`` and
        ``message`` as for ``mutate``.
        """
        from omnigraph.write.schema_apply import apply_schema

        self._state.ensure_writable()
        acting = self._access.acting(actor)
        acting.ask(Action.SCHEMA_APPLY, target=MAIN)
        request = _request(schema, allow_data_loss, acting.actor, operation_id, message)
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
) -> SchemaRequest:
    from omnigraph.commit.replays import WriteRequest
    from omnigraph.write.schema_apply import SchemaRequest

    source, filename = read_source(schema)
    asked = WriteRequest.checked("schema_apply", operation_id, message)
    return SchemaRequest(
        source, filename, check_flag("allow_data_loss", allow_data_loss), actor_id, asked
    )
