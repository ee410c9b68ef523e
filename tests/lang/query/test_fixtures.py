"""Text fixtures: a query above `---`, below it the plan or the diagnostic it must give."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph.errors import TypeCheckError
from omnigraph.lang.query import compile_query
from omnigraph.lang.query.plan_text import show
from tests.lang.query.schema_of_tests import catalog

FIXTURES = Path(__file__).parents[2] / "fixtures" / "query"


def cases(name: str) -> list[Path]:
    found = sorted((FIXTURES / name).glob("*.txt"))
    assert found, f"no fixtures in {name}"
    return found


def split(path: Path) -> tuple[str, str]:
    source, _, expected = path.read_text("utf-8").partition("---\n")
    return source, expected.rstrip("\n")


@pytest.mark.parametrize("path", cases("lower"), ids=lambda path: path.stem)
def test_lowering(path: Path) -> None:
    source, expected = split(path)
    assert show(compile_query(catalog(), source)) == expected


@pytest.mark.parametrize("path", cases("check"), ids=lambda path: path.stem)
def test_diagnostic(path: Path) -> None:
    source, expected = split(path)
    with pytest.raises(TypeCheckError) as caught:
        compile_query(catalog(), source, filename="q.gq")
    assert caught.value.render() == expected
