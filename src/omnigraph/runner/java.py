"""Find the Java that Spark would run on, and say what is wrong with it.

This is checked before any work. Spark itself notices late and prints the messages of a shell script.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

OLDEST = 17
# Spark's launcher names this module, and a Java without it does not start at all.
NEEDED_MODULE = "jdk.incubator.vector"


@dataclass(frozen=True, slots=True)
class Java:
    """One installed Java: its program, its version and its modules (empty: unknown)."""

    program: Path
    version: str
    modules: frozenset[str]

    @property
    def feature(self) -> int:
        """The feature release: 17 for "17.0.15", 8 for "1.8.0_392", 0 for anything else."""
        found = re.match(r"(?:1\.)?([0-9]+)", self.version)
        return int(found[1]) if found else 0


def java_problem() -> str | None:
    """Return why Spark cannot run on this machine's Java and what to do; None when it can.

    This is cheap: it reads the `release` file beside Java, and starts Java only where that is missing.
    """
    home = os.environ.get("JAVA_HOME", "").strip()
    program = _program(home)
    if program is None:
        found = f'JAVA_HOME is "{home}", which has no bin/java' if home else "there is no Java here"
        fix = "set JAVA_HOME to an installed one, or unset it" if home else "or set JAVA_HOME"
        return f"{found}; Spark needs Java {OLDEST} or newer: {install_hint()}, {fix}"
    java = find_java()
    if java is None:
        return (
            f'"{program}" does not run as Java; Spark needs Java {OLDEST} or newer: '
            f"{install_hint()}, or set JAVA_HOME to an installed one"
        )
    if java.feature < OLDEST:
        return (
            f'"{java.program}" is Java {java.version}; Spark needs Java {OLDEST} or newer: '
            f"{install_hint()}, and set JAVA_HOME to it"
        )
    if java.modules and NEEDED_MODULE not in java.modules:
        return (
            f'"{java.program}" has no module {NEEDED_MODULE}, which Spark needs; use a complete '
            f"Java {OLDEST} or newer: {install_hint()}, and set JAVA_HOME to it"
        )
    return None


def find_java() -> Java | None:
    """Return the Java that Spark's scripts would start; None when there is none that runs."""
    program = _program(os.environ.get("JAVA_HOME", "").strip())
    if program is None:
        return None
    try:
        modified = program.stat().st_mtime_ns
    except OSError:
        return None
    return _described(program, modified)


def install_hint() -> str:
    """Return how to install Java on this kind of machine."""
    if sys.platform == "darwin":
        return "install it with `brew install openjdk@17`"
    if sys.platform == "win32":
        return "install it with `winget install EclipseAdoptium.Temurin.17.JRE`"
    if shutil.which("apt-get"):
        return "install it with `apt-get install openjdk-17-jre-headless`"
    if shutil.which("dnf"):
        return "install it with `dnf install java-17-openjdk-headless`"
    return "install an OpenJDK, for example the package openjdk-17-jre-headless"


def _program(home: str) -> Path | None:
    name = "java.exe" if sys.platform == "win32" else "java"
    found = shutil.which(name, path=str(Path(home) / "bin")) if home else shutil.which(name)
    return Path(found).resolve() if found else None


@lru_cache(maxsize=8)
def _described(program: Path, _modified: int) -> Java | None:
    release = program.parent.parent / "release"
    try:
        facts = dict(re.findall(r'^(\w+)="(.*)"$', release.read_text("utf-8"), re.MULTILINE))
    except (OSError, UnicodeDecodeError):
        facts = {}
    if "JAVA_VERSION" in facts:
        return Java(program, facts["JAVA_VERSION"], frozenset(facts.get("MODULES", "").split()))
    return _asked(program)


def _asked(program: Path) -> Java | None:
    try:
        answer = subprocess.run(  # noqa: S603 - the program that Spark's own scripts would start
            [program, "-version"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r'version "([^"]+)"', answer.stderr + answer.stdout)
    return Java(program, found[1], frozenset()) if found and answer.returncode == 0 else None
