"""A token that fires at its n-th look, so that tests stop work at a place and not at a time."""

import sys

from omnigraph.cancel import Cancel, Cancelled


class StopAt(Cancel):
    """Counts the looks at it, from any thread, and fires from the n-th on."""

    def __init__(self, nth: int = sys.maxsize) -> None:
        super().__init__()
        self.nth = nth
        self.looks = 0

    def _look(self) -> None:
        """Count the look; raise from the n-th on."""
        self.looks += 1
        if self.looks >= self.nth:
            raise Cancelled
        super()._look()
