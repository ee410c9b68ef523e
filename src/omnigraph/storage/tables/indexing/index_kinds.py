"""What each kind of index is: one description, which builds, maintenance, Spark jobs and explain ask.

A question about a kind is a field here, never a branch on the kind elsewhere. For example, a vector index
is trained: to merge its parts is to build it again. So ``optimize`` leaves a few of them, upkeep never
touches the oldest, and a Spark job makes no more than may stay: all three read ``is_trained`` and
``most_parts``.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from omnigraph.lang.schema.indexes import VECTOR_KINDS, IndexKind
from omnigraph.lang.schema.shape import DEFAULT_METRIC, Metric
from omnigraph.storage.tables.indexing.btree_files import build_btree

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    from omnigraph.storage.tables.table import Table

# Small enough that building stays near linear in rows (HNSW is slower per row the larger its
# graph), large enough that a search touches few of them.
ROWS_PER_PARTITION = 8_192

TEXT_ANALYSIS: Final[Mapping[str, Any]] = {
    "base_tokenizer": "simple",
    "language": "English",
    # Lance keeps terms of fewer bytes than this; the language keeps terms of up to 40 characters.
    "max_token_length": 41,
    "lower_case": True,
    "stem": True,
    "remove_stop_words": True,
    "ascii_folding": True,
}
"""How text becomes terms: spelled out, because what matches must not change with Lance's defaults."""


class Serves(enum.Enum):
    """What an index is asked for."""

    LOOKUPS = "rows by a value or a range of values"
    TEXT = "rows by their words"
    NEAREST = "rows by the nearness of a vector"


@dataclass(frozen=True, slots=True, kw_only=True)
class KindDescription:
    """All that is special about one kind of index."""

    kind: IndexKind
    serves: Serves
    built_as: str
    """What Lance calls it in a request to build it."""
    listed_as: str
    """How Lance's name of it begins where it lists the indexes of a table."""
    parameters: Callable[[int], Mapping[str, Any]]
    """What Lance is told in a request to build it on this number of rows."""
    fits: Callable[[Mapping[str, Any]], bool] = lambda _details: True
    """Whether an index with these details, perhaps built by others, answers as ours do."""
    build: Callable[[Table, str, Sequence[int], Callable[[], Any]], Any | None] | None = None
    """A builder of our own, which may leave an index to Lance (see ``build_btree``)."""
    needs_values: bool = False
    """Whether there must be a value to build it on."""
    needs_directions: bool = False
    """Whether a vector without a direction (``has_direction``) is no value to it."""
    on_one_core: bool = False
    """Whether Lance uses one core to build it."""
    calls_back: bool = False
    """Whether Lance calls back while it builds, so that the work can be stopped."""
    joins_parts: bool = False
    """Whether parts that were built apart must be merged before they can be searched."""
    takes_new_part: bool = True
    """Whether new rows may be a part of their own; otherwise it would find rows as they were before."""
    is_trained: bool = False
    """Whether merging its parts trains it again, which takes minutes."""
    most_parts: int = 1
    """With more parts, a thorough maintenance merges all of them."""
    follows_rewrites: bool = True
    """Whether Lance carries it over to rewritten fragments, so that only such fragments can be merged as
    the same of its parts covers. Otherwise it forgets them, and is extended to the new ones."""


def _no_parameters(_rows: int) -> Mapping[str, Any]:
    return {}


def _text_parameters(_rows: int) -> Mapping[str, Any]:
    # Positions only serve phrase queries, which the language does not have.
    return {"with_position": False, **TEXT_ANALYSIS}


def _is_our_analysis(details: Mapping[str, Any]) -> bool:
    """Whether an inverted index splits text as the language does; one built by others may not."""
    wanted = {**TEXT_ANALYSIS, "custom_stop_words": None}
    return all(details.get(name) == value for name, value in wanted.items())


def _of_vectors(kind: IndexKind, metric: Metric) -> KindDescription:
    """The index of vectors for one metric; one of another metric is of another kind."""

    def parameters(rows: int) -> Mapping[str, Any]:
        return {"metric": metric, "num_partitions": max(1, rows // ROWS_PER_PARTITION)}

    def fits(details: Mapping[str, Any]) -> bool:
        return str(details.get("metric_type", DEFAULT_METRIC)).lower() == metric

    return KindDescription(
        kind=kind,
        serves=Serves.NEAREST,
        built_as="IVF_HNSW_SQ",
        listed_as="IVF",
        parameters=parameters,
        fits=fits,
        needs_values=True,
        needs_directions=metric == "cosine",
        is_trained=True,
        most_parts=4,
    )


DESCRIPTIONS: Final = (
    KindDescription(
        kind=IndexKind.BTREE,
        serves=Serves.LOOKUPS,
        built_as="BTREE",
        listed_as="BTree",
        parameters=_no_parameters,
        build=build_btree,
        on_one_core=True,
        follows_rewrites=False,
    ),
    KindDescription(
        kind=IndexKind.FTS,
        serves=Serves.TEXT,
        built_as="INVERTED",
        listed_as="Inverted",
        parameters=_text_parameters,
        fits=_is_our_analysis,
        calls_back=True,
        joins_parts=True,
        takes_new_part=False,
    ),
    *(_of_vectors(kind, metric) for metric, kind in VECTOR_KINDS.items()),
)
"""Every kind, once."""


def has_direction(vectors: pa.Array) -> npt.NDArray[np.bool_]:
    """Which vectors an index of directions holds: Lance loses those whose squares vanish in float32."""
    import numpy as np

    filled = vectors.fill_null([0.0] * vectors.type.list_size)
    rows = filled.flatten().to_numpy(zero_copy_only=False).reshape(len(filled), -1)
    squares = np.einsum("ij,ij->i", rows, rows, dtype=np.float64)
    found: npt.NDArray[np.bool_] = squares >= float(np.finfo(np.float32).tiny)
    return found


def describe(kind: IndexKind) -> KindDescription:
    """Return the description of a kind."""
    return next(one for one in DESCRIPTIONS if one.kind is kind)


def kind_serving(what: Serves) -> IndexKind:
    """Return the kind of index that serves a purpose."""
    return next(one.kind for one in DESCRIPTIONS if one.serves is what)


def stands_in_the_way(other: IndexKind | None, kind: IndexKind) -> bool:
    """Whether Lance could search an index of the other kind on a column instead of one of this kind.

    Of several vector indexes it takes the oldest, and where that one has another metric it reads all vectors.
    None is a kind that is not ours.
    """
    return other is None or (other is not kind and describe(other).serves is describe(kind).serves)


def follows_rewrites(kind: IndexKind | None) -> bool:
    """Whether Lance carries an index over to rewritten fragments; None is a kind that is not ours."""
    return kind is None or describe(kind).follows_rewrites
