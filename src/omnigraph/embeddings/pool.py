"""The clients of this process: made on first need, shared, closed with the last graph handle.

Handles with equal settings share a client, and with it its connections and its rate of calls.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Hashable, Sequence
from typing import Protocol

from omnigraph.embeddings.embedder import Role, Vectors


class ProviderClient(Protocol):
    """Asks one provider for the vectors of one batch of texts."""

    def embed(self, texts: Sequence[str], dimension: int, role: Role) -> Vectors:
        """Return the vectors as they came, in the order of the texts."""
        ...

    def close(self) -> None:
        """Free what the client holds."""
        ...


class _Pool:
    def __init__(self) -> None:
        self._clients: dict[Hashable, ProviderClient] = {}
        self._holders = 0
        # Collecting an abandoned handle may release it in the middle of `client`.
        self._lock = threading.RLock()

    def client(self, key: Hashable, make: Callable[[], ProviderClient]) -> ProviderClient:
        # A forked process must not use the connections of its parent.
        key = (os.getpid(), key)
        with self._lock:
            if key not in self._clients:
                self._clients[key] = make()
            return self._clients[key]

    def hold(self) -> None:
        with self._lock:
            self._holders += 1

    def release(self) -> None:
        with self._lock:
            self._holders -= 1
            if self._holders:
                return
            clients, self._clients = self._clients, {}
        for client in clients.values():
            client.close()


_pool = _Pool()


def shared_client(key: Hashable, make: Callable[[], ProviderClient]) -> ProviderClient:
    """Return the client of that key; ``make`` it if there is none yet."""
    return _pool.client(key, make)


def hold_clients(owner: object) -> Callable[[], object]:
    """Keep the clients open for an owner; return what releases them, else the owner's end does."""
    _pool.hold()
    return weakref.finalize(owner, _pool.release)
