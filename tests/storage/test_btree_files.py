"""BTREEs whose files the product writes itself: the same files as Lance's, and the same answers."""

from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from omnigraph.errors import StorageError
from omnigraph.lang.schema.indexes import IndexKind
from omnigraph.storage.filters import Condition, filter_expression
from omnigraph.storage.tables.indexing import btree_files, sorted_values
from omnigraph.storage.tables.indexing.table_indexes import (
    Coverage,
    build_segment,
    coverage,
    stage_create_index,
    stage_index_segments,
)
from omnigraph.storage.tables.indexing.text_order import in_order_of_texts, order_of_texts
from omnigraph.storage.tables.inline_residual import optimize_indices
from omnigraph.storage.tables.rewriting import Merged, merge_task, run_task, stage_rewritten
from omnigraph.storage.tables.staging import stage_append, stage_delete, stage_upsert
from omnigraph.storage.tables.table import create_table
from omnigraph.storage.tables.table_branches import create_branch
from omnigraph.storage.tables.table_commits import commit_staged

SCHEMA = pa.schema([pa.field(name, pa.utf8(), nullable=False) for name in ("id", "src", "dst")])
ROWS = 10_000
# Texts whose order differs from that of their numbers, of several lengths, beyond ASCII.
NAMES = ["", "0", "a", "a\x00", "aa", "é", "z" * 40, "🜁", *map(str, range(95, 105))]


@pytest.fixture(autouse=True)
def _from_the_first_row_on(monkeypatch):
    monkeypatch.setattr(btree_files, "FEWEST_ROWS", 0)
    # Several batches, several runs of numbering.
    monkeypatch.setattr(sorted_values, "BATCH_ROWS", 1000)
    monkeypatch.setattr(sorted_values, "NUMBERED_ROWS", 3000)


def edges(count, names, start=0, seed=0):
    random = np.random.default_rng(seed)
    names = pa.array(names)
    ends = (names.take(pa.array(random.integers(0, len(names), count))) for _ in range(2))
    ids = [f"{number:08}" for number in range(start, start + count)]
    return pa.table([pa.array(ids), *ends], schema=SCHEMA)


def filled(ref, *tables):
    table = create_table(ref, SCHEMA)
    for data in tables:
        table = commit_staged(stage_append(table, data))
    return table


def numbers(table):
    return [fragment.id for fragment in table.fragments()]


def by_lance(monkeypatch, table, column, fragments):
    with monkeypatch.context() as only_lance:
        only_lance.setattr(btree_files, "FEWEST_ROWS", 1 << 40)
        return build_segment(table, column, IndexKind.BTREE, fragments)


def read(table, index, name):
    reader = table.files.open_reader(f"_indices/{index.uuid}/{name}")
    return reader.metadata().schema, reader.read_all().to_table()


def is_ours(monkeypatch, table, column):
    """Whether the index of a column is written here."""
    made = []
    write = btree_files._Files.write

    def watched(files, values):
        made.append(write(files, values))
        return made[-1]

    with monkeypatch.context() as watching:
        watching.setattr(btree_files._Files, "write", watched)
        build_segment(table, column, IndexKind.BTREE, numbers(table))
    return any(made)


def found(table, column, value):
    where = filter_expression(SCHEMA, [Condition(column, "=", value)])
    return sorted(table.read(["id"], where)["id"].to_pylist())


@pytest.mark.parametrize("names", [NAMES, list(map(str, range(700)))], ids=["texts", "integers"])
@pytest.mark.parametrize("column", ["id", "src", "dst"])
def test_the_files_are_those_that_lance_writes(monkeypatch, ref, column, names):
    half = ROWS // 2
    table = filled(ref, edges(half, names), edges(half + 17, names, start=half, seed=1))
    table = commit_staged(
        stage_delete(table, filter_expression(SCHEMA, [Condition("id", "=", "00000003")]))
    )
    assert is_ours(monkeypatch, table, column)
    ours = build_segment(table, column, IndexKind.BTREE, numbers(table))
    theirs = by_lance(monkeypatch, table, column, numbers(table))
    for facts in ("name", "fields", "dataset_version", "index_version", "index_details"):
        assert getattr(ours, facts) == getattr(theirs, facts)
    assert set(ours.fragment_ids) == set(theirs.fragment_ids)
    for name in ("page_data.lance", "page_lookup.lance"):
        (schema, mine), (known, wanted) = read(table, ours, name), read(table, theirs, name)
        assert schema.metadata == known.metadata
        assert schema == known
        if name == "page_data.lance":
            assert mine["values"].equals(wanted["values"]), "in the same order"
            order = [("values", "ascending"), ("ids", "ascending")]
            mine, wanted = mine.sort_by(order), wanted.sort_by(order)
        assert mine.equals(wanted)
    written = Path(ref.uri) / "_indices" / ours.uuid
    assert {file.path: file.size_bytes for file in ours.files} == {
        path.name: path.stat().st_size for path in written.iterdir()
    }


