"""Choose the embedder of a graph and call it."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING

from omnigraph import settings
from omnigraph.embeddings.embedder import Embedder, Role, takes_role
from omnigraph.embeddings.embedding_settings import YOUR_OWN, EmbeddingSettings
from omnigraph.embeddings.offline import MockEmbedder
from omnigraph.errors import BadRequest, ProviderError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

logger = logging.getLogger(__name__)

BLAMES_TEXTS = {400, 413, 422}
"""Statuses of a provider that will not have a text: it is too long, or empty."""


def resolve_embedder(configured: Embedder | None) -> Embedder | None:
    """Return the embedder to ask: the mock if it is forced, the caller's, or the environment's.

    Nothing is connected or checked yet. None: there is none, and no vector can be made.
    """
    chosen = EmbeddingSettings.of_environment() if configured is None else configured
    if settings.EMBEDDINGS_MOCK.get():
        if chosen is not None and not _is_mock(chosen):
            _warn_of_hiding(type(chosen).__name__ if configured else "provider of the environment")
        return MockEmbedder()
    if not isinstance(chosen, EmbeddingSettings):
        return chosen
    return MockEmbedder() if chosen.is_mock else chosen.pinned()


def require_embedder(configured: Embedder | None, place: str) -> Embedder:
    """Return an embedder that can be asked, or raise an error that says how to provide one."""
    embedder = resolve_embedder(configured)
    if embedder is None:
        raise ProviderError(
            f"{place} needs an embedder and none is set up; set OPENROUTER_API_KEY, OPENAI_API_KEY or "
            "GEMINI_API_KEY, or OMNIGRAPH_EMBED_PROVIDER=local for one that needs neither key nor "
            f"network; {YOUR_OWN}",
            missing=True,
        )
    _check(embedder, place)
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

    _check(embedder, place)
    if model is not None and not _is_mock(embedder) and embedder.model != model:
        label = "runtime error: " if role == "query" else ""
        raise BadRequest(
            f"{label}{place} has vectors of the model {model}, and the embedding provider uses "
            f"{embedder.model}; set OMNIGRAPH_EMBED_MODEL, or give an embedder of that model",
            recorded=model,
            actual=embedder.model,
        )
    made = np.empty((len(texts), dimension), np.float32)
    limits = embedder.limits if isinstance(embedder, EmbeddingSettings) else None
    size = limits.batch if limits else settings.EMBED_BATCH.get()
    for start in range(0, len(texts), size):
        batch = list(texts[start : start + size])
        made[start : start + size] = _embed_batch(embedder, batch, dimension, role, place)
    return made


def may_be_the_texts(error: ProviderError) -> bool:
    """Whether other texts may fare better: the provider works, and refused these or failed on them."""
    if error.details.get("missing"):
        return False
    # Only calls over HTTP count their tries; of anything else nothing is known.
    return "attempts" not in error.details or error.details.get("status") in BLAMES_TEXTS


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
    for vector in vectors:
        if vector.shape != (dimension,):
            raise ProviderError(
                f"{place}: Vector({dimension}) is needed, and the embedding provider gave one of "
                f"{vector.size} numbers; check its model"
            )
    made = np.stack(vectors)
    if not np.isfinite(made).all() or not made.any(axis=1).all():
        raise ProviderError(
            f"{place}: the embedding provider gave a vector with a number that is not finite, or of "
            "zeros alone; check its model and the texts"
        )
    return made


def _check(embedder: Embedder, place: str) -> None:
    """Raise if the settings of a provider cannot work."""
    if isinstance(embedder, EmbeddingSettings):
        try:
            embedder.check()
        except ProviderError as error:
            raise ProviderError(f"{place}: {error.message}", **error.details) from None


def _is_mock(embedder: Embedder) -> bool:
    if isinstance(embedder, EmbeddingSettings):
        return embedder.is_mock
    return isinstance(embedder, MockEmbedder)


@cache
def _warn_of_hiding(hidden: str) -> None:
    """Warn once that the vectors are mock vectors although a real provider is set up."""
    logger.warning(
        "OMNIGRAPH_EMBEDDINGS_MOCK is set: vectors come from the mock, not from the %s", hidden
    )


def _numbers(vector: Iterable[float]) -> npt.NDArray[np.float32]:
    """Return a vector as it is stored; a number that float32 cannot hold becomes infinite."""
    import numpy as np

    listed = vector if hasattr(vector, "__len__") else list(vector)
    with np.errstate(over="ignore"):
        return np.asarray(listed, np.float64).astype(np.float32)
