"""Fingerprints: what set rules compare, as 128 bits of a keyed hash instead of texts.

Duplicates, taken ids and missing ends are questions about equal values, and a fixed 16 bytes for each
value are cheaper to send, to keep and to join than texts. The hash is MD5 behind a random text of the
load: nobody who writes records knows it, so nobody can make two values that collide, and by chance
two of ten billion values do with a probability of about 10 to the -19. Nothing rests on equality
alone where that can be avoided: values that *differ* by their fingerprints differ for certain, and
that is what a load without duplicates needs; where fingerprints say that a rule is broken, texts are
compared. Only an end that has the whole fingerprint of a node is believed to be that node.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.lang.schema.catalog import Catalog, EdgeType, Entity
from omnigraph.types import Family, as_integers

Role = Literal["id", "src", "dst", "unique"]
Halves: TypeAlias = "tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]"

EQUAL_AS_TEXT = frozenset({Family.TEXT, Family.BOOLEAN, Family.INTEGER, Family.TEMPORAL})
"""The families whose values are equal when their texts are: not that with -0.0 and NaN."""
SCHEMA = pa.schema({"h1": pa.int64(), "h2": pa.int64()})


@dataclass(frozen=True, slots=True)
class Compared:
    """Values that set rules compare: a column of a table, or the columns of a unique group."""

    what: int
    """The number that stands for it among the fingerprints of a load."""
    table_key: str
    role: Role
    columns: tuple[str, ...]


def compared_values(catalog: Catalog) -> tuple[Compared, ...]:
    """Return everything that set rules compare, of all tables, numbered in a fixed order."""
    found: list[tuple[str, Role, tuple[str, ...]]] = []
    for entity in catalog.entities():
        found.append((entity.table_key, "id", ("id",)))
        if isinstance(entity, EdgeType):
            found += [(entity.table_key, "src", ("src",)), (entity.table_key, "dst", ("dst",))]
        found += [(entity.table_key, "unique", tuple(group)) for group in entity.unique]
    return tuple(Compared(number, *one) for number, one in enumerate(found))


def are_comparable(entity: Entity) -> bool:
    """Say whether all unique groups of a type can be compared by fingerprints."""
    members = {name for group in entity.unique for name in group if name in entity.properties}
    kinds = [entity.properties[name].type for name in members]
    return all(not kind.is_list and kind.scalar.traits.family in EQUAL_AS_TEXT for kind in kinds)


def fingerprints(columns: Sequence[pa.Array], salt: str) -> Halves:
    """Return the two halves of the fingerprint of each row; rows with a null have none."""
    texts = [_as_text(column) for column in columns]
    text = texts[0] if len(texts) == 1 else _joined(texts)
    return _hashed(text.drop_null(), salt)


def _as_text(column: pa.Array) -> pa.Array:
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    column = as_integers(column)
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    return column if pa.types.is_string(column.type) else column.cast(pa.utf8())


def _joined(texts: Sequence[pa.Array]) -> pa.Array:
    """Put the texts of each row together, each behind its length, so that no two rows are confused."""
    parts = [part for text in texts for part in (pc.binary_length(text).cast(pa.utf8()), text)]
    return pc.binary_join_element_wise(*parts, ":")


def _hashed(texts: pa.Array, salt: str) -> Halves:
    given = pa.table({"v": texts})
    found = _duck().from_arrow(given).project(f"md5_number('{salt}' || v) AS h").to_arrow_table()
    halves = [_halves(chunk) for chunk in found.column("h").chunks]
    together = np.concatenate([np.empty((0, 2), np.int64), *halves])
    return together[:, 0], together[:, 1]


def _halves(chunk: pa.Array) -> np.ndarray[Any, Any]:
    """The 16 bytes of each value as two numbers; DuckDB gives them as a decimal, bit by bit."""
    bits = np.frombuffer(chunk.buffers()[1], np.int64).reshape(-1, 2)
    return bits[chunk.offset : chunk.offset + len(chunk)]


@cache
def _duck() -> Any:
    import duckdb

    # Every core has a task of its own.
    return duckdb.connect(":memory:", config={"threads": "1"})


@dataclass(frozen=True, slots=True)
class Fingerprinted:
    """Makes fingerprints of a batch's columns; executors get a copy of it for their scans."""

    columns: tuple[str, ...]
    salt: str

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the fingerprints of the rows without nulls."""
        first, second = fingerprints([batch.column(name) for name in self.columns], self.salt)
        return pa.RecordBatch.from_arrays([pa.array(first), pa.array(second)], schema=SCHEMA)


class TaskFingerprints:
    """The fingerprints of the rows of one task. Ends are told once for each value, with their number."""

    def __init__(self, compared: Iterable[Compared], salt: str, held_rows: int = 1 << 20) -> None:
        self._of: Mapping[str, list[Compared]] = _by_table(compared)
        self._salt = salt
        self._held_rows = held_rows
        self._ends: dict[int, list[Halves]] = {}
        self._held = 0

    def add(
        self, key: str, batch: pa.RecordBatch, *, named: bool
    ) -> Iterator[tuple[int, Halves, Any]]:
        """Yield fingerprints as they can be told; without ``named``, ids were made and are unlike others."""
        for one in self._of.get(key, ()):
            if one.role == "id" and not named:
                continue
            halves = fingerprints([batch.column(name) for name in one.columns], self._salt)
            if one.role in {"src", "dst"}:
                self._ends.setdefault(one.what, []).append(halves)
                self._held += len(halves[0])
            else:
                yield one.what, halves, np.ones(len(halves[0]), np.int32)
        if self._held >= self._held_rows:
            yield from self.rest()

    def rest(self) -> Iterator[tuple[int, Halves, Any]]:
        """Yield the fingerprints that are held back."""
        for what, waiting in self._ends.items():
            yield what, *_counted(*(np.concatenate(half) for half in zip(*waiting, strict=True)))
        self._ends, self._held = {}, 0


def _counted(first: Any, second: Any) -> tuple[Halves, Any]:
    """Return each fingerprint once, as far as sorting one half brings them together, and how often it came."""
    order = np.argsort(first)
    first, second = first[order], second[order]
    is_new = np.ones(len(first), np.bool_)
    is_new[1:] = (first[1:] != first[:-1]) | (second[1:] != second[:-1])
    starts = np.flatnonzero(is_new)
    counts = np.diff(np.append(starts, len(first))).astype(np.int32)
    return (first[starts], second[starts]), counts


def _by_table(compared: Iterable[Compared]) -> dict[str, list[Compared]]:
    found: dict[str, list[Compared]] = {}
    for one in compared:
        found.setdefault(one.table_key, []).append(one)
    return found
