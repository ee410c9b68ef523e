"""The server of the wheel, with no file of the source beside it and no variable set."""

from __future__ import annotations

import signal
import subprocess
import sys
import urllib.request
import zipfile
from pathlib import Path

import pytest

from tests.server.running import ADDRESS, LONG

ROOT = Path(__file__).parents[2]
START = """
import sys
from importlib.metadata import distribution
import omnigraph
wheel = sys.argv.pop(1)
assert omnigraph.__file__.startswith(wheel), omnigraph.__file__
(script,) = [each for each in distribution("omnigraph").entry_points if each.name == "omnigraph-server"]
sys.exit(script.load()())
"""
"""What the script does that an installer makes of the wheel."""


@pytest.mark.thorough
@pytest.mark.parametrize("flags", [(), ("--workers", "2")], ids=["alone", "workers"])
def test_the_server_of_the_wheel_starts_with_an_empty_environment(people, tmp_path, flags):
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "installed")
    place = str(tmp_path / "installed")
    server = subprocess.Popen(
        [
            *(sys.executable, "-c", START, place),
            *("--store", str(people), "--unauthenticated", "--bind", "127.0.0.1:0", *flags),
        ],
        stdout=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env={"PYTHONPATH": place},
    )
    try:
        assert server.stdout is not None
        url = "http://" + server.stdout.readline().removeprefix(ADDRESS).strip()
        for path, found in (("/healthz", b'"ok"'), ("/openapi.json", b"3.1.0"), ("/ui/", b"<html")):
            with urllib.request.urlopen(url + path, timeout=LONG) as answer:
                assert found in answer.read()
        server.send_signal(signal.SIGTERM)
        assert server.wait(LONG) == 0
    finally:
        server.kill()
        server.wait()
        server.stdout.close()
