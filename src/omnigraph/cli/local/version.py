"""`omnigraph version`."""

from __future__ import annotations

import typer

from omnigraph.cli.call import Call
from omnigraph.cli.local.product import version_document, version_text
from omnigraph.cli.register import add


def register(app: typer.Typer) -> None:
    """Add the command."""
    add(app, "version", version)


def version(call: Call) -> None:
    """Print the version, and that of the on-disk format."""
    call.answer(version_document(), version_text())
