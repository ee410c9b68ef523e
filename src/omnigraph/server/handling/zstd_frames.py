"""How much memory a zstd body would take to unpack, read off the heads of its frames before it is.

A frame says how far back its data may refer (its window), and whoever unpacks it holds that much. Encoders
take up to 128 MiB if they are told to, decoders obey. As an encoding of HTTP zstd has at most 8 MiB (RFC 9659).
"""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import Final

from omnigraph.cancel import look
from omnigraph.errors import BadRequest

LARGEST_WINDOW: Final = 8 << 20
MOST_BLOCKS: Final = 1_000_000
"""A gigabyte is some thousands of blocks; each one more costs time and tells nothing."""

_FRAME: Final = b"\x28\xb5\x2f\xfd"
_SKIPPED: Final = range(0x184D2A50, 0x184D2A60)
_LOOK_EVERY: Final = 10_000
_RUN: Final = 1
"""The kind of a block that is one byte, repeated."""


def check_windows(path: Path) -> None:
    """Refuse a body with a frame of a larger window. What is no zstd at all is left to the decoder."""
    if not path.stat().st_size:
        return
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        at, blocks = 0, 0
        while at + 8 <= len(data):
            if int.from_bytes(data[at : at + 4], "little") in _SKIPPED:
                at += 8 + int.from_bytes(data[at + 4 : at + 8], "little")
            elif data[at : at + 4] == _FRAME and len(data) > at + 5:
                at, blocks = _end_of_frame(data, at + 4, blocks)
            else:
                return


def _end_of_frame(data: mmap.mmap, at: int, blocks: int) -> tuple[int, int]:
    """Return where a frame ends, and how many blocks there were so far."""
    described = data[at]
    is_single, has_checksum = bool(described & 0x20), bool(described & 0x04)
    at += 1
    window = 0
    if not is_single:
        exponent, mantissa = data[at] >> 3, data[at] & 7
        base = 1 << (10 + exponent)
        window, at = base + base // 8 * mantissa, at + 1
    at += (0, 1, 2, 4)[described & 3]
    size_bytes = (1 if is_single else 0, 2, 4, 8)[described >> 6]
    if is_single:  # the window is all of its content
        window = int.from_bytes(data[at : at + size_bytes], "little")
        window += 256 if size_bytes == 2 else 0
    at += size_bytes
    if window > LARGEST_WINDOW:
        raise BadRequest(
            f"the body is packed with a window of {window:,} bytes, and zstd has at most "
            f"{LARGEST_WINDOW:,} here; pack it again without --long and --ultra"
        )
    is_last = False
    while not is_last and at + 3 <= len(data):
        block = int.from_bytes(data[at : at + 3], "little")
        is_last = bool(block & 1)
        at += 3 + (1 if (block >> 1) & 3 == _RUN else block >> 3)
        blocks += 1
        if blocks % _LOOK_EVERY == 0:
            look()
        if blocks > MOST_BLOCKS:
            raise BadRequest(
                f"the body is packed in more than {MOST_BLOCKS:,} blocks; pack it again in larger ones"
            )
    return at + (4 if has_checksum else 0), blocks
