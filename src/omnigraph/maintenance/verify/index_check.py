"""Compare an index with its column: what it holds must be what a scan of the rows finds.

* BTREE: every live row of the fragments it covers is in it once, with its value and address, and the
  table of pages has the least and the greatest value of each.
* INVERTED: searches for groups of words find exactly the rows that have one of them. A term that is lost for a row is
  not noticed where the row has another word of the same group; small vocabularies have one word in each.
* Vectors: every row that has one is in it. How well it finds them is not judged: answers are measured
  again from the rows themselves, so that damage can hide a neighbour but never invent one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import Any, Final

from omnigraph.read.search.text_match import Terms
from omnigraph.storage.scratch import make_scratch
from omnigraph.storage.tables.indexing.full_text import text_hits
from omnigraph.storage.tables.indexing.index_health import IndexDirectory, index_parts
from omnigraph.storage.tables.indexing.index_kinds import Serves, describe, has_direction
from omnigraph.storage.tables.indexing.table_indexes import IndexState, list_indexes
from omnigraph.storage.tables.lance_import import lance_module
from omnigraph.storage.tables.table import Table

WORD_GROUPS: Final = 512
"""At most this many searches for each part of a column."""
TEXTS_AT_ONCE: Final = 200_000
_BATCH_ROWS: Final = 8_192
_MEMORY: Final = "512MB"
_ENTRIES: Final = "SELECT ? AS part, n // ? AS page, values AS v, ids AS a FROM entries"
_PAGES: Final = 'SELECT ? AS part, page_idx AS page, "min" AS lo, "max" AS hi, null_count AS nulls FROM found_pages'


def index_faults(table: Table, name: str) -> Iterator[str]:
    """Say how the index of that name differs from its column; nothing if it does not."""
    state = next(one for one in list_indexes(table) if one.name == name)
    parts = [part for part in index_parts(table.ref, table.dataset) if part.index == name]
    if state.kind is not None:
        yield from _CHECKS[describe(state.kind).serves](table, state, parts)


def _reader(table: Table, part: IndexDirectory, name: str) -> Any:
    options = table.ref.storage_options
    session = lance_module("file").LanceFileSession(
        part.base, storage_options=None if options is None else dict(options)
    )
    return session.open_reader(f"{part.directory}/{name}")


# ------------------------------------------------------------------ BTREE


def _btree(table: Table, state: IndexState, parts: Sequence[IndexDirectory]) -> Iterator[str]:
    import shutil

    import duckdb

    scratch = make_scratch("verify")
    try:
        with duckdb.connect() as engine:
            engine.execute(f"SET memory_limit = '{_MEMORY}'")
            engine.execute("SET temp_directory = ?", [str(scratch)])
            _fill(engine, table, state, parts)
            yield from _btree_faults(engine, state)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _fill(engine: Any, table: Table, state: IndexState, parts: Sequence[IndexDirectory]) -> None:
    """Tables `col` (value, address), `idx` (part, position, value, address) and `pages` of the engine."""
    covered = sorted(frozenset().union(*state.parts))
    rows = table.scan([state.column], with_row_address=True, fragment_ids=covered)
    engine.register("scanned", rows)
    engine.execute("CREATE TABLE col AS SELECT * FROM scanned")
    engine.execute(f"ALTER TABLE col RENAME {_quoted(state.column)} TO v")
    engine.execute("ALTER TABLE col RENAME _rowaddr TO a")
    for number, part in enumerate(parts):
        data, lookup = (
            _reader(table, part, "page_data.lance"),
            _reader(table, part, "page_lookup.lance"),
        )
        size = int((lookup.metadata().schema.metadata or {})[b"batch_size"])
        engine.register("entries", _entries(data))
        engine.register("found_pages", lookup.read_all().to_table())
        if number == 0:
            engine.execute(f"CREATE TABLE idx AS {_ENTRIES} LIMIT 0", [number, size])
            engine.execute(f"CREATE TABLE pages AS {_PAGES} LIMIT 0", [number])
        engine.execute(f"INSERT INTO idx {_ENTRIES}", [number, size])
        engine.execute(f"INSERT INTO pages {_PAGES}", [number])


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _entries(data: Any) -> Any:
    """The rows of an index file with their positions, as a stream."""
    import pyarrow as pa

    batches = data.read_all(batch_size=_BATCH_ROWS).to_batches()
    schema = data.metadata().schema.remove_metadata().append(pa.field("n", pa.int64()))

    def numbered() -> Iterator[Any]:
        first = 0
        for batch in batches:
            places = pa.array(range(first, first + batch.num_rows), pa.int64())
            yield pa.record_batch([*batch.columns, places], schema=schema)
            first += batch.num_rows

    return pa.RecordBatchReader.from_batches(schema, numbered())


def _btree_faults(engine: Any, state: IndexState) -> Iterator[str]:
    what = f"the btree index on {state.column}"
    (wrong,) = engine.execute(
        "SELECT count(*) FROM col LEFT JOIN idx ON col.a = idx.a "
        "WHERE idx.a IS NULL OR col.v IS DISTINCT FROM idx.v"
    ).fetchone()
    if wrong:
        yield f"{what} has another value, or none, for {wrong} rows"
    (twice,) = engine.execute(
        "SELECT count(*) FROM (SELECT a FROM idx GROUP BY a HAVING count(*) > 1)"
    ).fetchone()
    if twice:
        yield f"{what} has {twice} rows more than once"
    (pages,) = engine.execute(
        "SELECT count(*) FROM (SELECT part, page, min(v) AS lo, max(v) AS hi, "
        "count(*) - count(v) AS nulls FROM idx GROUP BY part, page) real "
        "FULL JOIN pages USING (part, page) "
        "WHERE (real.lo IS DISTINCT FROM pages.lo AND NOT (pages.nulls > 0 AND pages.lo IS NULL)) "
        "OR real.hi IS DISTINCT FROM pages.hi "
        "OR real.nulls IS DISTINCT FROM pages.nulls"
    ).fetchone()
    if pages:
        yield f"{what} has {pages} pages with other values than it says"


# ------------------------------------------------------------------ texts


def _texts(table: Table, state: IndexState, _parts: Sequence[IndexDirectory]) -> Iterator[str]:
    import numpy as np
    import pyarrow.compute as pc

    covered = sorted(frozenset().union(*state.parts))
    wrong = 0
    rows = table.scan(
        [state.column], with_row_id=True, fragment_ids=covered, batch_size=_BATCH_ROWS
    )
    for chunk in _chunks(rows, TEXTS_AT_ONCE):
        texts = chunk.column(state.column).combine_chunks()
        ids = chunk.column("_rowid").to_numpy()
        words = pc.unique(pc.utf8_split_whitespace(texts).flatten()).to_pylist()
        Random(len(words)).shuffle(words)
        held = Terms(texts)
        terms_of = _terms_of(words)
        for group in (words[first::WORD_GROUPS] for first in range(min(WORD_GROUPS, len(words)))):
            terms = sorted({term for word in group for term in terms_of[word]})
            if not terms:
                continue
            expected = ids[held.holding(terms, 0)]
            found, _ = text_hits(table, state.column, " ".join(group), indexed_only=True)
            found = found[np.isin(found, ids)]
            wrong += len(np.setxor1d(expected, found))
    if wrong:
        yield f"the text index on {state.column} answers otherwise than the texts, {wrong} times"


def _terms_of(words: Sequence[str]) -> dict[str, list[str]]:
    from omnigraph.storage.tables.indexing.full_text import analysed

    return {word: analysed(word) for word in words}


def _chunks(rows: Any, most: int) -> Iterator[Any]:
    import pyarrow as pa

    held: list[Any] = []
    count = 0
    for batch in rows:
        held.append(batch)
        count += batch.num_rows
        if count >= most:
            yield pa.Table.from_batches(held)
            held, count = [], 0
    if held:
        yield pa.Table.from_batches(held)


# ------------------------------------------------------------------ vectors


def _vectors(table: Table, state: IndexState, parts: Sequence[IndexDirectory]) -> Iterator[str]:
    import numpy as np

    indexed = [np.empty(0, np.uint64)]
    for part in parts:
        found = _reader(table, part, "auxiliary.idx").read_all(batch_size=_BATCH_ROWS)
        indexed += [batch.column("_rowid").to_numpy() for batch in found.to_batches()]
    known = np.unique(np.concatenate(indexed))
    covered = sorted(frozenset().union(*state.parts))
    needs_directions = state.kind is not None and describe(state.kind).needs_directions
    missing = 0
    rows = table.scan(
        [state.column], with_row_id=True, fragment_ids=covered, batch_size=_BATCH_ROWS
    )
    for batch in rows:
        vectors = batch.column(state.column)
        if needs_directions:
            has_one = has_direction(vectors)
        else:
            has_one = vectors.is_valid().to_numpy(zero_copy_only=False)
        ids = batch.column("_rowid").to_numpy()[has_one]
        missing += int(np.count_nonzero(~np.isin(ids, known)))
    if missing:
        yield f"the vector index on {state.column} lacks {missing} rows"


_CHECKS: Final = {Serves.LOOKUPS: _btree, Serves.TEXT: _texts, Serves.NEAREST: _vectors}
