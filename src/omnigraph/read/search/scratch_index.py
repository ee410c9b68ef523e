"""Text indexes that the engine builds for itself and keeps in the cache directory while there is room.

One is built when a property that has no usable index of its own is ranked or searched. It is a Lance
table of one column, the texts in the order of the ordinals, so that its row ids are the ordinals.

    <cache directory>/text/<digest of the state, the property and the analysis>/<new name>, seal

A state is named by the fingerprint of its content: the versions of two copies of a graph have the same
numbers. Processes share the indexes: a directory appears under its final name only when it is complete, and
is looked at by every process before it uses it (``read.kept.sealed``). One that is not what was written is
removed and built again, as is one that a search finds deleted.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import hashlib
import json
import logging
import os
import shutil
import tempfile
import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

import pyarrow as pa

from omnigraph import settings
from omnigraph.cancel import holding
from omnigraph.errors import StorageError
from omnigraph.lang.schema.indexes import IndexKind
from omnigraph.read.kept.kept_file import Untrusted
from omnigraph.read.kept.sealed import make_private, seal, sealed_files
from omnigraph.read.view.nodes import NodeSpace
from omnigraph.storage import full_disk
from omnigraph.storage.scratch import make_scratch
from omnigraph.storage.tables.indexing.full_text import TooManyEdits
from omnigraph.storage.tables.indexing.index_kinds import TEXT_ANALYSIS
from omnigraph.storage.tables.indexing.table_indexes import stage_create_index
from omnigraph.storage.tables.lance_import import lance
from omnigraph.storage.tables.table import Table, create_table, open_table
from omnigraph.storage.tables.table_commits import commit_staged
from omnigraph.storage.tables.table_ref import TableRef

T = TypeVar("T")

logger = logging.getLogger(__name__)

COLUMN: Final = "text"
# Open indexes of all readers of the process.
_MAX_OPEN: Final = 32
# Seconds after which a draft belongs to a process that died.
_ABANDONED_AFTER: Final = 3600.0

_open: OrderedDict[Path, Table] = OrderedDict()
_building: dict[Path, threading.Lock] = {}
_lock = threading.Lock()


class _Place(NamedTuple):
    """The directory of an index, and what its seal must say that it belongs to."""

    path: Path
    key: str

    @staticmethod
    def of(directory: Path, key: str) -> _Place:
        """The place in a directory for the index with this key."""
        return _Place(directory / hashlib.sha256(key.encode()).hexdigest()[:40], key)


def with_scratch_index(
    space: NodeSpace, name: str, search: Callable[[Table], T], max_bytes: int
) -> T:
    """What the search finds in the scratch index of that property, which is built if necessary.

    Building one removes the longest unused others while all together pass ``max_bytes``.
    """
    place = _Place.of(_directory(), _key(space, name))
    try:
        return search(_table(place, lambda: space.column(name).array, max_bytes))
    except TooManyEdits:
        raise
    except StorageError as error:
        # Another process may have made room, or the files are damaged.
        _discard(place.path)
        if full_disk.is_full(error):
            place = _Place.of(_own_directory(os.getpid()), place.key)
        return search(_table(place, lambda: space.column(name).array, max_bytes))


def forget_indexes() -> None:
    """Remove all indexes of this user and process: their names do not say which graphs they are of."""
    with _lock:
        found = set(_open)
    with contextlib.suppress(OSError):
        found.update((settings.CACHE_DIR.get() / "text").iterdir())
    for path in found:
        _discard(path)


def _directory() -> Path:
    """Where indexes are kept: the cache directory, or one of this process where that cannot be used."""
    kept = settings.CACHE_DIR.get() / "text"
    with contextlib.suppress(OSError):
        make_private(kept)
        if os.access(kept, os.W_OK | os.X_OK):
            return kept
    return _own_directory(os.getpid())


@functools.cache
def _own_directory(process: int) -> Path:
    try:
        place = make_scratch("text")
    except OSError as error:
        raise _unusable(settings.CACHE_DIR.get(), error) from error
    atexit.register(_remove_own, process, place)
    return place


def _remove_own(process: int, place: Path) -> None:
    # A forked child runs the exit hooks that its parent registered, while the parent may go on.
    if os.getpid() == process:
        shutil.rmtree(place, ignore_errors=True)


def _key(space: NodeSpace, name: str) -> str:
    made_by = sorted(TEXT_ANALYSIS.items()), lance().__version__
    return json.dumps([*space.kept_key(name), made_by], default=str)


def _table(place: _Place, texts: Callable[[], pa.Array], max_bytes: int) -> Table:
    path = place.path
    with _lock:
        table = _open.get(path)
        building = _building.setdefault(path, threading.Lock())
    if table is not None and not _touch(path):
        # Another process made room or purged: what is gone is no damage of which anybody should be told.
        _discard(path)
        table = None
    if table is None:
        with holding(building):
            table = _open.get(path) or _opened(place) or _built(place, texts(), max_bytes)
            with _lock:
                _open[path] = table
                while len(_open) > _MAX_OPEN:
                    _building.pop(_open.popitem(last=False)[0], None)
        _touch(path)
    return table


def _touch(path: Path) -> bool:
    """Note that an index is used; False if it is not there."""
    try:
        os.utime(path)
    except FileNotFoundError:
        return False
    except OSError:
        pass  # Not ours to touch, but there.
    return True


def _opened(place: _Place) -> Table | None:
    """The index that is kept there, if it is whole and nobody else can have written it."""
    if not os.path.lexists(place.path):
        return None
    try:
        files = sealed_files(place.path, place.key)
        return open_table(TableRef(str(place.path / files[0].partition("/")[0])))
    except (Untrusted, IndexError, StorageError) as error:
        logger.info("%s is not used and removed: %s", place.path, error)
        _remove(place.path)
        return None


def _built(place: _Place, texts: pa.Array, max_bytes: int) -> Table:
    directory = place.path.parent
    try:
        draft = Path(tempfile.mkdtemp(prefix="draft-", dir=directory))
    except OSError as error:
        raise _unusable(directory, error) from error
    try:
        rows = pa.table({COLUMN: texts})
        # A new name: Lance may still hold what was in this place before.
        index = draft / "index" / uuid.uuid4().hex
        table = create_table(TableRef(str(index)), rows.schema, rows)
        commit_staged(stage_create_index(table, COLUMN, IndexKind.FTS))
        seal(index.parent, place.key)
        with contextlib.suppress(OSError):
            # Fails when another process was faster; its index is the same.
            index.parent.rename(place.path)
        made = _opened(place)
    except OSError as error:
        raise _unusable(directory, error) from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    if made is None:
        return _built_apart(place, texts, max_bytes)
    _make_room(directory, place.path, max_bytes)
    return made


def _built_apart(place: _Place, texts: pa.Array, max_bytes: int) -> Table:
    """An index of this process alone, because something that cannot be removed has its place."""
    own = _own_directory(os.getpid())
    if place.path.parent == own:
        raise _unusable(own, FileExistsError(1, "its place is taken"))
    apart = _Place.of(own, place.key)
    return _opened(apart) or _built(apart, texts, max_bytes)


def _unusable(directory: Path, error: OSError) -> StorageError:
    return StorageError(
        f"no text index can be kept in {directory} ({error.strerror}); set OMNIGRAPH_CACHE_DIR to a "
        "directory that can be written"
    )


def _discard(place: Path) -> None:
    with _lock:
        _open.pop(place, None)
    _remove(place)


def _remove(place: Path) -> None:
    """Rename a directory, so that it is gone for others at once, then delete its files."""
    with contextlib.suppress(OSError):
        trash = Path(tempfile.mkdtemp(prefix="draft-", dir=place.parent))
        try:
            place.rename(trash / "index")
        finally:
            shutil.rmtree(trash, ignore_errors=True)


def _make_room(directory: Path, newest: Path, max_bytes: int) -> None:
    """Remove the longest unused indexes beyond the bound, and drafts of processes that died."""
    found: list[tuple[float, int, Path]] = []
    for place in directory.iterdir():
        with contextlib.suppress(OSError):
            used = place.stat().st_mtime
            if place.name.startswith("draft-"):
                if used < time.time() - _ABANDONED_AFTER:
                    shutil.rmtree(place, ignore_errors=True)
            elif place != newest:
                found.append((used, _bytes_below(place), place))
    total = _bytes_below(newest) + sum(nbytes for _, nbytes, _ in found)
    for _, nbytes, place in sorted(found):
        if total <= max_bytes:
            return
        total -= nbytes
        _discard(place)


def _bytes_below(place: Path) -> int:
    total = 0
    for folder, _, files in os.walk(place):
        for file in files:
            with contextlib.suppress(OSError):
                total += (Path(folder) / file).stat().st_size
    return total
