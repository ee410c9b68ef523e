"""Importing the package and using the languages must stay cheap: no engine, no frames."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SRC = Path(__file__).parents[1] / "src"
HEAVY = ("lance", "pyarrow.dataset", "pyspark", "duckdb", "pandas", "obstore", "scipy", "numba")

SCHEMA_PARSE = '''
import omnigraph as og
schema = og.parse_schema("""
    node Person {
        handle: String @key
        age: I32?
        email: String?
        vector: Vector(4)? @embed(handle) @index
        @range(age, 0..150)
        @check(email, "^[^@]+@[^@]+$")
    }
    edge Knows: Person -> Person
""")
'''
QUERY_LINT = f'''
{SCHEMA_PARSE}
report = og.lint(schema, """
    query adults() {{
        match {{ $p: Person  $p knows $q  $p.age >= 18 }}
        return {{ $p.handle, count($q) as friends }}
        order {{ friends desc }}
    }}
    query rename($handle: String, $email: String) {{
        update Person set {{ email: $email }} where handle = $handle
    }}
""")
assert report.status == "ok", report
'''


@pytest.fixture
def loaded_by(tmp_path):
    """The modules a program loads in a fresh interpreter that has pandas, or something like it.

    The stand-in leaves a marker, because a library may import pandas and drop it again.
    """
    marker = tmp_path / "pandas-was-imported"
    package = tmp_path / "path" / "pandas"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(
        f"open({str(marker)!r}, 'w').close()\n__version__ = '2.2.0'\n", "utf-8"
    )

    def run(program):
        result = subprocess.run(
            [sys.executable, "-c", f"{program}\nimport sys; print(*sys.modules)"],
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(package.parent), str(SRC)])},
            capture_output=True,
            text=True,
            check=False,
        )
        assert result.returncode == 0, result.stderr
        modules = set(result.stdout.split())
        return modules | {"pandas"} if marker.exists() else modules

    return run


def test_the_probe_sees_what_is_loaded(loaded_by):
    assert "pandas" in loaded_by("import pandas, sys; del sys.modules['pandas']")
    assert "pyarrow.dataset" in loaded_by("import pyarrow.dataset")


def test_the_package_alone_loads_no_library_at_all(loaded_by):
    loaded = loaded_by("import omnigraph; omnigraph.__version__")
    assert loaded.isdisjoint({*HEAVY, "pyarrow", "numpy", "lark", "omnigraph.lang"})


@pytest.mark.parametrize("program", [SCHEMA_PARSE, QUERY_LINT], ids=["parse_schema", "lint"])
def test_the_languages_load_no_engine(loaded_by, program):
    assert loaded_by(program).isdisjoint(HEAVY)


def test_the_command_line_loads_nothing_of_a_server(loaded_by, tmp_path):
    program = f"""
import contextlib, io
import omnigraph as og
from omnigraph.cli import main
og.init({str(tmp_path / "g.omni")!r}, "node Person {{ name: String @key }}").close()
with contextlib.redirect_stdout(io.StringIO()) as shown:
    code = main(["query", {str(tmp_path / "g.omni")!r}, "-e", "query q() {{ match {{ $p: Person }} return {{ $p.name }} }}"])
assert code == 0, shown.getvalue()
"""
    loaded = loaded_by(program)
    assert "lance" in loaded
    assert loaded.isdisjoint(
        {"uvicorn", "httptools", "prometheus_client", "cedarpy", "omnigraph.server"}
    )
