"""An archive of classes is made by whoever asks for it, and Java takes it.

More than a minute of work, so the suite leaves it to `./dev faults`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from omnigraph.runner import archive

pytestmark = pytest.mark.usefixtures("_spark_here")

USES = """
from pathlib import Path
from omnigraph.runner.session import spark_session

process = spark_session("local[1]").sparkContext._gateway.proc
print("\\n".join({line.split()[-1] for line in Path(f"/proc/{process.pid}/maps").open() if ".jsa" in line}))
"""


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="only Linux tells what is mapped")
def test_java_maps_the_archive_that_was_made_and_the_next_one_takes_its_place(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("OMNIGRAPH_CACHE_DIR", str(tmp_path))
    cache = tmp_path / "spark"
    cache.mkdir()
    older = cache / f"{archive.archive_prefix()}3.jsa"
    older.write_bytes(b"123")
    made = run("-m", "omnigraph.runner.archive_build")
    assert [str(path) for path in cache.iterdir()] == [made]
    assert made in run("-c", USES).splitlines()  # Java has one of its own classes, too


def run(*arguments):
    """What a process of its own prints: this one has a session already."""
    done = subprocess.run(
        [sys.executable, *arguments], env=os.environ, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()
