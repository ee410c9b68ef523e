"""Choose the embedder of a graph and call it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from omnigraph import settings
from omnigraph.embeddings.embedder import Embedder, Role, takes_role
from omnigraph.embeddings.mock import MockEmbedder
from omnigraph.errors import BadRequest, ProviderError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


def resolve_embedder(configured: Embedder | None) -> Embedder | None:
    """Return the mock if the environment forces it, else the caller's embedder, else None."""
    if settings.EMBEDDINGS_MOCK.get():
        return MockEmbedder()
    return configured


def require_embedder(configured: Embedder | None, place: str) -> Embedder:
    """Return an embedder, or raise an error that says how to provide one."""
    embedder = resolve_embedder(configured)
    if embedder is None:
        raise ProviderError(
            f"{place} needs an embedder and none is given; open the graph from Python with "
            "omnigraph.open(embedder=…), or for trying things out set OMNIGRAPH_EMBEDDINGS_MOCK=1",
            missing=True,
        )
    return embedder


def embed_texts(
    embedder: Embedder,
    texts: Sequence[str],
    dimension: int,
    place: str,
    model: str | None = None,
    role: Role = "document",
) -> npt.NDArray[np.float32]:
    """Return an array with one row per text, each of ``dimension`` numbers.

    ``place`` is the property that needs the vectors, for messages. ``model`` is the model that the
    schema records; an embedder of another one is refused, because its vectors could not be compared
    with the stored ones. The answers are checked, because an embedder is foreign code.
    """
    import numpy as np

    if model is not None and not isinstance(embedder, MockEmbedder) and embedder.model != model:
        raise BadRequest(
            f"{place} has vectors of the model {model}, and the embedding provider uses "
            f"{embedder.model}; configure the same model",
            recorded=model,
            actual=embedder.model,
        )
    made = np.empty((len(texts), dimension), np.float32)
    size = settings.EMBED_BATCH.get()
    for start in range(0, len(texts), size):
        batch = list(texts[start : start + size])
        made[start : start + size] = _embed_batch(embedder, batch, dimension, role, place)
    return made


def _embed_batch(
    embedder: Embedder, texts: list[str], dimension: int, role: Role, place: str
) -> npt.NDArray[np.float32]:
    """Return the checked vectors of one call."""
    import numpy as np

    named = {"role": role} if takes_role(embedder) else {}
    try:
        vectors = [_numbers(vector) for vector in embedder.embed(texts, dimension, **named)]
    except ProviderError as error:
        raise ProviderError(f"{place}: {error.message}", **error.details) from error
    except Exception as error:
        raise ProviderError(f"{place}: the embedding provider failed: {error}") from error
    if len(vectors) != len(texts):
        raise ProviderError(
            f"{place}: the embedding provider gave {len(vectors)} vectors for {len(texts)} texts; "
            "check its model"
        )
    if all(vector.shape == (dimension,) for vector in vectors):
        made = np.stack(vectors)
        if np.isfinite(made).all() and made.any(axis=1).all():
            return made
    raise ProviderError(
        f"{place}: the embedding provider gave a vector that is not {dimension} finite numbers, at "
        "least one of them other than 0; check its model"
    )


def _numbers(vector: Iterable[float]) -> npt.NDArray[np.float32]:
    """Return a vector as it is stored; a number that float32 cannot hold becomes infinite."""
    import numpy as np

    listed = vector if hasattr(vector, "__len__") else list(vector)
    with np.errstate(over="ignore"):
        return np.asarray(listed, np.float64).astype(np.float32)
