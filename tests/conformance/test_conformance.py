"""Every conformance case, as `<file>/<case id>`.

The cases are those of `OMNIGRAPH_CONFORMANCE_DIR`, or the bundled ones. A case is skipped only when
it needs a part of the product that does not exist, and says which.
"""

import pytest

from tests.conformance.algorithm_cases import run_algorithm_case
from tests.conformance.case_files import Case, all_cases
from tests.conformance.executors import NOT_BUILT, NotBuiltError, not_built
from tests.conformance.query_cases import run_query_case
from tests.conformance.schema_cases import run_schema_case
from tests.conformance.versioning_cases import run_versioning_case


@pytest.mark.parametrize("case", all_cases(), ids=str)
def test_case(case: Case) -> None:
    if case.fault is not None:
        pytest.fail(case.fault, pytrace=False)
    try:
        if case.file in NOT_BUILT:
            not_built(case.file)
        match case.kind:
            case "schema":
                run_schema_case(case)
            case "query":
                _needs_later_parts(case)
                run_query_case(case)
            case "algorithms":
                run_algorithm_case(case)
            case "versioning":
                for part in set(case.body.get("requires", ())) & NOT_BUILT.keys():
                    not_built(part)
                run_versioning_case(case)
            case "surfaces":
                not_built("surfaces")
            case None:
                pytest.fail("a case without a kind", pytrace=False)
    except NotBuiltError as missing:
        pytest.skip(str(missing))


SEVERAL_TYPES = {
    "undirected-between-types",
    "shortest-path-between-types",
    "alternatives-without-a-common-name",
    "t6-a-variable-without-a-name-has-no-properties",
}
"""Cases in which a variable ranges over several node types, as variables of interfaces do."""


def _needs_later_parts(case):
    """Stop a case that needs a part of the language that is not there."""
    is_of_interfaces = "interface" in case.body.get("tags", ()) or case.id in SEVERAL_TYPES
    if case.body.get("fixture") in {"talk", "lsqb"} or is_of_interfaces:
        not_built("interfaces")
