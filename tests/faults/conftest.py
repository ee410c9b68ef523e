"""What the tests of faults share."""

from __future__ import annotations

import pytest

from omnigraph import failpoints
from tests.faults.remade_helpers import WriterProcess
from tests.s3.conftest import s3, s3_root, s3_server

__all__ = ["s3", "s3_root", "s3_server"]


@pytest.fixture(autouse=True)
def _nothing_stays_armed():
    yield
    failpoints.disarm_all()


@pytest.fixture(scope="module")
def writers():
    """A process that writes for the tests of a file."""
    with WriterProcess({}) as process:
        yield process
