"""A process that has everything imported and forks one child per command line.

Starting Python and importing Lance takes most of a second, a fork a few milliseconds. The launcher
itself never calls Lance, whose threads would not survive the fork. It reads one JSON request per
line from stdin and answers each with the exit code of its child.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import sys
import traceback
from typing import Any

CRASHED = 70


def serve() -> None:
    from omnigraph.cli import main

    importlib.import_module("tests.storage.preloaded")
    with contextlib.redirect_stdout(io.StringIO()):
        main(["version", "--json"])  # loads the argument parser and what that loads on first use
    for line in sys.stdin:
        request = json.loads(line)
        pid = os.fork()
        if pid == 0:
            _run(request)
        _, status = os.waitpid(pid, 0)
        code = os.waitstatus_to_exitcode(status)
        os.write(1, f"{code}\n".encode())


def _run(request: dict[str, Any]) -> None:
    from omnigraph.cli import main

    code = CRASHED
    # Both may be one file, as both may be one terminal.
    written = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND
    try:
        os.chdir(request["cwd"])
        os.environ.clear()
        os.environ.update(request["env"])
        for descriptor, name, flags in (
            (0, request["stdin"], os.O_RDONLY),
            (1, request["stdout"], written),
            (2, request["stderr"], written),
        ):
            os.dup2(os.open(name, flags, 0o600), descriptor)
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
