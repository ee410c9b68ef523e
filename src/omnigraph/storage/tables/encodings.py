"""How Lance writes columns of ids: by LZ4 as they are, instead of by the encodings that it would choose.

Measured on 2.4M edges (pylance 14): a table is written in a third of the time, its BTREE on `id` in less
than half of it, and both are read faster. Ids that share no beginnings take up to 1.7 times the room.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

_AS_THEY_ARE = {
    b"lance-encoding:compression": b"lz4",
    # Lance would look for repeated values first, which takes longer than to compress them.
    b"lance-encoding:dict-divisor": b"1000000",
}


def for_ids(field: pa.Field) -> pa.Field:
    """The field of a column of ids, with what Lance needs to know to write it fast."""
    return field.with_metadata({**(field.metadata or {}), **_AS_THEY_ARE})
