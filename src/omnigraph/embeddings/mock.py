"""A deterministic mock provider: the same text always gives the same unit vector."""

from __future__ import annotations

import math
from collections.abc import Sequence

from omnigraph.embeddings.embedder import Role
from omnigraph.storage.layout import fnv1a64
from omnigraph.types import round_f32

_MASK = (1 << 64) - 1


class MockEmbedder:
    """The mock provider, accepted for every model that a schema records."""

    model = "mock"

    def embed(
        self,
        texts: Sequence[str],
        dimension: int,
        role: Role = "document",  # noqa: ARG002 - a search for a text finds that text
    ) -> list[list[float]]:
        """Return deterministic unit vectors."""
        return [mock_embedding(text, dimension) for text in texts]

    def close(self) -> None:
        """There is nothing to free."""


def mock_embedding(text: str, dimension: int) -> list[float]:
    """Return a vector of ``dimension`` float32 values, normalised to length 1."""
    # A xorshift generator, seeded with a hash of the text.
    state = fnv1a64(text.encode())
    values = []
    for _ in range(dimension):
        state ^= (state << 13) & _MASK
        state ^= state >> 7
        state ^= (state << 17) & _MASK
        values.append(round_f32(2.0 * (state / _MASK) - 1.0))
    norm = math.sqrt(sum(value * value for value in values))
    if norm == 0.0:
        return values
    return [round_f32(value / norm) for value in values]
