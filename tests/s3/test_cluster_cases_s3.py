"""The conformance cases of clusters once more, with everything but their directories in an object store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from omnigraph.storage.objects.stores import open_store
from omnigraph.storage.uris import Root
from tests.cli.running import Result
from tests.cli.surfaces import CliCase, Running, surface_cases
from tests.server.surfaces import ServedCase

STORED = ("__cluster/", "graphs/")
"""Names that begin so lie in the store."""


def cluster_cases() -> list[CliCase]:
    """The cases that have a cluster."""
    return [
        case
        for case in surface_cases()
        if str(case.body.get("setup")).startswith("cluster_")
        or "cluster.yaml" in case.body.get("files", {})
    ]


@dataclass
class InStore(Running):
    """A case whose `cluster.yaml` says `storage:`, and whose names of stored things are addresses."""

    root: Root | None = None

    @property
    def address(self) -> str:
        assert self.root is not None
        return self.root.canonical

    def write(self, name: str, text: str) -> None:
        if name.startswith(STORED):
            assert self.root is not None
            open_store(self.root).write_text(name, text)
            return
        if name == "cluster.yaml":
            text = f"{text}storage: {self.address}\n"
        super().write(name, text)

    def filled(self, word: str) -> str:
        word = super().filled(word)
        return f"{self.address}/{word}" if word.startswith("graphs/") else word

    def check(self, result: Result, expect: Mapping[str, Any]) -> None:
        assert self.root is not None
        store = open_store(self.root)
        there = [name.removeprefix(f"{self.address}/") for name in expect.get("path_exists", ())]
        gone = [name.removeprefix(f"{self.address}/") for name in expect.get("path_absent", ())]
        assert all(name.startswith(STORED) for name in (*there, *gone))
        super().check(
            result,
            {key: one for key, one in expect.items() if key not in {"path_exists", "path_absent"}},
        )
        assert [name for name in there if not store.exists(name)] == []
        assert [name for name in gone if store.exists(name)] == []
        assert not any((self.place / name).exists() for name in STORED)


@dataclass
class ServedFromStore(InStore, ServedCase):
    """One with a server, which gets the address of the store and not the directory."""

    @contextmanager
    def serving(self, spec: Mapping[str, Any]) -> Iterator[None]:
        assert spec["cluster"] == "."
        with super().serving({**spec, "cluster": self.address}):
            yield


@pytest.mark.sampled(7, every=())  # all of them run on disk
@pytest.mark.parametrize("case", cluster_cases(), ids=str)
def test_case(case: CliCase, launcher, s3, s3_root, tmp_path):
    def run(argv, place, env, stdin):
        return launcher.run(argv, place, {**s3.environment(), **(env or {})}, stdin)

    if case.body["kind"] == "cli":
        InStore(case, tmp_path, run, root=s3_root).whole()
    else:
        ServedFromStore(case, tmp_path, run, launcher=launcher, root=s3_root).whole()


def test_none_is_forgotten():
    names = {str(case) for case in cluster_cases()}
    assert {str(case) for case in surface_cases() if str(case).startswith("cluster-")} <= names
