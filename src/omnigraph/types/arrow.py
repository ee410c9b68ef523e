"""Find the traits of an Arrow type, for code that has a column but not its property type.

Dates and instants are stored as integers: ``as_integers`` and ``from_integers`` switch between the
two views of such a column without copying it. Example: ``as_integers`` turns a ``date32`` column
with 2024-02-29 into an ``int32`` column with 19782. Each function is called once per column.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from omnigraph.types.scalar import Factory, Scalar

if TYPE_CHECKING:
    import pyarrow as pa


_T = TypeVar("_T")


def _made(factory: Factory) -> pa.DataType:
    import pyarrow as pa

    name, *arguments = factory
    return getattr(pa, str(name))(*arguments)


class _ByType(Generic[_T]):
    """A dictionary with Arrow types as keys; it avoids hashing them, which is slow."""

    def __init__(self, entries: Iterable[tuple[pa.DataType, _T]]) -> None:
        self._entries: dict[int, list[tuple[pa.DataType, _T]]] = {}
        for kind, value in entries:
            self._entries.setdefault(kind.id, []).append((kind, value))

    def get(self, kind: pa.DataType) -> _T | None:
        """Return the value of a type, or None."""
        for known, value in self._entries.get(kind.id, ()):
            if known == kind:
                return value
        return None


@cache
def arrow_scalar(scalar: Scalar) -> pa.DataType:
    """Return the Arrow type in which a scalar is stored."""
    return _made(scalar.traits.arrow)


@cache
def _by_storage() -> _ByType[Scalar]:
    import pyarrow as pa

    # Text beyond 2 GB in one array needs wider offsets.
    wide = (pa.large_string(), Scalar.STRING)
    return _ByType([*((arrow_scalar(scalar), scalar) for scalar in Scalar), wide])


def scalar_of(kind: pa.DataType) -> Scalar | None:
    """Return the scalar stored in an Arrow type; None for lists, vectors and foreign types."""
    return _by_storage().get(kind)


@cache
def _integer_types() -> _ByType[pa.DataType]:
    temporal = (scalar for scalar in Scalar if scalar.is_temporal)
    return _ByType((arrow_scalar(scalar), _made(scalar.time.integers)) for scalar in temporal)


def as_integers(array: pa.Array) -> pa.Array:
    """View dates and instants as the integers they are stored as; return other columns unchanged."""
    integers = _integer_types().get(array.type)
    return array if integers is None else array.view(integers)


def from_integers(numbers: Any, kind: pa.DataType) -> pa.Array:
    """Turn stored integers, an Arrow or NumPy array, into a column of the temporal type ``kind``.

    If ``kind`` is not temporal, the numbers become a column of that type.
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
    """Convert what ``to_pylist`` gave for a column (``datetime.date`` …) into stored values."""
    import pyarrow as pa

    if _integer_types().get(kind) is None:
        return values
    items: list[Any] = as_integers(pa.array(values, kind)).to_pylist()
    return items


@cache
def _portable_types() -> _ByType[pa.DataType]:
    return _ByType(_ported())


def _ported() -> Iterator[tuple[pa.DataType, pa.DataType]]:
    """Pair each storage type that Spark refuses with the type in which it takes the values."""
    for scalar in Scalar:
        if scalar.traits.portable is not None:
            yield arrow_scalar(scalar), _made(scalar.traits.portable)


def portable_type(kind: pa.DataType) -> pa.DataType:
    """Return the type in which Spark takes a column of type ``kind`` without loss."""
    portable = _portable_types().get(kind)
    return kind if portable is None else portable


@cache
def _returned_types() -> _ByType[pa.DataType]:
    # A type that is also a storage type is ambiguous: an int64 may have been sent as one.
    return _ByType((there, here) for here, there in _ported() if scalar_of(there) is None)


def returned_type(kind: pa.DataType) -> pa.DataType:
    """Return the storage type of a column that Spark returned; ``kind`` itself if ambiguous."""
    import pyarrow as pa

    if pa.types.is_timestamp(kind):
        kind = pa.timestamp(kind.unit, "UTC")  # Spark gives the time zone of its session.
    returned = _returned_types().get(kind)
    return kind if returned is None else returned
