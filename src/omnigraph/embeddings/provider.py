"""Which provider turns text into vectors, chosen by the environment when it is first needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from omnigraph import settings
from omnigraph.embeddings.mock import mock_embedding
from omnigraph.errors import ProviderError


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


def required_embedder(configured: Embedder | None, place: str) -> Embedder:
    """An embedder, or the error that names what to set."""
    embedder = resolve_embedder(configured)
    if embedder is None:
        raise ProviderError(
            f"{place} needs an embedding provider and none is configured; set OPENROUTER_API_KEY or "
            "OPENAI_API_KEY, or GEMINI_API_KEY",
            missing=True,
        )
    return embedder
