"""What a failed Spark job means to the user: Spark says it in hundreds of lines of stack traces."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Callable, Iterator

from omnigraph.errors import BadRequest, OmniGraphError, StorageError

_PYTHON = "{}.{}".format(*sys.version_info[:2])

# The first that is found in what Spark says decides.
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


@contextlib.contextmanager
def explained_failures() -> Iterator[None]:
    """Raise what Spark raises inside as an error of ours that says what to do."""
    try:
        yield
    except OmniGraphError:
        raise
    except Exception as error:
        if not _of_spark(error):
            raise
        raise explained(error) from error


def explained(error: BaseException) -> OmniGraphError:
    """The error of ours that says what an error of Spark means."""
    return known_meaning(error) or StorageError(f"the Spark job failed: {_gist(str(error))}")


def known_meaning(error: BaseException) -> OmniGraphError | None:
    """The same, for errors that there is advice for."""
    text = f"{type(error).__name__}: {error}"
    for pattern, meaning in _MEANINGS:
        found = pattern.search(text)
        if found is not None:
            return meaning(found)
    return None


def _of_spark(error: BaseException) -> bool:
    module = type(error).__module__.partition(".")[0]
    return module in {"pyspark", "py4j"} or isinstance(error, ConnectionError)


def _gist(text: str) -> str:
    """The line that says it: the last one of a Python traceback in it, otherwise the first."""
    raised = re.findall(r"^\s*((?:\w+\.)*\w*(?:Error|Exception|Exit)\b: .+)$", text, re.MULTILINE)
    in_python = [line for line in raised if not line.startswith(("java.", "org.", "scala."))]
    if in_python:
        return str(in_python[-1]).strip()
    return next((line.strip() for line in text.splitlines() if line.strip()), "no reason given")
