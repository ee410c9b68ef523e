from uuid import uuid4

import pytest

from omnigraph.storage.uris import Root
from tests.s3_server import BUCKET, S3Server


@pytest.fixture(scope="session")
def s3_server():
    server = S3Server().start()
    yield server
    server.stop()


@pytest.fixture
def s3(s3_server, monkeypatch):
    """The server with the environment that leads to it; faults armed by a test end with it."""
    for name, value in s3_server.environment().items():
        monkeypatch.setenv(name, value)
    # The server shares two cores with the writers: a queue of four can take over 10 s on a busy day.
    monkeypatch.setenv("OMNIGRAPH_LOCK_WAIT_MS", "120000")
    yield s3_server
    s3_server.disarm()


@pytest.fixture
def s3_root(s3):
    """A fresh prefix in the bucket."""
    return Root.parse(f"s3://{BUCKET}/{uuid4().hex}")
