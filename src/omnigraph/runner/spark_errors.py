"""How an error gets home from Spark, and what a failure of Spark means to the user.

An OmniGraph error that is raised on an executor must reach the caller as itself, with its class and
its details. Spark would hand the driver only the text of a traceback. So on executors the error is
packed into that text (`carried_errors`), and the driver, which runs every call of Spark inside
`spark_errors`, unpacks and raises it. Where the error is to be part of a result instead of ending
the job, its bytes travel in a row (`error_bytes`, `error_of`).

What else fails (no Python on the workers, no memory, Java gone, a mistake in SQL) becomes an
OmniGraph error of one line: with advice where there is some (`_MEANINGS`), otherwise with the line of
Spark's output that names the reason.

The data source is the exception: its tasks are Spark's own, and the user's call of Spark gets
Spark's exception. There `short_errors` keeps tracebacks of this package out of the text.
"""

from __future__ import annotations

import base64
import os
import pickle
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from typing import NamedTuple

from omnigraph.errors import BadRequest, InputError, OmniGraphError, StorageError

_PYTHON = "{}.{}".format(*sys.version_info[:2])

# The first pattern that is found in Spark's text decides.
_MEANINGS: list[tuple[re.Pattern[str], Callable[[re.Match[str]], OmniGraphError]]] = [
    (
        re.compile(r"Python in worker has different version:? \(?'?(\d[\d., ]*)"),
        lambda found: BadRequest(
            f"Spark's workers run Python {found[1].strip(' .,').replace(', ', '.')} and this "
            f"process runs {_PYTHON}; set PYSPARK_PYTHON to a Python {_PYTHON} of the workers"
        ),
    ),
    (
        re.compile(r'Cannot run program "([^"]+)"'),
        lambda found: BadRequest(
            f'Spark\'s workers cannot run "{found[1]}"; set PYSPARK_PYTHON to a Python {_PYTHON} '
            f"of the workers"
        ),
    ),
    (
        re.compile(r"ModuleNotFoundError: No module named '([\w.]+)'"),
        lambda found: BadRequest(
            f"the Python of Spark's workers has no module {found[1]}; install omnigraph there "
            f"too, or set PYSPARK_PYTHON to a Python that has it"
        ),
    ),
    (
        re.compile(r"OutOfMemoryError|exit(?:ed|) (?:caused|with|code|status).{0,40}\b137\b"),
        lambda _: StorageError(
            "Spark ran out of memory; give it more (spark.driver.memory, on a cluster "
            "spark.executor.memory), or lower OMNIGRAPH_LOAD_CONCURRENCY"
        ),
    ),
    (
        re.compile(r"No space left on device"),
        lambda _: StorageError(
            "there is no space left for Spark's own files; set spark.local.dir to a directory on "
            "a larger disk"
        ),
    ),
    (
        re.compile(r"SparkContext was shut ?down|stopped SparkContext|SparkContext has been"),
        lambda _: StorageError("the Spark session was stopped while a job ran on it; start again"),
    ),
    (
        re.compile(r"Py4JNetworkError|Connection refused|Answer from Java side is empty"),
        lambda _: StorageError(
            "Spark's Java process ended; if memory was short, set spark.driver.memory; then "
            "start again"
        ),
    ),
]

_CARRIED = re.compile(r"omnigraph-error:([A-Za-z0-9+/=]+):")

# The last line of a Python traceback. Lines of Java's traces start with a Java package.
_RAISED = re.compile(
    r"^[ \t]*((?!java\.|org\.|scala\.)[A-Za-z_][\w.]*(?:Error|Exception|Exit|Interrupt)\b.*)$",
    re.MULTILINE,
)
_FRAME = re.compile(r'^[ \t]*File "([^"\n]+)", line (\d+), in (\S+)', re.MULTILINE)
_OF_SPARK = re.compile(r"[/\\]pyspark(?:\.zip)?[/\\]")
_OURS = re.compile(r"[/\\]omnigraph[/\\](?:runner|pipeline|spark|storage|validate|embeddings)[/\\]")
_SHOWN_CHARACTERS = 500
_HIDE = "SPARK_HIDE_TRACEBACK"
"""A variable that PySpark looks at when it reports an exception."""


