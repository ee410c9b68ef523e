"""Every environment variable the engine reads itself, with its type and default.

A setting is read at each use, never at import, so a process may change its environment. An empty
value counts as unset. A value that cannot be used raises ``BadRequest``, which names the variable
and what it accepts.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar, cast, get_args

from omnigraph.errors import BadRequest

Value = TypeVar("Value")
TraversalMode = Literal["auto", "indexed", "csr"]
LogLevel = Literal["debug", "info", "warning", "error"]
LogFormat = Literal["json", "text"]


@dataclass(frozen=True, slots=True)
class Setting(Generic[Value]):
    """One environment variable: its name, what it accepts, and its default."""

    variable: str
    accepts: str
    parse: Callable[[str], Value]
    default: Callable[[], Value]

    def get(self) -> Value:
        """Return the current value; raise ``BadRequest`` if it cannot be used."""
        text = os.environ.get(self.variable, "").strip()
        if not text:
            return self.default()
        try:
            return self.parse(text)
        except (ValueError, RuntimeError):  # a `~` without a home directory
            raise BadRequest(
                f'{self.variable} is "{text}"; set it to {self.accepts}, or unset it',
                variable=self.variable,
                value=text,
                accepts=self.accepts,
            ) from None


def _whole_number(text: str, minimum: int) -> int:
    # int() alone would also accept "1_000" and digits of other scripts.
    if not re.fullmatch(r"[0-9]+", text):
        raise ValueError(text)
    number = int(text)
    if number < minimum:
        raise ValueError(text)
    return number


def _number(variable: str, default: int, minimum: int = 0) -> Setting[int]:
    return Setting(
        variable,
        f"a whole number, {minimum} or more",
        lambda text: _whole_number(text, minimum),
        lambda: default,
    )


def _text(variable: str, accepts: str) -> Setting[str | None]:
    return Setting(variable, accepts, str, lambda: None)


def _flag(variable: str, *, default: bool = False) -> Setting[bool]:
    return Setting(
        variable,
        "anything for yes, `0` or `false` for no",
        lambda text: text.lower() not in {"0", "false"},
        lambda: default,
    )


def _traversal_mode(text: str) -> TraversalMode:
    if text not in get_args(TraversalMode):
        raise ValueError(text)
    return cast("TraversalMode", text)


def _log_level(text: str) -> LogLevel:
    if text.lower() not in get_args(LogLevel):
        raise ValueError(text)
    return cast("LogLevel", text.lower())


def _log_format(text: str) -> LogFormat:
    if text.lower() not in get_args(LogFormat):
        raise ValueError(text)
    return cast("LogFormat", text.lower())


def _user_cache_dir() -> Path:
    from platformdirs import user_cache_path

    try:
        return user_cache_path("omnigraph", appauthor=False)
    except RuntimeError:
        raise BadRequest(
            "there is no home directory to keep caches in; set OMNIGRAPH_CACHE_DIR to a directory",
            variable="OMNIGRAPH_CACHE_DIR",
        ) from None


def _user_home() -> Path | None:
    try:
        return Path("~/.omnigraph").expanduser()
    except RuntimeError:  # no home directory, as in some containers
        return None


LOCK_WAIT_MS = _number("OMNIGRAPH_LOCK_WAIT_MS", 10_000)
LOCK_LEASE_MS = _number("OMNIGRAPH_LOCK_LEASE_MS", 6_000, minimum=1)
INDEX_MIN_ROWS = _number("OMNIGRAPH_INDEX_MIN_ROWS", 10_000)
LOAD_CONCURRENCY = _number("OMNIGRAPH_LOAD_CONCURRENCY", 8, minimum=1)
INLINE_BLOB_MAX = _number("OMNIGRAPH_INLINE_BLOB_MAX", 32 << 20)
MAINTENANCE_CONCURRENCY = _number("OMNIGRAPH_MAINTENANCE_CONCURRENCY", 8, minimum=1)
UPKEEP = _flag("OMNIGRAPH_UPKEEP", default=True)
UPKEEP_FRAGMENTS = _number("OMNIGRAPH_UPKEEP_FRAGMENTS", 64, minimum=1)
SPARK_THRESHOLD_MB = _number("OMNIGRAPH_SPARK_THRESHOLD_MB", 4096)
CACHE_MB = _number("OMNIGRAPH_CACHE_MB", 2048)
DISK_CACHE_MB = _number("OMNIGRAPH_DISK_CACHE_MB", 4096)
EMBEDDINGS_MOCK = _flag("OMNIGRAPH_EMBEDDINGS_MOCK")
EMBED_BATCH = _number("OMNIGRAPH_EMBED_BATCH", 64, minimum=1)
EMBED_RATE = _number("OMNIGRAPH_EMBED_RATE", 0)
EMBED_TIMEOUT_MS = _number("OMNIGRAPH_EMBED_TIMEOUT_MS", 30_000, minimum=1)
EMBED_DEADLINE_MS = _number("OMNIGRAPH_EMBED_DEADLINE_MS", 60_000)
EMBED_RETRY_ATTEMPTS = _number("OMNIGRAPH_EMBED_RETRY_ATTEMPTS", 4, minimum=1)
EMBED_RETRY_BACKOFF_MS = _number("OMNIGRAPH_EMBED_RETRY_BACKOFF_MS", 200)
DEBUG = _flag("OMNIGRAPH_DEBUG")
NUMBA = _flag("OMNIGRAPH_NUMBA", default=True)
SPARK_ARCHIVE = _flag("OMNIGRAPH_SPARK_ARCHIVE", default=True)

MUTATION_MAX_ROWS: Setting[int | None] = Setting(
    "OMNIGRAPH_MUTATION_MAX_ROWS",
    "a whole number, 1 or more",
    lambda text: _whole_number(text, 1),
    lambda: None,
)
SPARK_MASTER = _text("OMNIGRAPH_SPARK_MASTER", "a Spark master such as `local[*]`")
EMBED_PROVIDER = _text("OMNIGRAPH_EMBED_PROVIDER", "the name of an embedding provider")
EMBED_MODEL = _text("OMNIGRAPH_EMBED_MODEL", "the name of a model of the provider")
EMBED_BASE_URL = _text("OMNIGRAPH_EMBED_BASE_URL", "the address of the provider")
OPENROUTER_API_KEY = _text("OPENROUTER_API_KEY", "a key of OpenRouter")
OPENAI_API_KEY = _text("OPENAI_API_KEY", "a key of OpenAI")
GEMINI_API_KEY = _text("GEMINI_API_KEY", "a key of Gemini")
TRAVERSAL_MODE: Setting[TraversalMode] = Setting(
    "OMNIGRAPH_TRAVERSAL_MODE", "`auto`, `indexed` or `csr`", _traversal_mode, lambda: "auto"
)
CACHE_DIR: Setting[Path] = Setting(
    "OMNIGRAPH_CACHE_DIR",
    "a directory",
    lambda text: Path(text).expanduser().absolute(),
    _user_cache_dir,
)
HOME: Setting[Path | None] = Setting(
    "OMNIGRAPH_HOME",
    "a directory",
    lambda text: Path(text).expanduser().absolute(),
    _user_home,
)
PROFILE = _text("OMNIGRAPH_PROFILE", "the name of a profile")
BEARER_TOKEN = _text("OMNIGRAPH_BEARER_TOKEN", "the token for servers without one of their own")


def server_token(name: str) -> Setting[str | None]:
    """The variable that holds the token of one server of `config.yaml`."""
    variable = f"OMNIGRAPH_TOKEN_{name.upper().replace('-', '_')}"
    return _text(variable, f"the token of the server `{name}`")


# Those of `omnigraph-server`. `server/limits.py` warns of a number that cannot be used, and goes on.
PER_ACTOR_INFLIGHT_MAX = _number("OMNIGRAPH_PER_ACTOR_INFLIGHT_MAX", 16, minimum=1)
PER_ACTOR_BYTES_MAX = _number("OMNIGRAPH_PER_ACTOR_BYTES_MAX", 4 << 30, minimum=1)
READ_CONCURRENCY = _number("OMNIGRAPH_READ_CONCURRENCY", 4, minimum=1)
QUERY_TIMEOUT_MS = _number("OMNIGRAPH_QUERY_TIMEOUT_MS", 60_000)
QUERY_MAX_ROWS = _number("OMNIGRAPH_QUERY_MAX_ROWS", 1_000_000, minimum=1)
QUERY_MAX_MB = _number("OMNIGRAPH_QUERY_MAX_MB", 1024, minimum=1)
ANSWERS_MB = _number("OMNIGRAPH_ANSWERS_MB", 2048, minimum=1)
LOAD_BODY_MAX_MB = _number("OMNIGRAPH_LOAD_BODY_MAX_MB", 1024, minimum=1)
BLOB_BODY_MAX_MB = _number("OMNIGRAPH_BLOB_BODY_MAX_MB", 4096, minimum=1)
SERVER_TOKEN = _text("OMNIGRAPH_SERVER_BEARER_TOKEN", "the token of the actor `default`")
SERVER_TOKENS_FILE = _text(
    "OMNIGRAPH_SERVER_BEARER_TOKENS_FILE", "a JSON file of actors and tokens"
)
SERVER_TOKENS_JSON = _text(
    "OMNIGRAPH_SERVER_BEARER_TOKENS_JSON", "a JSON object of actors and tokens"
)
SERVER_STORE = _text("OMNIGRAPH_STORE", "the address of a graph to serve")
SERVER_CLUSTER = _text("OMNIGRAPH_CLUSTER", "the directory or address of a cluster to serve")
SERVER_BIND: Setting[str] = Setting(
    "OMNIGRAPH_BIND", "a HOST:PORT to listen on", str, lambda: "127.0.0.1:8080"
)
SERVER_WORKERS: Setting[str] = Setting(
    "OMNIGRAPH_WORKERS", "a number of processes", str, lambda: "1"
)
UNAUTHENTICATED = _flag("OMNIGRAPH_UNAUTHENTICATED")
EXPLORER = _flag("OMNIGRAPH_UI", default=True)
REQUIRE_ALL_GRAPHS = _flag("OMNIGRAPH_REQUIRE_ALL_GRAPHS")
LOG_LEVEL: Setting[LogLevel] = Setting(
    "OMNIGRAPH_LOG", "`debug`, `info`, `warning` or `error`", _log_level, lambda: "info"
)
LOG_FORMAT: Setting[LogFormat | None] = Setting(
    "OMNIGRAPH_LOG_FORMAT", "`json` or `text`", _log_format, lambda: None
)


def unusable() -> Iterator[tuple[Setting[Any], BadRequest]]:
    """Yield the variables that are set to what they do not accept, each with what is wrong."""
    for setting in [one for one in globals().values() if isinstance(one, Setting)]:
        if os.environ.get(setting.variable, "").strip():
            try:
                setting.get()
            except BadRequest as refused:
                yield setting, refused
