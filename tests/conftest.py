"""What every test shares: nothing from the surroundings of the machine."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests start without the product's variables, so that a developer's shell changes nothing."""
    for name in list(os.environ):
        if name.startswith("OMNIGRAPH_"):
            monkeypatch.delenv(name)
