"""No failpoint without a test: a point that nothing here drives is a point nobody ever sees fire."""

from __future__ import annotations

from omnigraph.commit.changes import WRITERS
from omnigraph.commit.protocol import MOMENTS
from tests.faults.inventory_worker import drive_all
from tests.storage.processes import run_processes


def test_every_declared_point_is_fired():
    ((declared, fired),) = run_processes(drive_all, [()])
    silent = sorted(set(declared) - set(fired))
    assert silent == [], "add a scenario to inventory_worker.py, and a test of what must follow"
    assert {f"{writer}.{moment}" for writer in WRITERS for moment in MOMENTS} <= set(declared)
    # The storage faults the specification names.
    named = {"sidecar_write", "sidecar_delete", "sidecar_list", "record_audit"}
    assert {f"recovery.{name}" for name in named} <= set(declared)
