"""What `omnigraph version` prints. It needs neither the argument parser nor the engine."""

from __future__ import annotations

from typing import Any

from omnigraph.version import INTERNAL_SCHEMA_VERSION, __version__


def version_text() -> str:
    """Return the two lines of `omnigraph version`."""
    return f"omnigraph {__version__}\ninternal-schema {INTERNAL_SCHEMA_VERSION}"


def version_document() -> dict[str, Any]:
    """Return the document of `omnigraph version --json`."""
    return {
        "version": __version__,
        "internal_schema_version": INTERNAL_SCHEMA_VERSION,
    }
