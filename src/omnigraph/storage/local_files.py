"""Local files that records name: which may be taken in, and how one is opened so that no other is read.

A record may come from anyone, so it never decides by itself which files of this machine are read: they
lie below a directory that the owner of the process has named. Links are followed before that is judged.
What was judged is the real path of the file, and a reader opens exactly that path: with no link on the
way, so that nobody can put one there in between.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Final
from urllib.parse import unquote, urlsplit

from omnigraph.errors import BadRequest

RECORD_FILE: Final = "record-file://"
"""How the address of such a file begins. No store knows it: only ``open_real`` leads to the bytes."""

_LOOK: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Opening a pipe would wait for its other end.
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class LocalFiles:
    """Where relative paths begin, and whether files must lie below that directory, links followed."""

    folder: str
    bounded: bool = True

    def find(self, path: str) -> str | None:
        """The real path of a file; None if it lies elsewhere, whether or not it is there."""
        # The kernel takes `link/..` for the directory of the link's target; so does this.
        real = os.path.realpath(Path(self.folder, path))
        if self.bounded and not is_below(real, self.folder):
            return None
        return real


def is_below(real: str, folder: str) -> bool:
    """Whether a real path lies below a directory, which may itself be reached by links."""
    top = os.path.realpath(folder)
    return real != top and PurePath(real).is_relative_to(top)


def given_directory(given: object) -> str | bool | None:
    """What a caller said about local files: a directory, as an absolute path, True, False, or nothing."""
    if given is None or isinstance(given, bool):
        return given
    if not isinstance(given, str | os.PathLike) or not os.fspath(given):
        raise BadRequest(
            f"local_files is a directory, True or False, not {given!r}; records take in files below it"
        )
    text = os.fspath(given)
    path = Path(os.fsdecode(text)).absolute()
    if not path.is_dir():
        raise BadRequest(
            f'local_files names "{path}", which is no directory; records take in files below one'
        )
    return str(path)


def file_uri_path(uri: str) -> str | None:
    """The path that a `file://` URI names; None if it is on another host."""
    parts = urlsplit(uri)
    if parts.netloc.lower() not in {"", "localhost"}:
        return None
    return unquote(parts.path)


def open_real(path: str) -> int:
    """Open the regular file at a real path, and return its descriptor.

    Raises ``OSError`` where a part of the path has become a link, as for every file that cannot be
    opened, and ``ValueError`` for what is no regular file.
    """
    top, *folders = PurePath(path).parts
    if not folders:
        raise ValueError("it is no regular file")
    name = folders.pop()
    place = os.open(top, _LOOK)
    try:
        for folder in folders:
            above, place = place, os.open(folder, _LOOK, dir_fd=place)
            os.close(above)
        found = os.open(name, _READ, dir_fd=place)
    finally:
        os.close(place)
    if not stat.S_ISREG(os.fstat(found).st_mode):
        os.close(found)
        raise ValueError("it is no regular file")
    return found


def record_file(path: str) -> str:
    """The address of a file by its real path, for the rows on their way into a table."""
    return RECORD_FILE + path


def path_of_record_file(uri: str | None) -> str | None:
    """The real path in such an address; None for every other one."""
    return uri[len(RECORD_FILE) :] if uri is not None and uri.startswith(RECORD_FILE) else None
