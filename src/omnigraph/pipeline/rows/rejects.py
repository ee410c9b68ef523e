"""The file that gets the bad records of a load as JSON lines: on this machine, or an object in a store."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omnigraph.errors import BadRequest
from omnigraph.pipeline.sources.locations import LocalFile, StoredObject
from omnigraph.pipeline.sources.sources import Source
from omnigraph.storage.objects.output_files import ObjectFile
from omnigraph.storage.store_kinds.known import store_address
from omnigraph.storage.store_kinds.store_kind import StoreOptions
from omnigraph.storage.uris import Root


@dataclass(frozen=True, slots=True)
class RejectsObject:
    """An object in a store for bad records, and how it is reached."""

    address: str
    options: StoreOptions | None = field(repr=False)

    def __str__(self) -> str:
        return self.address


Rejects = Path | RejectsObject
"""Where bad records are written to."""


def rejects_file(given: str | Path, store: StoreOptions | None) -> Rejects:
    """The file for bad records that a caller names: a path, or an address in a store."""
    address = store_address(given) if isinstance(given, str) else None
    return Path(given) if address is None else RejectsObject(address, store)


def prepare_rejects(path: Rejects, sources: Sequence[Source], root: Root) -> None:
    """Empty the file for bad records before any work; refuse a file of the graph or of the input."""
    if isinstance(path, RejectsObject):
        _refuse_object(path, sources, root)
    else:
        _refuse_path(path, sources, root)
    write_rejects(path, ())


def _refuse_object(place: RejectsObject, sources: Sequence[Source], root: Root) -> None:
    at = Root.parse(place.address)
    inside = (at.scheme, at.bucket) == (root.scheme, root.bucket) and f"{at.path}/".startswith(
        f"{root.path}/" if root.path else ""
    )
    if not root.is_local and inside:
        raise _refused(place, "inside the graph; choose another place")
    for source in sources:
        location = source.location
        if isinstance(location, StoredObject) and location.name == at.canonical:
            raise _refused(place, "which this load reads; choose another file")


def _refuse_path(path: Path, sources: Sequence[Source], root: Root) -> None:
    with _writing(path):
        place = path.resolve()
        if root.is_local and place.is_relative_to(Path(root.path).resolve()):
            raise _refused(path, "inside the graph; choose another place")
        for source in sources:
            location = source.location
            if path.exists() and isinstance(location, LocalFile) and path.samefile(location.path):
                raise _refused(path, "which this load reads; choose another file")


def _refused(place: Rejects, why: str) -> BadRequest:
    return BadRequest(f'bad records cannot be written to "{place}", {why}')


def write_rejects(path: Rejects, entries: Iterable[dict[str, Any]]) -> None:
    """Write the entries as JSON lines, in place of whatever the file held."""
    lines = (f"{_json_line(entry)}\n" for entry in entries)
    if isinstance(path, Path):
        with _writing(path), path.open("w", encoding="utf-8") as out:
            out.writelines(lines)
        return
    with ObjectFile(path.address, path.options) as made:
        for line in lines:
            made.write(line.encode())


def _json_line(entry: dict[str, Any]) -> str:
    text = json.dumps(entry, ensure_ascii=False)
    # Half of a surrogate pair, which a bad record may hold, is no UTF-8 and stays an escape.
    return text if text.isascii() or _is_unicode(text) else json.dumps(entry)


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError, RuntimeError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise BadRequest(
            f'bad records cannot be written to "{path}": {why}; choose another file'
        ) from None
