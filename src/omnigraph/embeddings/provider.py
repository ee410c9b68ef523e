"""What turns text into vectors: the caller's embedder, or the mock that the environment asks for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

from omnigraph import settings
from omnigraph.embeddings.mock import mock_embedding
from omnigraph.errors import BadRequest, OmniGraphError, ProviderError
from omnigraph.types import round_f32


class Embedder(Protocol):
    """Texts in, one vector each out."""

    @property
    def model(self) -> str:
        """The model that makes the vectors."""
        ...

    def embed(self, texts: Sequence[str], dimension: int) -> list[list[float]]:
        """One vector of that many dimensions per text."""
        ...


class MockEmbedder:
    """The mock provider; it claims whatever model is asked of it."""

    model = "mock"

    def embed(self, texts: Sequence[str], dimension: int) -> list[list[float]]:
        """Deterministic unit vectors."""
        return [mock_embedding(text, dimension) for text in texts]


def resolve_embedder(configured: Embedder | None) -> Embedder | None:
    """The caller's embedder, else the mock when the environment asks for it, else None."""
    if configured is not None:
        return configured
    return MockEmbedder() if settings.EMBEDDINGS_MOCK.get() else None


def require_embedder(configured: Embedder | None, place: str) -> Embedder:
    """An embedder, or the error that says how to give one."""
    embedder = resolve_embedder(configured)
    if embedder is None:
        raise ProviderError(
            f"{place} needs an embedder and none is given; open the graph from Python with "
            "omnigraph.open(embedder=…), or for trying things out set OMNIGRAPH_EMBEDDINGS_MOCK=1",
            missing=True,
        )
    return embedder


def embed_texts(
    embedder: Embedder, texts: Sequence[str], dimension: int, place: str, model: str | None = None
) -> list[list[float]]:
    """One vector per text, checked: an embedder is somebody else's code.

    ``model`` is the one the schema records; vectors of another model would not compare with those
    that are stored.
    """
    if model is not None and not isinstance(embedder, MockEmbedder) and embedder.model != model:
        raise BadRequest(
            f"{place} has vectors of the model {model}, and the embedding provider uses "
            f"{embedder.model}; configure the same model",
            recorded=model,
            actual=embedder.model,
        )
    try:
        made = embedder.embed(texts, dimension)
        vectors = [[round_f32(float(number)) for number in vector] for vector in made]
    except OmniGraphError:
        raise
    except Exception as error:
        raise ProviderError(f"{place}: the embedding provider failed: {error}") from error
    if len(vectors) != len(texts):
        raise ProviderError(
            f"{place}: the embedding provider gave {len(vectors)} vectors for {len(texts)} texts"
        )
    for vector in vectors:
        if len(vector) != dimension or not all(map(math.isfinite, vector)):
            raise ProviderError(
                f"{place}: the embedding provider gave a vector that is not {dimension} finite "
                "numbers; check its model"
            )
    return vectors
