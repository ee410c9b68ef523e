"""SIGKILL while clients write: what was acknowledged is there, and nobody's write is there twice."""

from __future__ import annotations

import signal
import threading

import httpx2
import pytest

from omnigraph.clock import new_ulid
from tests.server.running import LONG, UNENCRYPTED

ADD = "query add($name: String) { insert Person { name: $name } }"
NAMES = "query names() { match { $p: Person } return { $p.name as name } }"
WRITERS = 4
KILLS = 3


class Writer:
    """A client that adds people one after another, and keeps asking until it knows what became of each."""

    def __init__(self, number: int, server) -> None:
        self.number = number
        self.server = server
        self.acknowledged: list[str] = []
        self.lost: list[tuple[str, str]] = []
        self.thread = threading.Thread(target=self.run, daemon=True)

    def run(self) -> None:
        """Write until the server is gone."""
        with httpx2.Client(verify=UNENCRYPTED, trust_env=False, timeout=LONG) as client:
            at = 0
            while True:
                name, operation = f"{self.server.process.pid}-{self.number}-{at}", new_ulid()
                at += 1
                try:
                    answer = add(client, self.server, name, operation)
                except httpx2.TransportError:
                    self.lost.append((name, operation))
                    return
                if answer.status_code == 200:
                    self.acknowledged.append(name)
                else:
                    assert answer.status_code in {409, 429}, answer.text


def add(client, server, name, operation):
    return client.post(
        f"{server.base}/graphs/default/mutate",
        json={"query": ADD, "params": {"name": name}},
        headers={"omnigraph-operation-id": operation},
    )


def commits_of(client, server, operation):
    found = client.get(f"{server.base}/graphs/default/commits", params={"operation_id": operation})
    return found.json()["commits"]


@pytest.mark.parametrize("_kill", range(KILLS))
def test_acknowledged_writes_stay_and_lost_ones_can_be_asked_for(own_people, start, _kill):
    flags = ("--store", own_people, "--unauthenticated")
    server = start(*flags)
    writers = [Writer(number, server) for number in range(WRITERS)]
    for writer in writers:
        writer.thread.start()
    while sum(len(writer.acknowledged) for writer in writers) < 10:
        writers[0].thread.join(0.01)
    server.send(signal.SIGKILL)
    for writer in writers:
        writer.thread.join(LONG)
        assert not writer.thread.is_alive()
    assert server.wait() == -signal.SIGKILL

    again = start(*flags)
    with httpx2.Client(verify=UNENCRYPTED, trust_env=False, timeout=LONG) as client:
        lost = [each for writer in writers for each in writer.lost]
        assert len(lost) == WRITERS
        for name, operation in lost:
            before = commits_of(client, again, operation)
            answer = add(client, again, name, operation)
            assert answer.status_code == 200, answer.text
            assert answer.json().get("replayed", False) is bool(before)
            assert len(commits_of(client, again, operation)) == 1
        rows = client.post(f"{again.base}/graphs/default/query", json={"query": NAMES}).json()[
            "rows"
        ]
    names = [row["name"] for row in rows]
    expected = {name for writer in writers for name in writer.acknowledged} | {
        name for name, _ in lost
    }
    assert sorted(names) == sorted(expected | {"ada", "bob", "eve"})
    assert again.stop() == 0
