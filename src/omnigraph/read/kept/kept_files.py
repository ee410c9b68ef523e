"""The kept files of this user: found by table, written whole, removed when they are old or too many.

    <cache directory>/topology/<table>/<version>-<lineage>-<state>-<part>.kept

Processes share them. A file appears under its name only when it is complete, and one that is removed
stays readable for those who have it mapped. Nothing here ever fails a read: what cannot be read counts
as missing, and what cannot be written is not kept.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import re
import shutil
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from omnigraph import settings
from omnigraph.errors import OmniGraphError
from omnigraph.read.kept.build_lock import alone
from omnigraph.read.kept.kept_file import (
    Array,
    Facts,
    KeptFile,
    KeptWriter,
    Sizes,
    Untrusted,
    sizes_of,
)
from omnigraph.read.kept.sealed import make_private

logger = logging.getLogger(__name__)

_SUFFIX: Final = ".kept"
_DRAFT: Final = "draft-"
_NAME: Final = re.compile(r"([0-9]{1,20})-([0-9a-f]{16})-([0-9a-f]{16})-([a-z-]+)\.kept")
# After this many seconds a draft is taken for that of a dead process, and an unused file is removed.
_ABANDONED: Final = 3600.0
_FORGOTTEN: Final = 30 * 24 * 3600.0
# A file is not written where it would take more than this share of what is free.
_SHARE_OF_FREE: Final = 2


class KeptName(NamedTuple):
    """What the name of a file says: which version of which lineage, its state, and the part of it."""

    version: int
    lineage: str
    state: str
    part: str

    def __str__(self) -> str:
        return f"{self.version}-{self.lineage}-{self.state}-{self.part}{_SUFFIX}"


def digest(text: str) -> str:
    """A short name of a text, which no other text will have."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class KeptFiles:
    """The kept files of all graphs, up to a number of bytes on disk; none if that is 0."""

    def __init__(self, max_bytes: int, place: Path | None) -> None:
        self.max_bytes = max_bytes if place is not None else 0
        self._place = place

    @staticmethod
    def of_settings() -> KeptFiles:
        """Those in the cache directory. Without a directory for caches nothing is kept."""
        try:
            place = settings.CACHE_DIR.get() / "topology"
        except OmniGraphError:
            place = None
        return KeptFiles(settings.DISK_CACHE_MB.get() * 2**20, place)

    def names(self, table: str) -> list[KeptName]:
        """The names of the files kept of a table, the newest version first. No file is opened."""
        folder = self._folder(table)
        if folder is None:
            return []
        try:
            found = [_NAME.fullmatch(name) for name in os.listdir(folder)]  # noqa: PTH208 - names only
        except OSError:
            return []
        names = [KeptName(int(one[1]), one[2], one[3], one[4]) for one in found if one is not None]
        return sorted(names, reverse=True)

    def open(self, table: str, name: KeptName) -> KeptFile | None:
        """A kept file, if it is there and its key is that of its name; otherwise it is removed."""
        folder = self._folder(table)
        if folder is None:
            return None
        path = folder / str(name)
        try:
            found = KeptFile(path)
        except Untrusted as error:
            self._discard(table, name, str(error))
            return None
        if (digest(found.key), found.part) != (name.state, name.part):
            self._discard(table, name, "it belongs to another state, or is another part of it")
            return None
        with contextlib.suppress(OSError):
            os.utime(path)
        return found

    def write(
        self, table: str, name: KeptName, key: str, facts: Facts, arrays: Mapping[str, Array]
    ) -> bool:
        """Keep arrays under a name, and make room for them; whether that went well."""

        def fill(writer: KeptWriter) -> Facts:
            for array_name, array in arrays.items():
                writer.append(array_name, array)
            return facts

        return self.fill(table, name, key, sizes_of(arrays), fill)

    def fill(
        self,
        table: str,
        name: KeptName,
        key: str,
        most: Sizes,
        fill: Callable[[KeptWriter], Facts | None],
    ) -> bool:
        """Keep arrays that ``fill`` writes, up to ``most`` of them; whether that went well.

        It returns their facts, or None if they should not be kept after all.
        """
        folder = self._folder(table)
        nbytes = sum(kind.itemsize * items for kind, items in most.values())
        if folder is None or nbytes > self.max_bytes:
            return False
        draft = folder / f"{_DRAFT}{uuid.uuid4().hex}"
        is_kept = False
        try:
            for place in (folder.parent, folder):
                make_private(place)
            if nbytes * _SHARE_OF_FREE > shutil.disk_usage(folder).free:
                return False
            self._make_room(nbytes, folder)
            with KeptWriter(draft, key, name.part, most) as writer:
                facts = fill(writer)
                if facts is not None:
                    writer.finish(facts)
            if facts is not None:
                draft.rename(folder / str(name))
                is_kept = True
        except OSError as error:
            logger.debug("%s is not kept: %s", folder / str(name), error)
        finally:
            if not is_kept:
                with contextlib.suppress(OSError):
                    draft.unlink()
        return is_kept

    def alone(
        self, table: str, name: KeptName, seconds: float
    ) -> contextlib.AbstractContextManager[None]:
        """Make what will be kept under a name inside; another process that does is waited for, but not for ever.

        It may be there afterwards, made by the other one.
        """
        folder = self._folder(table)
        if folder is None:
            return contextlib.nullcontext()
        # Named as a draft: what a killed process leaves is removed like one.
        return alone(folder / f"{_DRAFT}{name}", seconds)

    def remove(self, table: str, name: KeptName) -> None:
        """Remove a file, if it is there."""
        folder = self._folder(table)
        if folder is not None:
            with contextlib.suppress(OSError):
                (folder / str(name)).unlink()

    def remove_all(self, table: str) -> None:
        """Remove all that is kept of a table."""
        folder = self._folder(table)
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)

    def _discard(self, table: str, name: KeptName, why: str) -> None:
        folder = self._folder(table)
        if folder is not None and os.path.lexists(folder / str(name)):
            logger.info("%s is not used and removed: %s", folder / str(name), why)
            self.remove(table, name)

    def _folder(self, table: str) -> Path | None:
        return None if self._place is None or not self.max_bytes else self._place / table

    def _make_room(self, nbytes: int, used: Path) -> None:
        """Remove abandoned drafts, forgotten files, and the longest unused ones beyond the bound."""
        assert self._place is not None
        now, found, total = time.time(), [], nbytes
        for path in self._place.glob("*/*"):
            with contextlib.suppress(OSError):
                state = path.lstat()
                is_draft = path.name.startswith(_DRAFT)
                if state.st_mtime < now - (_ABANDONED if is_draft else _FORGOTTEN):
                    path.unlink()
                    continue
                total += state.st_size
                # The draft of another process will be a file soon.
                if not is_draft:
                    found.append((state.st_mtime, state.st_size, path))
        for _, size, path in sorted(found):
            if total <= self.max_bytes:
                break
            with contextlib.suppress(OSError):
                path.unlink()
            total -= size
        for folder in self._place.iterdir():
            with contextlib.suppress(OSError):
                # Another process may have made a new one for its draft.
                if folder != used and folder.lstat().st_mtime < now - _ABANDONED:
                    folder.rmdir()  # Only one that is empty.
