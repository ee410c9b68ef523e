"""The vectors of a mutation: which of them follow their text, and how they are made.

A statement that gives a text and no vector leaves the vector null and notes the row. Once all
statements have run, a noted row whose text is the committed one gets its committed vector back, and the
provider makes the other vectors, each text once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from omnigraph.embeddings.embedder import Embedder
from omnigraph.embeddings.provider import embed_texts, require_embedder, resolve_embedder
from omnigraph.errors import InputError
from omnigraph.lang.schema.catalog import Entity
from omnigraph.types.columns import put_values, vector_column
from omnigraph.write.pending import PendingTable

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa


MakeVectors = Callable[[Entity, str, Sequence[str]], "pa.Array | None"]
"""Makes the vectors of a property from texts; None if there is no provider and they may wait."""


class TextVectors:
    """Makes vectors of texts. Each text is sent once, however often the operation is tried."""

    def __init__(self, embedder: Embedder | None) -> None:
        self._embedder = embedder
        self._made: dict[tuple[str | None, int], dict[str, npt.NDArray[np.float32]]] = {}

    def make(self, entity: Entity, name: str, texts: Sequence[str]) -> pa.Array | None:
        """Return one vector for each text; None if there is no provider and the vector may wait."""
        import numpy as np

        prop = entity.properties[name]
        assert prop.embed is not None
        place, dimension = f"{entity.name}.{name}", prop.type.dim or 0
        embedder = resolve_embedder(self._embedder)
        if embedder is None:
            if prop.type.nullable:
                return None
            embedder = require_embedder(None, place)
        known = self._made.setdefault((prop.embed.model, dimension), {})
        new = [text for text in dict.fromkeys(texts) if text not in known]
        if new:
            made = embed_texts(embedder, new, dimension, place, prop.embed.model)
            known.update(zip(new, np.asarray(made, np.float32), strict=True))
        return vector_column(np.stack([known[text] for text in texts]), prop.type.arrow_type())


def planned_vectors(entity: Entity, name: str, texts: Sequence[str]) -> pa.Array:
    """Stand in for ``TextVectors.make`` in a plan, which asks no provider: every number is zero."""
    import numpy as np

    kind = entity.properties[name].type
    return vector_column(np.zeros((len(texts), kind.dim or 0), np.float32), kind.arrow_type())


def vectors_pending(entity: Entity, rows: pa.Table) -> int:
    """Return how many vectors of the rows are null although their text is there."""
    import pyarrow.compute as pc

    return sum(
        pc.sum(pc.and_(rows.column(name).is_null(), rows.column(embed.source).is_valid())).as_py()
        or 0
        for name, embed in entity.embeds.items()
    )


def note_inserted(pending: PendingTable, rows: pa.Table) -> None:
    """Note the vectors that inserted rows leave to be made from their texts."""
    import pyarrow.compute as pc

    for name, embed in pending.entity.embeds.items():
        absent, text = rows.column(name).is_null(), rows.column(embed.source)
        if not pending.entity.properties[name].type.nullable and (
            pc.any(pc.and_(absent, text.is_null())).as_py()
        ):
            raise _no_text(pending.entity, name)
        left = rows.column("id").filter(pc.and_(absent, text.is_valid()))
        pending.unfilled.setdefault(name, set()).update(left.to_pylist())


def follow_texts(
    pending: PendingTable, before: pa.Table, columns: dict[str, Any], assigned: set[str]
) -> None:
    """Clear the vectors in ``columns`` whose text an update changes, and note their rows.

    ``before`` are the rows as the update found them. A vector that the update sets stays as it is,
    and so does one whose text is given again unchanged.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    for name, embed in pending.entity.embeds.items():
        if embed.source not in assigned or name in assigned or not before.num_rows:
            continue
        text, vectors = columns[embed.source], before.column(name)
        if text.null_count and not pending.entity.properties[name].type.nullable:
            raise _no_text(pending.entity, name)
        same = pc.equal(before.column(embed.source), text).fill_null(False)
        usable = pc.and_(same, vectors.is_valid())
        places = pc.if_else(usable, pa.array(range(before.num_rows)), pa.scalar(None, pa.int64()))
        columns[name] = vectors.take(places)
        left = before.column("id").filter(pc.and_(pc.invert(usable), text.is_valid()))
        pending.unfilled.setdefault(name, set()).update(left.to_pylist())


def fill_vectors(pending: PendingTable, vectors: TextVectors) -> None:
    """Make the vectors that the statements left to be made."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    for name, ids in pending.unfilled.items():
        rows, source = pending.rows, pending.entity.embeds[name].source
        noted = pc.is_in(rows.column("id"), pa.array(sorted(ids), pa.string()))
        absent = pc.and_(rows.column(name).is_null(), rows.column(source).is_valid())
        places = np.flatnonzero(pc.and_(noted, absent).to_numpy())
        if not len(places):
            continue
        wanted = rows.select(["id", source]).take(pa.array(places))
        column = rows.column(name).combine_chunks()
        usable, stored = _stored_vectors(pending, wanted, name, source)
        column = put_values(column, places[usable], stored)
        texts = wanted.column(source).to_pylist()
        rest = np.setdiff1d(np.arange(len(places)), usable)
        made = vectors.make(pending.entity, name, [texts[at] for at in rest]) if len(rest) else None
        if made is not None:
            column = put_values(column, places[rest], made)
        pending.set_column(name, column)


def _stored_vectors(
    pending: PendingTable, wanted: pa.Table, name: str, source: str
) -> tuple[npt.NDArray[np.int64], pa.Array]:
    """Return which of the wanted rows are committed with the same text, and their vectors."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    columns, ids = ["id", source, name], wanted.column("id").combine_chunks()
    stored = pa.schema([pending.schema.field(column) for column in columns]).empty_table()
    if not pending.fresh_only:
        stored = pa.concat_tables([stored, *pending.beneath.with_values("id", ids, columns)])
    place = pc.index_in(ids, stored.column("id").combine_chunks())
    known = stored.take(place)
    same = pc.equal(known.column(source), wanted.column(source)).fill_null(False)
    usable = np.flatnonzero(pc.and_(same, known.column(name).is_valid()).to_numpy())
    return usable, known.column(name).combine_chunks().take(pa.array(usable))


def _no_text(entity: Entity, name: str) -> InputError:
    source = entity.embeds[name].source
    return InputError(
        f"{entity.name}.{name} is required, and there is no text in {entity.name}.{source} to make it "
        f"from; give {source} a text, or set {name} too",
        type_name=entity.name,
        property=name,
    )
