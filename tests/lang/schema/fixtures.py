"""Reads the text fixtures: cases of an input, and what a pass makes of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "fixtures" / "schema"


@dataclass(frozen=True)
class Case:
    """One case: a title, the input, and the expected text."""

    title: str
    given: str
    expected: str


def cases(name: str) -> list:
    """The cases of every file of a pass, as test parameters named by file and title."""
    found = []
    for path in sorted((ROOT / name).glob("*.txt")):
        for block in path.read_text("utf-8").split("=== ")[1:]:
            head, expected = f"\n{block}".split("\n---\n", 1)
            title, _, given = head.lstrip("\n").partition("\n")
            case = Case(title, given, expected.strip("\n"))
            found.append(pytest.param(case, id=f"{path.stem}: {title}"))
    assert found, f"no cases in {name}"
    return found
