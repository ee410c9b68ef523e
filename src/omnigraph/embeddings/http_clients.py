"""Clients of providers that are called over HTTP: OpenAI, which many other servers speak, and Google Gemini."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

import msgspec

from omnigraph.embeddings.embedder import Role
from omnigraph.embeddings.http_calls import HttpCalls
from omnigraph.embeddings.pacing import CallLimits, Clock

TASKS: dict[Role, str] = {"document": "RETRIEVAL_DOCUMENT", "query": "RETRIEVAL_QUERY"}


class _OpenAiItem(msgspec.Struct):
    embedding: list[float]
    index: int | None = None


class _OpenAiAnswer(msgspec.Struct):
    data: list[_OpenAiItem]


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
        answer = self._calls.decoded(self._headers, body, _OpenAiAnswer, len(texts) * dimension)
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


class _GeminiItem(msgspec.Struct):
    values: list[float]


class _GeminiAnswer(msgspec.Struct):
    embeddings: list[_GeminiItem]


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
            self._headers, {"requests": requests}, _GeminiAnswer, len(texts) * dimension
        )
        if len(answer.embeddings) != len(texts):
            self._calls.refuse(
                f"did not give one vector for each of {len(texts)} texts; check the model"
            )
        return [item.values for item in answer.embeddings]

    def close(self) -> None:
        """Close the connections."""
        self._calls.close()
