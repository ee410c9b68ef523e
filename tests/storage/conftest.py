"""What the tests of storage share."""

import pytest

from omnigraph.storage.tables.table_ref import TableRef


@pytest.fixture
def ref(tmp_path):
    """Where a table of the test's own may be made."""
    return TableRef(str(tmp_path / "table"))
