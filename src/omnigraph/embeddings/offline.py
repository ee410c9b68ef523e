"""Providers without a network: WordLlama, of the optional extra, and a mock for tests.

The package of WordLlama carries its weights: vectors of words that are averaged, small and fast on a plain
processor. Its vectors may be cut to the first 64 or 128 of their 256 numbers.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from omnigraph.embeddings.embedder import Role, Vectors
from omnigraph.errors import ProviderError
from omnigraph.storage.layout import fnv1a64
from omnigraph.types import round_f32

MODEL = "wordllama-l2-supercat"
DIMENSIONS = (64, 128, 256)
_MASK = (1 << 64) - 1


class LocalClient:
    """The model, loaded on first need."""

    def __init__(self) -> None:
        self._model: Any = None
        self._lock = threading.Lock()

    def embed(
        self,
        texts: Sequence[str],
        dimension: int,
        role: Role,  # noqa: ARG002 - the model knows none
    ) -> Vectors:
        """Return the vectors of the texts."""
        if dimension not in DIMENSIONS:
            raise ProviderError(
                f"the local model {MODEL} makes vectors of 64, 128 or 256 dimensions, and "
                f"Vector({dimension}) is asked for; declare one of these, or use another provider",
                model=MODEL,
                dimension=dimension,
            )
        # The tokenizer pads the texts of a call alike and is not made for threads.
        with self._lock:
            if self._model is None:
                self._model = _load()
            made: Any = self._model.embed(list(texts))
        vectors: Vectors = made[:, :dimension]
        return vectors

    def close(self) -> None:
        """Forget the model."""
        with self._lock:
            self._model = None


def _load() -> Any:
    try:
        import wordllama
    except ModuleNotFoundError as error:
        if error.name != "wordllama":
            raise
        raise ProviderError(
            "the embedding provider local needs a package that is not installed; run "
            "pip install 'omnigraph[local-embeddings]'",
            missing=True,
        ) from None
    # Both files lie in the package, and it looks for one of them (0.4) only in its cache.
    return wordllama.WordLlama.load(
        cache_dir=Path(wordllama.__file__).parent, disable_download=True
    )


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
