"""What the tests of the manifest share."""

import pytest

from tests.opened import workspace_of


@pytest.fixture
def manifest(graph):
    """The manifest of the test's graph."""
    return workspace_of(graph).manifest
