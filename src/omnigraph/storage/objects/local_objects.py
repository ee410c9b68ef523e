"""The local disk under the control-object adapter: durable, atomic, a true compare-and-set.

obstore's local store neither syncs nor compares, so every write is staged beside its target and
synced before it becomes visible, and everything that changes an object holds one short advisory
lock of the root. Reads take no lock: a visible object is always whole.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import obstore
from obstore import exceptions
from obstore.store import LocalStore

from omnigraph.storage import flock
from omnigraph.storage.layout import LOCKS_DIR
from omnigraph.storage.objects.object_store import RESERVED, ObjectStore
from omnigraph.storage.objects.store_errors import PreconditionFailed

_CHANGES = f"{RESERVED}changes"
_CHANGES_TIMEOUT = 30.0
_TRASH = f"{RESERVED}trash-"
# A parent directory can vanish under a writer when somebody deletes the prefix around it.
_ATTEMPTS = 5


class LocalObjectStore(ObjectStore):
    """Control objects under a directory, which the first write creates."""

    def __init__(self, directory: str) -> None:
        super().__init__(None, directory)
        self._root = Path(directory)

    @property
    def _backend(self) -> LocalStore:
        if not isinstance(self._opened, LocalStore):
            if not self._root.is_dir():
                raise FileNotFoundError(self.address)
            self._opened = LocalStore(self._root)
        return self._opened

    def _path(self, name: str) -> Path:
        return self._root.joinpath(*name.split("/"))

    def _replace(self, name: str, data: bytes) -> str:
        return self._write(name, data, lambda staged: self._move(staged, name, overwrite=True))

    def _claim(self, name: str, data: bytes) -> str:
        return self._write(name, data, lambda staged: self._move(staged, name, overwrite=False))

    def _swap(self, name: str, data: bytes, version: str) -> str:
        def publish(staged: str) -> None:
            if self._current_token(name) != version:
                raise PreconditionFailed(
                    f'"{name}" under {self.address} changed since it was read; read it again',
                    object=name,
                )
            self._move(staged, name, overwrite=True)

        return self._write(name, data, publish)

    def _write(self, name: str, data: bytes, publish: Callable[[str], None]) -> str:
        staged = self._stage(name, data)
        try:
            with self._changing():
                publish(staged)
        finally:
            # Still there after a lost race or a failure; publishing moves it away.
            self._path(staged).unlink(missing_ok=True)
        _sync(self._path(name).parent)
        return _token(data)

    def _stage(self, name: str, data: bytes) -> str:
        parent, slash, _ = name.rpartition("/")
        staged = f"{parent}{slash}{RESERVED}{uuid4().hex}"
        for attempt in range(_ATTEMPTS):
            try:
                make_directory(self._path(name).parent)
                obstore.put(self._backend, staged, data, use_multipart=False)
                _sync(self._path(staged))
                break
            except FileNotFoundError:
                if attempt == _ATTEMPTS - 1:
                    raise
        return staged

    def _move(self, source: str, target: str, *, overwrite: bool) -> None:
        try:
            obstore.rename(self._backend, source, target, overwrite=overwrite)
        except (OSError, exceptions.BaseError):
            # An empty directory is not an object and must not block one of that name.
            path = self._path(target)
            if not path.is_dir() or not _remove_empty_tree(path):
                raise
            obstore.rename(self._backend, source, target, overwrite=overwrite)

    def _get(self, name: str) -> tuple[bytes, str]:
        data = bytes(obstore.get(self._backend, name).bytes())
        return data, _token(data)

    def _current_token(self, name: str) -> str | None:
        try:
            return self._get(name)[1]
        except FileNotFoundError:
            return None

    def _fingerprint(self, name: str) -> str:
        # Not through obstore: this runs before every read of a graph and is a hundred times cheaper.
        found = os.stat(f"{self._root}/{name}")  # noqa: PTH116 - a Path takes longer than the call
        return f"{found.st_dev} {found.st_ino} {found.st_mtime_ns} {found.st_size}"

    def _sizes(self, prefix: str) -> Iterator[tuple[str, int]]:
        if not self._root.is_dir():
            return
        for name, size in super()._sizes(prefix):
            if not any(segment.startswith(RESERVED) for segment in name.split("/")):
                yield name, size

    def _rename(self, source: str, target: str) -> None:
        self._head(source)
        make_directory(self._path(target).parent)
        with self._changing():
            self._move(source, target, overwrite=True)
        _sync(self._path(target).parent)
        _sync(self._path(source).parent)

    def _delete(self, name: str) -> None:
        # Checked first, so that deleting nothing also works on a read-only disk.
        self._head(name)
        with self._changing():
            obstore.delete(self._backend, name)
        _sync(self._path(name).parent)

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
        directory = self._root / LOCKS_DIR
        make_directory(directory)
        held = flock.lock(str(directory / _CHANGES), _CHANGES_TIMEOUT)
        try:
            yield
        finally:
            held.unlock()


def _token(data: bytes) -> str:
    # Content, not inode and time: those repeat within one tick of the file system's clock.
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


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
