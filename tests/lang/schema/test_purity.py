import subprocess
import sys
from pathlib import Path

import pytest

SRC = Path(__file__).parents[3] / "src"
GUARD = """
import sys

asked = []


class Guard:
    def find_spec(self, name, path=None, target=None):
        asked.append(name.partition(".")[0])
        return None


sys.meta_path.insert(0, Guard())
sys.path.insert(0, sys.argv[1])
"""


def modules_asked_for(program):
    ran = subprocess.run(
        [sys.executable, "-c", GUARD + program + "\nprint(*sorted(set(asked)))", str(SRC)],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(ran.stdout.split())


def test_a_schema_compiles_without_arrow():
    asked = modules_asked_for(
        "from omnigraph.lang.schema import compile_schema\n"
        "compile_schema('node A { x: I32 @range(x, 0..9) }').catalog"
    )
    assert "lark" in asked
    assert not asked & {"pyarrow", "lance", "pandas", "duckdb", "obstore"}


def test_a_pattern_is_tried_without_looking_for_pandas():
    asked = modules_asked_for(
        "from omnigraph.lang.schema import compile_schema\n"
        "compile_schema('node A { x: String @check(x, \"^a\") }')"
    )
    assert "pyarrow" in asked
    assert not asked & {"pandas", "lance"}


@pytest.mark.parametrize("module", ["omnigraph.lang.schema", "omnigraph.lang.schema.catalog"])
def test_reading_a_catalog_needs_no_parser(module):
    assert not modules_asked_for(f"import {module}") & {"lark", "pyarrow", "ulid"}