@pytest.mark.parametrize("rows", [1, 4095, 4096, 4097, 8192])
def test_pages_end_where_the_rows_do(monkeypatch, ref, rows):
    table = filled(ref, edges(rows, NAMES))
    ours = build_segment(table, "id", IndexKind.BTREE, numbers(table))
    theirs = by_lance(monkeypatch, table, "id", numbers(table))
    assert read(table, ours, "page_lookup.lance")[1].equals(
        read(table, theirs, "page_lookup.lance")[1]
    )


@pytest.mark.parametrize("column", ["src", "dst"])
def test_look_ups_find_what_a_scan_finds_while_the_table_changes(ref, column):
    data = edges(ROWS, NAMES)
    table = filled(ref, data)
    for name in ("id", "src", "dst"):
        table = commit_staged(stage_create_index(table, name, IndexKind.BTREE))
        assert coverage(table, name, IndexKind.BTREE) is Coverage.INDEXED
    assert (
        "ScalarIndexQuery"
        in table.dataset.scanner(columns=["id"], filter=f"{column} = 'a'").explain_plan()
    )

    def check(expected):
        for name in (*NAMES, "nobody"):
            rows = expected.filter(pc.equal(expected[column], name))
            assert found(table, column, name) == sorted(rows["id"].to_pylist())

    check(data)
    moved = edges(50, ["nobody"])
    table = commit_staged(stage_upsert(table, moved))
    check(pa.concat_tables([data.slice(50), moved]))
    more = edges(100, NAMES, start=ROWS, seed=3)
    table = commit_staged(stage_append(table, more))
    check(pa.concat_tables([data.slice(50), moved, more]))


def test_a_branch_has_indexes_of_its_own(ref):
    fork = create_branch(filled(ref, edges(ROWS, NAMES)), "side")
    fork = commit_staged(stage_append(fork, edges(10, ["there"], start=ROWS)))
    for column in ("id", "src"):
        fork = commit_staged(stage_create_index(fork, column, IndexKind.BTREE))
        assert coverage(fork, column, IndexKind.BTREE) is Coverage.INDEXED
    assert len(found(fork, "src", "there")) == 10
    assert found(fork, "id", "00000007") == ["00000007"]


def test_parts_of_some_fragments_make_one_index(ref):
    table = filled(ref, *(edges(3000, NAMES, start=at * 3000, seed=at) for at in range(3)))
    parts = [build_segment(table, "dst", IndexKind.BTREE, [one]) for one in numbers(table)]
    table = commit_staged(stage_index_segments(table, "dst", IndexKind.BTREE, parts))
    everything = table.read(["id", "dst"])
    rows = everything.filter(pc.equal(everything["dst"], "é"))
    assert found(table, "dst", "é") == sorted(rows["id"].to_pylist())


def shuffled(names, seed=5):
    return Random(seed).sample(names, len(names))


DIFFERENT = {
    "integers": shuffled([str(number) for number in range(0, 3 * ROWS, 3)]),
    "texts": shuffled([f"message-{number}" for number in range(ROWS)]),
    "long": shuffled([f"{'x' * (number % 40)}{number}" for number in range(ROWS)]),
    "digests": [f"{Random(number).getrandbits(128):032x}" for number in range(ROWS)],
    "pairs": [f"{number // 2 * 7919 % ROWS:06}/é" for number in range(ROWS)],
    "nul": shuffled([f"a\x00{number}" for number in range(ROWS)]),
}


@pytest.mark.parametrize("names", DIFFERENT)
@pytest.mark.parametrize("column", ["id", "src"])
def test_values_that_mostly_differ_are_written_as_lance_writes_them(
    monkeypatch, ref, column, names
):
    at = SCHEMA.get_field_index(column)
    data = edges(ROWS, NAMES).set_column(at, SCHEMA.field(at), pa.array(DIFFERENT[names]))
    table = filled(ref, data.slice(0, 4000), data.slice(4000))
    assert is_ours(monkeypatch, table, column)
    ours = build_segment(table, column, IndexKind.BTREE, numbers(table))
    theirs = by_lance(monkeypatch, table, column, numbers(table))
    for name in ("page_data.lance", "page_lookup.lance"):
        mine, wanted = (read(table, index, name)[1] for index in (ours, theirs))
        assert mine[0].equals(wanted[0]), "in the same order"
        order = [(mine.column_names[0], "ascending"), (mine.column_names[1], "ascending")]
        assert mine.sort_by(order).equals(wanted.sort_by(order))


