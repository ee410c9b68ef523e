"""What a benchmark of the server prints: a figure, and the bar it is held against."""

from __future__ import annotations

from typing import NamedTuple


class Figure(NamedTuple):
    """What was measured, and whether it is within its bar: at most, or at least so much."""

    what: str
    shown: str
    ratio: float
    bar: float | None = None
    at_least: bool = False

    @property
    def verdict(self) -> str:
        """The bar, and whether it was met."""
        if self.bar is None:
            return ""
        met = self.ratio >= self.bar if self.at_least else self.ratio <= self.bar
        return f"{'≥' if self.at_least else '≤'} {self.bar:g}  {'pass' if met else 'FAIL'}"
