"""Start the Java process of Spark without output on the terminal, connect PySpark to it, end it.

PySpark can start Java too. But then everything that Java prints appears on the terminal, every
setting is readable in the process list, PySpark waits forever for a Java that ends at once without an
error, and Python's fork hooks run in a process full of threads.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omnigraph import settings

START_SECONDS = 180.0
END_SECONDS = 10.0
SHOWN_LINES = 15


class GatewayFailure(Exception):
    """Java did not start; the text is what it printed last."""


@dataclass(slots=True)
class Gateway:
    """A Java process that we started, PySpark's connection to it, and their scratch directory."""

    process: subprocess.Popen[bytes]
    connection: Any
    scratch: Path

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""
        return self.process.poll() is None

    def printed(self) -> str:
        """Return the last lines that Java printed."""
        return last_lines(self.scratch / "log")

    def end(self, seconds: float = END_SECONDS) -> None:
        """End the process, by force after `seconds`, and remove the scratch directory."""
        if self.alive:
            with contextlib.suppress(Exception):
                self.connection.shutdown()
        _end(self.process, seconds)
        shutil.rmtree(self.scratch, ignore_errors=True)

    def forget(self) -> None:
        """Let go of the parent's process, in a forked child, without disturbing it."""
        if self.process.stdin is not None:
            with contextlib.suppress(OSError):
                self.process.stdin.close()
        self.process.returncode = 0  # the parent waits for it, not this process


def start_gateway(
    conf: Mapping[str, str], environment: Mapping[str, str], scratch: Path
) -> Gateway:
    """Start Java with the settings of `conf`, and connect to it."""
    info = scratch / "connection"
    command = [*_submit(), *_properties(conf, scratch), "pyspark-shell"]
    variables = {
        **os.environ,
        **environment,
        "SPARK_CONNECT_MODE": "0",
        "_PYSPARK_DRIVER_CONN_INFO_PATH": str(info),
    }
    with _output(scratch / "log") as output:
        process = subprocess.Popen(  # noqa: S603 - Spark's own script, from its own package
            command,
            stdin=subprocess.PIPE,  # Java ends when this closes, so it never outlives us
            stdout=output,
            stderr=output,
            env=variables,
            start_new_session=True,  # Ctrl-C is for us: we cancel the jobs and end it properly
        )
    try:
        port, secret = _connection_info(process, info, scratch / "log")
        connection = _connect(port, secret)
        connection.proc = process  # where PySpark keeps it too
        return Gateway(process, connection, scratch)
    except BaseException:
        _end(process)
        raise


def last_lines(log: Path) -> str:
    """Return the end of a log, without the stack traces in it."""
    try:
        lines = log.read_text("utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    shown = [line for line in lines if line.strip() and not line.startswith(("\tat ", "\t... "))]
    return "\n".join(shown[-SHOWN_LINES:])


def spark_home() -> Path:
    """Return the directory of the Spark that PySpark would start."""
    from pyspark.find_spark_home import _find_spark_home

    return Path(_find_spark_home())


def _submit() -> list[str]:
    name = "spark-submit.cmd" if sys.platform == "win32" else "spark-submit"
    return [str(spark_home() / "bin" / name)]


def _properties(conf: Mapping[str, str], scratch: Path) -> list[str]:
    # A file that only this user can read: settings hold credentials, and a command line is public.
    path = scratch / "settings.properties"
    path.touch(mode=0o600)
    path.write_text("".join(f"{_escaped(k)}={_escaped(v)}\n" for k, v in conf.items()), "ascii")
    return ["--properties-file", str(path), "--load-spark-defaults"]


def _escaped(text: str) -> str:
    return "".join(
        char if char.isascii() and (char.isalnum() or char in ".-_/") else _units(char)
        for char in text
    )


def _units(char: str) -> str:
    data = char.encode("utf-16-be", errors="surrogatepass")
    return "".join(f"\\u{unit:04x}" for (unit,) in struct.iter_unpack(">H", data))


@contextlib.contextmanager
def _output(log: Path) -> Iterator[Any]:
    if settings.DEBUG.get():
        yield sys.__stderr__ if sys.__stderr__ is not None else subprocess.DEVNULL
        return
    with log.open("ab") as stream:
        yield stream


def _connection_info(process: subprocess.Popen[bytes], info: Path, log: Path) -> tuple[int, str]:
    deadline = time.monotonic() + START_SECONDS
    # Java writes another file and renames it, so a file that exists is complete.
    while not info.exists():
        code = process.poll()
        if code is not None:
            raise GatewayFailure(last_lines(log) or f"Java ended with exit status {code}")
        if time.monotonic() > deadline:
            raise GatewayFailure(f"Java did not answer within {START_SECONDS:.0f} seconds")
        time.sleep(0.02)
    data = info.read_bytes()
    info.unlink()
    port, length = struct.unpack(">ii", data[:8])
    return port, data[8 : 8 + length].decode()


def _connect(port: int, secret: str) -> Any:
    from pyspark import java_gateway

    launch: Any = java_gateway.launch_gateway  # has no annotations
    handed = {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}
    os.environ.update(handed)
    try:
        return launch()
    finally:
        # Our own children must not take this Java for theirs.
        for name in handed:
            os.environ.pop(name, None)


def _end(process: subprocess.Popen[bytes], seconds: float = END_SECONDS) -> None:
    if process.stdin is not None:
        with contextlib.suppress(OSError):
            process.stdin.close()
    for stop in (None, process.terminate, process.kill):
        if stop is not None:
            stop()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
            return
