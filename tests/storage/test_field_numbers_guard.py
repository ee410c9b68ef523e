"""Lance's numbers of columns and names of indexes are read in few places, each for one version of one table.

They say nothing across versions and branches: two branches number different columns alike, and Lance gives
a freed number again. Properties are told apart by the ids that their columns carry.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "omnigraph"
NUMBERS = {"lance_schema", "field_ids", "field_numbers", "describe_indices"}
"""The names by which numbers of columns, and indexes with their names, are come by."""
ALLOWED = {
    "storage/tables/table.py": "gives the numbers of one version",
    "storage/tables/staging.py": "tells Lance which columns of its own version a write leaves alone",
    "storage/tables/blobs/blob_columns.py": "finds the file of a column in its own version",
    "storage/tables/indexing/index_health.py": "lists the files of the indexes of one version",
    "storage/tables/indexing/table_indexes.py": "lists the indexes of one version by column",
    "storage/columns/stage_schema.py": "hands on schemas that Lance numbered itself",
    "storage/columns/new_column_files.py": "numbers new files as the version that takes them",
    "storage/columns/without_columns.py": "finds what its own version no longer needs",
    "read/view/row_changes.py": "tells by property whether a version wrote its column anew",
}
"""The modules that may, and what for."""


def uses(code: str) -> set[str]:
    """Which of the names a module uses."""
    if not any(name in code for name in NUMBERS):
        return set()  # most modules, which need no parsing
    found = set()
    for node in ast.walk(ast.parse(code)):
        match node:
            case ast.Attribute(attr=name) | ast.Name(id=name) | ast.FunctionDef(name=name):
                found.add(name)
            case ast.alias(name=name):
                found.add(name)
            case ast.Constant(value=str(name)):
                found.add(name)
    return found & NUMBERS


def test_only_these_modules_look_at_numbers_of_columns():
    found = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        if uses(path.read_text())
    }
    assert found == set(ALLOWED)


def test_rows_that_are_compared_are_matched_by_the_ids_of_properties():
    """What compares states of different versions and branches sees Lance through none of these names."""
    for folder in ("changes", "write", "commit", "manifest", "maintenance", "validate", "lang"):
        for path in (SOURCE / folder).rglob("*.py"):
            assert uses(path.read_text()) == set(), path


@pytest.mark.parametrize(
    "code",
    [
        "table.field_ids()['x'] == other.field_ids()['x']",
        "getattr(dataset, 'lance_schema')",
        "from omnigraph.storage.tables.staging import field_numbers",
        "names = {one.name for one in dataset.describe_indices()}",
    ],
)
def test_the_guard_sees_them(code):
    assert uses(code)
