"""Children of these tests come from a fork server that has Lance loaded, and has not used it."""

from __future__ import annotations

import os

import pytest

from omnigraph import failpoints
from tests.s3.conftest import s3, s3_root, s3_server
from tests.storage.processes import context

__all__ = ["s3", "s3_root", "s3_server"]

# Takes effect when no test has started the fork server yet; slower otherwise, and as right.
os.environ.setdefault("LANCE_LOG", "error")
context.set_forkserver_preload(
    ["pyarrow", "pyarrow.compute", "lance", "lance.fragment", "omnigraph.graph",
     "omnigraph.commit.protocol", "omnigraph.write.mutate", "tests.faults.history_cases",
     "tests.faults.kills.worker", "tests.faults.fuzz.worker"]
)  # fmt: skip


@pytest.fixture(autouse=True)
def _nothing_stays_armed():
    yield
    failpoints.disarm_all()
