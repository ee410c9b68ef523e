"""The Spark session of this process: started when first needed, used by every job, ended at exit.

Spark allows one context for each process. A session that the caller started is used as it is and
never ended here. A session that we start runs on the Java process of `gateway`, so neither its
start-up messages nor its log reach the terminal (OMNIGRAPH_DEBUG sends them to the error stream).
"""

from __future__ import annotations

import atexit
import importlib.util
import logging
import os
import shutil
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omnigraph import settings
from omnigraph.errors import BadRequest
from omnigraph.runner import archive, gateway, masters
from omnigraph.runner.gateway import Gateway
from omnigraph.runner.java import java_problem
from omnigraph.storage.scratch import make_scratch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "is_running",
    "java_problem",
    "running_session",
    "spark_problem",
    "spark_session",
    "stop_session",
    "usable_session",
]

DEFAULT_MASTER = "local[*]"
EXECUTOR_SECONDS = 60.0


@dataclass(slots=True)
class _Own:
    """The session that we started, and the master and settings that it was started for."""

    lock: threading.RLock = field(default_factory=threading.RLock)
    session: SparkSession | None = None
    gateway: Gateway | None = None
    asked: tuple[str, tuple[tuple[str, str], ...]] | None = None


_own = _Own()
# Objects of the parent process that a forked child must not collect.
_inherited: list[Any] = []


def spark_problem() -> str | None:
    """Return why Spark cannot be started here and what to do; None when it can. This is cheap."""
    if importlib.util.find_spec("pyspark") is None:
        return "Spark is not installed; install it with `pip install 'omnigraph[spark]'`"
    return java_problem()


def is_running() -> bool:
    """Say whether this process has a live Spark session, ours or the caller's. Starts nothing."""
    return running_session() is not None


def running_session() -> SparkSession | None:
    """Return the live session of this process, ours or the caller's. Starts nothing."""
    if "pyspark" not in sys.modules:
        return None
    from pyspark.sql import SparkSession

    session = SparkSession._instantiatedSession  # noqa: SLF001 - the public way asks Java
    return session if session is not None and _answers(session) else None


def usable_session(given: Any) -> SparkSession:
    """Return the caller's session, after checking that our jobs can run on it."""
    module = type(given).__module__
    if module.startswith("pyspark.sql.connect"):
        raise BadRequest(
            "this is a session of Spark Connect, which has no context that OmniGraph could run "
            "jobs on; pass a session made with `SparkSession.builder.master(…)`, or leave it out "
            "and name the master with `spark_master`"
        )
    if not module.startswith("pyspark.sql") or not hasattr(given, "sparkContext"):
        raise BadRequest(f"spark is a {type(given).__name__}; pass a SparkSession, or leave it out")
    session: SparkSession = given
    if not _answers(session):
        raise BadRequest(
            "the Spark session that was passed is stopped; pass one that runs, or leave it out"
        )
    return session


def spark_session(master: str | None = None, conf: Mapping[str, str] | None = None) -> SparkSession:
    """Return the session of this process; start it if there is none.

    Without `master`, a running session is used as it is, and a new one runs on OMNIGRAPH_SPARK_MASTER
    or on all cores of this machine. `conf` holds settings of Spark.
    """
    wanted = _checked_conf(conf)
    with _own.lock:
        running = running_session()
        if running is not None:
            _check_fits(running, master, wanted)
            return running
        chosen = (master or settings.SPARK_MASTER.get() or DEFAULT_MASTER).strip()
        masters.check(chosen)
        problem = spark_problem()
        if problem is not None:
            raise BadRequest(f"{problem}; `engine=local` works without", master=chosen)
        masters.check_reachable(chosen)
        return _start(chosen, wanted)


def stop_session(seconds: float = gateway.END_SECONDS) -> None:
    """End the session that we started and its Java, if any; a caller's session is left alone.

    Java is ended by force after `seconds`.
    """
    with _own.lock:
        session, java = _own.session, _own.gateway
        _own.session = None
        if session is not None and _answers(session):
            session.stop()
        # A session that the caller started after ours runs on the same Java.
        if java is not None and running_session() is None:
            _own.gateway = _own.asked = None
            java.end(seconds)
            _forget_connection(java.connection)


def _start(master: str, conf: dict[str, str]) -> SparkSession:
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    # Spark logs errors of SQL texts here as JSON; they reach the caller as exceptions anyway.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    # py4j logs on the root logger, even when garbage collection releases objects of a dead Java.
    logging.getLogger().addFilter(_not_of_py4j)
    java = _java_for(master, conf)
    previous = os.environ.get("PYSPARK_PYTHON")
    os.environ["PYSPARK_PYTHON"] = masters.worker_python(master, conf)
    try:
        spark_conf = SparkConf(loadDefaults=True, _jvm=java.connection.jvm)
        for key, value in _all_settings(master, conf, java.scratch).items():
            spark_conf.set(key, value)
        context = SparkContext(conf=spark_conf, gateway=java.connection)
        session = SparkSession(context)
        _wait_for_executor(session)
    except Exception as error:
        printed = java.printed()
        stop_session()
        if isinstance(error, BadRequest):
            raise
        raise BadRequest(_start_failure(master, error, printed), master=master) from error
    finally:
        if previous is None:
            os.environ.pop("PYSPARK_PYTHON", None)
        else:
            os.environ["PYSPARK_PYTHON"] = previous
    _own.session = session
    return session