def test_what_lance_does_better_is_left_to_it(monkeypatch, ref):
    data = edges(ROWS, NAMES)
    different = data.set_column(1, SCHEMA.field("src"), pa.array(DIFFERENT["digests"]))
    table = filled(ref, different)
    assert is_ours(monkeypatch, table, "src")
    with monkeypatch.context() as small:
        small.setattr(sorted_values, "HELD_BYTES", 100_000)
        assert not is_ours(small, table, "src"), "too many bytes to hold"
        table = commit_staged(stage_create_index(table, "src", IndexKind.BTREE))
    wanted = DIFFERENT["digests"][7]
    assert found(table, "src", wanted) == ["00000007"]
    monkeypatch.setattr(btree_files, "MOST_SORTED_ROWS", 10)
    assert not is_ours(monkeypatch, table, "dst"), "too many to sort in memory"
    assert is_ours(monkeypatch, table, "id"), "which are in order"


def test_texts_sort_by_their_bytes():
    random = Random(2)
    for _ in range(400):
        letters = random.choice(["ab", "a", "0123456789", "aé漢😀b"])
        start = random.choice(["", "x", "y" * 8, "what they all begin with"])
        longest = random.choice([1, 3, 9, 20, 40])
        texts = [
            start + "".join(random.choices(letters, k=random.randrange(longest)))
            for _ in range(random.randrange(40))
        ]
        # A slice, because arrays that are read often begin somewhere in their buffers.
        array = pa.array(["before", *texts, "behind"]).slice(1, len(texts))
        order = order_of_texts(array).tolist()
        assert sorted(order) == list(range(len(texts)))
        assert [texts[row] for row in order] == sorted(texts, key=str.encode)


def test_integers_sort_as_their_texts_do():
    random = Random(3)
    for greatest in (9, 10, 11, 1000, 10**9, 10**16 - 1):
        integers = sorted({random.randint(0, greatest) for _ in range(500)} | {greatest})
        in_order = in_order_of_texts(np.array(integers, np.int64)).tolist()
        assert list(map(str, in_order)) == sorted(map(str, integers))


def test_another_form_of_the_files_is_left_to_lance(monkeypatch, ref):
    table = filled(ref, edges(ROWS, NAMES))
    assert is_ours(monkeypatch, table, "dst")
    monkeypatch.setattr(btree_files, "_RANGES", b"another fact")
    assert not is_ours(monkeypatch, table, "dst")
    table = commit_staged(stage_create_index(table, "dst", IndexKind.BTREE))
    assert coverage(table, "dst", IndexKind.BTREE) is Coverage.INDEXED


@pytest.mark.parametrize("texts", [["007", "7"], ["-1", "5"], ["+4", "4"], ["1", "x"], ["9" * 30]])
def test_texts_that_are_not_exactly_integers_are_numbered_as_texts(monkeypatch, ref, texts):
    table = filled(ref, edges(100, texts))
    ours = build_segment(table, "src", IndexKind.BTREE, numbers(table))
    theirs = by_lance(monkeypatch, table, "src", numbers(table))
    mine, wanted = (read(table, one, "page_data.lance")[1] for one in (ours, theirs))
    assert mine["values"].equals(wanted["values"])


def test_a_text_of_hexadecimal_digits_is_not_taken_for_its_number(monkeypatch, ref):
    # As long as 1000000, which is what a cast makes of it; that number is close to the count of rows.
    count, text = 260_000, "0xF4240"
    ends = pa.array(["7"] * (count - 1) + [text])
    ids = pa.array(range(count)).cast(pa.utf8())
    table = filled(ref, pa.table([ids, ends, ends], schema=SCHEMA))
    monkeypatch.setattr(sorted_values, "NUMBERED_ROWS", count)
    table = commit_staged(stage_create_index(table, "src", IndexKind.BTREE))
    assert found(table, "src", text) == [str(count - 1)]
    assert found(table, "src", "1000000") == []


def test_long_texts_are_left_to_lance(monkeypatch, ref):
    texts = ["a" * 2000, "b" * 2000]
    table = filled(ref, edges(200, texts))
    assert not is_ours(monkeypatch, table, "src")
    table = commit_staged(stage_create_index(table, "src", IndexKind.BTREE))
    everything = table.read(["id", "src"])
    rows = everything.filter(pc.equal(everything["src"], texts[0]))
    assert found(table, "src", texts[0]) == sorted(rows["id"].to_pylist())


class _Breaks:
    """A writer of files that breaks after the first batch."""

    def __init__(self, writer, error):
        self._writer, self._error = writer, error

    def write_batch(self, batch):
        self._writer.write_batch(batch)
        raise self._error


