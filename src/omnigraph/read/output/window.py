"""Which rows of an answer are shown: `limit n offset m` keeps n rows behind the first m.

limit 10 offset 20   ->   the best 30 rows are chosen, and the first 20 of these left out
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from omnigraph.errors import ParamError
from omnigraph.lang.query import ir
from omnigraph.read.limits import ReadLimits

# No answer has as many rows. A larger number means the same, and would not fit machine integers.
_ENDLESS = 2**62


@dataclass(frozen=True, slots=True)
class Window:
    """The rows after ``offset`` others; no more than ``limit``, None: all of them."""

    offset: int = 0
    limit: int | None = None

    @classmethod
    def of(cls, plan: ir.ReadPlan, params: Mapping[str, Any]) -> Window:
        """The window of a plan with bound parameters, or the refusal of a negative one."""
        limit = None if plan.limit is None else _counted("limit", plan.limit, params)
        return cls(0 if plan.offset is None else _counted("offset", plan.offset, params), limit)

    @property
    def end(self) -> int | None:
        """How many rows of the whole order are needed; None: all."""
        return None if self.limit is None else self.offset + self.limit

    def needed(self, limits: ReadLimits) -> int | None:
        """How many rows of the whole order are needed for those that the limits show; None: all."""
        shown = limits.shown(self.limit)
        return None if shown is None else self.offset + shown

    def rows_of(self, total: int) -> int:
        """How many of that number of rows are in the window."""
        left = max(total - self.offset, 0)
        return left if self.limit is None else min(left, self.limit)


def _counted(word: str, count: ir.Count, params: Mapping[str, Any]) -> int:
    if isinstance(count, int):
        return min(count, _ENDLESS)
    value: int = params[count.name]
    if value < 0:
        raise ParamError(
            f"parameter `{count.name}` of type {count.type.display} is {value}, and it is the {word} of the "
            "query; pass 0 or a larger number",
            param=count.name,
            type=count.type.display,
        )
    return min(value, _ENDLESS)
