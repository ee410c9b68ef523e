"""Where an operation can be cut: every call of the object store, every Lance commit, every failpoint.

A ``Tap`` stands at all of them. It writes down the cut points that a clean run passes, or disturbs the run at
one of them. Nothing is listed by hand: a call that the product begins to make is a cut point of the next run.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, Self

from omnigraph import failpoints
from omnigraph.errors import StorageError
from omnigraph.storage.layout import fnv1a64
from omnigraph.storage.objects.object_store import ObjectStore
from omnigraph.storage.objects.store_errors import Unavailable
from omnigraph.storage.tables.lance_import import lance, lance_module

Fault = Literal[
    "error before", "error after", "sent again", "lost reply", "kill before", "kill after"
]

# The object store by its public methods: those that change something, and those that look.
STORE_EFFECTS = (
    "delete",
    "delete_prefix",
    "discard",
    "rename",
    "replace_bytes",
    "touch",
    "write_text",
    "write_text_if_absent",
    "write_text_if_match",
)
STORE_LOOKS = (
    "exists",
    "fingerprint",
    "list",
    "modified",
    "read_bytes",
    "read_versioned",
    "sizes",
    "total_size",
)
# What makes Lance commit or remove, as methods of a dataset.
DATASET_COMMITS = (
    "add_columns",
    "alter_columns",
    "cleanup_old_versions",
    "create_branch",
    "drop_columns",
    "update_field_metadata",
    "update_schema_metadata",
)
# Requests with a condition: a store client that gets no answer sends them again.
CONDITIONAL = {"commit", "merge_insert"}

_UNIQUE = re.compile(
    r"[0-9A-HJKMNP-TV-Z]{26}|[0-9a-f]{32}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
)
_LANCE_FILE = re.compile(r"(_versions|data|_deletions|_indices|_transactions|_refs)/.*")


@dataclass(frozen=True, order=True)
class Cut:
    """One place in the run of an operation: the nth time that this call is made or this point is passed."""

    name: str
    nth: int
    kind: Literal["effect", "look", "point"]

    def __str__(self) -> str:
        return f"{self.name} #{self.nth}"

    @property
    def faults(self) -> tuple[Fault, ...]:
        """What can happen here. A look has no effect that an error could follow."""
        match self.kind:
            case "effect":
                again: tuple[Fault, ...] = ("sent again",) if self._is_conditional() else ()
                errors: tuple[Fault, ...] = ("error before", "error after", *again, "lost reply")
                return (*errors, "kill before", "kill after")
            case "look":
                return ("error before", "lost reply", "kill before")
            case "point":
                return ("error before", "kill before")

    def _is_conditional(self) -> bool:
        return self.name.split(" ")[0] in CONDITIONAL


class Tap:
    """Stands at every seam of this process, for one run: records it, and disturbs it at one place."""

    def __init__(
        self, types: tuple[str, ...], at: Cut | None = None, fault: Fault | None = None
    ) -> None:
        self.cuts: list[Cut] = []
        self.reached = False
        self._types = {f"{fnv1a64(name.encode()):016x}": name for name in types}
        self._at = at
        self._fault = fault
        self._passed: Counter[str] = Counter()
        self._unreachable = False
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        global _tap  # noqa: PLW0603
        _tap = self
        return self

    def __exit__(self, *_: object) -> None:
        global _tap  # noqa: PLW0603
        _tap = None

    def point(self, name: str) -> None:
        """A failpoint is passed."""
        if self._is_here(f"point {name}", "point"):
            if self._fault == "kill before":
                _kill()
            raise StorageError(f"{name} fired")

    def call(
        self, name: str, place: str, kind: Literal["effect", "look"], make: Callable[[], Any]
    ) -> Any:
        """A call is made: let it through, or have it fail the way it would."""
        error = _error_of(name)
        here = self._is_here(f"{name} {self._label(place)}", kind)
        if self._unreachable:
            raise error("the store cannot be reached")
        if not here:
            return make()
        if self._fault == "kill before":
            _kill()
        if self._fault == "error before":
            raise error("refused")
        try:
            make()
        except Exception:
            # Refused anyway, as a claim of a name that is taken.
            if self._fault == "kill after":
                _kill()
            raise
        if self._fault == "kill after":
            _kill()
        if self._fault == "lost reply":
            # The effect is there, and nothing answers from now on.
            self._unreachable = True
            raise error("no answer")
        if self._fault == "sent again":
            # The request finds itself there, and Lance says that another one was first.
            raise lance_module("commit").CommitConflictError("sent again")
        raise error("failed after it was done")

    def _is_here(self, name: str, kind: Literal["effect", "look", "point"]) -> bool:
        with self._lock:
            self._passed[name] += 1
            cut = Cut(name, self._passed[name], kind)
            self.cuts.append(cut)
            if cut != self._at:
                return False
            self.reached = True
            return True

    def _label(self, place: str) -> str:
        """The place without what differs from run to run."""
        for digest, name in self._types.items():
            place = place.replace(digest, name)
        return _LANCE_FILE.sub(r"\1/*", _UNIQUE.sub("*", place))


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _error_of(name: str) -> Callable[[str], Exception]:
    return Unavailable if name in (*STORE_EFFECTS, *STORE_LOOKS) else OSError


_tap: Tap | None = None


def _passing(
    name: str,
    kind: Literal["effect", "look"],
    place: Callable[..., str],
    original: Callable[..., Any],
) -> Callable[..., Any]:
    @functools.wraps(original)
    def seam(*args: Any, **kwargs: Any) -> Any:
        tap = _tap
        if tap is None:
            return original(*args, **kwargs)
        return tap.call(name, place(*args, **kwargs), kind, lambda: original(*args, **kwargs))

    return seam


def install() -> None:
    """Put a seam around every call, for the life of this process. Without a tap they let all through."""
    for name in STORE_EFFECTS + STORE_LOOKS:
        kind: Literal["effect", "look"] = "effect" if name in STORE_EFFECTS else "look"
        original = getattr(ObjectStore, name)
        setattr(ObjectStore, name, _passing(name, kind, _object_name, original))
    for owner, attribute, name, place in _lance_calls():
        wrapped = _passing(name, "effect", place, getattr(owner, attribute))
        is_static = isinstance(owner, type) and isinstance(vars(owner)[attribute], staticmethod)
        setattr(owner, attribute, staticmethod(wrapped) if is_static else wrapped)
    _remember_datasets_of_builders()
    optimize = lance_module("optimize")
    optimize.Compaction = _CompactionSeam(optimize.Compaction)
    passed = failpoints._fire

    def fire(name: str) -> None:
        if _tap is not None:
            _tap.point(name)
        passed(name)

    # A hit looks at `_armed` first, which therefore may not be empty.
    failpoints._fire = fire
    failpoints._armed = _NeverEmpty(failpoints._armed)


class _NeverEmpty(dict[str, Any]):
    def __bool__(self) -> bool:
        return True


def _lance_calls() -> Iterator[tuple[Any, str, str, Callable[..., str]]]:
    """(owner, attribute, name of the seam, what names its place)."""
    dataset = lance().LanceDataset
    modules = lance_module("dataset"), lance_module("file")
    yield dataset, "commit", "commit", lambda base, *_, **__: _place(base)
    yield dataset, "drop", "drop", lambda base, *_, **__: _place(base)
    yield lance(), "write_dataset", "write_dataset", lambda _, uri, *__, **___: _place(uri)
    yield modules[0].MergeInsertBuilder, "execute", "merge_insert", lambda me, *_: me.place
    yield (
        modules[0].Branches,
        "delete",
        "delete branch",
        lambda me, name: f"{_place(me._ds)} {name}",
    )
    yield (
        modules[0].DatasetOptimizer,
        "optimize_indices",
        "optimize_indices",
        lambda me, *_, **__: _place(me._dataset),
    )
    yield modules[1].LanceFileSession, "delete_file", "delete_file", lambda _, path: path
    for name in DATASET_COMMITS:
        yield dataset, name, name, lambda me, *_, **__: _place(me)


def _remember_datasets_of_builders() -> None:
    dataset = lance().LanceDataset
    original = dataset.merge_insert

    @functools.wraps(original)
    def merge_insert(self: Any, on: Any) -> Any:
        builder = original(self, on)
        builder.place = _place(self)
        return builder

    dataset.merge_insert = merge_insert


class _CompactionSeam:
    """`lance.optimize.Compaction`, whose methods cannot be replaced one by one."""

    def __init__(self, original: Any) -> None:
        self._original = original
        self.commit = _passing(
            "compaction", "effect", lambda dataset, *_: _place(dataset), original.commit
        )

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)


def committing_calls() -> set[str]:
    """The names of Lance's own calls that have a seam."""
    return {attribute for _, attribute, name, _ in _lance_calls()} | {"merge_insert", "commit"}


def _object_name(_: ObjectStore, name: str = "", *__: object) -> str:
    return name


def _place(dataset: Any) -> str:
    """The directory of a table below the root of its graph: its last two parts, or three on a branch."""
    uri = dataset if isinstance(dataset, str) else str(dataset.uri)
    parts = uri.rstrip("/").split("/")
    tree = parts.index("tree") if "tree" in parts else len(parts)
    top = 1 if parts[tree - 1].startswith("_") else 2
    return "/".join(parts[tree - top :])


@contextlib.contextmanager
def stale_listings(prefix: str) -> Iterator[None]:
    """Listings below a prefix show nothing of what was put there lately: here, nothing at all."""
    original = ObjectStore.list

    def stale(self: ObjectStore, asked: str = "") -> list[str]:
        return [] if asked.startswith(prefix) else original(self, asked)

    ObjectStore.list = stale  # type: ignore[method-assign]
    try:
        yield
    finally:
        ObjectStore.list = original  # type: ignore[method-assign]
