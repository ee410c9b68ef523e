"""The local disk under the control-object adapter: durable, atomic, a true compare-and-set.

By plain calls of the system: obstore's local store neither syncs nor compares, and hands every call to
a thread of its own. A write is staged beside its target and synced before it becomes visible.
Everything that replaces or removes an object holds one short advisory lock of the root; a claim needs
none, because a link is made only where nothing is. Reads take no lock: a visible object is always whole.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

from omnigraph.storage import flock
from omnigraph.storage.layout import LOCKS_DIR
from omnigraph.storage.objects.object_store import RESERVED, ObjectStore
from omnigraph.storage.objects.store_errors import ObjectChanged

_CHANGES = f"{RESERVED}changes"
_CHANGES_TIMEOUT = 30.0
_TRASH = f"{RESERVED}trash-"
# A file that another program on obstore was writing when it died; no object has such a name.
_RESIDUE = re.compile(r"#[0-9]+\Z")
# A parent directory can vanish under a writer when somebody deletes the prefix around it.
_ATTEMPTS = 5


class LocalObjectStore(ObjectStore):
    """Control objects under a directory, which the first write creates."""

    def __init__(self, directory: str) -> None:
        super().__init__(None, directory)
        self._root = Path(directory)

    def _path(self, name: str) -> Path:
        return self._root.joinpath(*name.split("/"))

    def _replace(self, name: str, data: bytes) -> str:
        return self._write(name, data, lambda staged: self._put_in_place(os.replace, staged, name))

    def _claim(self, name: str, data: bytes) -> str:
        staged = self._stage(name, data)
        try:
            self._put_in_place(os.link, staged, name)
        finally:
            staged.unlink(missing_ok=True)
        _sync(staged.parent)
        return _token(data)

    def _swap(self, name: str, data: bytes, version: str) -> str:
        def publish(staged: Path) -> None:
            self._ensure_version(name, version)
            self._put_in_place(os.replace, staged, name)

        # Before anything is staged, too: that would make the directory again of an object that is gone.
        self._ensure_version(name, version)
        return self._write(name, data, publish)

    def _ensure_version(self, name: str, version: str) -> None:
        if self._current_token(name) != version:
            raise ObjectChanged(
                f'"{name}" under {self.address} changed since it was read; read it again',
                object=name,
            )

    def _write(self, name: str, data: bytes, publish: Callable[[Path], None]) -> str:
        staged = self._stage(name, data)
        try:
            with self._changing():
                publish(staged)
        except BaseException:
            staged.unlink(missing_ok=True)
            raise
        _sync(staged.parent)
        return _token(data)

    def _stage(self, name: str, data: bytes) -> Path:
        """Write a file beside the target, and wait until it is on the disk."""
        parent = self._path(name).parent
        for attempt in range(_ATTEMPTS):
            staged = parent / f"{RESERVED}{uuid4().hex}"
            try:
                _write_file(staged, data)
                break
            except FileNotFoundError:
                if attempt == _ATTEMPTS - 1:
                    raise
                make_directory(parent)
        return staged

    def _put_in_place(self, put: Callable[[Path, Path], None], source: Path, name: str) -> None:
        """Give a file its name by a rename or a link."""
        target = self._path(name)
        try:
            put(source, target)
        except OSError:
            # An empty directory is not an object and must not block one of that name.
            if not target.is_dir() or not _remove_empty_tree(target):
                raise
            put(source, target)

    def _get(self, name: str) -> tuple[bytes, str]:
        try:
            data = self._path(name).read_bytes()
        except IsADirectoryError:
            raise FileNotFoundError(name) from None
        return data, _token(data)

    def _head(self, name: str) -> None:
        self._found(name)

    def _found(self, name: str) -> os.stat_result:
        """Look for an object; a directory is none."""
        found = os.stat(f"{self._root}/{name}")  # noqa: PTH116 - a Path takes longer than the call
        if not stat.S_ISREG(found.st_mode):
            raise FileNotFoundError(name)
        return found

    def _current_token(self, name: str) -> str | None:
        try:
            return self._get(name)[1]
        except FileNotFoundError:
            return None

    def _fingerprint(self, name: str) -> str:
        found = self._found(name)
        return f"{found.st_dev} {found.st_ino} {found.st_mtime_ns} {found.st_size}"

    def _sizes(self, prefix: str) -> Iterator[tuple[str, int]]:
        below = prefix.removesuffix("/")
        return _files_below(str(self._path(below) if below else self._root), below)

    def _modified(self, prefix: str) -> Iterator[tuple[str, int]]:
        for name, _ in self._sizes(prefix):
            with contextlib.suppress(FileNotFoundError):
                yield name, self._path(name).stat().st_mtime_ns

    def _touch(self, name: str) -> int:
        os.utime(self._path(name))
        return self._path(name).stat().st_mtime_ns

    def _rename(self, source: str, target: str) -> None:
        self._head(source)
        make_directory(self._path(target).parent)
        with self._changing():
            self._put_in_place(os.replace, self._path(source), target)
        _sync(self._path(target).parent)
        _sync(self._path(source).parent)

    def _delete(self, name: str) -> None:
        self._discard(name)
        _sync(self._path(name).parent)

    def _discard(self, name: str) -> None:
        # Checked first, so that deleting nothing also works on a read-only disk.
        self._head(name)
        with self._changing():
            self._path(name).unlink()

    def _delete_prefix(self, prefix: str) -> None:
        path = self._path(prefix)
        if path.is_dir():
            # Moved aside first, so that no reader sees it half deleted.
            with self._changing():
                path.rename(path.with_name(f"{_TRASH}{uuid4().hex}"))
        if path.parent.is_dir():
            self._empty_trash(path.parent)

    def _empty_trash(self, parent: Path) -> None:
        # This includes what an earlier delete left behind when its process died.
        for entry in parent.iterdir():
            if entry.name.startswith(_TRASH):
                shutil.rmtree(entry, onerror=_unless_gone)
        _sync(parent)
        with contextlib.suppress(OSError):
            while parent != self._root:
                parent.rmdir()
                parent = parent.parent

    @contextlib.contextmanager
    def _changing(self) -> Iterator[None]:
        held = self._lock_changes()
        try:
            yield
        finally:
            held.unlock()

    def _lock_changes(self) -> flock.FileLock:
        path = f"{self._root}/{LOCKS_DIR}/{_CHANGES}"
        try:
            return flock.lock(path, _CHANGES_TIMEOUT)
        except FileNotFoundError:
            make_directory(self._root / LOCKS_DIR)
            return flock.lock(path, _CHANGES_TIMEOUT)


def _token(data: bytes) -> str:
    # Content, not inode and time: those repeat within one tick of the file system's clock.
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _write_file(path: Path, data: bytes) -> None:
    """Write a new file, and wait until it is on the disk; nothing is left of one that failed."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        os.fsync(descriptor)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    finally:
        os.close(descriptor)


