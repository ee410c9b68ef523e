"""Read YAML files that people write: settings and declarations, never data.

YAML 1.2, in which `no`, `on` and `12:30` stay text. What lets one file mean two things to two
readers (repeated keys, anchors, aliases, tags, directives) is refused.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from omnigraph.errors import BadRequest

LARGEST = 1 << 20
"""The most bytes that such a file may have."""

DEEPEST = 64
"""How many mappings and lists may stand in one another."""


def read_yaml(path: Path) -> Any:
    """Return what the file says; None if it is empty. ``BadRequest`` names the file and the line."""
    return parse_yaml(read_yaml_text(path), path)


def parse_yaml(text: str, path: Path) -> Any:
    """Return the content of a YAML text; ``path`` is the name of the file in messages."""
    from ruamel.yaml import YAML
    from ruamel.yaml.constructor import DuplicateKeyError
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    try:
        _check_events(path, text)
        return YAML(typ="safe", pure=True).load(text)
    except DuplicateKeyError as error:
        key = re.search(r'duplicate key "(.*?)" with value', str(error.problem), re.DOTALL)
        raise _refused(
            path,
            _line(error.problem_mark),
            f"the key `{key[1] if key else ''}` is there twice; keep one",
            duplicate=True,
        ) from None
    except MarkedYAMLError as error:
        raise _refused(
            path, _line(error.problem_mark), f"this is not YAML: {error.problem}; mend it"
        ) from None
    except (YAMLError, ValueError) as error:  # ValueError: a date that does not exist
        raise _refused(
            path, None, f"this is not YAML: {' '.join(str(error).split())}; mend it"
        ) from None


def read_yaml_text(path: Path) -> str:
    """Return the text of such a file; refuse one that is too long, or not UTF-8."""
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
    except OSError as error:
        raise BadRequest(
            f"cannot read {path}: {error.strerror}; make it readable", path=str(path)
        ) from None
    return decode_yaml(data, path)


def decode_yaml(data: bytes, path: Path) -> str:
    """Return the bytes of such a file as text; refuse what is too long, or not UTF-8."""
    if len(data) > LARGEST:
        raise _refused(path, None, f"it has more than {LARGEST:,} bytes; shorten it")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _refused(
            path, None, f"byte {error.start} is not UTF-8 text; save it as UTF-8"
        ) from None


def _check_events(path: Path, text: str) -> None:
    """Refuse anchors, aliases, tags, directives, and nesting that would take the parser for ever."""
    from ruamel.yaml import YAML
    from ruamel.yaml.events import (
        AliasEvent,
        CollectionEndEvent,
        CollectionStartEvent,
        DocumentStartEvent,
    )

    depth = 0
    for event in YAML(typ="safe", pure=True).parse(text):
        line = _line(event.start_mark)
        depth += isinstance(event, CollectionStartEvent) - isinstance(event, CollectionEndEvent)
        if depth > DEEPEST:
            raise _refused(path, line, "it nests too deep; write it flat")
        if isinstance(event, AliasEvent) or getattr(event, "anchor", None) is not None:
            raise _refused(path, line, "anchors and aliases are not allowed; write the value out")
        if isinstance(event, DocumentStartEvent):
            if event.version not in {None, (1, 2)} or event.tags:
                raise _refused(path, line, "directives are not allowed; drop the line with %")
        elif getattr(event, "tag", None) is not None:
            raise _refused(path, line, f"the tag {event.tag} is not allowed; drop it")


def _line(mark: Any) -> int | None:
    return None if mark is None else mark.line + 1


def _refused(path: Path, line: int | None, why: str, **facts: object) -> BadRequest:
    place = str(path) if line is None else f"{path}, line {line}"
    return BadRequest(f"{place}: {why}", path=str(path), line=line, **facts)
