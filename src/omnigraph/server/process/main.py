"""`omnigraph-server`: from the command line to the exit code.

| exit | meaning |
|---|---|
| 0 | asked to end, and ended: requests under way were answered |
| 1 | the server could not be started |
| 2 | the command line cannot be understood |
| 130, 143 | ended at once, by a second signal or before anything was served |
"""

from __future__ import annotations

import importlib.util
import logging
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from omnigraph.errors import OmniGraphError

if TYPE_CHECKING:
    import socket

    from omnigraph.server.hosts import Authority
    from omnigraph.server.process.channel import HandedDown
    from omnigraph.server.process.options import Options
    from omnigraph.server.process.serving import Signals

# Not by __name__, which is another one under `python -m`.
logger = logging.getLogger("omnigraph.server.process")

FAILED: Final = 1
MISUSED: Final = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a server until it is asked to end, and return the exit code."""
    for library in ("uvicorn", "httptools"):
        if importlib.util.find_spec(library) is None:
            return _complain(
                f"{library} is not installed; install the extra: pip install 'omnigraph[server]'",
                FAILED,
            )
    from omnigraph.server.process.logs import set_up_logs
    from omnigraph.server.process.options import Misuse, parse_options
    from omnigraph.server.process.serving import Signals

    try:
        options = parse_options(sys.argv[1:] if arguments is None else arguments)
    except Misuse as misuse:
        return _complain(f"{misuse}\n`omnigraph-server --help` lists what there is", MISUSED)
    set_up_logs()
    signals = Signals()
    with signals.handled():
        try:
            return _run(options, signals)
        except Misuse as misuse:
            return _complain(str(misuse), MISUSED)
        except OmniGraphError as error:
            logger.error("%s", error)  # noqa: TRY400 - its text says what to do; a traceback would not
            return FAILED
        except Exception:
            logger.exception(
                "this is a bug in omnigraph: the server could not be started, or ended"
            )
            return FAILED


def _run(options: Options, signals: Signals) -> int:
    from omnigraph.server.process.boot_data import check_access, read_boot_data
    from omnigraph.server.process.channel import HandedDown
    from omnigraph.server.process.options import refuse_what_is_not_there_yet
    from omnigraph.server.process.ports import listening
    from omnigraph.server.tokens import tokens_from_environment

    tokens = tokens_from_environment()
    if options.decides is not None:
        check_access(options, tokens)
    refuse_what_is_not_there_yet(options)
    check_access(options, tokens)
    data = read_boot_data(options, tokens)
    with listening(options, is_open=data.is_open) as (listener, bound):
        if options.workers == 1:
            from omnigraph.server.process.running import run

            return run(options, data, listener, bound, signals, lambda: _announce(bound))
        return _run_workers(HandedDown(options, data, bound), listener, signals)


def _run_workers(given: HandedDown, listener: socket.socket, signals: Signals) -> int:
    from omnigraph.server.process.parent import Parent
    from omnigraph.server.process.ports import Port

    def ready() -> None:
        signals.drain_with(parent.drain)
        _announce(given.bound)

    parent = Parent(given, Port(listener), ready)
    signals.at_last(parent.end_at_once)
    return parent.run()


def _announce(bound: Authority) -> None:
    """Tell whoever started the server where it listens."""
    logger.info("listening on %s", bound)
    with suppress(OSError, ValueError, AttributeError):  # nobody reads it, or there is no stdout
        sys.stdout.write(f"OMNIGRAPH_LISTEN_ADDR={bound}\n")
        sys.stdout.flush()


def _complain(text: str, code: int) -> int:
    if sys.stderr is not None:
        sys.stderr.write(f"error: {text}\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
