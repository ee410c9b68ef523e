"""Answers as they travel: the type of every document that an operation gives.

``operations.OPERATIONS`` names one for each operation. They are what the OpenAPI document says of
answers, and tests hold every document against them.
"""

from __future__ import annotations

from typing import Any

from omnigraph.service.answers import of_history, of_servers, of_states, of_writes


def answer_type(name: str) -> Any:
    """Return the type of this name; a name that there is not is an error of the program."""
    for module in (of_states, of_history, of_writes, of_servers):
        if (found := getattr(module, name, None)) is not None:
            return found
    raise LookupError(f"there is no answer of the name {name}")
