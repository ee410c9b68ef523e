import shutil

import pytest

from tests.moving.places import build, copy
from tests.s3.conftest import s3, s3_root, s3_server

__all__ = ["built", "made", "s3", "s3_root", "s3_server"]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The graph, what it shows, and a backup of it."""
    folder = tmp_path_factory.mktemp("moving")
    uri = str(folder / "graph")
    shown = build(uri)
    copy(uri, str(folder / "backup"))
    return uri, shown, str(folder / "backup")


@pytest.fixture
def made(built):
    """The graph as it was built, at the same place for every test, and what it shows."""
    uri, shown, backup = built
    shutil.rmtree(uri, ignore_errors=True)
    copy(backup, uri)
    return uri, shown
