"""Property types, what distinguishes them, and the conversion of their values.

A value has four forms: JSON (what people send and get), the *stored* Python value used inside the
product, its Arrow column, and its canonical key text. Stored values: ``str``, ``bool``, ``int``,
``float``, ``int`` days since the epoch for Date, ``int`` milliseconds for DateTime, ``bytes`` or
``BlobAddress`` for Blob, and ``list`` of these for lists and vectors; null is ``None``.

- ``scalar``: the scalar types and the one table of their traits
- ``proptype``: types built from scalars: nullable, list, enum, vector
- ``objects``: the types of objects, which only answers have
- ``values``, ``keys``, ``columns``: convert one value, one key, a whole column
- ``tuple_ids``: the ids of edges that a tuple identifies
- ``json_text``: the JSON texts of a whole column
- ``arrow``: find the traits of a column that comes without its property type
- ``temporal``, ``python``: dates and times, Python objects

Functions raise ``Unfit`` with a plain reason; the caller adds which property or parameter it was.
Arrow and NumPy are imported on first use, never by importing this package.
"""

from __future__ import annotations

from omnigraph.types.arrow import (
    as_integers,
    from_integers,
    portable_type,
    returned_type,
    scalar_of,
    stored_items,
)
from omnigraph.types.columns import (
    cast_what_fits,
    column_to_json,
    columns_equal,
    derive_id_column,
    from_arrow,
    key_text_column,
    to_arrow,
    widened_columns_equal,
)
from omnigraph.types.json_text import column_to_json_text, json_string_texts
from omnigraph.types.keys import composite_id, derive_id, key_text, spells_key
from omnigraph.types.objects import ObjectList, ObjectType, ValueType
from omnigraph.types.proptype import MAX_VECTOR_DIM, TEXT, PropType
from omnigraph.types.python import json_form
from omnigraph.types.scalar import INTEGER_RANGES, Family, Scalar, TypeTraits, round_f32
from omnigraph.types.temporal import format_date, format_datetime, parse_date, parse_datetime
from omnigraph.types.tuple_ids import TupleMember, tuple_id_column
from omnigraph.types.unfit import Unfit, is_unicode, shown, shown_place
from omnigraph.types.values import (
    BlobAddress,
    FileBlob,
    blob_from_text,
    blob_to_text,
    from_json,
    param_from_json,
    to_json,
)

__all__ = [
    "INTEGER_RANGES",
    "MAX_VECTOR_DIM",
    "TEXT",
    "BlobAddress",
    "Family",
    "FileBlob",
    "ObjectList",
    "ObjectType",
    "PropType",
    "Scalar",
    "TupleMember",
    "TypeTraits",
    "Unfit",
    "ValueType",
    "as_integers",
    "blob_from_text",
    "blob_to_text",
    "cast_what_fits",
    "column_to_json",
    "column_to_json_text",
    "columns_equal",
    "composite_id",
    "derive_id",
    "derive_id_column",
    "format_date",
    "format_datetime",
    "from_arrow",
    "from_integers",
    "from_json",
    "is_unicode",
    "json_form",
    "json_string_texts",
    "key_text",
    "key_text_column",
    "param_from_json",
    "parse_date",
    "parse_datetime",
    "portable_type",
    "returned_type",
    "round_f32",
    "scalar_of",
    "shown",
    "shown_place",
    "spells_key",
    "stored_items",
    "to_arrow",
    "to_json",
    "tuple_id_column",
    "widened_columns_equal",
]
