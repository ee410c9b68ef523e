"""The cases of schemas of branches on Spark: its executors load, compare, merge and export."""

from __future__ import annotations

import pytest

from omnigraph.changes import compare_tables
from tests.conformance.case_files import Case, all_cases
from tests.conformance.versioning_cases import run_versioning_case

CASES = [case for case in all_cases() if case.file == "schema-branches"]


def test_there_are_cases():
    assert len(CASES) >= 56


@pytest.mark.sampled(3, every=())
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_case_holds_on_spark(case: Case, monkeypatch):
    """Executors compare whole tables; by default they do so only for large ones."""
    monkeypatch.setattr(compare_tables, "_FEW", 0)
    monkeypatch.setattr(compare_tables, "find_candidates", lambda *_: None)
    run_versioning_case(case, "spark")
