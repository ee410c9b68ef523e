"""The versions of the product and of its format on disk, for modules that record or print them."""

__version__ = "0.1.0"

INTERNAL_SCHEMA_VERSION = 4
"""The format of graphs on disk; `manifest/migrations.py` raises older ones to it."""


def version_text() -> str:
    """Return the two lines of `omnigraph version`."""
    return f"omnigraph {__version__}\ninternal-schema {INTERNAL_SCHEMA_VERSION}"
