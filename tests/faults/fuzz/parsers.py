"""All parsers of bytes from outside."""

from __future__ import annotations

from tests.faults.fuzz import handed_back, kept, languages, records, stored
from tests.faults.fuzz.parser import PARSERS

__all__ = ["PARSERS", "handed_back", "kept", "languages", "records", "stored"]