def break_writing(monkeypatch, error):
    opened = btree_files._Files._open

    def broken(files, name, schema):
        return _Breaks(opened(files, name, schema), error)

    monkeypatch.setattr(btree_files._Files, "_open", broken)


def index_files(ref):
    return {path.parent.name for path in (Path(ref.uri) / "_indices").rglob("*.lance")}


@pytest.mark.parametrize("error", [pa.ArrowInvalid("offset overflow"), MemoryError()], ids=repr)
def test_what_is_too_large_for_arrow_is_left_to_lance(monkeypatch, ref, error):
    table = filled(ref, edges(ROWS, NAMES))
    break_writing(monkeypatch, error)
    table = commit_staged(stage_create_index(table, "src", IndexKind.BTREE))
    assert coverage(table, "src", IndexKind.BTREE) is Coverage.INDEXED
    ((index,),) = (entry.segments for entry in table.dataset.describe_indices())
    assert index_files(ref) == {str(index.uuid)}


def test_a_build_that_fails_leaves_no_files(monkeypatch, ref):
    table = filled(ref, edges(ROWS, NAMES))
    break_writing(monkeypatch, OSError("No space left on device"))
    with pytest.raises(StorageError, match="disk is full"):
        stage_create_index(table, "src", IndexKind.BTREE)
    assert index_files(ref) == set()
    assert table.is_head()


# ------------------------------------------------------------------ random tables

POOLS = [
    NAMES,
    ["x"],
    list(map(str, range(3000))),
    ["007", "7", "-7", "+7", "0x7", "-0", "٣", "9" * 20, "a'b", "é", "e\u0301", "A", "", "a\x00b"],
    [chr(point) * 3 for point in range(0xFF00, 0x10100)],  # bytes and UTF-16 sort them differently
]


def compared(table, random, column):
    """Ask the index of a column in every way it can answer, and a scan the same."""
    known = table.dataset.to_table([column])[column].to_pylist()
    low, high = sorted(random.choices([*known, "nobody"], k=2))
    a, b, prefix = ("'" + text.replace("'", "''") + "'" for text in (low, high, high[:1]))
    asked = [f"{column} {op} {a}" for op in ("=", "!=", "<", "<=", ">", ">=")]
    asked += [f"{column} in ({a}, {b}, 'nobody')", f"{column} >= {a} and {column} < {b}"]
    asked += [f"starts_with({column}, {prefix})", f"{column} is null", f"{column} is not null"]
    for where in asked:
        by_index, by_scan = (
            sorted(table.dataset.to_table(["id"], where, use_scalar_index=used)["id"].to_pylist())
            for used in (True, False)
        )
        assert by_index == by_scan, where


@pytest.mark.sampled(3, every=())
@pytest.mark.parametrize("seed", range(30))
def test_every_question_gets_the_same_answer_as_from_a_scan(monkeypatch, ref, seed):
    random = Random(seed)
    monkeypatch.setattr(sorted_values, "BATCH_ROWS", random.choice([37, 1000, 4096, 5000]))
    names = random.choice(POOLS)

    def some(count, start):
        data = edges(count, names, start=start, seed=seed + start)
        ends = sorted(random.choices(random.choice(POOLS), k=count), key=str.encode)
        return data.set_column(2, SCHEMA.field("dst"), pa.array(ends))

    table = filled(ref, *(some(random.choice([1, 100, 5000]), at * 5000) for at in range(3)))
    if random.random() < 0.5:
        table = create_branch(table, "side")
    gone = random.choice(table.read(["id"])["id"].to_pylist())
    for at in range(3):
        if at == random.randrange(3):
            where = filter_expression(SCHEMA, [Condition("id", "=", gone)])
            table = commit_staged(stage_delete(table, where))
        if at == 1:
            for column in SCHEMA.names:
                table = commit_staged(stage_create_index(table, column, IndexKind.BTREE))
        moved = table.read(SCHEMA.names).slice(random.randrange(table.count_rows()), 10)
        moved = moved.set_column(1, SCHEMA.field("src"), pa.array(["moved"] * len(moved)))
        table = commit_staged(stage_upsert(table, moved))
        for column in SCHEMA.names:
            compared(table, random, column)
    merged = numbers(table)
    result = Merged.of(merged, run_task(table, merge_task(table, merged)))
    table = optimize_indices(commit_staged(stage_rewritten(table, [result])))
    table = commit_staged(stage_append(table, some(50, 90_000)))
    for parts in (0, 1, 10):
        table = optimize_indices(table, None, parts)
        for column in SCHEMA.names:
            assert coverage(table, column, IndexKind.BTREE) is Coverage.INDEXED
            compared(table, random, column)
