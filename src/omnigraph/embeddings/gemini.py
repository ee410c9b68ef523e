"""A client of Google's Gemini embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

import msgspec

from omnigraph.embeddings.call_limits import CallLimits
from omnigraph.embeddings.embedder import Role
from omnigraph.embeddings.http_calls import HttpCalls
from omnigraph.embeddings.pacing import Clock

TASKS: dict[Role, str] = {"document": "RETRIEVAL_DOCUMENT", "query": "RETRIEVAL_QUERY"}


class _Item(msgspec.Struct):
    values: list[float]


class _Answer(msgspec.Struct):
    embeddings: list[_Item]


class GeminiClient:
    """POSTs to ``{base_url}/models/{model}:batchEmbedContents``."""

    def __init__(
        self,
        base_url: str,
        model: str,
        api_key: str,
        limits: CallLimits,
        clock: Clock | None = None,
    ) -> None:
        url = f"{base_url}/models/{quote(model, safe='')}:batchEmbedContents"
        self._calls = HttpCalls(url, api_key, limits, clock)
        self._model = f"models/{model}"
        self._headers = {"x-goog-api-key": api_key}

    def embed(self, texts: Sequence[str], dimension: int, role: Role) -> list[list[float]]:
        """Return the vectors as they came, in the order of the texts."""
        requests = [
            {
                "model": self._model,
                "content": {"parts": [{"text": text}]},
                "taskType": TASKS[role],
                "outputDimensionality": dimension,
            }
            for text in texts
        ]
        answer = self._calls.decoded(
            self._headers, {"requests": requests}, _Answer, len(texts) * dimension
        )
        if len(answer.embeddings) != len(texts):
            self._calls.refuse(
                f"did not give one vector for each of {len(texts)} texts; check the model"
            )
        return [item.values for item in answer.embeddings]

    def close(self) -> None:
        """Close the connections."""
        self._calls.close()
