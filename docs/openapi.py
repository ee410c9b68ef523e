"""Write the OpenAPI document of a server with tokens to `docs/openapi.json`, which is checked in."""

from __future__ import annotations

import json
from pathlib import Path

from omnigraph.server.openapi import openapi_document

FILE = Path(__file__).parent / "openapi.json"


def text() -> str:
    """Return what the file should hold."""
    document = openapi_document(tokens=True)
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
