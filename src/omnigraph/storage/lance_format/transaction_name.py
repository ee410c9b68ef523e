"""The name of the transaction that made a version, found in its manifest without reading all of that."""

from __future__ import annotations

import re
from typing import Final

# Field 12: its tag, the length of the text, the text. The UUID makes it unique, and nothing else in a manifest
# looks like it.
_FIELD: Final = re.compile(rb"\x62[\x20-\x7f]([0-9]{1,20}-[\x21-\x7e]{8,64}?\.txn)")


def transaction_name(manifest: bytes) -> bytes:
    """Return ``<version it was based on>-<uuid>.txn``; empty where the manifest names none."""
    for found in _FIELD.finditer(manifest):
        if manifest[found.start() + 1] == len(found[1]):
            return found[1]
    return b""
