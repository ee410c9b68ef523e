"""Pages whose blocks need a server: their commands and programs run in order, as a reader would type them.

A line that starts `omnigraph-server` begins a server on a free port, and ends the one before. The page shows it at its
usual address; what is typed gets the real one, and what is printed is compared with the usual one in its place.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.cli.running import Launcher, environment

ROOT = Path(__file__).parents[1]
SERVED_PAGES = [
    page
    for page in sorted((ROOT / "docs" / "user").glob("*.md"))
    if re.search(r"^\$ .*omnigraph-server ", page.read_text("utf-8"), re.MULTILINE)
]
USUAL = "127.0.0.1:8080"
BLOCK = re.compile(r"^```(console|python|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHELL = re.compile(r"[|<>&;$`*~]")
PATIENCE = 600


def without_a_shell(line: str) -> list[str] | None:
    """The arguments of a line that runs `omnigraph` and nothing else; None if a shell must read the line."""
    if not line.startswith("omnigraph ") or SHELL.search(re.sub("'[^']*'", "", line)):
        return None
    return shlex.split(line)[1:]


class Reader:
    """Somebody who follows a page in a directory of their own."""

    def __init__(self, place: Path, launcher: Launcher) -> None:
        self.place = place
        self.launcher = launcher
        self.server: subprocess.Popen[str] | None = None
        self.address = USUAL
        self.names: dict[str, Any] = {"__name__": "__docs__"}
        tools = place / "bin"
        tools.mkdir()
        programs = {
            "omnigraph": "-m omnigraph",
            "omnigraph-server": "-m omnigraph.server.process.main",
        }
        for name, module in programs.items():
            program = tools / name
            program.write_text(f'#!/bin/sh\nexec "{sys.executable}" {module} "$@"\n', "utf-8")
            program.chmod(0o755)
        self.env = environment(place / "home", {"OMNIGRAPH_BIND": "127.0.0.1:0"})
        self.env["PATH"] = f"{tools}:{self.env['PATH']}"

    def follow(self, page: Path) -> None:
        """Do everything that a page says."""
        printed = ""
        for language, block in BLOCK.findall(page.read_text("utf-8")):
            if language == "console":
                for line, expected in steps(block):
                    self.compare(f"$ {line}", self.type(line), expected)
            elif language == "python":
                printed = self.run(block, page)
            else:
                self.compare(block, printed, block)

    def type(self, line: str) -> str:
        """Type a line; what it prints, stderr too, and its exit code unless that is 0."""
        if re.match(r"(\w+=\S+ )*omnigraph-server ", line):
            return self.start(line)
        line = line.replace(USUAL, self.address)
        argv = without_a_shell(line)
        if argv is not None:
            result = self.launcher.run(argv, self.place, together=True)
            return result.stdout + _ending(result.exit)
        done = subprocess.run(
            ["sh", "-c", line],
            cwd=self.place,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=PATIENCE,
        )
        # curl writes no line end of its own; a reader sees the prompt behind what it wrote.
        gap = "\n" if line.startswith("curl") and not done.stdout.endswith("\n") else ""
        return done.stdout + gap + _ending(done.returncode)

    def start(self, line: str) -> str:
        """Start a server and wait until it takes requests."""
        self.stop()
        with (self.place / "log").open("w", encoding="utf-8") as log:
            self.server = subprocess.Popen(
                ["sh", "-c", f"exec env {line}"],
                cwd=self.place,
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert self.server.stdout is not None
        told = self.server.stdout.readline()
        if not told:
            raise AssertionError((self.place / "log").read_text("utf-8"))
        self.address = told.strip().partition("=")[2]
        return told

    def stop(self) -> None:
        """End the server as Ctrl-C does."""
        if self.server is None:
            return
        self.server.send_signal(signal.SIGINT)
        try:
            assert self.server.wait(PATIENCE) == 0, (self.place / "log").read_text("utf-8")
        finally:
            self.server.kill()
            self.server.communicate()
            self.server = None

    def run(self, block: str, page: Path) -> str:
        """Run a program; what it prints."""
        out = io.StringIO()
        code = compile(block.replace(USUAL, self.address), str(page), "exec")
        with contextlib.chdir(self.place), contextlib.redirect_stdout(out):
            exec(code, self.names)
        return out.getvalue()

    def compare(self, what: str, printed: str, expected: str) -> None:
        """Fail unless something printed what the page shows; `…` stands for anything."""
        shown = printed.replace(self.address, USUAL)
        pattern = "(?s:.*)".join(map(re.escape, expected.split("…")))
        assert re.fullmatch(pattern, shown), f"{what}\n{shown}\nbut the page shows\n{expected}"


def _ending(code: int) -> str:
    return f"[exit {code}]\n" if code else ""


def steps(block: str) -> Iterator[tuple[str, str]]:
    """The lines of a block that are typed, each with what it is to print."""
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        line, _, expected = part.partition("\n")
        yield line, expected