# ------------------------------------------------------------------ on an executor


class _Place(NamedTuple):
    """Where a frame of a traceback is."""

    file: str
    line: str
    function: str


class CarriedError(Exception):
    """An OmniGraph error on its way from an executor to the driver; its text contains the error."""

    def __init__(self, error: OmniGraphError) -> None:
        self.error = error
        packed = base64.b64encode(error_bytes(error)).decode()
        super().__init__(f"{error}\nomnigraph-error:{packed}:")


@contextmanager
def carried_errors() -> Iterator[None]:
    """Run code on an executor; OmniGraph errors that it raises reach the driver as themselves."""
    try:
        yield
    except OmniGraphError as error:
        # Spark shows and logs the text of causes, too, which may repeat keys of a store.
        raise CarriedError(error) from None


def error_bytes(error: OmniGraphError) -> bytes:
    """Return the error as bytes, for a row of Spark."""
    return pickle.dumps(error)


def error_of(data: bytes) -> OmniGraphError:
    """Return the error that `error_bytes` packed, on another machine of the same job."""
    error: OmniGraphError = pickle.loads(data)  # noqa: S301 - written by our own executors
    return error


@contextmanager
def short_errors() -> Iterator[None]:
    """Raise OmniGraph errors without a traceback, which Spark would show to the user."""
    try:
        yield
    except OmniGraphError as error:
        _hide_frames()
        # A context manager restores the old traceback of the same exception, so raise a copy.
        raise copy(error) from None


def _hide_frames() -> None:
    """Let a process of Spark's show the exception as one line; it ends with it."""
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    if main is not None and main.name.startswith("pyspark."):
        os.environ[_HIDE] = "1"


# ------------------------------------------------------------------ on the driver


@contextmanager
def spark_errors(what: str = "the Spark engine") -> Iterator[None]:
    """Run calls of Spark; whatever they raise comes out as an OmniGraph error.

    ``what`` begins the text of failures without better advice ("… failed: reason").
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except CarriedError as error:
        raise error.error from None
    except (PySparkException, Py4JError) as error:
        text = str(error)
        carried = _CARRIED.search(text)
        if carried is not None:
            raise error_of(base64.b64decode(carried[1])) from None
        failure = _meaning(error) or _fault_of_caller(text)
        raise failure or StorageError(f"{what} failed: {reason_in(text)}") from error
    except pickle.PicklingError as error:
        raise BadRequest(
            f"what the job needs cannot be sent to Spark's executors: {reason_in(str(error))}; pass "
            "objects that can be pickled, or use engine `local`"
        ) from error
    except ConnectionError as error:
        raise _meaning(error) or StorageError(
            f"{what} failed: its Java process is gone; run the job again"
        ) from error


def _meaning(error: Exception) -> OmniGraphError | None:
    """Return what is known about such a failure, with advice; None for all others."""
    text = f"{type(error).__name__}: {error}"
    for pattern, meaning in _MEANINGS:
        found = pattern.search(text)
        if found is not None:
            return meaning(found)
    return None


def _fault_of_caller(text: str) -> OmniGraphError | None:
    """Return the error for an exception that a function of the caller's raised; None for all others.

    Spark computes a frame of the caller's in the same job. No function of this package is in its traceback.
    """
    frames = [_Place(*found) for found in _FRAME.findall(text)]
    own = [place for place in frames if not _OF_SPARK.search(place.file)]
    if not own or any(_OURS.search(place.file) for place in own):
        return None
    last, reason = own[-1], reason_in(text)
    return InputError(
        f'{reason}; raised by a function of the frame, {last.function} in "{last.file}", line '
        f"{last.line}: mend it, or leave out the rows it fails at",
        error=reason.partition(":")[0],
        file=last.file,
        line=int(last.line),
        function=last.function,
    )


def reason_in(text: str) -> str:
    """Return the line of Spark's many that names the reason.

    That is the end of the last Python traceback in the text, or the first line where there is none.
    """
    raised = _RAISED.findall(text)
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        return "no reason given"
    return str(raised[-1] if raised else lines[0]).strip()[:_SHOWN_CHARACTERS]
