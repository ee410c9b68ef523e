import pytest

from omnigraph.errors import SourceError
from omnigraph.lang.schema import compile_schema
from tests.lang.schema.fixtures import cases


@pytest.mark.parametrize("case", cases("errors"))
def test_a_fault_is_shown_where_it_is(case):
    with pytest.raises(SourceError) as caught:
        compile_schema(case.given, "s.pg")
    assert caught.value.render() == case.expected
