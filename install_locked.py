"""Install a lock file and this project into the environment that runs this file (`dev` calls it).

    .venv/bin/python install_locked.py LOCK

uv installs in a third of pip's time. pip fetches it, by a lock of its own; where that does not work, or uv does
not, pip installs everything. uv does not read the settings of pip, so it is told what they say: how a machine
reaches its packages is written down once, for pip.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parent
UV_LOCK = ROOT / "requirements-uv.lock"

PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input"]
UV = [sys.executable, "-m", "uv", "--quiet"]
# The lock names everything: without --no-deps, old pips look for newer releases of what extras name.
LOCKED = ["--no-deps", "--require-hashes", "-r"]
# The project itself. What builds it is in every lock.
PROJECT = ["--no-deps", "--no-build-isolation", "-e", str(ROOT)]
# Spark comes as a source of 400 MB; to compress it into a wheel that is only unpacked takes 25 s.
UNCOMPRESSED = ["--config-settings-package", "pyspark:--build-option=--compression=stored"]

# What uv calls the settings of pip. Those with several values separate them by blanks, as pip does.
VARIABLES = {
    "index_url": ["UV_DEFAULT_INDEX"],
    "extra_index_url": ["UV_INDEX"],
    "trusted_host": ["UV_INSECURE_HOST"],
    "cert": ["SSL_CERT_FILE"],
    "client_cert": ["SSL_CLIENT_CERT"],
    "proxy": ["HTTPS_PROXY", "HTTP_PROXY"],
    "timeout": ["UV_HTTP_TIMEOUT"],
    "default_timeout": ["UV_HTTP_TIMEOUT"],
}


def main(lock: str) -> None:
    """Install with uv, or else with pip."""
    if _run([*PIP, "install", "-qq", *LOCKED, str(UV_LOCK)]):
        install = [*UV, "pip", "install", "--python", sys.executable]
        settings = pip_settings()
        environ = {**os.environ, **uv_settings(settings, os.environ)}
        if settings.get("no_index", "").lower() in {"1", "true", "yes", "on"}:
            install.append("--no-index")  # the one setting that is no variable of uv
        locked = [*install, *UNCOMPRESSED, *LOCKED, lock]
        if _run(locked, environ) and _run([*install, *PROJECT], environ):
            return
    print("dev: uv cannot install here; pip does, which takes longer", file=sys.stderr)
    for what in ([*LOCKED, lock], PROJECT):
        if not _run([*PIP, "install", "-qq", *what]):
            sys.exit(1)


def pip_settings() -> dict[str, str]:
    """What pip is told by its files and variables about installing, the last word of each."""
    listed = subprocess.run(
        [*PIP, "config", "list"], capture_output=True, text=True, check=False
    ).stdout
    found: dict[str, dict[str, str]] = {"global": {}, "install": {}, ":env:": {}}
    for line in listed.splitlines():
        name, _, value = line.partition("=")
        section, _, key = name.rpartition(".")
        if section in found:
            found[section][key.replace("-", "_")] = str(ast.literal_eval(value))
    return found["global"] | found["install"] | found[":env:"]


def uv_settings(pip: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """The same for uv, as variables of its environment; those that are set already stay."""
    told = {
        variable: " ".join(pip[name].split())
        for name, variables in VARIABLES.items()
        if pip.get(name)
        for variable in variables
    }
    if pip.get("find_links"):
        told["UV_FIND_LINKS"] = ",".join(pip["find_links"].split())
    # As pip does: certificates of the system count, and all indexes are one; hashes decide.
    told |= {"UV_SYSTEM_CERTS": "1", "UV_INDEX_STRATEGY": "unsafe-best-match"}
    return {variable: value for variable, value in told.items() if not environ.get(variable)}


def _run(command: list[str], environ: Mapping[str, str] | None = None) -> bool:
    return subprocess.run(command, env=environ, check=False).returncode == 0


if __name__ == "__main__":
    main(*sys.argv[1:])
