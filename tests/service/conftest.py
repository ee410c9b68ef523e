"""Every document that a function of the service gives to a test is held against its type."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

import pytest

from tests.answers import ANSWERS_OF_SERVICE, checked


@pytest.fixture(autouse=True)
def _checked_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    for place, answer in ANSWERS_OF_SERVICE.items():
        module_name, function = place.split(".")
        module = importlib.import_module(f"omnigraph.service.{module_name}")
        monkeypatch.setattr(module, function, _checking(answer, getattr(module, function)))


def _checking(answer: str, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def run(*arguments: Any, **options: Any) -> Any:
        return checked(answer, function(*arguments, **options))

    return run
