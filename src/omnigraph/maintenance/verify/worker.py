"""The process that reads files which may be damaged: what ends it takes nothing else with it.

It gets tasks as pickles on its standard input, each after its length, and writes lines of JSON: the file
that it is about to read, what it finds, and at the end of a task what it has checked.
"""

from __future__ import annotations

import json
import pickle
import sys
from typing import Any, BinaryIO

from omnigraph.maintenance.verify.lineage_check import LineageCheck, LineageTask


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
