"""The answer to a request for a blob: all of it, a range, or only what is known of it (RFC 9110, 13 and 14)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from omnigraph.errors import BlobChanged, BlobRange
from omnigraph.server.refusals import Header

if TYPE_CHECKING:
    from omnigraph.graph.facets.blobs import BlobFile, BlobStat

_RANGE: Final = re.compile(rb"bytes=\s*([0-9]*)\s*-\s*([0-9]*)", re.IGNORECASE)
_TAG: Final = re.compile(rb'(W/)?"([^"]*)"')
_READ_BYTES: Final = 1 << 20
_BEYOND: Final = 2**63 - 1
"""A position behind the end of every blob."""


@dataclass(slots=True)
class BlobReply:
    """The head of an answer, and the file whose bytes from ``start`` on follow it; None if none do."""

    status: int
    headers: list[Header]
    file: BlobFile | None = None
    start: int = 0
    length: int = 0

    def pieces(self) -> Iterator[bytes]:
        """The bytes, a piece at a time."""
        if self.file is None:
            return
        self.file.seek(self.start)
        left = self.length
        while left:
            part = self.file.read(min(_READ_BYTES, left))
            if not part:
                raise EOFError("a blob ended before its size")
            left -= len(part)
            yield part

    def close(self) -> None:
        """Close the file."""
        if self.file is not None:
            self.file.close()


def range_refusal_headers(error: BlobRange) -> list[Header]:
    """The header that tells how long a blob is, for a range outside of it."""
    return [(b"content-range", b"bytes */%d" % error.details["length"])]


def blob_reply(
    stat: BlobStat, headers: Mapping[bytes, bytes], file: BlobFile | None = None
) -> BlobReply:
    """Return the answer for a blob; for a HEAD request, which opens no file, without its bytes."""
    assert stat.size is not None
    assert stat.etag is not None
    etag = stat.etag.encode()
    facts: list[Header] = [
        (b"etag", b'"%b"' % etag),
        (b"omnigraph-snapshot-id", stat.graph_commit_id.encode()),
    ]
    _check_match(headers.get(b"if-match"), etag)
    if is_known(headers.get(b"if-none-match"), etag):
        return BlobReply(304, facts)
    facts += [
        (b"content-type", b"application/octet-stream"),
        (b"x-content-type-options", b"nosniff"),
        (b"accept-ranges", b"bytes"),
    ]
    wanted = None if file is None else _wanted(headers, etag, stat.size)
    start, end = (0, stat.size) if wanted is None else wanted
    facts.append((b"content-length", b"%d" % (end - start)))
    if wanted is not None:
        facts.append((b"content-range", b"bytes %d-%d/%d" % (start, end - 1, stat.size)))
    return BlobReply(200 if wanted is None else 206, facts, file, start, end - start)


def _check_match(given: bytes | None, etag: bytes) -> None:
    if given is None or given.strip() == b"*":
        return
    if any(not weak and tag == etag for weak, tag in _TAG.findall(given)):
        return
    raise BlobChanged("the blob is not the one that If-Match names; ask for it again without")


def is_known(given: bytes | None, etag: bytes) -> bool:
    """Whether an If-None-Match names this state, so that the caller has it already."""
    if given is None:
        return False
    return given.strip() == b"*" or any(tag == etag for _, tag in _TAG.findall(given))


def _wanted(headers: Mapping[bytes, bytes], etag: bytes, size: int) -> tuple[int, int] | None:
    """Return the range that is asked for, cut at the end; None for all bytes.

    A range that is not understood, and one for another state of the blob, is as if it was not there.
    """
    given = headers.get(b"range")
    if given is None:
        return None
    condition = headers.get(b"if-range")
    if condition is not None and condition.strip() != b'"%b"' % etag:
        return None
    found = _RANGE.fullmatch(given.strip())
    if found is None or not (found[1] or found[2]):
        return None
    if not found[1]:
        last = _position(found[2])
        if not last or not size:
            raise _outside(size - last if last else size, None, size)
        return max(0, size - last), size
    start = _position(found[1])
    end = _position(found[2]) + 1 if found[2] else size
    if found[2] and end <= start:
        return None
    if start >= size:
        raise _outside(start, end if found[2] else None, size)
    return start, min(end, size)


def _position(digits: bytes) -> int:
    """The number that digits write, however many there are."""
    return min(int(digits.lstrip(b"0")[:20] or b"0"), _BEYOND)


def _outside(start: int, end: int | None, size: int) -> BlobRange:
    return BlobRange(
        f"the blob has {size:,} bytes and the range begins at {max(start, 0):,}; begin before its end",
        start=max(start, 0),
        end=end,
        length=size,
    )
