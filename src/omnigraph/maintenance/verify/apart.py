"""Runs checks in a process of its own, and goes on where a damaged file ended it.

That process, this module again, gets tasks as pickles on its standard input, each after its length, and
writes lines of JSON: the file that it is about to read, what it finds, and at the end of a task what it has
checked.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any, BinaryIO, Self

from omnigraph.errors import StorageError
from omnigraph.maintenance.verify.lineage_check import Checked, LineageCheck, LineageTask
from omnigraph.maintenance.verify.report import RESTORE, Problem


class CheckProcess:
    """The other process; it is started when it is needed, and again when it has died."""

    def __init__(self, progress: Callable[[str], object]) -> None:
        self._progress = progress
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def check(self, task: LineageTask) -> tuple[Checked, list[Problem]]:
        """Check a branch of a table; what ends the process is a problem of the file that was read."""
        deadly: list[Problem] = []
        while True:
            checked, problems, at = self._run(task)
            if checked is not None:
                return checked, [*deadly, *problems]
            code = self._stop()
            if at is None or at in task.deadly:
                raise StorageError(
                    f"the process that reads {task.ref} ended by itself (exit code {code}); "
                    "run verify again"
                )
            detail = f"reading it ends the process that does (exit code {code})"
            deadly.append(Problem("damaged", detail, RESTORE, at))
            task = replace(task, deadly=task.deadly | {at})

    def _run(self, task: LineageTask) -> tuple[Checked | None, list[Problem], str | None]:
        """Run a task to its end: what was checked (None if the process died), and the last file."""
        problems: list[Problem] = []
        at: str | None = None
        for line in self._lines(task):
            if "at" in line:
                at = line["at"]
                self._progress(line["at"])
            elif "problem" in line:
                found = line["problem"]
                problems.append(Problem(**{**found, "states": tuple(found["states"])}))
            else:
                done = line["done"]
                return Checked(set(done["files"]), done["bytes"], done["rows"]), problems, at
        return None, problems, at

    def _lines(self, task: LineageTask) -> Any:
        process = self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        data = pickle.dumps(task)
        try:
            process.stdin.write(len(data).to_bytes(8, "little") + data)
            process.stdin.flush()
        except BrokenPipeError:
            return
        while line := process.stdout.readline():
            try:
                yield json.loads(line)
            except ValueError:  # it died while it wrote
                return

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            paths = os.pathsep.join(path for path in sys.path if path)
            self._process = subprocess.Popen(
                [sys.executable, "-m", "omnigraph.maintenance.verify.apart"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": paths},
            )
        return self._process

    def _stop(self) -> int | None:
        process, self._process = self._process, None
        if process is None:
            return None
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        process.stdout.close()
        try:
            return process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()


def main() -> None:
    """Work until the input ends."""
    source, out = sys.stdin.buffer, sys.stdout

    def tell(line: dict[str, Any]) -> None:
        out.write(json.dumps(line) + "\n")
        out.flush()

    while (task := _next(source)) is not None:
        check = LineageCheck(
            task, lambda path: tell({"at": path}), lambda one: tell({"problem": one.to_json()})
        )
        done = check.run()
        tell({"done": {"files": sorted(done.files), "bytes": done.bytes, "rows": done.rows}})


def _next(source: BinaryIO) -> LineageTask | None:
    length = source.read(8)
    if len(length) < 8:
        return None
    # From the process that started this one, over a pipe that nobody else has.
    task: LineageTask = pickle.loads(source.read(int.from_bytes(length, "little")))  # noqa: S301
    return task


if __name__ == "__main__":
    main()
