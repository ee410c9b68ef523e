"""Property types and the one value codec.

A value has four faces: JSON (what people send and get), the *stored* Python value used inside the
product, its Arrow column, and its canonical key text. Stored values: ``str``, ``bool``, ``int``,
``float``, ``int`` days since the epoch for Date, ``int`` milliseconds for DateTime, ``bytes`` or
``ExternalBlob`` for Blob, and ``list`` of these for lists and vectors; null is ``None``.
"""

from __future__ import annotations

from omnigraph.types.proptype import MAX_VECTOR_DIM, PropType, Scalar, Unfit

__all__ = [
    "MAX_VECTOR_DIM",
    "PropType",
    "Scalar",
    "Unfit",
]
