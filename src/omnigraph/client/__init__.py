"""A client of OmniGraph servers: the operations on a graph as methods, over HTTP.

    with Client("https://graphs.example.org", "shop", token="…") as shop:
        shop.query("query names() { match { $p: Person } return { $p.name } }")["rows"]

``Client`` and ``AsyncClient`` have the same methods. Requests are built and answers read by ``core``, which
sends nothing itself.
"""

from omnigraph.client.async_client import AsyncClient as AsyncClient
from omnigraph.client.client import Client as Client

__all__ = ["AsyncClient", "Client"]
