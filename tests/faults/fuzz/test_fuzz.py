"""Whatever bytes come from outside, a parser reads them or refuses them with one of our errors.

The suite gives each parser 1,000 damaged inputs, a slow one fewer, the same in every run; `./dev faults --all`
5,000, `--fuzz N` gives each N, and `--seed S` others. Time and memory are bounded by limits that only a runaway parser reaches.
"""

from __future__ import annotations

import os

import pytest

from tests.faults.fuzz.parser import SLOW
from tests.faults.fuzz.parsers import PARSERS
from tests.faults.fuzz.worker import fuzz
from tests.measured import MEASURED
from tests.sampling import runs_all, seed
from tests.storage.processes import run_processes

ASKED = int(os.environ.get("FAULTS_FUZZ") or 0)
INPUTS = 5000 if runs_all() else 250


@pytest.mark.parametrize("name", sorted(PARSERS))
def test_only_our_errors_come_out(name, record_property):
    inputs = ASKED or INPUTS // SLOW.get(name, 1)
    (done,) = run_processes(fuzz, [(name, seed(), inputs)], limit=3600)
    assert done.defect is None, done.defect
    assert done.read + done.refused >= inputs
    share = done.refused / (done.read + done.refused)
    took = f"{done.seconds:.1f} s of CPU time"
    record_property(MEASURED, f"{inputs} inputs (seed {seed()}), {share:.0%} refused, {took}")
