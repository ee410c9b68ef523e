"""A directory of files that is kept between processes: sealed once it is complete, looked at before it is used.

    <directory>/seal    SHA-256 of the next line
                        {"key": "...", "files": [["a.lance/data/1.lance", 512, CRC-32], ...]}

As with a kept file, whatever differs from what its reader expects makes it ``Untrusted``: a file that is missing,
new, cut off or changed, a link, or anything that others than its owner might have written.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from omnigraph.read.kept.kept_file import Untrusted

_SEAL: Final = "seal"
# More than the list of any index takes.
_MAX_SEAL: Final = 1 << 24
# Bytes of one read.
_PIECE: Final = 1 << 22


def seal(place: Path, key: str) -> None:
    """Make a directory private and write down what is in it; ``key`` says what it belongs to."""
    files = []
    for path, is_directory in _entries(place):
        path.chmod(0o700 if is_directory else 0o600)
        if not is_directory:
            files.append([path.relative_to(place).as_posix(), *_summed(path)])
    place.chmod(0o700)
    listed = json.dumps({"key": key, "files": sorted(files)})
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with os.fdopen(os.open(place / _SEAL, flags, 0o600), "w", encoding="utf-8") as file:
        file.write(f"{hashlib.sha256(listed.encode()).hexdigest()}\n{listed}")


def sealed_files(place: Path, key: str) -> list[str]:
    """The paths of the files of a sealed directory, all of them compared; ``Untrusted`` if anything differs."""
    try:
        _refuse_others(place)
        listed = _read_seal(place, key)
        found = {}
        for path, is_directory in _entries(place):
            _refuse_others(path)
            if not is_directory and path != place / _SEAL:
                found[path.relative_to(place).as_posix()] = _summed(path)
    except OSError as error:
        raise Untrusted(f"it cannot be read: {error.strerror}") from error
    if found != listed:
        raise Untrusted("its files are not those that were written")
    return sorted(listed)


def make_private(place: Path) -> None:
    """Make a directory that only its owner may enter; ``PermissionError`` if others may write to it."""
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = place.lstat()
    owned = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
    if not owned or stat.S_IMODE(found.st_mode) & 0o022:
        raise PermissionError(1, "others may write there", str(place))


def _read_seal(place: Path, key: str) -> dict[str, tuple[int, int]]:
    path = place / _SEAL
    if not stat.S_ISREG(path.lstat().st_mode) or path.lstat().st_size > _MAX_SEAL:
        raise Untrusted("its seal is no file, or too long")
    digest, _, listed = path.read_bytes().partition(b"\n")
    if hashlib.sha256(listed).hexdigest().encode() != digest:
        raise Untrusted("its seal is not the one that was written")
    try:
        described: Any = json.loads(listed)
        if described["key"] != key:
            raise Untrusted("it belongs to another state")
        return {name: (size, checksum) for name, size, checksum in described["files"]}
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise Untrusted("its seal cannot be read") from error


def _entries(place: Path) -> Iterator[tuple[Path, bool]]:
    """All that is below a directory, with whether it is a directory; links and pipes are refused."""
    with os.scandir(place) as entries:
        found = sorted(entries, key=lambda entry: entry.name)
    for entry in found:
        is_directory = entry.is_dir(follow_symlinks=False)
        if not is_directory and not entry.is_file(follow_symlinks=False):
            raise Untrusted(f"{entry.name} is neither a file nor a directory")
        yield Path(entry.path), is_directory
        if is_directory:
            yield from _entries(Path(entry.path))


def _refuse_others(path: Path) -> None:
    found = path.lstat()
    if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise Untrusted("others may have written it")


def _summed(path: Path) -> tuple[int, int]:
    """The length of a file and the checksum of its bytes."""
    size = checksum = 0
    with path.open("rb", buffering=0) as file:
        while piece := file.read(_PIECE):
            size += len(piece)
            checksum = zlib.crc32(piece, checksum)
    return size, checksum
