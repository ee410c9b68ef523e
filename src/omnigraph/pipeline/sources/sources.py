"""What there is to read: files, globs, directories, objects in a store, bytes and records of a program.

A source has an index, a name for messages, and a location that any process can open. Everything that a
call names is resolved once, before any work, in the order it was given.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import unquote

from omnigraph.errors import BadRequest
from omnigraph.lang.schema.catalog import Catalog
from omnigraph.pipeline.sources.load_scratch import spool_records
from omnigraph.pipeline.sources.locations import (
    InMemory,
    LocalFile,
    Location,
    StoredObject,
    readable,
)
from omnigraph.storage.objects.output_files import Compression, compression_of
from omnigraph.storage.store_kinds.known import store_address
from omnigraph.storage.store_kinds.store_kind import StoreOptions
from omnigraph.storage.uris import Root, split_address
from omnigraph.types.python import refuse_data

Unit = Literal["line", "row"]
SourceLike = str | Path | bytes | bytearray | memoryview | Mapping[str, Any]

JSON_LINES = tuple(
    stem + suffix for stem in (".jsonl", ".ndjson") for suffix in ("", ".gz", ".zst")
)
PARQUET = (".parquet", ".pq")
ARROW = (".arrow", ".feather", ".ipc")
CSV = (".csv", ".csv.gz", ".csv.zst")
COLUMN_FILES = (*PARQUET, *CSV, *ARROW)
ColumnFormat = Literal["parquet", "csv", "arrow"]
_GLOB = re.compile(r"[*?\[]")
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


Folders = tuple[tuple[str, str | None], ...]
"""The columns that `name=value` folders above a file give it, each with its value."""

PART_SHIFT = 33
"""Offsets of a frame read in parts: the part in the high bits, the 1-based row in it below."""


@dataclass(frozen=True, slots=True)
class InputSource:
    """One thing to read. ``unit`` says what its records are counted in: lines, or rows.

    ``parts`` has the number of rows in each part of a frame that was read in parts. ``folders`` are
    columns that all rows of the file have, because of where it lies. ``suffix`` says the format where the name
    does not. ``handed_over``: the caller gave the bytes themselves, and where they lie says nothing.
    """

    index: int
    name: str
    location: Location
    size: int
    compression: Compression | None = None
    unit: Unit = "line"
    parts: tuple[int, ...] = ()
    folders: Folders = ()
    suffix: str = ""
    handed_over: bool = False

    def ends_in(self, suffixes: tuple[str, ...]) -> bool:
        """Whether the format is one of those that such names have."""
        return (self.suffix or self.name).lower().endswith(suffixes)

    def row(self, offset: int) -> int:
        """The 1-based number of a row."""
        part, row = offset >> PART_SHIFT, offset & ((1 << PART_SHIFT) - 1)
        return sum(self.parts[:part]) + row


@dataclass(frozen=True, slots=True)
class ReceivedFile:
    """A file of columns that somebody sent: its format is told, and ``name`` stands for it in messages."""

    path: Path
    format: ColumnFormat
    name: str = "body"

    def source(self, index: int) -> InputSource:
        """Return it as a source, which nobody takes for a file of this machine."""
        location = LocalFile(str(self.path))
        suffix = f".{self.format}"
        return InputSource(
            index,
            self.name,
            location,
            location.size(),
            unit="row",
            suffix=suffix,
            handed_over=True,
        )


class Found(NamedTuple):
    """A location with its name for messages and its size."""

    name: str
    location: Location
    size: int
    folders: Folders = ()


def json_sources(
    given: SourceLike | Iterable[SourceLike],
    spool: Path,
    catalog: Catalog | None = None,
    store: StoreOptions | None = None,
) -> list[InputSource]:
    """The sources of JSON lines that a call names.

    A string is a path, a glob or a URI, never data. A directory contributes its JSON-lines files and
    those of the directories in it, sorted by name. Consecutive records become one source, a file in the directory ``spool``, which
    must outlive the reading. No records at all give no sources: an empty load. ``store`` as for ``files_named``.
    """
    found: list[Found] = []
    for item in _items(given):
        if isinstance(item, str | Path):
            named = files_named(item, JSON_LINES, store)
            _refuse_columns(named)
            found += named
        elif isinstance(item, bytes):
            found.append(Found("<bytes>", InMemory(item), len(item)))
        else:
            path = spool / f"records-{len(found)}.jsonl"
            spool_records(item, path, catalog)
            found.append(Found("<records>", LocalFile(str(path)), path.stat().st_size))
    return [
        InputSource(index, name, location, size, compression_of(name))
        for index, (name, location, size, _) in enumerate(found)
    ]


def _refuse_columns(found: Iterable[Found]) -> None:
    """Refuse files of columns, which name no type as records do."""
    for one in found:
        if one.name.lower().endswith(COLUMN_FILES):
            raise BadRequest(
                f'"{one.name}" is a file of columns, which belong to one type; load it with '
                "load_nodes or load_edges (--node TYPE FILE, --edge TYPE FILE)",
                source=one.name,
            )


SourceItem = str | Path | bytes | Iterator[Mapping[str, Any]]


def _items(given: SourceLike | Iterable[SourceLike]) -> Iterator[SourceItem]:
    """The items of a call, one source or glob at a time; records are streamed, never collected."""
    if isinstance(given, str | Path | bytes | bytearray | memoryview | Mapping):
        given = [given]
    if not isinstance(given, Iterable):
        raise BadRequest(
            f"a Python {type(given).__name__} is no source; give a path, bytes of JSON lines, or "
            "records as dicts"
        )
    items = iter(given)
    pending: list[Any] = []

    def records(first: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        yield first
        for item in items:
            if not isinstance(item, Mapping):
                pending.append(item)
                return
            yield item

    while True:
        if pending:
            item = pending.pop()
        else:
            try:
                item = next(items)
            except StopIteration:
                return
        if isinstance(item, Mapping):
            yield records(item)
        elif isinstance(item, bytearray | memoryview):
            yield bytes(item)
        elif isinstance(item, str | Path | bytes):
            yield item
        else:
            raise BadRequest(
                f"a Python {type(item).__name__} is no source; give paths, bytes of JSON lines, or "
                "records as dicts"
            )


def files_named(
    target: str | Path, suffixes: Sequence[str], store: StoreOptions | None = None
) -> list[Found]:
    """The files that a path, glob, directory, `file://` or `s3://` address names, sorted by name.

    ``store`` are options that win over the environment's.
    """
    text = os.fspath(target)
    if not text:
        raise BadRequest("the path of a source is empty; name a file, a directory or a glob")
    if isinstance(target, str) and (address := store_address(target)) is not None:
        return _in_store(address, suffixes, store)
    if isinstance(target, str) and re.match(r"https?://", target, re.IGNORECASE):
        raise BadRequest(
            f'"{target}" cannot be loaded from a web server; fetch it first, or pipe it in with '
            "`--data -`",
            source=target,
        )
    if isinstance(target, str):
        refuse_data(target)
    if isinstance(target, str) and re.match(r"[A-Za-z][A-Za-z0-9+.-]*://|file:/", target):
        text = Root.parse(
            target
        ).path  # refuses every scheme but file:// with what to write instead
    return _on_disk(text, suffixes)


def _on_disk(text: str, suffixes: Sequence[str]) -> list[Found]:
    path = Path(text)
    with readable(text):
        if path.is_dir():
            inside = sorted(_below_folder(path, suffixes), key="/".join)
            found = [_file(path.joinpath(*parts), folders_of(parts)) for parts in inside]
            return found or _nothing(text, suffixes)
        # A file of exactly that name wins over the glob its name would be.
        if _GLOB.search(text) and not path.exists():
            matches = [Path(name) for name in sorted(glob.glob(text, recursive=True))]  # noqa: PTH207
            files = [_file(match) for match in matches if not match.is_dir()]
            return files or _no_match(text)
        return [_file(path)]


def _below_folder(root: Path, suffixes: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """The files of a directory and of those in it, each as the parts of its path from there."""
    for place, inner, names in os.walk(root, onerror=_raise):
        inner[:] = [name for name in inner if not _is_set_aside(name)]
        above = Path(place).relative_to(root).parts
        for name in names:
            if _is_wanted(name, suffixes) and Path(place, name).is_file():
                yield *above, name


def _raise(error: OSError) -> None:
    raise error


def _is_set_aside(folder: str) -> bool:
    """Whether a directory is left alone: hidden ones, and what programs keep beside their data."""
    return folder.startswith((".", "_"))


def folders_of(parts: Sequence[str]) -> Folders:
    """The columns of the `name=value` folders in a path, the last part of which is the file."""
    found = []
    for part in parts[:-1]:
        name, equals, value = part.partition("=")
        if name and equals:
            found.append((unquote(name), None if value == _NO_VALUE else unquote(value)))
    return tuple(found)


def _file(path: Path, folders: Folders = ()) -> Found:
    name = str(path)
    with readable(name):
        location = LocalFile(str(path.absolute()))
        if not path.is_file():
            # A pipe has no size, no offsets and no second reading.
            path.stat()
            raise BadRequest(f'"{name}" is not a regular file; write it to one first', source=name)
        with location.open():
            return Found(name, location, location.size(), folders)


def _in_store(target: str, suffixes: Sequence[str], store: StoreOptions | None) -> list[Found]:
    bucket, key = split_address(target, store)
    options = Root.parse(str(bucket), store).lance_options()
    with readable(target):
        if not _GLOB.search(key):
            if key and not key.endswith("/"):
                found = _object(StoredObject(bucket, key, options))
                if found is not None:
                    return [found]
            folder = key.rstrip("/")
            listed = []
            for found in _listing(bucket, folder, options):
                parts = _below(found, folder).split("/")
                if _is_wanted(found.name, suffixes) and not any(map(_is_set_aside, parts[:-1])):
                    listed.append(found._replace(folders=folders_of(parts)))
            if listed or key.endswith("/") or not key:
                return listed or _nothing(target, suffixes)
            raise FileNotFoundError(target)
        # Listings are by whole folders; the part before the first wildcard narrows them.
        folder = key[: _GLOB.search(key).start()].rpartition("/")[0]  # type: ignore[union-attr]
        by_key = {_object_of(found).key: found for found in _listing(bucket, folder, options)}
        return [by_key[name] for name in match_keys(key, by_key)] or _no_match(target)


def match_keys(pattern: str, keys: Iterable[str]) -> list[str]:
    """The keys that match a glob, read as on disk: `*` stays in its folder, `**` spans folders.

    Unlike on disk, names that begin with a dot are names like any other.
    """
    from wcmatch import glob as wildcards

    flags = wildcards.GLOBSTAR | wildcards.DOTGLOB | wildcards.CASE | wildcards.FORCEUNIX
    # In a key a backslash is a character, and escapes nothing. Only `!` negates a set of characters, and
    # there are no named classes (`[:alpha:]`), as with Python's own globs.
    escaped = pattern.replace("\\", r"\\").replace("[^", r"[\^").replace("[[:", r"[\[:")
    return [str(key) for key in wildcards.globfilter(keys, escaped, flags=flags)]


def _object_of(found: Found) -> StoredObject:
    assert isinstance(found.location, StoredObject)
    return found.location


def _below(found: Found, folder: str) -> str:
    return _object_of(found).key.removeprefix(f"{folder}/" if folder else "")


def _object(location: StoredObject) -> Found | None:
    from obstore import exceptions

    try:
        return Found(location.name, location, location.size())
    except (FileNotFoundError, exceptions.NotFoundError):
        return None


def _listing(bucket: Root, folder: str, options: Mapping[str, str]) -> list[Found]:
    import obstore

    from omnigraph.storage.objects.stores import open_bucket

    found = []
    for batch in obstore.list(open_bucket(bucket, given=options), folder or None):
        for meta in batch:
            location = StoredObject(bucket, meta["path"], options)
            found.append(Found(location.name, location, meta["size"]))
    return sorted(found, key=lambda found: found.name)


def _is_wanted(name: str, suffixes: Sequence[str]) -> bool:
    return name.lower().endswith(tuple(suffixes)) and not Path(name).name.startswith(".")


def _nothing(target: str, suffixes: Sequence[str]) -> list[Found]:
    raise BadRequest(
        f'"{target}" holds no file that ends in {", ".join(suffixes)}; name the files themselves',
        source=target,
    )


def _no_match(target: str) -> list[Found]:
    raise BadRequest(f'no file matches "{target}"; check the pattern', source=target)
