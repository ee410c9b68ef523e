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
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from omnigraph.errors import OmniGraphError

if TYPE_CHECKING:
    import socket

    from omnigraph.server.hosts import Authority
    from omnigraph.server.process.channel import HandedDown
    from omnigraph.server.process.flags import Options
    from omnigraph.server.process.metrics import Numbers
    from omnigraph.server.process.serving import Signals

# Not by __name__, which is another one under `python -m`.
logger = logging.getLogger("omnigraph.server.process")

FAILED: Final = 1
MISUSED: Final = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a server until it is asked to end, and return the exit code."""
    for library in ("uvicorn", "httptools", "prometheus_client"):
        if importlib.util.find_spec(library) is None:
            return _complain(
                f"{library} is not installed; install the extra: pip install 'omnigraph[server]'",
                FAILED,
            )
    from omnigraph.server.process.flags import Misuse, parse_options
    from omnigraph.server.process.logs import set_up_logs
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
    from omnigraph.server.limits import forget_unusable
    from omnigraph.server.process.boot_data import check_access, read_boot_data
    from omnigraph.server.process.channel import HandedDown
    from omnigraph.server.process.cluster_watch import ClusterWatch
    from omnigraph.server.process.ports import listening
    from omnigraph.server.tokens import tokens_from_environment

    forget_unusable()
    tokens = tokens_from_environment()
    check_access(options, tokens)
    data = read_boot_data(options, tokens)
    if data.cluster is not None:
        if data.cluster.has_policies:
            check_access(options, tokens, "a bundle of the cluster")
        options = replace(options, graphs=tuple((one.id, one.uri) for one in data.cluster.graphs))
    with listening(options, is_open=data.is_open) as (listener, bound), ExitStack() as cleanup:
        given = HandedDown(options, data, bound)
        if data.cluster is not None:
            cleanup.callback(ClusterWatch(data.cluster.root, data.cluster.revision).close)
        served = _run_here if options.workers == 1 else _run_workers
        return served(given, listener, signals, cleanup)


def _run_here(
    given: HandedDown, listener: socket.socket, signals: Signals, cleanup: ExitStack
) -> int:
    """Serve in this process."""
    from omnigraph.server.figures import Figures
    from omnigraph.server.process.one_process import run

    figures = Figures()
    measured = _show_metrics(given.options, lambda: [figures.numbers()], cleanup)

    def ready() -> None:
        _announce(given.bound, measured)

    return run(given.options, given.data, listener, given.bound, signals, ready, figures)


def _run_workers(
    given: HandedDown, listener: socket.socket, signals: Signals, cleanup: ExitStack
) -> int:
    """Serve in several processes, and look after them."""
    from omnigraph.server.process.parent import Parent
    from omnigraph.server.process.ports import Port

    def ready() -> None:
        signals.drain_with(parent.drain)
        _announce(given.bound, measured)

    parent = Parent(given, Port(listener), ready)
    signals.at_last(parent.end_at_once)
    measured = _show_metrics(given.options, parent.numbers, cleanup)
    return parent.run()


def _show_metrics(options: Options, numbers: Numbers, cleanup: ExitStack) -> Authority | None:
    """Answer requests for metrics, if that is wanted; return where."""
    if options.metrics is None:
        return None
    from omnigraph.server.hosts import authority_of
    from omnigraph.server.process.metrics import MetricsServer
    from omnigraph.server.process.ports import bind

    bound = bind(*options.metrics, "--metrics-bind")
    cleanup.callback(MetricsServer(bound, numbers).close)
    return authority_of(*bound.getsockname()[:2])


def _announce(bound: Authority, measured: Authority | None) -> None:
    """Tell whoever started the server where it listens, and where its metrics are."""
    logger.info("listening on %s", bound)
    if measured is not None:
        logger.info("metrics on %s", measured)
    with suppress(OSError, ValueError, AttributeError):  # nobody reads it, or there is no stdout
        sys.stdout.write(f"OMNIGRAPH_LISTEN_ADDR={bound}\n")
        if measured is not None:
            sys.stdout.write(f"OMNIGRAPH_METRICS_ADDR={measured}\n")
        sys.stdout.flush()


def _complain(text: str, code: int) -> int:
    if sys.stderr is not None:
        sys.stderr.write(f"error: {text}\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
