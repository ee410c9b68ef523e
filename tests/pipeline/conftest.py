"""What the tests of the pipeline share."""

import signal

import pytest


@pytest.fixture
def _ctrl_c_interrupts():
    """Ctrl-C raises KeyboardInterrupt, whatever was set before."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
