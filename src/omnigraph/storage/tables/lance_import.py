"""The one place that imports Lance; everything else in ``storage/`` asks for it here, on first use.

Importing Lance costs half a second, so importing a module of this package must not do it. Lance
(pylance 14) also writes warnings to stderr unless ``LANCE_LOG`` is set before the import, and it
imports ``pyarrow.dataset``, which imports pandas if it is installed: 1.2 s that nothing needs.
"""

from __future__ import annotations

import functools
import importlib
import os
import re
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Final

from omnigraph.cores import usable_cores
from omnigraph.storage import layout

# Field 12: its tag, the length of the text, the text. The UUID makes it unique, and nothing else in a manifest
# looks like it.
_FIELD: Final = re.compile(rb"\x62[\x20-\x7f]([0-9]{1,20}-[\x21-\x7e]{8,64}?\.txn)")


def transaction_name(manifest: bytes) -> bytes:
    """Return ``<version it was based on>-<uuid>.txn``; empty where the manifest names none."""
    for found in _FIELD.finditer(manifest):
        if manifest[found.start() + 1] == len(found[1]):
            return found[1]
    return b""


class _HidePandas(MetaPathFinder):
    """Makes ``import pandas`` fail in one thread; other threads import it undisturbed."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Refuse pandas, leave every other name to the finders after this one."""
        del path, target
        if fullname == "pandas" and threading.get_ident() == self._thread:
            raise ModuleNotFoundError(
                "pandas is hidden while pyarrow.dataset is imported", name=fullname
            )
        return None


@contextmanager
def _pandas_hidden() -> Iterator[None]:
    """Put other lists in the place of ``sys.meta_path``, and change none.

    A thread that imports anything meanwhile goes through the list that it found: had that become shorter, it would miss a
    finder, and not find what is installed.
    """
    finder = _HidePandas()
    sys.meta_path = [finder, *sys.meta_path]
    try:
        yield
    finally:
        sys.meta_path = [other for other in sys.meta_path if other is not finder]


@functools.cache
def lance() -> Any:
    """The ``lance`` module, imported on the first call."""
    # Processes that Spark starts inherit the environment and should be as quiet as this one.
    os.environ.setdefault("LANCE_LOG", "error")
    # By default Lance encodes on one core where there are two.
    os.environ.setdefault("LANCE_CPU_THREADS", str(usable_cores()))
    # Not around the import of lance: it checks then whether pandas is installed, and would refuse
    # pandas frames for good in a program that uses both.
    with _pandas_hidden():
        importlib.import_module("pyarrow.dataset")
    return importlib.import_module("lance")


def lance_module(name: str) -> Any:
    """The submodule ``lance.<name>``, for example ``lance_module("fragment")``."""
    lance()
    return importlib.import_module(f"lance.{name}")


class _Sessions:
    """The Lance sessions of some tables: metadata and index caches that their handles share.

    ``opens``: after that many opened tables the caches begin empty again. They keep every version that was opened, and a
    table that gets a new one with each commit soon fills them; once they are full, Lance takes new versions
    in slowly, and every handle reads them again.
    """

    def __init__(self, opens: int | None = None) -> None:
        self._most = opens
        self._lock = threading.Lock()
        self._opened = 0
        self._shared: Any = None
        self._branches: dict[str, tuple[str, Any]] = {}
        self._seen: dict[tuple[str, int], bytes] = {}

    def of(self, place: str, identifier: str | None) -> Any:
        """The session to open a table with; ``identifier`` is that of its branch, None for main.

        Lance (pylance 14) caches where rows are by directory and version. A branch that was deleted and
        made again has both in common with the old one: an upsert through the old cache does not find
        rows that are there, and inserts them a second time. So the new one gets a session of its own.
        """
        with self._lock:
            self._opened += 1
            if self._most is not None and self._opened > self._most:
                self._forget()
            if self._shared is None:
                self._shared = _new_session()
            if identifier is None:
                return self._shared
            known = self._branches.get(place)
            if known is None or known[0] != identifier:
                if known is None and len(self._branches) == _MAX_BRANCHES:
                    self._forget()
                    self._shared = _new_session()
                known = identifier, self._shared if known is None else _new_session()
                self._branches[place] = known
            return known[1]

    def admits(self, place: str, identifier: str | None, dataset: Any, mark: bytes) -> bool | None:
        """Whether what is cached under the number of a version belongs to the version of this handle.

        ``mark`` tells it from all others. None where the caches of the handle were dropped since.
        """
        with self._lock:
            known = None if identifier is None else self._branches.get(place)
            current = self._shared if known is None else known[1]
            if current is None or not dataset.session().is_same_as(current):
                return None
            is_same = self._seen.setdefault((place, dataset.version), mark) == mark
            if len(self._seen) > _MAX_VERSIONS:
                self._forget()
            return is_same

    def forget(self) -> None:
        """Begin with empty caches; handles that are open keep theirs."""
        with self._lock:
            self._forget()

    def _forget(self) -> None:
        self._branches.clear()
        self._seen.clear()
        self._shared, self._opened = None, 0


def session(place: str, identifier: str | None = None) -> Any:
    """The session to open a table with: by its directory, and by the identifier of its branch."""
    return _sessions(place).of(place, identifier)


def admits(place: str, identifier: str | None, dataset: Any) -> bool:
    """Whether a handle may be used; otherwise its table is to be opened again.

    Lance (pylance 14) caches the indexes, the transaction and the places of the rows of a version by directory
    and number. Where a copy of a table was put back and written to, other versions have the same numbers: rows
    that are there would not be found, and an upsert would insert them a second time. Then all caches begin
    empty.
    """
    mark = transaction_name(dataset._ds.serialized_manifest())  # noqa: SLF001 - no public way
    is_same = _sessions(place).admits(place, identifier, dataset, mark)
    if is_same is False:
        forget_sessions()
    return is_same is True


def _sessions(place: str) -> _Sessions:
    return _of_manifests if f"/{layout.MANIFEST}/" in f"{place}/" else _of_tables


def forget_sessions() -> None:
    """Begin with empty caches, for example because another table may be where one was before."""
    _of_tables.forget()
    _of_manifests.forget()


def _new_session() -> Any:
    return lance_module("dataset").Session(
        index_cache_size_bytes=_INDEX_CACHE_BYTES, metadata_cache_size_bytes=_METADATA_CACHE_BYTES
    )


MANIFESTS_OPENED = 256
"""After this number of versions of manifests, what Lance keeps of them is dropped: some 10 MB."""
_MAX_BRANCHES = 10_000
# Versions that are told from others of their number: some 20 MB.
_MAX_VERSIONS = 100_000
_INDEX_CACHE_BYTES = 2 * 1024**3
_METADATA_CACHE_BYTES = 512 * 1024**2
_of_tables = _Sessions()
_of_manifests = _Sessions(MANIFESTS_OPENED)
