"""One process that serves: from what was read at boot to the end of the last request."""

from __future__ import annotations

import logging
import os
import shutil
import socket
import threading
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import NoReturn

from omnigraph.server.hosts import Authority
from omnigraph.server.process.boot import booted
from omnigraph.server.process.boot_data import BootData
from omnigraph.server.process.options import Options
from omnigraph.server.process.serving import Asking, GraphServer, take_turns_often

logger = logging.getLogger(__name__)


def run(
    options: Options,
    data: BootData,
    listener: socket.socket,
    bound: Authority,
    asking: Asking,
    ready: Callable[[], None],
) -> int:
    """Open the graphs and serve them until asked to end; return the exit code.

    ``ready`` is called once connections are taken.
    """
    take_turns_often()
    with ExitStack() as cleanup:
        state = cleanup.enter_context(booted(options, data, bound))
        forget_spool = partial(shutil.rmtree, state.spool_directory, ignore_errors=True)
        asking.at_last(forget_spool)
        from omnigraph.server.app import create_app

        app = create_app(state)
        server = GraphServer(app, state, app.engine.lanes, options.ending)

        def serving() -> None:
            asking.drain_with(server.drain)
            ready()

        is_done = server.run_on(listener, serving)
        logger.info("ended")
        if not (is_done and _is_over(cleanup.pop_all().close, options.ending.publishing)):
            # Threads that still work would keep the process. What they leave is recovered.
            forget_spool()
            _leave(0)
    return 0


def _is_over(work: Callable[[], object], seconds: float) -> bool:
    """Do some work, and wait for it, but not for ever."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(seconds)
    return not thread.is_alive()


def _leave(code: int) -> NoReturn:
    logging.shutdown()
    os._exit(code)
