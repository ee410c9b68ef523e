"""Embedders for tests: they remember every call."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from tests.oracle.analysis import mock_embedding


class Recording:
    """The mock's vectors, and the texts of every call.

    ``fail`` says which calls raise, by their number from 1 on; ``refuse`` which texts.
    """

    model = "recording"

    def __init__(
        self,
        fail: Callable[[int], bool] = lambda _number: False,
        refuse: Callable[[str], bool] = lambda _text: False,
    ) -> None:
        self.fail = fail
        self.refuse = refuse
        self.calls: list[list[str]] = []

    def embed(self, texts: Sequence[str], dimension: int) -> list[list[float]]:
        self.calls.append(list(texts))
        if self.fail(len(self.calls)):
            raise RuntimeError("out of order")
        for text in filter(self.refuse, texts):
            raise RuntimeError(f"refused: {text}")
        return [mock_embedding(text, dimension) for text in texts]

    @property
    def texts(self) -> list[str]:
        return [text for call in self.calls for text in call]

    def is_within_bound(self, distinct: int, batch: int = 64) -> bool:
        return len(self.calls) <= math.ceil(distinct / batch)
