"""Servers for tests: the real process, and the same web server in a thread of the test.

``start_server`` is what a user starts: ``python -m omnigraph.server.process.main`` with flags and an environment,
on a free port. ``in_thread`` serves any ASGI application with the connections and the ending of a real server,
so that a test can hold it, look inside, and give it less patience.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import queue
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omnigraph.server.process.serving import DrainTimes, GraphServer, listen
from omnigraph.server.process.transport import ORDINARY_PATIENCE, ConnectionLimits
from tests.cli.running import Launcher

COMMAND = (sys.executable, "-m", "omnigraph.server.process.main")
ADDRESS = "OMNIGRAPH_LISTEN_ADDR="
WORKERS = os.environ.get("SERVER_WORKERS", "")
"""With so many workers the suites over HTTP run that do not look into the server: the cases of the specification,
parity, and requests made up from the OpenAPI document. Without it they have one."""
ON_S3 = bool(os.environ.get("SERVER_S3"))
"""Whether the graph of the requests that are made up is on S3."""
LONG = 120
"""Seconds after which a test gives up; nothing that works takes so long."""
OF_A_PROCESS = 600
"""The same for the start and the end of a process, which loads much and may be one of many."""
UNENCRYPTED = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""For connections without TLS: by default each client reads the certificates of the system first."""


def several_workers() -> list[str]:
    """The flags for as many workers as this run wants."""
    return ["--workers", WORKERS] if WORKERS else []


def clean_environment(**more: str) -> dict[str, str]:
    """The environment of the test without anything that changes a server, and with these variables."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OMNIGRAPH_")}
    return {**kept, "OMNIGRAPH_DISK_CACHE_MB": "0", **more}


class ForkedProcess:
    """A server that the launcher forked, to be handled like a ``Popen``."""

    def __init__(
        self, launcher: Launcher, argv: Sequence[str], cwd: Path, env: Mapping[str, str], log: Path
    ) -> None:
        self._launcher = launcher
        self._code: int | None = None
        printed = log.with_suffix(".stdout")
        os.mkfifo(printed)
        # Without waiting for the one who writes, whom the next line starts.
        reading = os.open(printed, os.O_RDONLY | os.O_NONBLOCK)
        self.pid = launcher.start(argv, cwd, env, printed, log)
        os.set_blocking(reading, True)
        self.stdout = os.fdopen(reading, encoding="utf-8")

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless its end is known."""
        if self._code is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)

    def wait(self, timeout: float) -> int:
        """Wait for its end, and return the exit code."""
        deadline = time.monotonic() + timeout
        while self._code is None:
            self._code = self._launcher.poll(self.pid)
            assert self._code is not None or time.monotonic() < deadline, "the server does not end"
            time.sleep(0.005)
        return self._code


@dataclass
class RunningServer:
    """The process of a server. Its log is the file ``log``."""

    process: subprocess.Popen[str] | ForkedProcess
    log: Path
    printed: list[str] = field(default_factory=list)
    host: str = ""
    port: int = 0

    @property
    def base(self) -> str:
        """The address of the server."""
        return f"http://{self.host}:{self.port}"

    @property
    def records(self) -> list[dict[str, Any]]:
        """The records of its log, if that is JSON."""
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def requests(self) -> list[dict[str, Any]]:
        """The records of the requests that it answered."""
        return [record for record in self.records if record["event"] == "request"]

    @property
    def metrics(self) -> str:
        """Where its metrics are, as host and port."""
        until = time.monotonic() + LONG
        while len(self.printed) < 2:
            assert time.monotonic() < until, "the server does not say where its metrics are"
            time.sleep(0.005)
        return self.printed[1].strip().removeprefix("OMNIGRAPH_METRICS_ADDR=")

    def gauges(self, *names: str) -> list[float]:
        """What its metrics say of these at the moment."""
        host, _, port = self.metrics.rpartition(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=LONG)
        try:
            connection.request("GET", "/metrics")
            text = connection.getresponse().read().decode()
        finally:
            connection.close()
        values = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
        return [float(values[f"omnigraph_{name}"]) for name in names]

    def send(self, number: int) -> None:
        """Send the process a signal."""
        self.process.send_signal(number)

    def wait(self) -> int:
        """Wait for its end, and return the exit code."""
        return self.process.wait(OF_A_PROCESS)

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Ask it to end; return the exit code."""
        self.send(number)
        return self.wait()

    def await_address(self) -> None:
        """Wait until it tells where it listens."""
        lines: queue.Queue[str] = queue.Queue()

        def read() -> None:
            assert self.process.stdout is not None
            for line in self.process.stdout:
                self.printed.append(line)
                lines.put(line)
            lines.put("")

        threading.Thread(target=read, daemon=True).start()
        line = lines.get(timeout=OF_A_PROCESS)
        assert line.startswith(ADDRESS), f"the server did not start:\n{self.log.read_text()}"
        self.host, _, port = line.strip().removeprefix(ADDRESS).rpartition(":")
        self.port = int(port)


@contextmanager
def start_server(
    *flags: str | os.PathLike[str],
    log: Path,
    environ: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    started: Callable[[RunningServer], object] = lambda _: None,
    launcher: Launcher | None = None,
) -> Iterator[RunningServer]:
    """Start a server on a free port of 127.0.0.1, wait until it listens, and kill it afterwards.

    ``started`` gets it before it listens. ``launcher`` forks it, where its start is not what is tested.
    """
    arguments = [*map(os.fspath, flags)]
    if "--bind" not in arguments:
        arguments += ["--bind", "127.0.0.1:0"]
    env = clean_environment(**(environ or {}))
    process: subprocess.Popen[str] | ForkedProcess
    if launcher is not None:
        process = ForkedProcess(launcher, arguments, cwd or Path.cwd(), env, log)
    else:
        process = _fresh_process(arguments, cwd, env, log)
    server = RunningServer(process, log)
    started(server)
    try:
        server.await_address()
        yield server
    finally:
        process.kill()
        process.wait(OF_A_PROCESS)
        if process.stdout is not None:
            process.stdout.close()


def _fresh_process(
    arguments: Sequence[str], cwd: Path | None, env: Mapping[str, str], log: Path
) -> subprocess.Popen[str]:
    with log.open("w") as stderr:
        return subprocess.Popen(
            [*COMMAND, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            cwd=cwd,
            env=env,
        )


def run_server(
    *flags: str | os.PathLike[str],
    environ: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    launcher: Launcher | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a server that is expected to refuse to start, and return what it said; ``launcher`` may fork it."""
    if launcher is not None:
        env = clean_environment(**(environ or {}))
        ended = launcher.run_server([*map(os.fspath, flags)], cwd or Path.cwd(), env, OF_A_PROCESS)
        return subprocess.CompletedProcess(flags, ended.exit, ended.stdout, ended.stderr)
    return subprocess.run(
        [*COMMAND, *map(os.fspath, flags)],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        cwd=cwd,
        timeout=OF_A_PROCESS,
        env=clean_environment(**(environ or {})),
    )


