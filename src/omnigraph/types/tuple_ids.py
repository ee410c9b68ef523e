"""Ids of edges that a tuple of values identifies: the same tuple gives the same id everywhere.

The id is made of the canonical texts of the members, as keys have them, and of names that stay when
a type or a property is renamed: the text `[type,["src","a"],["dst","b"],[property,"text"]]` is hashed
(SHA-256), and its first 130 bits are written in 26 characters of Crockford's base 32.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from omnigraph.types.columns import as_array, key_text_column
from omnigraph.types.proptype import PropType

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

PREFIX: Final = "e_"
ID_LENGTH: Final = 28
_ALPHABET: Final = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_DIGITS: Final = 26
_ESCAPED: Final = r'["\\\x00-\x1f]'


class TupleMember(NamedTuple):
    """A member of a tuple: the name that stays, its type, and its values, one for each row.

    ``null_is_equal``: null is a value like others, and no reason for a tuple to equal none.
    """

    name: str | int
    type: PropType
    values: Any
    null_is_equal: bool = False


def tuple_id_column(type_id: int, members: Sequence[TupleMember]) -> pa.StringArray:
    """The id of every row; null where a member is null or no finite number, and so equals no other.

    A member whose nulls are equal is a time, which is never the empty text that stands for its null.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    pieces: list[Any] = [f"[{type_id}"]
    for name, type_, values, null_is_equal in members:
        pieces[-1] += f',[{json.dumps(name)},"'
        texts = _texts(type_, values)
        pieces += [_escaped(texts.fill_null("") if null_is_equal else texts), '"]']
    pieces[-1] += "]"
    texts = pc.binary_join_element_wise(*pieces, "")
    return _named(texts if isinstance(texts, pa.Array) else texts.combine_chunks())


def _texts(type_: PropType, values: Any) -> pa.StringArray:
    import pyarrow as pa
    import pyarrow.compute as pc

    values = as_array(type_, values)
    if type_.is_float:
        values = pc.if_else(pc.is_finite(values), values, pa.scalar(None, values.type))
    return key_text_column(type_, values)


def _escaped(texts: pa.StringArray) -> pa.StringArray:
    """The texts as they stand between the quotes of JSON; characters beyond ASCII stay."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not _any_special(texts):
        return texts
    special = pc.match_substring_regex(texts, _ESCAPED)
    found = [
        json.dumps(text, ensure_ascii=False)[1:-1] for text in texts.filter(special).to_pylist()
    ]
    return pc.replace_with_mask(texts, special.fill_null(False), pa.array(found, pa.utf8()))


def _any_special(texts: pa.StringArray) -> bool:
    """Whether some text may have to be escaped; bytes are compared faster than texts are searched."""
    import numpy as np

    _, bounds, data = texts.buffers()
    if data is None or not len(texts):
        return False
    ends = np.frombuffer(bounds, np.int32)[texts.offset :]
    used = np.frombuffer(data, np.uint8)[ends[0] : ends[len(texts)]]
    return bool(((used < ord(" ")) | (used == ord('"')) | (used == ord("\\"))).any())


def _named(texts: pa.StringArray) -> pa.StringArray:
    """The id of every text; null stays null."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    sha256 = hashlib.sha256
    present = pc.drop_null(texts).cast(pa.binary()).to_pylist()
    digests = b"".join([sha256(text).digest() for text in present])
    letters = _letters(np.frombuffer(digests, np.uint8).reshape(-1, 32))
    bounds = np.zeros(len(texts) + 1, np.int32)
    valid = texts.is_valid()
    np.cumsum(valid.to_numpy(zero_copy_only=False) * np.int32(ID_LENGTH), out=bounds[1:])
    mask = None
    if texts.null_count:
        # A null takes no room; the bitmap says where they are.
        mask = pc.if_else(valid, True, False).buffers()[1]
    return pa.Array.from_buffers(
        pa.utf8(), len(texts), [mask, pa.py_buffer(bounds), pa.py_buffer(letters)]
    )


def _letters(digests: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The prefix and the first characters of digests, ten bits at a time."""
    import numpy as np

    out = np.empty((len(digests), ID_LENGTH // 2), np.uint16)
    out[:, 0] = np.frombuffer(PREFIX.encode(), np.uint16)[0]
    pairs = _pairs()
    for at in range(_DIGITS // 2):
        byte, shift = divmod(10 * at, 8)
        # The shift is even and at most 6, so ten bits always lie in two bytes.
        word = digests[:, byte].astype(np.uint16) << np.uint16(8) | digests[:, byte + 1]
        out[:, at + 1] = np.take(pairs, word >> np.uint16(6 - shift) & np.uint16(1023))
    return out.view(np.uint8)


@cache
def _pairs() -> NDArray[np.uint16]:
    """The two characters of every number of ten bits, as they lie in memory."""
    import numpy as np

    alphabet = np.frombuffer(_ALPHABET, np.uint8)
    texts = np.empty((1024, 2), np.uint8)
    texts[:, 0], texts[:, 1] = np.repeat(alphabet, 32), np.tile(alphabet, 32)
    return texts.view(np.uint16).ravel()
