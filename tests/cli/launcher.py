"""A process that has everything imported and forks one child per command line, or per server.

Starting Python and importing Lance takes most of a second, a fork a few milliseconds. The launcher
itself never calls Lance, whose threads would not survive the fork. It reads one JSON request per
line from stdin and answers each with a number: `run` a command line with the exit code of its child,
`start` a server with the process id, and `poll` a server with its exit code, or -1000 while it runs.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import io
import json
import os
import pkgutil
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import omnigraph.cli
import omnigraph.server

CRASHED = 70
RUNS = -1000
"""No exit code: the process has not ended."""


def serve() -> None:
    from omnigraph.cli import main

    importlib.import_module("tests.storage.preloaded")
    for module in pkgutil.walk_packages(omnigraph.cli.__path__, "omnigraph.cli."):
        importlib.import_module(module.name)
    with contextlib.redirect_stdout(io.StringIO()):
        main(["version", "--json"])  # loads the argument parser and what that loads on first use
    gc.collect()
    gc.freeze()  # a child whose collector looks at all of this would copy it
    for line in sys.stdin:
        request = json.loads(line)
        answer = {"run": _run, "start": _start, "poll": _poll}[request["do"]](request)
        os.write(1, f"{answer}\n".encode())


def _run(request: dict[str, Any]) -> int:
    """Run a command line to its end."""
    from omnigraph.cli import main

    pid = _fork(main, request)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _start(request: dict[str, Any]) -> int:
    """Start a server."""
    from omnigraph.server.process.main import main

    _load_server()
    return _fork(main, request)


@functools.cache
def _load_server() -> None:
    """Import what servers import as they start."""
    for module in pkgutil.walk_packages(omnigraph.server.__path__, "omnigraph.server."):
        importlib.import_module(module.name)


def _poll(request: dict[str, Any]) -> int:
    pid, status = os.waitpid(request["pid"], os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if pid else RUNS


def _fork(main: Callable[[list[str]], int], request: dict[str, Any]) -> int:
    """Run ``main`` in a child, and return its process id."""
    # Output and errors may be one file, as both may be one terminal.
    written = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND
    # Here, so that whoever reads a pipe has somebody who writes to it, until the child has ended.
    streams = [
        os.open(request[name], flags, 0o600)
        for name, flags in (("stdin", os.O_RDONLY), ("stdout", written), ("stderr", written))
    ]
    if (pid := os.fork()) == 0:
        _become(main, request, streams)
    for stream in streams:
        os.close(stream)
    return pid


def _become(
    main: Callable[[list[str]], int], request: dict[str, Any], streams: Sequence[int]
) -> NoReturn:
    code = CRASHED
    try:
        os.chdir(request["cwd"])
        os.environ.clear()
        os.environ.update(request["env"])
        for descriptor, stream in enumerate(streams):
            os.dup2(stream, descriptor)
            os.close(stream)
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", 1, encoding="utf-8", closefd=False)  # noqa: SIM115
        code = main(request["argv"])
        sys.stdout.flush()
    except BaseException:  # noqa: BLE001 - a traceback is what the tests must see
        traceback.print_exc()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    serve()
