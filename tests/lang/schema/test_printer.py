import pytest

from omnigraph.lang.schema import parse, render
from tests.lang.schema.fixtures import cases


@pytest.mark.parametrize("case", cases("printed"))
def test_one_layout_for_every_spelling(case):
    assert render(parse(case.given)).strip("\n") == case.expected


@pytest.mark.parametrize("case", cases("printed"))
def test_what_is_printed_reads_back(case):
    tree = parse(case.given)
    assert parse(render(tree)) == tree
