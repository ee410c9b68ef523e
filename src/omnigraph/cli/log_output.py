"""`--verbose` and `--log-level`: what the package logs, on stderr."""

from __future__ import annotations

import logging
import sys
from typing import Final

from omnigraph.cli.command import Flags
from omnigraph.errors import BadRequest

LEVELS: Final = ("debug", "info", "warning", "error")


def show_log(flags: Flags) -> None:
    """Print the log of the package on stderr, from the level that the flags ask for.

    Without these flags nothing is set up: warnings and errors appear as Python shows them by default.
    """
    asked = flags.log_level
    if asked is None and not flags.verbose:
        return
    level = "info" if asked is None else asked.strip().lower()
    if level not in LEVELS:
        raise BadRequest(f"--log-level is `{asked}`; it is one of {', '.join(LEVELS)}")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        logging.Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s", "%H:%M:%S")
    )
    logger = logging.getLogger("omnigraph")
    logger.addHandler(handler)
    logger.setLevel(level.upper())
    # The root logger would print warnings again.
    logger.propagate = False
