"""`omnigraph ui` for tests: the real command as a child process on a free port."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from tests.server.running import LONG, OF_A_PROCESS, UNENCRYPTED, clean_environment


@dataclass
class Explorer:
    """A running `omnigraph ui`, and what it printed of its first link."""

    process: subprocess.Popen[str]
    told: dict[str, Any]
    press_enter: Callable[[], object] = lambda: None
    """Press Enter in its terminal, if it has one."""

    @property
    def url(self) -> str:
        """The link with its code."""
        return str(self.told["url"])

    @property
    def base(self) -> str:
        """The address of the server, without a slash at its end."""
        return self.url.partition("/ui/")[0]

    @property
    def code(self) -> str:
        """The code of the first link."""
        return self.url.partition("#code=")[2]

    def fresh_code(self) -> str:
        """Press Enter, and return the code of the link that is printed then."""
        self.press_enter()
        return str(read_document(self.process)["url"]).partition("#code=")[2]

    def request(self, method: str, path: str, **more: Any) -> httpx2.Response:
        """Send a request."""
        with httpx2.Client(base_url=self.base, timeout=LONG, verify=UNENCRYPTED) as client:
            return client.request(method, path, **more)

    def sign_in(self, code: str | None = None, **headers: str) -> httpx2.Response:
        """Exchange a code, the first one by default."""
        body = {"code": self.code if code is None else code}
        return self.request("POST", "/ui/session", json=body, headers=headers)

    def token(self) -> str:
        """Use the first code, and return the token."""
        return str(self.sign_in().json()["token"])


@contextmanager
def start_explorer(
    graph: Path,
    *flags: str | os.PathLike[str],
    home: Path,
    stdin: int = subprocess.DEVNULL,
    package: Path | None = None,
    log: Path | None = None,
) -> Iterator[Explorer]:
    """Start `omnigraph ui` with a link on stdout; end it afterwards, and expect that it ends well.

    With ``package`` it is the one in that directory, and finds no other program, such as Node; with ``log`` it
    writes all it has to say there.
    """
    command = [sys.executable, "-m", "omnigraph", "ui", os.fspath(graph), "--no-open", "--json"]
    port = [] if "--port" in flags else ["--port", "0"]
    environ = clean_environment(HOME=str(home), OMNIGRAPH_HOME=str(home / ".omnigraph"))
    if package is not None:
        environ |= {"PYTHONPATH": str(package), "PATH": str(package)}
    if log is not None:
        environ["OMNIGRAPH_LOG"] = "debug"
    with ExitStack() as stack:
        stderr = None if log is None else stack.enter_context(log.open("w"))
        process = subprocess.Popen(
            [*command, *port, *map(os.fspath, flags)],
            stdout=subprocess.PIPE,
            stderr=stderr,
            stdin=stdin,
            text=True,
            env=environ,
        )
    try:
        yield Explorer(process, read_document(process))
        process.send_signal(signal.SIGTERM)
        assert process.wait(OF_A_PROCESS) == 0
    finally:
        process.kill()
        process.wait(OF_A_PROCESS)
        assert process.stdout is not None
        process.stdout.close()


@contextmanager
def terminal() -> Iterator[tuple[Callable[[], object], int]]:
    """A terminal to start a process at: what presses Enter in it, and its descriptor for the process."""
    controller, stdin = pty.openpty()
    try:
        yield lambda: os.write(controller, b"\n"), stdin
    finally:
        os.close(controller)
        os.close(stdin)


def read_document(process: subprocess.Popen[str]) -> dict[str, Any]:
    """Read one printed JSON document."""
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if line.rstrip() == "}":
            found: dict[str, Any] = json.loads("".join(lines))
            return found
    raise AssertionError(f"omnigraph ui ended: {process.wait(LONG)}")
