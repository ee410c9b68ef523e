"""Choose and call an embedder: the caller's own, or the mock if the environment asks for it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

from omnigraph import settings
from omnigraph.embeddings.mock import mock_embedding
from omnigraph.errors import BadRequest, OmniGraphError, ProviderError
from omnigraph.types import round_f32


class Embedder(Protocol):
    """An object that turns each text into one vector."""

    @property
    def model(self) -> str:
        """The name of the model that makes the vectors."""
        ...

    def embed(self, texts: Sequence[str], dimension: int) -> list[list[float]]:
        """Return one vector of that many dimensions for each text."""
        ...


class MockEmbedder:
    """The mock provider, accepted for every model a schema records."""

    model = "mock"

    def embed(self, texts: Sequence[str], dimension: int) -> list[list[float]]:
        """Return deterministic unit vectors."""
        return [mock_embedding(text, dimension) for text in texts]


def resolve_embedder(configured: Embedder | None) -> Embedder | None:
    """Return the caller's embedder, else the mock if the environment asks for it, else None."""
    if configured is not None:
        return configured
    return MockEmbedder() if settings.EMBEDDINGS_MOCK.get() else None


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
    embedder: Embedder, texts: Sequence[str], dimension: int, place: str, model: str | None = None
) -> list[list[float]]:
    """Return one vector per text. The vectors are checked, because the embedder is foreign code.

    ``model`` is the model the schema records; an embedder of another model is refused, because its
    vectors could not be compared with the stored ones.
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
