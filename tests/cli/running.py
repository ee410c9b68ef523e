"""Running the command line as a process, and what came of it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SRC = Path(__file__).parents[2] / "src"
RUNS = -1000
"""What the launcher says of a process that has not ended."""
FOREIGN = ("OMNIGRAPH_", "AWS_")


@dataclass(frozen=True)
class Result:
    """How a process ended and what it wrote."""

    argv: Sequence[str]
    exit: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        return json.loads(self.stdout)


def environment(home: Path, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """What surrounds a command: nothing of the developer's own settings."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(FOREIGN) and not name.endswith("_API_KEY")
    }
    return {**kept, "PYTHONPATH": str(SRC), "OMNIGRAPH_HOME": str(home), **(extra or {})}


class Launcher:
    """The fork server of `launcher.py`."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._log = scratch / "log"
        with self._log.open("w", encoding="utf-8") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-W", "ignore", "-m", "tests.cli.launcher"],
                cwd=SRC.parent,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=environment(scratch),
                text=True,
            )

    def run(
        self,
        argv: Sequence[str],
        cwd: Path,
        env: Mapping[str, str] | None = None,
        stdin: str | None = None,
        *,
        together: bool = False,
    ) -> Result:
        """Run one command line in a child of the launcher; ``together``: all output is one stream."""
        out, err, given = (self._scratch / name for name in ("stdout", "stderr", "stdin"))
        err = out if together else err
        given.write_text(stdin or "", "utf-8")
        request = {
            "argv": list(argv),
            "cwd": str(cwd),
            "env": environment(cwd / "home", env),
            "stdin": str(given),
            "stdout": str(out),
            "stderr": str(err),
        }
        code = self._ask({"do": "run", **request})
        return Result(argv, code, out.read_text("utf-8"), err.read_text("utf-8"))

    def start(
        self, argv: Sequence[str], cwd: Path, env: Mapping[str, str], stdout: Path, stderr: Path
    ) -> int:
        """Start a server in a child of the launcher, and return its process id."""
        request = {
            "argv": list(argv),
            "cwd": str(cwd),
            "env": dict(env),
            "stdin": os.devnull,
            "stdout": str(stdout),
            "stderr": str(stderr),
        }
        return self._ask({"do": "start", **request})

    def run_server(
        self, argv: Sequence[str], cwd: Path, env: Mapping[str, str], seconds: float
    ) -> Result:
        """Start a server that ends by itself, and wait for that; it is killed after so many seconds."""
        out, err = (self._scratch / name for name in ("server-stdout", "server-stderr"))
        pid = self.start(argv, cwd, env, out, err)
        deadline = time.monotonic() + seconds
        while (code := self.poll(pid)) is None:
            if time.monotonic() > deadline:
                os.kill(pid, signal.SIGKILL)
            time.sleep(0.005)
        return Result(argv, code, out.read_text("utf-8"), err.read_text("utf-8"))

    def poll(self, pid: int) -> int | None:
        """Return the exit code of a server that has ended; None while it runs."""
        code = self._ask({"do": "poll", "pid": pid})
        return None if code == RUNS else code

    def _ask(self, request: Mapping[str, Any]) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(f"{json.dumps(request)}\n")
            self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, f"the launcher is gone:\n{self._log.read_text('utf-8')}"
        return int(answer)

    def stop(self) -> None:
        with contextlib.suppress(BrokenPipeError):
            self._process.communicate()


def run_fresh(
    argv: Sequence[str],
    cwd: Path,
    env: Mapping[str, str] | None = None,
    stdin: str | None = None,
) -> Result:
    """Run one command line in a new interpreter, as a user does."""
    done = subprocess.run(
        [sys.executable, "-m", "omnigraph", *argv],
        cwd=cwd,
        env=environment(cwd / "home", env),
        input=stdin or "",
        capture_output=True,
        text=True,
        check=False,
    )
    return Result(argv, done.returncode, done.stdout, done.stderr)
