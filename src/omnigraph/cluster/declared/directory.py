"""The directory of a cluster: files below it, read once, and none beside it."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Final

from omnigraph.yaml_files import LARGEST

CONFIG_FILE: Final = "cluster.yaml"


class OutsidePath(ValueError):
    """A path that leads out of the directory; its text says how."""


class UnfitFile(ValueError):
    """A file that is too long or not UTF-8; its text says which."""


@dataclass(frozen=True, slots=True)
class Directory:
    """A directory and the bytes of its files, which are read once."""

    path: Path
    contents: dict[str, bytes] = field(default_factory=dict)

    def place(self, text: str) -> Path:
        """Return where a path of cluster.yaml leads; ``OutsidePath`` if that is out of the directory."""
        if "\\" in text or "\0" in text:
            raise OutsidePath("it has a backslash or a zero byte in it; write it with slashes")
        named = PurePosixPath(text)
        if named.is_absolute() or (len(text) > 1 and text[1] == ":"):
            raise OutsidePath("it is absolute; write it relative to the directory of cluster.yaml")
        depth = 0
        for part in named.parts:
            depth += -1 if part == ".." else 1
            if depth < 0:
                raise OutsidePath("it leads above the directory of cluster.yaml; move the file")
        path = self.path / named
        root = os.path.realpath(self.path)
        real = os.path.realpath(path)
        if real != root and not real.startswith(root.rstrip("/") + "/"):
            raise OutsidePath("a link leads it out of the directory of cluster.yaml; copy the file")
        return path

    def read(self, text: str) -> bytes:
        """Return the bytes of a file; ``OSError`` if there is none, ``UnfitFile`` if it cannot be used."""
        key = str(PurePosixPath(text))
        if key not in self.contents:
            with self.place(text).open("rb") as file:
                data = file.read(LARGEST + 1)
            if len(data) > LARGEST:
                raise UnfitFile(f"it has more than {LARGEST:,} bytes; shorten it")
            try:
                data.decode()
            except UnicodeDecodeError as error:
                raise UnfitFile(f"byte {error.start} is not UTF-8; save it as UTF-8") from None
            self.contents[key] = data
        return self.contents[key]

    def changed(self) -> list[str]:
        """Return the files that are not any more what was read."""
        moved = []
        for key, data in sorted(self.contents.items()):
            try:
                with (self.path / key).open("rb") as file:
                    now = file.read(LARGEST + 1)
            except OSError:
                now = None
            if now != data:
                moved.append(key)
        return moved
