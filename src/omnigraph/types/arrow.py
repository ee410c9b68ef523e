"""From Arrow types to traits: for code that has a column and not the type of its property.

Dates and instants are stored as integers; ``as_integers`` and ``from_integers`` go between the two
views of such a column without touching its rows. Everything here is decided once per column.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from omnigraph.types.scalar import Scalar
from omnigraph.types.traits import Factory

if TYPE_CHECKING:
    import pyarrow as pa


def _made(factory: Factory) -> pa.DataType:
    import pyarrow as pa

    name, *arguments = factory
    return getattr(pa, str(name))(*arguments)


@cache
def arrow_scalar(scalar: Scalar) -> pa.DataType:
    """The Arrow type in which a scalar is stored."""
    return _made(scalar.traits.arrow)


@cache
def _by_storage() -> dict[pa.DataType, Scalar]:
    import pyarrow as pa

    # Text beyond 2 GB in one array needs wider offsets.
    return {**{arrow_scalar(s): s for s in Scalar}, pa.large_string(): Scalar.STRING}


def scalar_of(kind: pa.DataType) -> Scalar | None:
    """The scalar that is stored in an Arrow type; None for lists, vectors and foreign types."""
    return _by_storage().get(kind)


@cache
def _integer_types() -> dict[pa.DataType, pa.DataType]:
    return {arrow_scalar(s): _made(s.time.integers) for s in Scalar if s.is_temporal}


def as_integers(array: pa.Array) -> pa.Array:
    """Dates and instants as the integers they are stored as; other columns unchanged."""
    integers = _integer_types().get(array.type)
    return array if integers is None else array.view(integers)


def from_integers(numbers: Any, kind: pa.DataType) -> pa.Array:
    """Stored integers, an Arrow or a NumPy array, as a column of the temporal type ``kind``.

    Numbers for any other ``kind`` become a column of that type.
    """
    import pyarrow as pa

    integers = _integer_types().get(kind)
    wanted = kind if integers is None else integers
    if isinstance(numbers, pa.Array):
        array = numbers if numbers.type == wanted else numbers.cast(wanted)
    else:
        array = pa.array(numbers, wanted)
    return array if integers is None else array.view(kind)


def stored_items(values: list[Any], kind: pa.DataType) -> list[Any]:
    """The stored form of values that Arrow gave out as Python objects (``datetime.date`` …)."""
    if kind not in _integer_types():
        return values
    import pyarrow as pa

    items: list[Any] = as_integers(pa.array(values, kind)).to_pylist()
    return items


@cache
def _portable_types() -> dict[pa.DataType, pa.DataType]:
    made = ((scalar, scalar.traits.portable) for scalar in Scalar)
    return {arrow_scalar(s): _made(factory) for s, factory in made if factory is not None}


def portable_type(kind: pa.DataType) -> pa.DataType:
    """The type in which Spark takes a column and nothing of it is lost."""
    return _portable_types().get(kind, kind)


@cache
def _returned_types() -> dict[pa.DataType, pa.DataType]:
    # An int64 may have been one from the start: it stays what it is.
    return {
        portable: kind
        for kind, portable in _portable_types().items()
        if scalar_of(portable) is None
    }


def returned_type(kind: pa.DataType) -> pa.DataType:
    """The storage type of a column that comes back from Spark, where its type leaves no doubt."""
    import pyarrow as pa

    if pa.types.is_timestamp(kind):
        kind = pa.timestamp(kind.unit, "UTC")  # Spark names the zone of its session
    return _returned_types().get(kind, kind)
