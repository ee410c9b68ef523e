"""The ids of a node table as arrays in a file, and back."""

from __future__ import annotations

from typing import Any, Final, TypeGuard

import numpy as np
import pyarrow as pa

from omnigraph.read.kept.kept_file import Array, KeptFile, Untrusted
from omnigraph.read.view.nodes import NodeIds

NODES: Final = "nodes"
"""The part of a state that these files are."""


def node_arrays(ids: NodeIds) -> tuple[dict[str, Array], bool]:
    """Ids as arrays of numbers, and whether their text has wide offsets."""
    array = ids.id_array
    is_wide = pa.types.is_large_string(array.type)
    _, offsets, text = array.buffers()
    kind = np.dtype(np.int64 if is_wide else np.int32)
    if offsets is None or not len(array):
        starts = np.zeros(1, kind)
    else:
        starts = np.frombuffer(offsets, kind, len(array) + 1, array.offset * kind.itemsize)
    first, last = int(starts[0]), int(starts[-1])
    size = last - first
    letters = np.frombuffer(text, np.uint8, size, first) if size else np.empty(0, np.uint8)
    starts = starts - kind.type(first)
    return {"starts": starts, "letters": letters, "row_ids": ids.rows.row_ids}, is_wide


def is_of_nodes(file: KeptFile) -> bool:
    """Whether a file has the facts and arrays of ids, as another version of the engine may not write them."""
    size, is_wide = file.facts.get("size"), file.facts.get("is_wide")
    return (
        is_size(size)
        and isinstance(is_wide, bool)
        and file.has(
            starts=("<i8" if is_wide else "<i4", size + 1),
            letters=("|u1", file.count("letters")),
            row_ids=("<u8", size),
        )
    )


def node_ids(file: KeptFile) -> NodeIds:
    """The ids of a kept file; ``Untrusted`` if they are not whole."""
    starts, letters = file.array("starts"), file.array("letters")
    if starts[0] != 0 or starts[-1] != letters.size:
        raise Untrusted("its texts do not end where they should")
    kind = pa.large_string() if file.facts["is_wide"] else pa.string()
    buffers = [None, pa.py_buffer(starts), pa.py_buffer(letters)]
    ids = pa.Array.from_buffers(kind, file.facts["size"], buffers, null_count=0)
    return NodeIds(ids, file.array("row_ids"))


def whole_node_ids(file: KeptFile) -> NodeIds | None:
    """The ids of a kept file; None if they are not whole."""
    try:
        return node_ids(file)
    except Untrusted:
        return None


def is_size(number: Any) -> TypeGuard[int]:
    """Whether a fact of a file may be the number of its rows."""
    return type(number) is int and number >= 0
