"""A client of OpenAI's embeddings, which OpenRouter and many other servers speak too."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from omnigraph.embeddings.call_limits import CallLimits
from omnigraph.embeddings.embedder import Role
from omnigraph.embeddings.http_calls import HttpCalls
from omnigraph.embeddings.pacing import Clock


class _Item(msgspec.Struct):
    embedding: list[float]
    index: int | None = None


class _Answer(msgspec.Struct):
    data: list[_Item]


class OpenAiClient:
    """POSTs to ``{base_url}/embeddings``."""

    def __init__(
        self,
        base_url: str,
        model: str,
        api_key: str,
        limits: CallLimits,
        clock: Clock | None = None,
    ) -> None:
        self._calls = HttpCalls(f"{base_url}/embeddings", api_key, limits, clock)
        self._model = model
        self._headers = {"authorization": f"Bearer {api_key}"}

    def embed(
        self,
        texts: Sequence[str],
        dimension: int,
        role: Role,  # noqa: ARG002 - the protocol has none
    ) -> list[list[float]]:
        """Return the vectors as they came, in the order of the texts."""
        body = {
            "model": self._model,
            "input": list(texts),
            "dimensions": dimension,
            "encoding_format": "float",
        }
        answer = self._calls.decoded(self._headers, body, _Answer, len(texts) * dimension)
        # Items without an index stand in the order of the texts.
        placed = {
            place if item.index is None else item.index: item.embedding
            for place, item in enumerate(answer.data)
        }
        if len(answer.data) != len(texts) or placed.keys() != set(range(len(texts))):
            self._calls.refuse(
                f"did not give one vector for each of {len(texts)} texts; check the model"
            )
        return [placed[place] for place in range(len(texts))]

    def close(self) -> None:
        """Close the connections."""
        self._calls.close()
