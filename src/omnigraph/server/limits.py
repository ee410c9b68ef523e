"""How much a server does at once, and for how long: numbers that its environment may change.

A number that cannot be used is no reason for a server to stay away: the log says so, and the default
counts. Everything that is no setting is a constant here.
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from typing import Final, Self

from omnigraph import settings
from omnigraph.errors import BadRequest
from omnigraph.settings import Setting

logger = logging.getLogger(__name__)

HEAD_BYTES: Final = 32_768
"""The most bytes that the head of a request may have, its first line included."""
BODY_BYTES: Final = 1 << 20
LOAD_TEXT_BYTES: Final = 32 << 20
"""The most bytes of a JSON body, and of one that carries records."""
RETRY_AFTER_SECONDS: Final = 1
WAITING_READERS: Final = 1_024
WAITING_READERS_PER_ACTOR: Final = 256
WAITING_SECONDS: Final = 5
"""How many reads may wait for their turn, in all and of one actor, and for how long."""
PIECE_BYTES: Final = 65_536
WAITING_PIECES: Final = 2
STREAMS: Final = 8
"""How large a piece of a streamed answer is, how many wait to be sent, and how many answers stream at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLimits:
    """The limits that a server was started with. Every field is one variable, read at boot.

    Of the numbers of bytes those with `_mb` are in MiB; `query_timeout_ms` 0 is no limit.
    """

    per_actor_inflight_max: int = 16
    per_actor_bytes_max: int = 4 << 30
    read_concurrency: int = 4
    query_timeout_ms: int = 60_000
    query_max_rows: int = 1_000_000
    query_max_mb: int = 1024
    answers_mb: int = 2048
    load_body_max_mb: int = 1024
    blob_body_max_mb: int = 4096

    @classmethod
    def from_environment(cls) -> Self:
        """Return the limits that the environment sets, with a warning for each it cannot set."""
        return cls(**{name: _usable(setting) for name, setting in _OWN.items()})


_OWN: Final = {
    "per_actor_inflight_max": settings.PER_ACTOR_INFLIGHT_MAX,
    "per_actor_bytes_max": settings.PER_ACTOR_BYTES_MAX,
    "read_concurrency": settings.READ_CONCURRENCY,
    "query_timeout_ms": settings.QUERY_TIMEOUT_MS,
    "query_max_rows": settings.QUERY_MAX_ROWS,
    "query_max_mb": settings.QUERY_MAX_MB,
    "answers_mb": settings.ANSWERS_MB,
    "load_body_max_mb": settings.LOAD_BODY_MAX_MB,
    "blob_body_max_mb": settings.BLOB_BODY_MAX_MB,
}


def forget_unusable() -> None:
    """Unset the variables of the engine that hold what they do not accept, with a warning for each.

    The engine reads them as it works, and would refuse requests for what only the operator can mend.
    """
    checked = {*_OWN.values(), settings.LOG_LEVEL, settings.LOG_FORMAT}
    for setting, refused in settings.unusable():
        if setting not in checked:
            logger.warning("%s; until then it counts as unset", refused)
            del os.environ[setting.variable]


def _usable(setting: Setting[int]) -> int:
    try:
        return setting.get()
    except BadRequest as refused:
        default = setting.default()
        logger.warning("%s; until then it is %d", refused, default)
        return default
