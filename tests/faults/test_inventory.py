"""No failpoint without a test: a point that nothing here drives is a point nobody ever sees fire."""

from __future__ import annotations

import pytest

from omnigraph.commit.changes import WRITERS
from omnigraph.commit.protocol import MOMENTS
from tests.faults.inventory_worker import drive_all
from tests.storage.processes import run_processes

COMMITS = ("publish.", "recovery.", "attempt.")
"""Points that the model of the protocol (`model/`) must pass; its own test says that it passes all."""
ELSEWHERE = (
    "init.",
    "branch.",
    "identities.",
    "tag.",
    "purge.",
    "cleanup.",
    "stream.",
    "relocate.",
    "cluster.",
    "graph_delete.",
)
"""Points of what is no commit of tables, and so not in the model."""


@pytest.fixture(scope="module")
def points():
    """The points that are declared, and those that fire."""
    ((declared, fired),) = run_processes(drive_all, [()])
    return set(declared), set(fired)


def test_every_declared_point_is_fired(points):
    declared, fired = points
    silent = sorted(declared - fired)
    assert silent == [], "add a scenario to inventory_worker.py, and a test of what must follow"
    assert {f"{writer}.{moment}" for writer in WRITERS for moment in MOMENTS} <= declared
    # The storage faults the specification names.
    named = {"sidecar_write", "sidecar_delete", "sidecar_list", "record_audit"}
    assert {f"recovery.{name}" for name in named} <= declared


def test_every_failpoint_is_in_the_model_or_known_to_be_elsewhere(points):
    others = {
        name
        for name in points[0]
        if not name.startswith((*ELSEWHERE, *COMMITS, "test.", "child."))
        and name.partition(".")[2] not in MOMENTS
    }
    # What a schema apply does after its commit: mirrors and purges.
    assert others <= {"schema_apply.before_mirrors", "schema_apply.before_purge"}
