"""Spark masters: which are accepted, whether one answers, and the settings that suit it."""

from __future__ import annotations

import os
import re
import socket
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from omnigraph.cores import usable_cores
from omnigraph.errors import BadRequest

CONNECT_SECONDS = 5.0
LOOPBACK = "127.0.0.1"

_LOCAL = re.compile(r"local(?:\[(\*|[1-9][0-9]*)(?:\s*,\s*[0-9]+)?\])?")
_OTHER = re.compile(r"local-cluster\[.+\]|spark://.+|k8s://.+|yarn")
_ACCEPTED = "`local[*]`, `local[4]`, `spark://host:7077`, `k8s://https://host:443` or `yarn`"


def check(master: str) -> None:
    """Raise `BadRequest` for anything that is not a master, before Java starts."""
    if _LOCAL.fullmatch(master) or _OTHER.fullmatch(master):
        return
    if master.startswith("sc://"):
        raise BadRequest(
            f'"{master}" is a Spark Connect server, whose sessions have no context that OmniGraph '
            f"could run jobs on; use {_ACCEPTED}",
            master=master,
        )
    raise BadRequest(f'"{master}" is not a Spark master; use {_ACCEPTED}', master=master)


def check_reachable(master: str) -> None:
    """Raise `BadRequest` for a master that does not answer: Spark itself would try for minutes."""
    addresses = list(_addresses(master))
    failures: list[str] = []
    for host, port in addresses:
        try:
            socket.create_connection((host, port), timeout=CONNECT_SECONDS).close()
        except OSError as error:
            failures.append(f"{host}:{port}: {error.strerror or error}")
        else:
            return
    if addresses:
        raise BadRequest(
            f'the Spark master "{master}" does not answer ({"; ".join(failures)}); start it, '
            f"correct its address, or use `local[*]`",
            master=master,
        )


def defaults(master: str, scratch: Path) -> dict[str, str]:
    """Return the settings of a new session on that master, which the caller's settings override."""
    common = {
        "spark.app.name": "omnigraph",
        "spark.log.level": "ERROR",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # Names in a schema that differ only in case are different names.
        "spark.sql.caseSensitive": "true",
        "spark.sql.session.timeZone": "UTC",
        # Otherwise the first SQL text creates a directory in the current directory.
        "spark.sql.warehouse.dir": (scratch / "warehouse").as_uri(),
    }
    if _on_this_machine(master):
        common["spark.driver.host"] = common["spark.driver.bindAddress"] = LOOPBACK
    cores = local_cores(master)
    if cores is not None:
        common["spark.sql.shuffle.partitions"] = str(cores)
        common["spark.local.dir"] = str(scratch / "local")
    return common


def environment(master: str, conf: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables of the Java process."""
    variables = {
        "PYSPARK_PYTHON": worker_python(master, conf),
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
    if _on_this_machine(master):
        variables["SPARK_LOCAL_IP"] = LOOPBACK
    return variables


def worker_python(master: str, conf: Mapping[str, str]) -> str:
    """Return the Python of the workers: this one, unless the user names another for a cluster."""
    if local_cores(master) is not None:
        return sys.executable
    return conf.get("spark.pyspark.python") or os.environ.get("PYSPARK_PYTHON") or sys.executable


def local_cores(master: str) -> int | None:
    """Return the number of cores that a `local[n]` master uses; None for a cluster."""
    found = _LOCAL.fullmatch(master)
    if found is None:
        return None
    if found[1] == "*":
        return usable_cores()
    return int(found[1] or 1)


def _on_this_machine(master: str) -> bool:
    """Say whether executors reach the driver at the loopback address.

    Pods do not, even where Kubernetes itself answers at a port of this machine (kind, minikube).
    """
    if master.startswith("spark://"):
        return all(host in {LOOPBACK, "localhost", "::1"} for host, _ in _addresses(master))
    return local_cores(master) is not None


def _addresses(master: str) -> Iterator[tuple[str, int]]:
    """Yield the hosts and ports of a master: several for a standby group, none for `local` or `yarn`."""
    if master.startswith("spark://"):
        for part in master.removeprefix("spark://").split(","):
            yield _address(master, f"//{part}", 7077)
    elif master.startswith("k8s://"):
        url = master.removeprefix("k8s://")
        yield _address(master, url if "://" in url else f"https://{url}", 443)


def _address(master: str, url: str, port: int) -> tuple[str, int]:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or port
    except ValueError:
        host = ""
    if not host:
        raise BadRequest(f'"{master}" is not a Spark master; use {_ACCEPTED}', master=master)
    return host, port
