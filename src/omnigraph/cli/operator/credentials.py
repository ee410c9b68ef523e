"""`credentials`: the tokens of servers, in a file that only its owner can read."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from configparser import Error as ConfigError
from configparser import RawConfigParser
from pathlib import Path
from typing import Final

from omnigraph import settings
from omnigraph.errors import BadRequest, StorageError

OWNER_ONLY: Final = 0o600


def credentials_path() -> Path:
    """Return where the file is or would be."""
    home = settings.HOME.get()
    if home is None:
        raise BadRequest(
            "there is no home directory to keep tokens in; set OMNIGRAPH_HOME to a directory",
            variable="OMNIGRAPH_HOME",
        )
    return home / "credentials"


def read_tokens() -> dict[str, str]:
    """Return the token of each server; refuse a file that others can read."""
    path = credentials_path()
    try:
        # One descriptor for both, so that the file that was judged is the file that is read.
        with path.open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            data = file.read()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise BadRequest(f"cannot read {path}: {error.strerror}; make it readable") from None
    if os.name == "posix" and mode & 0o077:
        raise BadRequest(
            f"{path} holds tokens and can be read by others (mode {mode:04o}); run "
            f"chmod 600 {path}, and log in again if others may have read it"
        )
    return _parse(path, data)


def _parse(path: Path, data: bytes) -> dict[str, str]:
    parser = RawConfigParser(
        delimiters=("=",), comment_prefixes=("#",), default_section="", strict=True
    )
    try:
        parser.read_string(data.decode("utf-8"))
    except (ConfigError, UnicodeDecodeError):
        # The text of the error would show a piece of the file, which may be a token.
        raise BadRequest(
            f"{path} is not a list of [server] and token = … lines; mend it, or remove it and log "
            "in again"
        ) from None
    return {
        name: section["token"].strip() for name, section in parser.items() if "token" in section
    }


def write_tokens(tokens: Mapping[str, str]) -> None:
    """Replace the file in one step: its owner reads the old or the new one, and no other user can read it."""
    path = credentials_path()
    text = "".join(f"[{name}]\ntoken = {token}\n\n" for name, token in sorted(tokens.items()))
    new = path.with_name(f".credentials-{os.getpid()}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        new.unlink(missing_ok=True)
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER_ONLY)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            new.replace(path)
        except BaseException:
            new.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror or error}") from error
