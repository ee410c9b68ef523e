"""Which provider makes vectors, with which model and key."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from omnigraph import settings
from omnigraph.embeddings.embedder import Role
from omnigraph.embeddings.http_clients import GeminiClient, OpenAiClient
from omnigraph.embeddings.offline import MODEL as LOCAL_MODEL
from omnigraph.embeddings.offline import LocalClient, MockEmbedder
from omnigraph.embeddings.pacing import CallLimits
from omnigraph.embeddings.pool import ProviderClient, shared_client
from omnigraph.errors import ProviderError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

YOUR_OWN = "in Python, omnigraph.open(embedder=…) takes one of your own"


@dataclass(frozen=True, slots=True)
class _Kind:
    """One kind of provider: its defaults, and the variables that may hold its key, first one first."""

    model: str
    base_url: str = ""
    keys: tuple[settings.Setting[str | None], ...] = ()
    client: Callable[[str, str, str, CallLimits], ProviderClient] = OpenAiClient

    @property
    def variables(self) -> str:
        return " or ".join(key.variable for key in self.keys)


_KINDS = {
    "openai-compatible": _Kind(
        "openai/text-embedding-3-large",
        "https://openrouter.ai/api/v1",
        (settings.OPENROUTER_API_KEY, settings.OPENAI_API_KEY),
    ),
    "openai": _Kind(
        "text-embedding-3-large", "https://api.openai.com/v1", (settings.OPENAI_API_KEY,)
    ),
    "gemini": _Kind(
        "gemini-embedding-2",
        "https://generativelanguage.googleapis.com/v1beta",
        (settings.GEMINI_API_KEY,),
        GeminiClient,
    ),
    "local": _Kind(LOCAL_MODEL, client=lambda *_: LocalClient()),
    "mock": _Kind(MockEmbedder.model, client=lambda *_: MockEmbedder()),
}


@dataclass(frozen=True, slots=True)
class EmbeddingSettings:
    """A provider with its model, address and key; what is left out is the provider's default.

    It is an embedder. Nothing is connected or checked before the first text is embedded. The key is
    not shown when it is printed, and is part of its pickle.
    """

    provider: str
    model: str = ""
    base_url: str = ""
    api_key: str = field(default="", repr=False)
    limits: CallLimits | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        kind = _KINDS.get(self.provider)
        if kind is not None:
            object.__setattr__(self, "model", self.model or kind.model)
            base_url = (self.base_url or kind.base_url).rstrip("/")
            object.__setattr__(self, "base_url", base_url)

    @staticmethod
    def of_environment() -> EmbeddingSettings | None:
        """Return what the environment names: a provider, or else the key of one; else None."""
        provider = settings.EMBED_PROVIDER.get() or _provider_of_keys()
        if provider is None:
            return None
        keys = _KINDS[provider].keys if provider in _KINDS else ()
        return EmbeddingSettings(
            provider,
            settings.EMBED_MODEL.get() or "",
            settings.EMBED_BASE_URL.get() or "",
            next((key for setting in keys if (key := setting.get())), ""),
        )

    @property
    def is_mock(self) -> bool:
        """Whether the vectors mean nothing."""
        return self.provider == "mock"

    def pinned(self) -> EmbeddingSettings:
        """Return these settings with the limits of this process, which then hold in others too."""
        return self if self.limits else replace(self, limits=CallLimits.current())

    def embed(
        self, texts: Sequence[str], dimension: int, role: Role = "document"
    ) -> list[npt.NDArray[np.float64]]:
        """Return one vector of length 1 for each text."""
        self.check()
        pinned = self.pinned()
        client = shared_client(pinned, lambda: _make_client(pinned))
        return [_normalised(vector) for vector in client.embed(texts, dimension, role)]

    def check(self) -> None:
        """Raise if the provider is not known, or its key or address is missing or cannot be used."""
        kind = _KINDS.get(self.provider)
        if kind is None:
            raise ProviderError(
                f'there is no embedding provider "{self.provider}"; set OMNIGRAPH_EMBED_PROVIDER to '
                f"one of {', '.join(_KINDS)}; {YOUR_OWN}",
                missing=True,
            )
        if kind.keys and not self.api_key:
            raise ProviderError(
                f"the embedding provider {self.provider} has no API key; set {kind.variables}; "
                f"{YOUR_OWN}",
                missing=True,
            )
        if not (self.api_key.isascii() and self.api_key.isprintable()):
            raise ProviderError(
                f"the API key of the embedding provider {self.provider} has characters that no key "
                f"has; check {kind.variables}",
                missing=True,
            )
        if kind.base_url and not _is_address(self.base_url):
            raise ProviderError(
                f"the address of the embedding provider {self.provider} cannot be used; set "
                "OMNIGRAPH_EMBED_BASE_URL to an http or https address without a user, a password or "
                "a question mark in it",
                missing=True,
            )


def _make_client(chosen: EmbeddingSettings) -> ProviderClient:
    assert chosen.limits is not None
    make = _KINDS[chosen.provider].client
    return make(chosen.base_url, chosen.model, chosen.api_key, chosen.limits)


def _provider_of_keys() -> str | None:
    """Return the provider whose key is set; a key of OpenAI goes to the address that is set, if any."""
    if settings.OPENROUTER_API_KEY.get():
        return "openai-compatible"
    if settings.OPENAI_API_KEY.get():
        return "openai-compatible" if settings.EMBED_BASE_URL.get() else "openai"
    return "gemini" if settings.GEMINI_API_KEY.get() else None


def _is_address(text: str) -> bool:
    """Whether it is an address that may be shown: one without secrets in it."""
    try:
        parts = urlsplit(text)
        return (
            parts.scheme in {"http", "https"}
            and bool(parts.hostname)
            and "@" not in parts.netloc
            and not (parts.query or parts.fragment)
            and (parts.port is None or parts.port > 0)
        )
    except ValueError:
        return False


def _normalised(vector: Iterable[float]) -> npt.NDArray[np.float64]:
    """Return the vector scaled to length 1; one that cannot be is returned as it is."""
    import numpy as np

    numbers = np.asarray(vector, np.float64)
    length = float(np.linalg.norm(numbers))
    return numbers / length if 0 < length < math.inf else numbers
