"""Cut sources into ranges that can be read independently, and ranges into blocks of whole lines.

A line belongs to the split in which its first byte lies. So every split but the first skips to the
byte after a newline, every split reads its last line to the end, and together they give each line
once, for any split size. Offsets count uncompressed bytes.

No line is held that is longer than ``MAX_LINE_BYTES``: what a small compressed file unpacks to may be
larger than memory. Such a line is told by its place alone, and passed over.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import BinaryIO, NamedTuple, TypeVar

from omnigraph.pipeline.sources.locations import open_plain
from omnigraph.pipeline.sources.sources import InputSource

SPLIT_BYTES = 32 << 20
BLOCK_BYTES = 8 << 20

Item = TypeVar("Item")

MAX_LINE_BYTES = 64 << 20
"""The longest line that is read, without its newline; the base64 of the largest inline blob fits."""

_TAIL_BYTES = 64 << 10
_SHOWN_BYTES = 200
_BOM = b"\xef\xbb\xbf"


class Split(NamedTuple):
    """The bytes of a source from ``start`` up to ``end``; None means up to its end."""

    source: int
    start: int
    end: int | None


class LineBlock(NamedTuple):
    """Whole lines of a source, the first of which begins at ``offset``."""

    source: int
    offset: int
    data: bytes


class LongLine(NamedTuple):
    """A line of a source that is longer than ``limit`` bytes, and therefore not read."""

    source: int
    offset: int
    limit: int


def plan_splits(sources: Iterable[InputSource], size: int = SPLIT_BYTES) -> list[Split]:
    """The splits of some sources, in order; a compressed source is one split."""
    return [split for source in sources for split in _splits(source, size)]


def _splits(source: InputSource, size: int) -> Iterator[Split]:
    if source.compression is not None:
        yield Split(source.index, 0, None)
        return
    # The last split is open, so that a file that grows while it is read is not cut within a line.
    starts = range(0, max(source.size, 1), size)
    for start in starts:
        yield Split(source.index, start, None if start == starts[-1] else start + size)


def read_blocks(
    source: InputSource, split: Split, size: int = BLOCK_BYTES, limit: int = MAX_LINE_BYTES
) -> Iterator[LineBlock | LongLine]:
    """The lines of a split in blocks of about that size; a longer line is a block of its own.

    A line longer than ``limit`` comes without its bytes.
    """
    size = min(size, limit)
    with open_plain(source.location, source.compression, source.name) as stream:
        offset, data = _first_line(stream, split, size)
        wanted, ended = size - len(data), False
        while split.end is None or offset < split.end:
            # What came with the first line may fill a block already.
            if wanted > 0:
                chunk = stream.read(
                    _within(split, offset + len(data), wanted, limit + 1 - len(data))
                )
                data, ended = data + chunk, not chunk
            cut = _cut(data, offset, split.end, limit, ended=ended)
            if cut:
                yield LineBlock(source.index, offset, data[:cut])
                offset, data, wanted = offset + cut, data[cut:], size
            elif len(data) > limit:
                yield LongLine(source.index, offset, limit)
                offset, data = _next_line(stream, offset + len(data), size)
                wanted = size - len(data)
            else:
                # The line is longer than all that was read so far: growing steps keep the copying linear.
                wanted = max(size, len(data))
            if ended:
                return


def _within(split: Split, position: int, wanted: int, most: int) -> int:
    """The number of bytes to read next: up to the end of the split, then growing steps for its last line."""
    if split.end is not None:
        past = max(_TAIL_BYTES, position - split.end)
        wanted = min(wanted, split.end - position) if position < split.end else past
    return min(wanted, most)


def _first_line(stream: BinaryIO, split: Split, size: int) -> tuple[int, bytes]:
    """The offset at which the first line of a split begins, and the bytes read from there on."""
    if split.start == 0:
        data = stream.read(size)
        if data.startswith(_BOM):
            # Replaced by white space, so that offsets stay the same.
            data = b"   " + data[len(_BOM) :]
        return 0, data
    stream.seek(split.start - 1)
    return _next_line(stream, split.start - 1, size)


def _next_line(stream: BinaryIO, offset: int, size: int) -> tuple[int, bytes]:
    """Pass over the rest of a line: the offset at which the next one begins, and the bytes read of it."""
    while data := stream.read(size):
        newline = data.find(b"\n") + 1
        if newline:
            return offset + newline, data[newline:]
        offset += len(data)
    return offset, b""


def _cut(data: bytes, offset: int, end: int | None, limit: int, *, ended: bool) -> int:
    """The number of bytes that are whole lines beginning before ``end``; 0 when more must be read.

    The line that reaches over the end comes with those before it, unless it is a very long one.
    """
    if end is not None and offset + len(data) >= end:
        last = data.find(b"\n", max(0, end - 1 - offset)) + 1
        if last or (not ended and len(data) <= limit):
            return last
    return len(data) if ended else data.rfind(b"\n") + 1


def number_lines(
    source: InputSource, offsets: Iterable[tuple[int, Item]]
) -> Iterator[tuple[int, Item]]:
    """The 1-based number of the line that begins at each of these ascending offsets."""
    return ((number, item) for number, item, _ in _numbered(source, offsets, text_bytes=0))


def numbered_texts(
    source: InputSource, offsets: Iterable[tuple[int, Item]]
) -> Iterator[tuple[int, Item, bytes]]:
    """The same with the lines themselves; of one that is too long only the beginning comes."""
    return _numbered(source, offsets, text_bytes=MAX_LINE_BYTES + 1)


def _numbered(
    source: InputSource, offsets: Iterable[tuple[int, Item]], *, text_bytes: int
) -> Iterator[tuple[int, Item, bytes]]:
    position, newlines = 0, 0
    ahead = b""
    with open_plain(source.location, source.compression, source.name) as stream:
        for offset, item in offsets:
            while position < offset:
                wanted = min(BLOCK_BYTES, offset - position)
                chunk = ahead[:wanted] or stream.read(wanted)
                if not chunk:
                    break
                ahead = ahead[len(chunk) :]
                position += len(chunk)
                newlines += chunk.count(b"\n")
            while b"\n" not in ahead and len(ahead) < text_bytes:
                more = stream.read(min(max(_TAIL_BYTES, len(ahead) // 4), text_bytes - len(ahead)))
                if not more:
                    break
                ahead += more
            yield newlines + 1, item, _text_of(ahead, text_bytes)


def _text_of(ahead: bytes, most: int) -> bytes:
    """The line that some bytes begin with, or what tells it where it is too long to be one."""
    line = ahead.partition(b"\n")[0]
    return line.rstrip(b"\r") if len(line) < most or b"\n" in ahead else line[:_SHOWN_BYTES]
