"""The vectors that a load makes: every distinct text is sent to the provider once.

Texts are gathered over all tables of a load and sent in full batches. What comes back is kept on disk,
found by a hash of the text, for each model and dimension: a load that lost a race, or a task of Spark
that runs again, takes it from there. So the calls of a load are at most the distinct texts divided by
the size of a batch, rounded up, plus repetitions after failures of the provider.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph import settings
from omnigraph.embeddings.embedder import Embedder
from omnigraph.embeddings.provider import embed_texts, require_embedder, resolve_embedder
from omnigraph.errors import ProviderError
from omnigraph.lang.schema.catalog import Entity
from omnigraph.types.columns import vector_column

DIGEST_BYTES = 16
_ASKED_AT_ONCE = 500
"""Keys in one look-up; SQLite takes a thousand parameters everywhere."""


def _text_digest(text: str) -> bytes:
    """Return the hash under which the vector of a text is found."""
    return hashlib.blake2b(text.encode("utf-8"), digest_size=DIGEST_BYTES).digest()


class VectorSpool:
    """Makes the vectors of one load and keeps them in files of a directory.

    With ``all_needed`` every vector is treated as a required one. With ``only_asked`` no text is sent,
    so that every vector stays missing; what the provider would be needed for is refused all the same.
    """

    def __init__(
        self,
        embedder: Embedder | None,
        directory: Path,
        *,
        all_needed: bool = False,
        only_asked: bool = False,
    ) -> None:
        self._configured = embedder
        self._directory = directory
        self._all_needed = all_needed
        self._only_asked = only_asked
        self._embedder: Embedder | None = None
        self._groups: dict[tuple[str | None, int], _Group] = {}
        self._database: sqlite3.Connection | None = None
        self.failure: ProviderError | None = None
        """Why vectors that may be null are left so: the provider is missing or failed."""

    def want(self, entity: Entity, name: str, texts: pa.Array) -> None:
        """Ask for the vectors of texts; full batches are sent at once, the rest by ``flush``.

        A provider that is missing or fails is an error if the vector is required. If not, the vector
        is left null, and a provider that failed is not called again. One that is named but not set up
        is always an error.
        """
        if not len(texts):
            return
        place = f"{entity.name}.{name}"
        is_required = self._all_needed or not entity.properties[name].type.nullable
        if not self._can_embed(place):
            assert self.failure is not None
            if is_required:
                raise self.failure
            return
        if self._only_asked:
            return
        group = self._group(entity, name)
        group.is_required |= is_required
        group.place = place
        for text in texts.unique().to_pylist():
            group.queue.setdefault(_text_digest(text), text)
            if len(group.queue) >= _ASKED_AT_ONCE:
                self._send(group, whole=False)
        self._send(group, whole=False)

    def flush(self) -> None:
        """Send what waits for a full batch."""
        # Required vectors first: if these fail, the error names them.
        for group in sorted(self._groups.values(), key=lambda group: not group.is_required):
            self._send(group, whole=True)

    def vectors(self, entity: Entity, name: str, texts: pa.Array) -> pa.Array:
        """Return the vectors of texts; null for a text that is null or has none."""
        group = self._group(entity, name)
        encoded = texts.dictionary_encode()
        digests = [_text_digest(text) for text in encoded.dictionary.to_pylist()]
        made = group.vectors(digests, entity.properties[name].type.arrow_type())
        return made.take(encoded.indices)

    def _group(self, entity: Entity, name: str) -> _Group:
        """Return the vectors of one model and dimension."""
        prop = entity.properties[name]
        assert prop.embed is not None
        key = (prop.embed.model, prop.type.dim or 0)
        if key not in self._groups:
            self._groups[key] = _Group(self._open(), self._directory, len(self._groups), *key)
        return self._groups[key]

    def close(self) -> None:
        """Close the files; the directory belongs to the load."""
        if self._database is not None:
            self._database.close()
            self._database = None

    def _open(self) -> sqlite3.Connection:
        if self._database is None:
            self._directory.mkdir(exist_ok=True)
            self._database = sqlite3.connect(self._directory / "texts.sqlite")
            # The files live as long as the load: nothing of them must survive a crash.
            self._database.execute("PRAGMA synchronous = OFF")
            self._database.execute("PRAGMA journal_mode = OFF")
        return self._database

    def _can_embed(self, place: str) -> bool:
        if self._embedder is None and self.failure is None:
            is_named = resolve_embedder(self._configured) is not None
            try:
                self._embedder = require_embedder(self._configured, place)
            except ProviderError as missing:
                if is_named:
                    raise
                self.failure = missing
        return self.failure is None

    def _send(self, group: _Group, *, whole: bool) -> None:
        """Have the texts of a queue embedded, in batches; without ``whole`` only full ones."""
        size = settings.EMBED_BATCH.get()
        if self._embedder is None or not group.queue or (not whole and len(group.queue) < size):
            return
        group.drop_known()
        if self.failure is not None:
            if group.is_required and group.queue:
                raise self.failure
            return
        while group.queue and (whole or len(group.queue) >= size):
            digests = list(group.queue)[:size]
            texts = [group.queue[digest] for digest in digests]
            try:
                made = embed_texts(self._embedder, texts, group.dimension, group.place, group.model)
            except ProviderError as failure:
                if group.is_required:
                    raise
                self.failure = failure
                return
            group.keep(digests, made)


class _Group:
    """The texts and vectors of one model and dimension: hashes in a database, numbers in a file."""

    def __init__(
        self,
        database: sqlite3.Connection,
        directory: Path,
        number: int,
        model: str | None,
        dimension: int,
    ) -> None:
        self.number = number
        self.model = model
        self.dimension = dimension
        self.queue: dict[bytes, str] = {}
        self.place = ""
        self.is_required = False
        self.count = 0
        self._database = database
        self._path = directory / f"vectors-{number}.f32"
        self._table = f"texts_{number}"
        database.execute(
            f"CREATE TABLE {self._table} (digest BLOB PRIMARY KEY, place INTEGER) WITHOUT ROWID"
        )

    def drop_known(self) -> None:
        """Take the texts off the queue that have a vector already."""
        digests = list(self.queue)
        for digest, place in zip(digests, self._places(digests).tolist(), strict=True):
            if place >= 0:
                del self.queue[digest]

    def keep(self, digests: Sequence[bytes], made: npt.NDArray[np.float32]) -> None:
        """Write the vectors of texts, and take the texts off the queue."""
        with self._path.open("ab") as file:
            file.write(made.tobytes())
        rows = zip(digests, range(self.count, self.count + len(digests)), strict=True)
        self._database.executemany(f"INSERT INTO {self._table} VALUES (?, ?)", rows)  # noqa: S608
        self.count += len(digests)
        for digest in digests:
            del self.queue[digest]

    def vectors(self, digests: Sequence[bytes], kind: pa.DataType) -> pa.Array:
        """Return the vectors under these hashes, null where there is none."""
        places = self._places(digests)
        known = places >= 0
        if not known.any():
            return pa.nulls(len(digests), kind)
        made = vector_column(np.asarray(self._matrix()[places[known]]), kind)
        order = np.cumsum(known) - 1
        return made.take(pa.array(order, mask=~known))

    def _matrix(self) -> npt.NDArray[np.float32]:
        return np.memmap(self._path, np.float32, "r", shape=(self.count, self.dimension))

    def _places(self, digests: Sequence[bytes]) -> npt.NDArray[np.int64]:
        """Return the rows of the vectors under these hashes, -1 where there is none."""
        known: dict[bytes, int] = {}
        for start in range(0, len(digests), _ASKED_AT_ONCE):
            some = digests[start : start + _ASKED_AT_ONCE]
            marks = ",".join("?" * len(some))
            text = f"SELECT digest, place FROM {self._table} WHERE digest IN ({marks})"  # noqa: S608
            known.update(self._database.execute(text, some).fetchall())
        return np.array([known.get(digest, -1) for digest in digests], np.int64)
