"""Types and stored values to draw from, for the tests of the codec."""

from hypothesis import settings
from hypothesis import strategies as st

from omnigraph.types import BlobAddress, PropType, Scalar

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
ADDRESS = TEXT.filter(lambda text: not text.startswith("base64:"))


def floats(scalar, finite=True):
    return st.floats(
        width=32 if scalar is Scalar.F32 else 64,
        allow_nan=not finite,
        allow_infinity=not finite,
    )


def scalar_values(scalar, finite=True):
    """Stored values of a scalar type; Blobs are managed ones only."""
    match scalar:
        case Scalar.STRING:
            return TEXT
        case Scalar.BOOL:
            return st.booleans()
        case Scalar.DATE:
            return st.integers(-719162, 2932896)
        case Scalar.DATETIME:
            return st.integers(-62135596800000, 253402300799999)
        case Scalar.BLOB:
            return st.binary(max_size=8)
        case Scalar.F32 | Scalar.F64:
            return floats(scalar, finite)
    return st.integers(*scalar.traits.range)


def values(t, finite=True):
    """Stored values of any type, nulls included where the type has them."""
    drawn = scalar_values(t.scalar, finite)
    if t.dim is not None:
        drawn = st.lists(drawn, min_size=t.dim, max_size=t.dim)
    elif t.is_list:
        drawn = st.lists(st.none() | drawn, max_size=4)
    return st.none() | drawn if t.nullable else drawn


SCALARS = [PropType(scalar) for scalar in Scalar]
LISTS = [PropType(t.scalar, is_list=True) for t in SCALARS if not t.is_blob]
REQUIRED = [*SCALARS, *LISTS, PropType.parse("Vector(1)"), PropType.parse("Vector(3)")]
TYPES = [*REQUIRED, *(t.as_nullable() for t in REQUIRED), PropType.parse("enum(a, b)?")]
NULLABLE = [t for t in TYPES if t.nullable]
KEY_TYPES = [t for t in SCALARS if not t.is_blob]

# A busy machine is no reason to fail.
CALM = settings(deadline=None)
PER_TYPE = settings(deadline=None, max_examples=15)
external_blobs = ADDRESS.map(BlobAddress)
