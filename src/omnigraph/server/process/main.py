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
import os
import shutil
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING, Final, NoReturn

from omnigraph.errors import OmniGraphError

if TYPE_CHECKING:
    from omnigraph.server.hosts import Authority
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
    from omnigraph.server.process.boot import booted, check_access, listening
    from omnigraph.server.process.options import refuse_what_is_not_there_yet
    from omnigraph.server.process.serving import GraphServer, take_turns_often
    from omnigraph.server.tokens import tokens_from_environment

    tokens = tokens_from_environment()
    if options.decides is not None:
        check_access(options, tokens)
    refuse_what_is_not_there_yet(options)
    check_access(options, tokens)
    take_turns_often()
    with ExitStack() as cleanup:
        listener, bound = cleanup.enter_context(listening(options, is_open=tokens is None))
        state = cleanup.enter_context(booted(options, tokens, bound))
        forget_spool = partial(shutil.rmtree, state.spool_directory, ignore_errors=True)
        signals.at_last(forget_spool)
        from omnigraph.server.app import create_app

        app = create_app(state)
        server = GraphServer(app, state, app.engine.lanes, options.ending)

        def ready() -> None:
            signals.drain_with(server.drain)
            _announce(bound)

        is_done = server.run_on(listener, ready)
        logger.info("ended")
        if not (is_done and _is_over(cleanup.pop_all().close, options.ending.publishing)):
            # Threads that still work would keep the process. What they leave is recovered.
            forget_spool()
            _leave(0)
    return 0


def _announce(bound: Authority) -> None:
    """Tell whoever started the server where it listens."""
    logger.info("listening on %s", bound)
    with suppress(OSError, ValueError, AttributeError):  # nobody reads it, or there is no stdout
        sys.stdout.write(f"OMNIGRAPH_LISTEN_ADDR={bound}\n")
        sys.stdout.flush()


def _is_over(work: Callable[[], object], seconds: float) -> bool:
    """Do some work, and wait for it, but not for ever."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(seconds)
    return not thread.is_alive()


def _leave(code: int) -> NoReturn:
    logging.shutdown()
    os._exit(code)


def _complain(text: str, code: int) -> int:
    if sys.stderr is not None:
        sys.stderr.write(f"error: {text}\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