def _files_below(directory: str, name: str) -> Iterator[tuple[str, int]]:
    """The files of a directory and of those in it, by name, with their sizes; none that are just written."""
    try:
        with os.scandir(directory) as entries:
            found = [entry for entry in entries if not entry.name.startswith(RESERVED)]
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in found:
        below = f"{name}/{entry.name}" if name else entry.name
        if entry.is_dir():
            yield from _files_below(entry.path, below)
        elif entry.is_file() and not _RESIDUE.search(entry.name):
            with contextlib.suppress(FileNotFoundError):
                yield below, entry.stat().st_size


def _sync(path: Path) -> None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return  # replaced or removed by now, by somebody who syncs as well
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_directory(path: Path) -> None:
    """Create a directory and its parents, each one synced before the next."""
    if path.is_dir():
        return
    make_directory(path.parent)
    path.mkdir(exist_ok=True)
    _sync(path.parent)


def _remove_empty_tree(path: Path) -> bool:
    """Remove a directory that holds nothing but directories; False when it holds more."""
    try:
        for directory, _, files in os.walk(path, topdown=False):
            if files:
                return False
            Path(directory).rmdir()
    except OSError:
        return False
    return True


def _unless_gone(_: object, __: str, failure: tuple[object, BaseException, object]) -> None:
    if not isinstance(failure[1], FileNotFoundError):
        raise failure[1]
