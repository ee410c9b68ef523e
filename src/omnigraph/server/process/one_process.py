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

from omnigraph.graph.session import access_of
from omnigraph.server.figures import Figures
from omnigraph.server.hosts import Authority
from omnigraph.server.process.boot import Personal, booted
from omnigraph.server.process.boot_data import BootData
from omnigraph.server.process.flags import Options
from omnigraph.server.process.serving import Asker, GraphServer, take_turns_often
from omnigraph.server.process.transport import room_for_connections
from omnigraph.server.state import ServerState

logger = logging.getLogger(__name__)


def run(
    options: Options,
    data: BootData,
    listener: socket.socket,
    bound: Authority,
    asking: Asker,
    ready: Callable[[], None],
    figures: Figures,
    personal: Personal | None = None,
) -> int:
    """Open the graphs and serve them until asked to end; return the exit code.

    ``ready`` is called once connections are taken.
    """
    take_turns_often()
    with ExitStack() as cleanup:
        state = cleanup.enter_context(booted(options, data, bound, figures, personal))
        forget_spool = partial(shutil.rmtree, state.spool_directory, ignore_errors=True)
        asking.at_last(forget_spool)
        from omnigraph.server.asgi import create_app

        app = create_app(state)
        measured = GraphCounters(state)

        def measure() -> None:
            app.engine.measure(figures)
            figures.set("connections", server.connection_count)
            measured.look()

        lanes = app.engine.lanes
        server = GraphServer(
            app,
            state,
            lanes,
            options.ending,
            measure=measure,
            most_connections=room_for_connections(),
        )

        def serving() -> None:
            asking.drain_with(server.drain)
            ready()

        is_done = server.run_on(listener, serving)
        measure()
        logger.info("ended")
        if not (is_done and _is_over(cleanup.pop_all().close, options.ending.publishing)):
            # Threads that still work would keep the process. What they leave is recovered.
            forget_spool()
            _leave(0)
    return 0


class GraphCounters:
    """What the graphs of a server count, told as far as it was not told before."""

    def __init__(self, state: ServerState) -> None:
        self._figures = state.figures
        self._graphs = [access_of(served.graph).state for served in state.graphs.values()]
        self._told = (0, 0)

    def look(self) -> None:
        """Add what came since the last look."""
        tallies = [graph.workspace.tally for graph in self._graphs]
        now = sum(each.commits for each in tallies), sum(each.lost_races for each in tallies)
        self._figures.add("commits", now[0] - self._told[0])
        self._figures.add("lost_races", now[1] - self._told[1])
        self._told = now
        self._figures.set("cache_bytes", sum(graph.cache_bytes for graph in self._graphs))


def _is_over(work: Callable[[], object], seconds: float) -> bool:
    """Do some work, and wait for it, but not for ever."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(seconds)
    return not thread.is_alive()


def _leave(code: int) -> NoReturn:
    logging.shutdown()
    os._exit(code)