@dataclass
class NoWork:
    """The work of an application that has none beside its requests; or some that a test controls."""

    is_busy: bool = False
    stopped: int = 0

    def cancel_all(self) -> None:
        """Note that everything was to stop."""
        self.stopped += 1

    def close(self) -> None:
        """Nothing is left to close."""


@dataclass
class Draining:
    """What a server says about its end."""

    draining: bool = False


@dataclass
class Served:
    """A server in a thread."""

    server: GraphServer
    state: Any
    work: Any
    host: str
    port: int
    thread: threading.Thread
    ended: list[bool] = field(default_factory=list)

    def connect(self) -> socket.socket:
        """A new connection."""
        return socket.create_connection((self.host, self.port), timeout=LONG)

    def pass_time(self, seconds: float, *, steps: int = 1) -> None:
        """Put the server's clock on by so many seconds, and let everything that is due then happen.

        What looks again and again does so once in every step. Of a server with much patience, a test decides
        so how much time passes, however busy the machine is.
        """
        for _ in range(steps):
            pass_time(self.server, seconds / steps)

    def wait(self) -> bool:
        """Wait for its end; return whether all work had ended."""
        self.thread.join(LONG)
        assert not self.thread.is_alive()
        return self.ended[0]


def pass_time(server: GraphServer, seconds: float) -> None:
    """Put the clock of a server in a thread on, and let everything that is due then happen."""
    with suppress(CancelledError):  # it ended meanwhile
        asyncio.run_coroutine_threadsafe(_pass(seconds), server._loop).result(LONG)


async def _pass(seconds: float) -> None:
    loop = asyncio.get_running_loop()
    ahead = loop.time() - time.monotonic() + seconds
    loop.time = lambda: time.monotonic() + ahead
    # One turn of the loop finds what is due, the next ones see what that brought about.
    for _ in range(4):
        await asyncio.sleep(0)


@contextmanager
def in_thread(
    app: Any,
    *,
    state: Any = None,
    work: Any = None,
    patience: ConnectionLimits = ORDINARY_PATIENCE,
    ending: DrainTimes | None = None,
) -> Iterator[Served]:
    """Serve an application as a real server would, on a free port of 127.0.0.1."""
    state = Draining() if state is None else state
    work = NoWork() if work is None else work
    ending = DrainTimes(timeout=0.2, publishing=0.2) if ending is None else ending
    server = GraphServer(app, state, work, ending, patience)
    listener = listen("127.0.0.1", 0)
    host, port = listener.getsockname()
    listening = threading.Event()
    ended: list[bool] = []
    thread = threading.Thread(
        target=lambda: ended.append(server.run_on(listener, listening.set)), daemon=True
    )
    thread.start()
    try:
        assert listening.wait(LONG)
        yield Served(server, state, work, host, port, thread, ended)
    finally:
        if thread.is_alive():
            server.drain()
        thread.join(LONG)
        listener.close()
        assert not thread.is_alive()
