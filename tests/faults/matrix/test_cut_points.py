"""Every operation x every cut point x every fault x whoever comes next.

The cut points are those that a clean run passes. The suite runs some of the effects, failpoints and looks of every
operation, with faults and followers drawn by the seed; `./dev faults --all` runs all cases.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator

import pytest

from omnigraph.storage.objects.object_store import ObjectStore
from tests.faults.matrix.cases import Case, Place, Recorded, cases_of, record, run_case
from tests.faults.matrix.children import Nursery, nursery
from tests.faults.matrix.operations import OPERATIONS
from tests.faults.matrix.seams import STORE_EFFECTS, STORE_LOOKS, committing_calls, install
from tests.measured import MEASURED
from tests.sampling import runs_all, seed
from tests.storage.test_surface_guard import ALLOWED

# Cases that found a defect run always: operation, cut point, fault, who comes next.
FOUND = {
    ("init", "write_dataset __manifest", "error after", "other"),
    ("init", "write_text _schema.pg", "error before", "other"),
    ("schema apply", "write_dataset nodes/Fresh", "error after", "same"),
    ("schema apply", "write_dataset nodes/Fresh", "kill after", "same"),
}


# How often a cut point of a kind is in the sample: operations share most of their failpoints and looks. At least
# one of each kind is.
SHARE = {"effect": 0.03, "point": 0.03, "look": 0.02}


class Matrix:
    """The prepared graphs, and a process that runs cases on them."""

    def __init__(self, nursery: Nursery, place: Place) -> None:
        self._nursery = nursery
        self._place = place
        nursery.run(install)
        nursery.run(Place.build, place)

    def record(self, name: str) -> Recorded:
        found: Recorded = self._nursery.run(record, self._place, name)
        return found

    def failure(self, case: Case, recorded: Recorded) -> str | None:
        """Run a case; what is wrong afterwards."""
        try:
            self._nursery.run(run_case, self._place, case, recorded)
        except AssertionError as error:
            return f"{case}\n{error}"
        return None


@pytest.fixture(scope="module")
def matrix(tmp_path_factory) -> Iterator[Matrix]:
    with nursery("tests.storage.preloaded", "tests.faults.matrix.cases") as made:
        yield Matrix(made, Place(tmp_path_factory.mktemp("matrix")))


def drawn(cases: list[Case], name: str) -> list[Case]:
    """One case of some cut points, and what found a defect."""
    if runs_all():
        return cases
    chance = random.Random(f"{seed()} {name}")
    by_name: dict[str, list[Case]] = {}
    for case in cases:
        by_name.setdefault(case.cut.name, []).append(case)
    found = [chance.choice(those) for those in by_name.values()]
    kept = []
    for kind, share in SHARE.items():
        of_kind = [case for case in found if case.cut.kind == kind]
        kept += chance.sample(of_kind, math.ceil(share * len(of_kind)))
    if OPERATIONS[name].tidy:
        # There are many operations on schemas of branches, each with many tables, and they take the same steps.
        kept = [chance.choice(kept)]
    return kept + [case for case in cases if _described(case) in FOUND and case not in kept]


def _described(case: Case) -> tuple[str, str, str, str]:
    return case.operation, case.cut.name, case.fault, case.follower


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_that_is_cut_anywhere_is_whole(matrix, name, record_property):
    recorded = matrix.record(name)
    cases = cases_of(name, recorded)
    chosen = drawn(cases, name)
    failures = [found for case in chosen if (found := matrix.failure(case, recorded))]
    assert not failures, "\n\n".join(failures)
    cuts = {case.cut for case in chosen}
    record_property(
        MEASURED,
        f"{len(cuts)} of {len(recorded.cuts)} cut points, {len(chosen)} of {len(cases)} cases",
    )


def test_every_call_that_makes_lance_commit_has_a_seam():
    assert set().union(*ALLOWED.values()) <= committing_calls()


def test_the_cases_that_found_a_defect_are_still_there(matrix):
    operations = {operation for operation, *_ in FOUND}
    cases = [case for name in operations for case in cases_of(name, matrix.record(name))]
    assert set(map(_described, cases)) >= FOUND


def test_every_call_of_the_object_store_has_a_seam():
    """Those that only pass a call on to another public one are cut there."""
    public = {name for name in vars(ObjectStore) if not name.startswith("_")}
    assert public - {"in_memory", "read_text"} == {*STORE_EFFECTS, *STORE_LOOKS}
