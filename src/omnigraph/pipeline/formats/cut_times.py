"""Times that are finer than what is stored: a DateTime has milliseconds, and what lies below is cut off."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.types import Family, PropType

Cuts = Counter[str]
"""How many values of a property were cut, by `Type.property`."""

_FINER = r"[.,][0-9]{3}[0-9]*[1-9]"
_FINER_TEXT = re.compile(_FINER, re.ASCII)


def may_be_cut(t: PropType) -> bool:
    """Whether values of a type can be given finer than they are stored."""
    return t.scalar.traits.family is Family.TEMPORAL and not t.scalar.counts_days


def cut_texts(t: PropType, array: pa.Array) -> int:
    """How many texts of a column, or of lists in it, say more than milliseconds."""
    if not may_be_cut(t):
        return 0
    texts = array.flatten() if t.is_list else array
    return pc.sum(pc.match_substring_regex(texts, _FINER)).as_py() or 0


def cut_values(value: Any) -> int:
    """How many texts in a value of JSON say more than milliseconds."""
    values: Iterable[Any] = value if isinstance(value, list) else (value,)
    return sum(isinstance(one, str) and _FINER_TEXT.search(one) is not None for one in values)
