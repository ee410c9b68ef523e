"""A server as a process of its own, for clients that talk to it."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.cli.running import environment
from tests.server.running import several_workers

START = "import sys; from omnigraph.server.process.main import main; sys.exit(main(sys.argv[1:]))"
LISTENS = "OMNIGRAPH_LISTEN_ADDR="


@contextmanager
def serving(
    arguments: Sequence[str], cwd: Path, env: Mapping[str, str] | None = None
) -> Iterator[str]:
    """Run a server on a free port while the block runs; gives its URL."""
    log = cwd / "server.log"
    with log.open("ab") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-c", START, "--bind", "127.0.0.1:0", *arguments, *several_workers()],
            cwd=cwd,
            env=environment(cwd / "home", env),
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )
    assert process.stdout is not None
    line = process.stdout.readline()
    drained = threading.Thread(target=process.stdout.read)
    drained.start()
    try:
        assert line.startswith(LISTENS), log.read_text("utf-8")
        yield f"http://{line.removeprefix(LISTENS).strip()}"
    finally:
        process.terminate()
        process.wait(timeout=600)
        drained.join()
        process.stdout.close()
