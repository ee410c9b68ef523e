"""Removing what a deleted graph leaves, beside others that do the same."""

from __future__ import annotations

import shutil

from omnigraph.storage import layout
from omnigraph.storage.objects.local_objects import LocalObjectStore
from omnigraph.storage.objects.stores import open_store
from omnigraph.storage.remains import remove_rest
from omnigraph.storage.uris import Root


def some_remains(place) -> Root:
    (place / layout.RECOVERY_DIR).mkdir(parents=True)
    (place / layout.TOMBSTONE).write_text("{}")
    (place / "nodes" / "empty").mkdir(parents=True)
    (place / "nodes" / "file").write_text("rows")
    return Root.parse(place)


def test_the_rest_goes_with_its_directory(tmp_path):
    place = tmp_path / "g.omni"
    root = some_remains(place)
    remove_rest(root, open_store(root))
    assert not place.exists()


class RemovedMeanwhile(LocalObjectStore):
    """A store whose directory somebody else removes right after it was listed."""

    def list(self, prefix: str = "") -> list[str]:
        names = super().list(prefix)
        if prefix:
            shutil.rmtree(self.place)
        return names


def test_somebody_else_may_remove_it_at_the_same_time(tmp_path):
    place = tmp_path / "g.omni"
    root = some_remains(place)
    store = RemovedMeanwhile(str(place))
    store.place = place
    remove_rest(root, store)
    assert not place.exists()
