"""Which state of the graph the shell looks at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph.errors import BadRequest
from omnigraph.manifest.branch_names import MAIN
from omnigraph.manifest.snapshot import Target

if TYPE_CHECKING:
    from omnigraph.service.documents import TargetValues

AT_TIME = "time:"
_SHOWN_ID = 10


@dataclass(frozen=True, slots=True)
class ShownState:
    """A state: the head of a branch, or one of the past, which cannot be written to.

    ``word`` is how a past state was named.
    """

    branch: str = MAIN
    word: str | None = None

    @property
    def label(self) -> str:
        """The state as the prompt shows it."""
        if self.word is None:
            return self.branch
        kind, colon, name = self.word.partition(":")
        return f"{kind}:{name[:_SHOWN_ID]}…" if colon and kind == "commit" else self.word

    @property
    def values(self) -> TargetValues:
        """The state as requests name it."""
        named: TargetValues = {
            "branch": None,
            "snapshot": None,
            "tag": None,
            "version": None,
            "time": None,
        }
        if self.word is None:
            return {**named, "branch": self.branch}
        if self.word.startswith(AT_TIME):
            return {**named, "branch": self.branch, "time": self.word.removeprefix(AT_TIME)}
        target = Target.of_text(self.word)
        return {
            **named,
            "branch": target.branch,
            "snapshot": target.snapshot,
            "tag": target.tag,
            "version": target.version,
        }

    def at(self, word: str) -> ShownState:
        """Return the state that the word of `.at` names; a branch alone means its head."""
        if not word:
            return ShownState(self.branch)
        if word.startswith(AT_TIME):
            if not word.removeprefix(AT_TIME).strip():
                raise BadRequest(f"`{word}` names no time; write {AT_TIME}2026-05-01, say")
            return ShownState(self.branch, word)
        target = Target.of_text(word)
        if target.names_a_head and target.branch is not None:
            return ShownState(target.branch)
        return ShownState(self.branch, word)

    def refuse_past(self) -> None:
        """Refuse a write unless this is the head of a branch."""
        if self.word is not None:
            raise BadRequest(
                f"{self.label} is a state of the past, which nothing can change; .at goes back to the "
                f"head of {self.branch}"
            )