def _wait_for_executor(session: SparkSession) -> None:
    """Refuse a cluster that gives us no executor: jobs would wait for one silently and forever."""
    context = session.sparkContext
    on_demand = str(session.conf.get("spark.dynamicAllocation.enabled", "false")) == "true"
    if on_demand or not str(context.master).startswith("spark://"):
        return
    deadline = time.monotonic() + EXECUTOR_SECONDS
    while context._jsc.sc().getExecutorMemoryStatus().size() < 2:  # noqa: SLF001 - one is the driver
        if time.monotonic() > deadline:
            raise BadRequest(
                f'the Spark master "{context.master}" gave no executor within '
                f"{EXECUTOR_SECONDS:.0f} seconds; start workers, free some of their cores and "
                f"memory, or ask for less (spark.executor.memory, spark.cores.max)",
                master=context.master,
            )
        time.sleep(0.1)


def _java_for(master: str, conf: dict[str, str]) -> Gateway:
    """Return the Java of a stopped session that had the same master and settings, or a new one."""
    from pyspark import SparkContext

    asked = (master, tuple(sorted(conf.items())))
    last = _own.gateway
    if last is not None and last.alive and _own.asked == asked:
        return last
    stop_session()
    _forget_connection(SparkContext._gateway)  # noqa: SLF001 - a caller's, whose session is gone
    scratch = make_scratch("spark")
    try:
        java = gateway.start_gateway(
            archive.with_archive(_all_settings(master, conf, scratch)),
            masters.environment(master, conf),
            scratch,
        )
    except Exception as failure:  # py4j raises what it likes about a Java that is gone
        shutil.rmtree(scratch, ignore_errors=True)
        raise BadRequest(_start_failure(master, failure, str(failure)), master=master) from failure
    _own.gateway, _own.asked = java, asked
    return java


def _all_settings(master: str, conf: dict[str, str], scratch: Path) -> dict[str, str]:
    return {**masters.defaults(master, scratch), **conf, "spark.master": master}


def _start_failure(master: str, error: BaseException, printed: str) -> str:
    reason = _first_line(str(getattr(error, "java_exception", None) or error))
    shown = f"\nJava's last words:\n{printed}" if printed and printed != str(error) else ""
    return (
        f'Spark did not start on "{master}": {reason}; check the master and the settings, or use '
        f"`engine=local`{shown}"
    )


def _not_of_py4j(record: logging.LogRecord) -> bool:
    return Path(record.pathname).parent.name != "py4j"


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "no reason given")


def _checked_conf(conf: Mapping[str, str] | None) -> dict[str, str]:
    wanted = {str(key): str(value) for key, value in (conf or {}).items()}
    for key in wanted:
        if not key.startswith("spark."):
            raise BadRequest(
                f'"{key}" is not a Spark setting; their names start with `spark.`', setting=key
            )
    return wanted


def _check_fits(session: SparkSession, master: str | None, conf: dict[str, str]) -> None:
    """Refuse another master or other settings: a process can have only one Spark."""
    running = session.sparkContext.master
    if master is not None and master.strip() != running:
        raise BadRequest(
            f'this process runs Spark on "{running}", and "{master}" was asked for; stop the '
            f"running session first (`session.stop()`), or leave out the master",
            master=master,
            running=running,
        )
    for key, value in conf.items():
        now = session.conf.get(key, None)
        if now != value:
            raise BadRequest(
                f'the running Spark session has {key} = {now!r}, and "{value}" was asked for; '
                f"stop it first (`session.stop()`), or leave out the setting",
                setting=key,
                running=now,
            )


def _answers(session: SparkSession) -> bool:
    """Say whether a session can still be used: it is not stopped, and its Java runs."""
    context = session.sparkContext
    process = getattr(context._gateway, "proc", None)  # noqa: SLF001
    if process is not None and process.poll() is not None:
        return False  # not asked through py4j, which would complain on the terminal
    try:
        java = context._jsc  # noqa: SLF001 - the only sign of a stopped session
        return java is not None and not java.sc().isStopped()
    except Exception:  # noqa: BLE001 - py4j raises what it likes about a Java that is gone
        return False


def _forget_connection(connection: Any) -> None:
    """Make PySpark connect anew: it keeps its connection forever, even to a Java that is gone."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    if connection is None or SparkContext._gateway is not connection:  # noqa: SLF001
        return
    SparkContext._gateway = None  # noqa: SLF001
    SparkContext._jvm = None  # noqa: SLF001
    SparkContext._active_spark_context = None  # noqa: SLF001
    SparkSession._instantiatedSession = None  # noqa: SLF001
    SparkSession._activeSession = None  # noqa: SLF001


def _after_fork() -> None:
    """Drop the parent's connection in a forked child: one message on it would garble the parent's."""
    _own.lock = threading.RLock()
    if "pyspark" in sys.modules:
        from py4j.finalizer import ThreadSafeFinalizer
        from pyspark import SparkContext

        # The child's garbage collection must not release objects that the parent holds in Java.
        ThreadSafeFinalizer.finalizers = {}
        connection = SparkContext._gateway  # noqa: SLF001
        _inherited.extend((connection, SparkContext._active_spark_context, _own.session))  # noqa: SLF001
        _forget_connection(connection)
    if _own.gateway is not None:
        _own.gateway.forget()
    _own.session = _own.gateway = _own.asked = None


atexit.register(stop_session)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
