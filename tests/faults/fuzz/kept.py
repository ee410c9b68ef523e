"""Files in the cache directory, which another version, another program or a bad disk may have written."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from omnigraph.read.kept import kept_file
from omnigraph.read.kept.kept_file import KeptFile, Untrusted
from omnigraph.read.view.state_files import read_states
from tests.faults.fuzz.inputs import ODD_BYTES, ODD_TEXTS, damaged, damaged_json
from tests.faults.fuzz.parser import Parser, parser
from tests.read.kept_helpers import write_kept

KEY = json.dumps(["ends", [["g", "edges/1", None, None, 7, "ab"]] * 3])
ARRAYS: dict[str, Any] = {
    "src": np.arange(9, dtype=np.int32),
    "row_ids": np.arange(3, dtype=np.uint64),
}


def _sealed(data: bytes, described: bytes) -> bytes:
    """A file with another description, and the lengths and the checksum that belong to it."""
    begin = kept_file._aligned(kept_file._PRELUDE.size + len(described))
    old = kept_file._aligned(kept_file._PRELUDE.size + int.from_bytes(data[20:24], "little"))
    rest = data[old:]
    head = kept_file._PRELUDE.pack(
        data[:16], 1, len(described), begin + len(rest), hashlib.sha256(described).digest()
    )
    return (head + described).ljust(begin, b"\0") + rest


@parser
def _kept_file(place: Path) -> Parser:
    path = place / "good"
    write_kept(path, KEY, "ends", {"size": 9, "shape": [3, 3], "complete": True}, ARRAYS)
    good = path.read_bytes()
    length = int.from_bytes(good[20:24], "little")
    described = json.loads(good[64 : 64 + length])

    def make(chance: Random) -> bytes:
        if chance.random() < 0.5:
            return damaged(chance, [good], ODD_BYTES)
        text = damaged_json(chance, [described]).encode("utf-8", "surrogatepass")
        return _sealed(good, text)

    def read(data: bytes) -> None:
        damaged_file = place / "damaged"
        damaged_file.unlink(missing_ok=True)
        damaged_file.touch(mode=0o600)
        damaged_file.write_bytes(data)
        with suppress(Untrusted):  # It never leaves the engine.
            found = KeptFile(damaged_file)
            for name in found.names:
                assert found.array(name).nbytes <= len(data)
            assert len(read_states(found.key, "ends")) >= 0

    return Parser(make, read, ())


@parser
def _kept_key(_place: Path) -> Parser:
    def read(text: str) -> None:
        assert all(isinstance(one.identity.version, int) for one in read_states(text, "ends"))

    return Parser(lambda chance: damaged(chance, [KEY], ODD_TEXTS), read, ())
