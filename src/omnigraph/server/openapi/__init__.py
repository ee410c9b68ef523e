"""The OpenAPI document of the server, made from the table of operations.

That of a server with tokens is checked in as `docs/openapi.json`; `./dev docs` writes it again.
"""

from omnigraph.server.openapi.document import openapi_document

__all__ = ["openapi_document"]
