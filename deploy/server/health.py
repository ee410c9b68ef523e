"""Asks the server of this container whether it is there: exit code 0 if it answers and does not end, else 1."""

from __future__ import annotations

import http.client
import os
import sys

SECONDS = 4


def main() -> int:
    """Ask, at the port that the server was told to listen on."""
    _, _, port = os.environ.get("OMNIGRAPH_BIND", "0.0.0.0:8080").rpartition(":")
    connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=SECONDS)
    try:
        connection.request("GET", "/healthz")
        return 0 if connection.getresponse().status == http.HTTPStatus.OK else 1
    except (OSError, http.client.HTTPException):
        return 1
    finally:
        connection.close()


if __name__ == "__main__":
    sys.exit(main())
