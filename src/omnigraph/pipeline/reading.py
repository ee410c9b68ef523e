"""Stages 1 and 2 of a load: records to typed rows with ids and vectors, judged row by row."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from omnigraph.embeddings.provider import embed_texts, required_embedder, resolve_embedder
from omnigraph.lang.schema.catalog import Catalog, EdgeType, NodeType
from omnigraph.manifest.create import new_commit_id
from omnigraph.pipeline.batches import Parsed, TypedBatch, batch_schema
from omnigraph.pipeline.ids import derive_ids, id_aliases
from omnigraph.pipeline.incoming import Incoming, place_of, record_order
from omnigraph.pipeline.progress import ProgressReport
from omnigraph.pipeline.report import Bad, BadRecords
from omnigraph.pipeline.request import LoadRequest
from omnigraph.validate.change_set import ORDER
from omnigraph.validate.rows import row_violations

if TYPE_CHECKING:
    import pyarrow as pa


class Reading:
    """The input of one load, read once: the rows of each table, and what is wrong with records."""

    def __init__(
        self, catalog: Catalog, request: LoadRequest, directory: Path, started: int
    ) -> None:
        self.catalog = catalog
        self.request = request
        self.directory = directory
        self.started = started
        self.operation_id = new_commit_id()
        self.incoming: dict[str, Incoming] = {}
        self.embeddings_pending = 0
        self._aliases: dict[str, dict[str, str]] = {}

    def run(self, report: ProgressReport) -> None:
        """Read everything; any bad record ends the load."""
        rejects, sources = self.request.rejects, self.request.inputs.sources
        bad = BadRecords(None if rejects is None else self.directory / "bad.jsonl")
        report.tell("reading")
        for parsed in self.request.inputs.read(self.catalog):
            bad.add(self._block(parsed))
            rows = sum(typed.batch.num_rows for typed in parsed.batches)
            report.tell("reading", rows + parsed.bad.num_rows)
        if bad.total:
            if rejects is not None:
                bad.write(sources, rejects)
            raise bad.error(sources)
        if self.request.mode == "overwrite":
            self._touch_named()
        for incoming in self.incoming.values():
            incoming.finish()
        self._repoint()

    def _block(self, parsed: Parsed) -> Iterator[Bad]:
        for bad in parsed.bad.to_pylist():
            yield Bad(**bad)
        for typed in parsed.batches:
            yield from self._take(typed)

    def _touch_named(self) -> None:
        """A frame names its table: overwritten with no rows, the table is empty."""
        import pyarrow as pa

        for entity in self.request.inputs.named(self.catalog):
            if entity.table_key not in self.incoming:
                none = pa.RecordBatch.from_pylist([], schema=batch_schema(entity))
                for _ in self._take(TypedBatch(entity.table_key, none)):
                    raise AssertionError("no rows break no rule")

    def _repoint(self) -> None:
        """Lead edges that spell a node's id as the input did to the id the node really has."""
        for incoming in self.incoming.values():
            edge = incoming.entity
            if isinstance(edge, EdgeType):
                spellings = {
                    side: self._aliases[name]
                    for side, name in (("src", edge.from_type), ("dst", edge.to_type))
                    if self._aliases.get(name)
                }
                if spellings:
                    incoming.replace_text(spellings)

    def _take(self, typed: TypedBatch) -> Iterator[Bad]:
        """Keep the rows of a batch; what is wrong with them comes out."""
        import pyarrow as pa

        entity = self.catalog.entity(typed.table_key)
        ids, errors = derive_ids(entity, typed.batch, self.operation_id, self.started // 1000)
        for bad in errors.to_pylist():
            yield Bad(**bad)
        aliases = id_aliases(entity, typed.batch, ids)
        if aliases:
            self._aliases.setdefault(entity.name, {}).update(aliases)
        names = [*entity.implicit_columns[1:], *entity.properties]
        columns = [ids, *(typed.batch.column(name) for name in names), record_order(typed.batch)]
        batch = pa.RecordBatch.from_arrays(columns, names=["id", *names, ORDER])
        yield from _external_blobs(entity, batch)
        batch = self._embedded(entity, batch)
        for violation in row_violations(entity, pa.Table.from_batches([batch]), None):
            source, offset = place_of(violation.record or 0)
            yield Bad(source, offset, violation.message, violation.kind)
        incoming = self.incoming.get(typed.table_key)
        if incoming is None:
            path = self.directory / f"{len(self.incoming)}.arrow"
            incoming = self.incoming[typed.table_key] = Incoming(entity, path)
        incoming.add(batch)

    def _embedded(self, entity: NodeType | EdgeType, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Fill vectors that were left out and whose source text is there."""
        import pyarrow as pa
        import pyarrow.compute as pc

        for name, embed in entity.embeds.items():
            kind = entity.properties[name].type
            texts = batch.column(embed.source)
            absent = pc.and_(pc.is_null(batch.column(name)), pc.is_valid(texts))
            count = pc.sum(absent).as_py() or 0
            if not count:
                continue
            embedder = resolve_embedder(self.request.embedder)
            if embedder is None and kind.nullable:
                self.embeddings_pending += count
                continue
            place = f"{entity.name}.{name}"
            if embedder is None:
                embedder = required_embedder(None, place)
            wanted = pc.filter(texts, absent).to_pylist()
            made = iter(embed_texts(embedder, wanted, kind.dim or 0, place, embed.model))
            kept = batch.column(name).to_pylist()
            filled = [next(made) if miss else old
                      for miss, old in zip(absent.to_pylist(), kept, strict=True)]  # fmt: skip
            at = batch.schema.get_field_index(name)
            batch = batch.set_column(
                at, batch.schema.field(at), pa.array(filled, kind.arrow_type())
            )
        return batch


def _external_blobs(entity: NodeType | EdgeType, batch: pa.RecordBatch) -> Iterator[Bad]:
    """Blobs that would be kept elsewhere: no place outside the graph is allowed."""
    import pyarrow.compute as pc

    for name in entity.blob_properties:
        uris = pc.struct_field(batch.column(name), "uri")
        for row in pc.indices_nonzero(uris.is_valid()).to_pylist():
            source, offset = place_of(batch.column(ORDER)[row].as_py())
            yield Bad(
                source,
                offset,
                f"{entity.name}.{name}: the external blob {uris[row].as_py()!r} is refused, no "
                "external place is allowed here; give the bytes as base64:…",
                "blob",
            )
