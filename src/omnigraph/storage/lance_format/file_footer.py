"""The last bytes of a Lance file: where its metadata is, and whether that can be.

A reader believes the footer: one with a wrong count makes Lance (pylance 14) ask for more memory than there
is, which ends the process. So a file of doubtful origin is looked at here first.

    offset 0    where the metadata of the columns begins      u64
           8    where the table of their offsets begins       u64
           16   where the table of global buffers begins      u64
           24   number of global buffers                      u32
           28   number of columns                             u32
           32   version of the format, major and minor        u16, u16
           36   "LANC"
"""

from __future__ import annotations

import struct
from typing import Final

FOOTER_BYTES: Final = 40
_FOOTER: Final = struct.Struct("<QQQIIHH4s")
_MAGIC: Final = b"LANC"
_ENTRY_BYTES: Final = 16  # an offset and a length
_PADDING: Final = 64


def footer_fault(tail: bytes, size: int) -> str | None:
    """What is wrong with the last ``FOOTER_BYTES`` of a Lance file of that size; None if nothing is."""
    if size < FOOTER_BYTES or len(tail) < FOOTER_BYTES:
        return f"it has only {size} bytes"
    columns, offsets, buffers, buffer_count, column_count, _, _, magic = _FOOTER.unpack(
        tail[-FOOTER_BYTES:]
    )
    if magic != _MAGIC:
        return "it does not end as a Lance file does"
    end = size - FOOTER_BYTES
    if not columns <= offsets <= buffers <= end:
        return "its footer points outside of it"
    slack = (
        buffers - offsets - column_count * _ENTRY_BYTES,
        end - buffers - buffer_count * _ENTRY_BYTES,
    )
    if not all(0 <= one < _PADDING for one in slack):
        return "its footer counts something else than it holds"
    return None
