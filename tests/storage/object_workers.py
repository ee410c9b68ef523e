"""What the processes and threads of the control-object tests do."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

from omnigraph.errors import OmniGraphError
from omnigraph.storage.objects.object_store import ObjectStore
from omnigraph.storage.objects.store_errors import AlreadyExists, ObjectChanged
from omnigraph.storage.objects.stores import open_store
from omnigraph.storage.uris import Root
from tests.storage.processes import fork


def store_at(place: str, environment: dict[str, str]) -> ObjectStore:
    os.environ.update(environment)
    return open_store(Root.parse(place))


def increment(store: ObjectStore, name: str, times: int) -> None:
    """Raise a counter by compare-and-set, reading again after every lost race."""
    for _ in range(times):
        while True:
            text, version = store.read_versioned(name)
            try:
                store.write_text_if_match(name, str(int(text) + 1), version)
            except ObjectChanged:
                continue
            break


def increment_at(place: str, environment: dict[str, str], name: str, times: int) -> None:
    increment(store_at(place, environment), name, times)


def claim_all(place: str, environment: dict[str, str], names: list[str]) -> dict[str, str]:
    """Claim every name; the texts of those that were won."""
    store = store_at(place, environment)
    won = {}
    for name in names:
        text = f"{name} claimed by {os.getpid()} " * 500
        try:
            store.write_text_if_absent(name, text)
        except AlreadyExists:
            assert store.read_text(name).startswith(f"{name} claimed by ")
        else:
            won[name] = text
    return won


def in_forked_child(call: Callable[[], Any]) -> tuple[str, bool]:
    """Fork, make the call in the child; the name of the error it raised and whether it is ours."""
    reader, writer = os.pipe()
    child = fork()
    if child == 0:
        signal.alarm(20)
        try:
            call()
            answer = "nothing raised,False"
        except Exception as error:  # noqa: BLE001 - the test judges it
            answer = f"{type(error).__name__},{isinstance(error, OmniGraphError)}"
        os.write(writer, answer.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        name, _, ours = pipe.read().partition(",")
    os.waitpid(child, 0)
    return name, ours == "True"
