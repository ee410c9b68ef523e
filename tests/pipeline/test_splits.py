"""Every line is read once, with its offset, however a source is cut."""

import gzip
import pickle

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from omnigraph.errors import BadRequest, InputError
from omnigraph.pipeline.sources.locations import InMemory, LocalFile
from omnigraph.pipeline.sources.sources import InputSource
from omnigraph.pipeline.sources.splits import Split, number_lines, plan_splits, read_blocks
from tests.sampling import examples

BOM = b"\xef\xbb\xbf"


def source_of(data, compression=None):
    return InputSource(0, "given", InMemory(data), len(data), compression)


def zstd(data):
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as out:
        out.write(data)
    return sink.getvalue().to_pybytes()


def lines_of(source, splits, block_size):
    """Offset and content of every line, as the blocks of some splits give them."""
    found = []
    for split in splits:
        for block in read_blocks(source, split, block_size):
            assert block.data
            offset = block.offset
            for line in block.data.removesuffix(b"\n").split(b"\n"):
                found.append((offset, line))
                offset += len(line) + 1
    return found


def expected(data):
    """Offset and content of every line: what follows the last newline counts if it is not empty."""
    offset, found = 0, []
    for line in data.removesuffix(b"\n").split(b"\n") if data else []:
        found.append((offset, line))
        offset += len(line) + 1
    return found


DATA = st.lists(st.sampled_from([b"\n", b"\r\n", b"a", b"bcd", b"x" * 40, b" "]), max_size=30).map(
    b"".join
)


@settings(max_examples=examples(300), deadline=None)
@given(DATA, st.integers(1, 64), st.integers(1, 64))
@example(b"a\nb", 2, 1)
@example(b"a\nb", 1, 64)
@example(b"\n\n\n", 1, 1)
@example(b"", 1, 1)
@example(b"aaaaaaaaa\n", 3, 2)
def test_any_split_and_block_size_gives_the_same_lines_at_the_same_offsets(data, split, block):
    source = source_of(data)
    assert lines_of(source, plan_splits([source], split), block) == expected(data)


@settings(max_examples=examples(50), deadline=None)
@given(DATA, st.integers(1, 64))
def test_splits_may_be_read_in_any_order_and_by_other_processes(data, size):
    source = source_of(data)
    splits = plan_splits([source], size)[::-1]
    source, splits = pickle.loads(pickle.dumps((source, splits)))
    assert sorted(lines_of(source, splits, 16)) == expected(data)


def test_a_line_longer_than_split_and_block_belongs_to_the_split_it_begins_in():
    data = b"short\n" + b"l" * 1000 + b"\nend\n"
    source = source_of(data)
    per_split = [lines_of(source, [split], 8) for split in plan_splits([source], 10)]
    assert per_split[0] == [(0, b"short"), (6, b"l" * 1000)]
    assert [line for lines in per_split[1:] for line in lines] == [(1007, b"end")]


def test_a_mark_at_the_start_becomes_white_space_and_moves_no_offset():
    data = BOM + b"ab\n" + BOM + b"cd\n"
    for size in (1, 2, 3, 100):
        source = source_of(data)
        assert lines_of(source, plan_splits([source], size), 4) == [
            (0, b"   ab"),
            (6, BOM + b"cd"),
        ]


def test_splits_cover_a_source_and_the_last_one_is_open():
    (first, second, third) = plan_splits([source_of(b"x" * 25)], 10)
    assert (first, second, third) == (Split(0, 0, 10), Split(0, 10, 20), Split(0, 20, None))


@pytest.mark.parametrize(("compression", "packed"), [("gzip", gzip.compress), ("zstd", zstd)])
class TestCompressed:
    def test_it_is_one_split_with_the_offsets_of_the_plain_bytes(self, compression, packed):
        data = b"".join(b"line %d\n" % number for number in range(5000))
        source = source_of(packed(data), compression)
        splits = plan_splits([source], 10)
        assert splits == [Split(0, 0, None)]
        assert lines_of(source, splits, 1000) == expected(data)

    def test_parts_packed_one_after_the_other_are_one_source(self, compression, packed):
        source = source_of(packed(b"a\nb") + packed(b"c\nd"), compression)
        assert [line for _, line in lines_of(source, plan_splits([source]), 100)] == [
            b"a",
            b"bc",
            b"d",
        ]

    def test_a_mark_at_the_start_is_skipped(self, compression, packed):
        source = source_of(packed(BOM + b"a"), compression)
        assert lines_of(source, plan_splits([source]), 100) == [(0, b"   a")]

    @pytest.mark.parametrize("damage", [lambda data: data[:-9], lambda data: b"plain text\n" * 9])
    def test_damage_names_the_source(self, compression, packed, damage):
        whole = packed(bytes(range(256)) * 400)
        source = source_of(damage(whole), compression)
        with pytest.raises(InputError, match='"given"'):
            lines_of(source, plan_splits([source]), 1000)

    def test_line_numbers_count_plain_lines(self, compression, packed):
        source = source_of(packed(b"a\n\nb\nc"), compression)
        assert list(number_lines(source, [(3, "a"), (5, "b")])) == [(3, "a"), (4, "b")]


@settings(max_examples=examples(100), deadline=None)
@given(DATA)
def test_line_numbers_are_those_of_a_text_editor(data):
    offsets = [offset for offset, _ in expected(data)]
    numbered = number_lines(source_of(data), ((offset, offset) for offset in offsets))
    assert list(numbered) == list(enumerate(offsets, start=1))


def test_a_file_that_went_away_is_named(tmp_path):
    gone = InputSource(0, "gone.jsonl", LocalFile(str(tmp_path / "gone")), 10)
    with pytest.raises(BadRequest, match=r"gone\.jsonl"):
        list(read_blocks(gone, Split(0, 0, None)))
