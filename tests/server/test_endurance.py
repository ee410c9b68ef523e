"""Two workers through what machines do: a clock that jumps, and a worker that cannot stay alive."""

from __future__ import annotations

import http.client
import os
import signal
import struct
import time
from pathlib import Path

import pytest

from omnigraph.clock import new_ulid
from tests.server.running import LONG
from tests.server.test_serving import names
from tests.server.test_workers import ADD, NAMES, TWO, pids_of, send

DAY = 24 * 3600
MUTATE, QUERY = "/graphs/default/mutate", "/graphs/default/query"
SHIFTED = """
import mmap, os, struct, time

with open(os.environ["CLOCK_OFFSET"], "rb") as file:
    offset = mmap.mmap(file.fileno(), 8, prot=mmap.PROT_READ)
seconds = lambda: struct.unpack("q", offset)[0]
real, real_ns = time.time, time.time_ns
time.time = lambda: real() + seconds()
time.time_ns = lambda: real_ns() + seconds() * 10**9
"""
"""A `sitecustomize` whose processes read a clock that the test sets."""


def test_a_clock_that_jumps_loses_and_repeats_nothing(own_people, start, tmp_path):
    offset, site = tmp_path / "offset", tmp_path / "site"
    offset.write_bytes(struct.pack("q", 0))
    site.mkdir()
    (site / "sitecustomize.py").write_text(SHIFTED)
    server = start(
        *("--store", own_people, "--unauthenticated", *TWO),
        fresh=True,
        environ={"PYTHONPATH": str(site), "CLOCK_OFFSET": str(offset)},
    )
    added = []
    for days in (0, 1, -3, 3650, 0):
        with offset.open("r+b") as file:
            file.write(struct.pack("q", days * DAY))
        for _ in range(3):
            added.append(f"n{len(added)}")
            body, operation = {"query": ADD, "params": {"name": added[-1]}}, new_ulid()
            status, document = send(server, "POST", MUTATE, body, operation_id=operation)
            assert status == 200, document
            away = document["commit"]["created_at"] / 10**6 - time.time()
            assert round(away / DAY) == days
            # Another connection, perhaps to the other worker, and the same write again.
            status, again = send(server, "POST", MUTATE, body, operation_id=operation)
            assert (status, again["replayed"]) == (200, True)
            assert again["commit"] == document["commit"]
    status, document = send(server, "GET", "/graphs/default/commits?operation=mutation")
    versions = [commit["manifest_version"] for commit in document["commits"]]
    assert (len(versions), versions) == (len(added), sorted(versions, reverse=True))
    status, document = send(server, "GET", "/graphs/default/changes?start=beginning")
    fed = [change["id"] for block in document["blocks"] for change in block["changes"]]
    assert fed == ["ada", "bob", "eve", *added]
    assert names_of(server) == {"ada", "bob", "eve", *added}
    assert server.stop() == 0
    assert names(own_people) == sorted({"ada", "bob", "eve", *added})


@pytest.mark.thorough
def test_a_worker_in_a_crash_loop_costs_nobody_an_answer(own_people, start):
    """It is killed again as soon as its process is there; the other one serves."""
    server = start("--store", own_people, "--unauthenticated", *TWO, fresh=True)
    steady, doomed = pids_of(server)
    added = []
    for _ in range(4):
        os.kill(doomed, signal.SIGKILL)
        known = {steady, doomed}
        until = time.monotonic() + LONG
        while not (started := children_of(server.process.pid) - known):
            assert time.monotonic() < until, server.log.read_text()
            added.append(f"n{len(added)}")
            assert served(server, added[-1])
            time.sleep(0.1)
        (doomed,) = started
    while len(pids_of(server)) < 3:
        time.sleep(0.02)
    assert {"ada", "bob", "eve", *added} == names_of(server)
    assert server.stop() == 0
    told = [record["event"] for record in server.records if "another one" in record["event"]]
    assert [float(each.split()[-2]) for each in told] == [1, 2, 4, 8, 16][: len(told)]
    assert "before it was ready" in told[-1]


def children_of(pid):
    """The processes that a process has started."""
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return {int(each) for each in found.split()}


def served(server, name):
    """Add a person and see it; a connection to a process that has just been killed is made anew."""
    operation = new_ulid()
    body = {"query": ADD, "params": {"name": name}}
    while True:
        try:
            status, document = send(server, "POST", MUTATE, body, operation_id=operation)
            assert status == 200, document
            return name in names_of(server)
        except (ConnectionError, http.client.BadStatusLine):
            continue


def names_of(server):
    """The names of everybody."""
    status, document = send(server, "POST", QUERY, {"query": NAMES})
    assert status == 200, document
    return {row["name"] for row in document["rows"]}
