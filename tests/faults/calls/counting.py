"""Count what an operation asks of the store: control objects, tables opened, versions made."""

from __future__ import annotations

import functools
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from omnigraph.storage.locks.locks import LockManager
from omnigraph.storage.objects.object_store import ObjectStore
from omnigraph.storage.tables import table

OBJECT_CALLS = {
    "reads": ("read_text", "read_versioned", "exists", "fingerprint"),
    "lists": ("list", "total_size"),
    "writes": (
        "write_text", "write_text_if_absent", "write_text_if_match", "rename", "delete", "discard",
        "delete_prefix",
    ),
}  # fmt: skip


class Calls(NamedTuple):
    """What an operation did: with control objects, with tables, and by locks.

    ``newest`` are opens without a version, for which Lance lists the versions; ``probes`` ask whether a
    version is there; ``versions`` are those it made, of tables and of the manifest.
    """

    reads: int
    lists: int
    writes: int
    opens: int
    newest: int
    probes: int
    locks: int
    versions: int


@contextmanager
def counting(root: str) -> Iterator[Callable[[], Calls]]:
    """Count what happens in the block, in any thread; the function tells it afterwards."""
    counted: Counter[str] = Counter()
    inside = threading.local()
    before = _versions(root)
    after: list[int] = []

    def counts(owner: Any, name: str, kind: Callable[..., str]) -> None:
        plain = getattr(owner, name)

        @functools.wraps(plain)
        def call(*arguments: Any, **named: Any) -> Any:
            # What a counted call does by other counted calls of its kind is its own affair.
            outermost = not getattr(inside, owner.__name__, False)
            if outermost:
                counted[kind(*arguments, **named)] += 1
            setattr(inside, owner.__name__, True)
            try:
                return plain(*arguments, **named)
            finally:
                setattr(inside, owner.__name__, not outermost)

        patch.setattr(owner, name, call)

    with pytest.MonkeyPatch.context() as patch:
        for kind, names in OBJECT_CALLS.items():
            for name in names:
                counts(ObjectStore, name, lambda *_, kind=kind, **__: kind)
        counts(LockManager, "acquire", lambda _, names, *__: "locks")
        counts(table, "_open", lambda ref: "newest" if ref.version is None else "opens")
        for name in ("head_version", "versions"):
            counts(table.Table, name, lambda *_: "newest")
        counts(table.Table, "has_version", lambda *_: "probes")
        yield lambda: Calls(
            *(counted[kind] for kind in Calls._fields[:-1]), versions=after[0] - before
        )
        after.append(_versions(root))


def _versions(root: str) -> int:
    return sum(1 for _ in Path(root).rglob("_versions/*.manifest"))
