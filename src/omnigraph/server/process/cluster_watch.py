"""Look now and then whether a cluster was applied again: its server says that it is to be restarted."""

from __future__ import annotations

import logging
import threading
from typing import Final

from omnigraph.cluster.served import read_applied
from omnigraph.errors import OmniGraphError
from omnigraph.storage.uris import Root

logger = logging.getLogger(__name__)

PAUSE_SECONDS: Final = 60.0


class ClusterWatch:
    """A thread that reads the ledger once a minute; ``close`` ends it."""

    def __init__(self, root: str, revision: int, pause: float = PAUSE_SECONDS) -> None:
        self._root = Root.parse(root)
        self._revision = revision
        self._pause = pause
        self._ended = threading.Event()
        threading.Thread(target=self._watch, name="omnigraph-cluster", daemon=True).start()

    def close(self) -> None:
        """Stop looking."""
        self._ended.set()

    def look(self) -> None:
        """Say so if there is a revision that was not told before."""
        try:
            now = read_applied(self._root).revision
        except OmniGraphError as error:
            logger.warning("the ledger of the cluster cannot be read: %s", error)
            return
        if now != self._revision:
            logger.warning("the cluster was changed; restart to serve revision %d", now)
            self._revision = now

    def _watch(self) -> None:
        while not self._ended.wait(self._pause):
            self.look()
