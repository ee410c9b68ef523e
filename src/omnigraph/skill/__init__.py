"""The skill: pages that teach an agent to use OmniGraph, shipped with the package as Markdown files.

`SKILL.md` is the one to begin with; the others are its references, each complete in itself. Their
examples are run by the tests, as those of the user manual are.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

MAIN_PAGE: Final = "SKILL"
_DIRECTORY: Final = Path(__file__).parent


def page_names() -> list[str]:
    """Return the names of the references, in alphabetical order."""
    return sorted(page.stem for page in _DIRECTORY.glob("*.md") if page.stem != MAIN_PAGE)


def page_text(name: str = MAIN_PAGE) -> str | None:
    """Return a page; None if there is none of this name."""
    if name not in {MAIN_PAGE, *page_names()}:
        return None
    return (_DIRECTORY / f"{name}.md").read_text("utf-8")
