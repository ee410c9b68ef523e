"""A writer killed at random moments, over and over: what it was told is there is there."""

from __future__ import annotations

import contextlib
import pickle
import random
import time
from collections.abc import Iterator

import pytest

from omnigraph.commit.audit import read_audit
from omnigraph.graph import open as open_graph
from tests.commit.synthetic import ALL, PERSON, TEAM, contents, drifted, write
from tests.faults.commit_workers import write_until_killed
from tests.manifest.publishing import new_graph
from tests.opened import workspace_of
from tests.storage.processes import talk_to

ROUNDS = 25


@pytest.mark.parametrize("branch", ["main", "x"])
def test_kill_and_reopen(tmp_path, branch):
    seed = random.randrange(2**32)
    print(f"seed {seed}")  # noqa: T201 - shown when the test fails
    chance = random.Random(seed)
    acknowledged: set[str] = set()
    begun: set[str] = set()
    with new_graph(tmp_path) as graph:
        uri = graph.uri
    for number in range(ROUNDS // 2 + 1):
        with open_graph(uri) as graph:
            # A fresh branch now and then, so that forks are caught half made too.
            if branch != "main" and number % 4 == 0:
                if number:
                    graph.branches.delete(branch)
                graph.branches.create(branch)
                acknowledged, begun = set(), set()
        arguments = (uri, branch, [PERSON, TEAM], f"r{number}")
        with talk_to(write_until_killed, arguments) as (process, pipe):
            assert pipe.poll(60)
            time.sleep(chance.expovariate(6))
            process.kill()
            process.join()
            for what, row_id in said(pipe):
                (acknowledged if what == "acknowledged" else begun).add(row_id)
        with open_graph(uri) as graph:
            assert workspace_of(graph).store.list("__recovery") == []
            assert drifted(graph, branch) == []
            found = contents(graph, branch)
            assert found[PERSON] == found[TEAM]
            assert len(found[PERSON]) == len(set(found[PERSON]))
            assert acknowledged <= set(found[PERSON]) <= begun
    print(f"{len(acknowledged)} commits acknowledged")  # noqa: T201 - shown when the test fails
    with open_graph(uri) as graph:
        operations = [audit.operation_id for audit in read_audit(workspace_of(graph))]
        assert len(operations) == len(set(operations))
        print(f"{len(operations)} operations recovered")  # noqa: T201 - shown when the test fails
        write(workspace_of(graph), {key: ["last"] for key in ALL}, branch=branch)


def said(pipe) -> Iterator[tuple[str, str]]:
    """All a dead process said; what it was saying when it died may be cut off."""
    with contextlib.suppress(EOFError, OSError, pickle.UnpicklingError):
        while True:
            what, row_id, _ = pipe.recv()
            yield what, row_id
