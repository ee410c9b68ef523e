import pytest

from omnigraph.embeddings.pacing import CallLimits, Clock


class Pretended(Clock):
    """A clock that stands still unless somebody sleeps, with dice that always give the highest."""

    def __init__(self):
        self.time = 1000.0
        self.slept = []

    def now(self):
        return self.time

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.time += seconds

    def between(self, low, high):
        return high


@pytest.fixture
def clock():
    return Pretended()


@pytest.fixture
def limits():
    """Enough time for a busy machine; the pauses are pretended."""
    return CallLimits(timeout=60.0, deadline=60.0, attempts=4, backoff=0.2, rate=0, batch=64)


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch):
    for name in (
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
        "http_proxy",
        "https_proxy",
        "all_proxy",
    ):
        monkeypatch.delenv(name, raising=False)
