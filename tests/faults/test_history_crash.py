"""Merge, revert, branches, tags, cleanup: whoever dies anywhere has done it or has not, and all goes on."""

from __future__ import annotations

import shutil

import pytest

from tests.faults.history_cases import OPERATIONS, build, judge, observe, run_and_die
from tests.storage.processes import context, run_processes


class Prepared:
    """The graph at one place, which every test puts back as it was.

    Branches know their place, so it cannot be copied elsewhere. Only other processes open it: one that
    has opened it before may remember what was there.
    """

    def __init__(self, place) -> None:
        self.uri = str(place / "graph")
        self._kept = place / "kept"
        run_processes(build, [(place / "graph",)])
        shutil.copytree(self.uri, self._kept)
        self.states, self.points = {}, {}
        for name in OPERATIONS:
            ((before, after, fired),) = run_processes(observe, [(self.restored(), name)])
            self.states[name], self.points[name] = [before, after], fired

    def restored(self) -> str:
        shutil.rmtree(self.uri)
        shutil.copytree(self._kept, self.uri)
        return self.uri


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    return Prepared(tmp_path_factory.mktemp("history"))


def test_every_point_that_an_operation_passes_is_tried(prepared):
    assert prepared.points == {
        name: set(operation.points) for name, operation in OPERATIONS.items()
    }


DEATHS = [
    pytest.param(name, point, happened, id=f"{name}-{point}")
    for name, operation in OPERATIONS.items()
    for point, happened in operation.points.items()
]


@pytest.mark.sampled(16, every=("name", "happened"))
@pytest.mark.parametrize(("name", "point", "happened"), DEATHS)
def test_an_operation_that_dies_has_happened_or_has_not(prepared, name, point, happened):
    uri = prepared.restored()
    process = context.Process(target=run_and_die, args=(uri, name, point, 0))
    process.start()
    process.join(600)
    assert process.exitcode == 0
    run_processes(judge, [(uri, name, happened, prepared.states[name])])
