"""Writers of one table queue where locks are leases of an object store."""

from __future__ import annotations

from uuid import uuid4

import pytest

from omnigraph.graph import init
from tests.faults.queue_workers import write_in_turn
from tests.faults.queueing_helpers import LIMIT, SCHEMA, check, put_tokens
from tests.measured import MEASURED
from tests.s3_server import BUCKET
from tests.sampling import runs_all
from tests.storage.processes import run_processes

PROCESSES, TIMES = 4, 50 if runs_all() else 5


@pytest.fixture
def graph(s3):
    with init(f"s3://{BUCKET}/{uuid4().hex}", SCHEMA) as graph:
        yield graph


def test_four_processes_write_single_rows_to_one_table(graph, record_property):
    turns = TIMES // 5
    put_tokens(graph, turns)
    names = [f"p{at}" for at in range(PROCESSES)]
    calls = [(graph.uri, name, TIMES) for name in names]
    told = dict(zip(names, run_processes(write_in_turn, calls, LIMIT), strict=True))
    check(graph, told, turns, {})
    longest = max(one.longest for one in told.values())
    record_property(MEASURED, f"longest of {PROCESSES * TIMES} mutations {longest:.2f} s")
