"""The address that a server listens on, and the sockets of its workers there.

The system spreads connections over sockets that share a port (`SO_REUSEPORT`). So each worker has one of its own,
bound here and taken into use by the worker alone: with a worker that died its socket is gone, and no connection
waits for it. A socket of the parent, which never listens, keeps the port while workers come and go. Where
the system does not spread connections, all workers accept from one socket.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from omnigraph.errors import BadRequest, StorageError
from omnigraph.server.hosts import Authority, authority_of, is_loopback
from omnigraph.server.process.flags import Options
from omnigraph.server.process.serving import listen

SPREADS: Final = sys.platform == "linux"
"""Whether the system spreads connections over the sockets of a port; others have the option, and do not."""


class Port:
    """An address that this process has bound."""

    def __init__(self, bound: socket.socket, *, spreads: bool = SPREADS) -> None:
        self._bound = bound
        self._spreads = spreads
        if spreads:
            # Only now: with it before, a port that another server uses would have been shared with that.
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)

    def listener(self) -> socket.socket:
        """Return a socket for one worker. The caller closes it."""
        if not self._spreads:
            return self._bound.dup()
        made = socket.socket(self._bound.family, self._bound.type, self._bound.proto)
        try:
            for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):
                made.setsockopt(socket.SOL_SOCKET, option, 1)
            made.bind(self._bound.getsockname())
            made.setblocking(False)
        except BaseException:
            made.close()
            raise
        return made

    def close(self) -> None:
        """Give the address up; workers that listen go on."""
        self._bound.close()


@contextmanager
def listening(options: Options, is_open: bool) -> Iterator[tuple[socket.socket, Authority]]:
    """Bind the address to listen on; refuse an open server that others could reach by any name."""
    with bind(options.host, options.port, "--bind") as listener:
        address, port = listener.getsockname()[:2]
        if is_open and not is_loopback(address) and not options.allowed_hosts:
            raise BadRequest(
                f"{options.host} can be reached from other machines, and there are no tokens; say with "
                "--allow-host under which name the server answers, or bind a loopback address"
            )
        yield listener, authority_of(address, port)


def bind(host: str, port: int, flag: str) -> socket.socket:
    """Return a socket bound to the address that a flag names."""
    try:
        return listen(host, port)
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise StorageError(
            f"cannot listen on {host}:{port}: {why}; choose another {flag}"
        ) from None
