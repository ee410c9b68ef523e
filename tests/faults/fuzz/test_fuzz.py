"""Whatever bytes come from outside, a parser reads them or refuses them with one of our errors.

The suite gives each parser 5,000 damaged inputs, the same in every run; `./dev faults --fuzz N` gives
it N, and `--seed S` others. Time and memory are bounded by limits that only a runaway parser reaches.
"""

from __future__ import annotations

import os

import pytest

from tests.faults.fuzz.parsers import PARSERS
from tests.faults.fuzz.worker import fuzz
from tests.measured import MEASURED
from tests.sampling import seed
from tests.storage.processes import run_processes

INPUTS = int(os.environ.get("FAULTS_FUZZ") or 5000)


@pytest.mark.parametrize("name", sorted(PARSERS))
def test_only_our_errors_come_out(name, record_property):
    (done,) = run_processes(fuzz, [(name, seed(), INPUTS)], limit=3600)
    assert done.defect is None, done.defect
    assert done.read + done.refused >= INPUTS
    share = done.refused / (done.read + done.refused)
    took = f"{done.seconds:.1f} s of CPU time"
    record_property(MEASURED, f"{INPUTS} inputs (seed {seed()}), {share:.0%} refused, {took}")
