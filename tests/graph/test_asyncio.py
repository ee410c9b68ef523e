"""Queries in an event loop: a cancelled one ends with an error, and the loop goes on."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading

import pytest

import omnigraph as og
from omnigraph.errors import OmniGraphError, QueryCancelled
from tests.graphs import graph_of

SCHEMA = "node N { k: I64 @key }"
COUNT = "query q() { match { $n: N } return { count($n) as n } }"
ENDLESS = (
    "query q() { match { $a: N $b: N $c: N $d: N $a.k < $d.k $b.k < $c.k $a.k != $c.k } "
    "return { $a.k, $b.k, $c.k, $d.k } }"
)


graph = graph_of(SCHEMA, [{"type": "N", "data": {"k": at}} for at in range(2000)])


def test_a_cancelled_query_does_not_end_the_loop(graph):
    async def main() -> list[object]:
        token = og.Cancel()
        endless = asyncio.create_task(asyncio.to_thread(graph.query, ENDLESS, cancel=token))
        counts = [await asyncio.to_thread(graph.query, COUNT) for _ in range(3)]
        token.cancel()
        with pytest.raises(QueryCancelled):
            await endless
        return [result.scalar() for result in counts] + [
            (await asyncio.to_thread(graph.query, COUNT)).scalar()
        ]

    assert asyncio.run(main()) == [2000] * 4


def test_a_cancelled_task_stops_its_query(graph):
    """The way that the manual shows: the query's thread ends, too."""

    async def query(text: str) -> og.QueryResult:
        token = og.Cancel()
        try:
            return await asyncio.to_thread(graph.query, text, cancel=token)
        except asyncio.CancelledError:
            token.cancel()
            raise

    async def main() -> int:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(query(ENDLESS), 0.2)
        return (await query(COUNT)).scalar()

    # Leaving the loop waits for its threads: this ends only if the query did.
    assert asyncio.run(main()) == 2000


def test_many_at_once_and_one_of_them_cancelled(graph):
    async def main() -> list[object]:
        tokens = [og.Cancel() for _ in range(4)]
        texts = [COUNT, ENDLESS, COUNT, COUNT]
        calls = [
            asyncio.to_thread(graph.query, text, cancel=token)
            for text, token in zip(texts, tokens, strict=True)
        ]
        asyncio.get_running_loop().call_later(0.2, tokens[1].cancel)
        return await asyncio.gather(*calls, return_exceptions=True)

    found = asyncio.run(main())
    assert [type(one) for one in found] == [og.QueryResult, QueryCancelled, *[og.QueryResult] * 2]


CALLS = {
    "query": lambda g, token, _: g.query(COUNT, cancel=token),
    "explain": lambda g, token, _: g.explain(COUNT, cancel=token),
    "profile": lambda g, token, _: g.profile(COUNT, cancel=token),
    "entity": lambda g, token, _: g.entity("node", "N", "1", cancel=token),
    "history": lambda g, token, _: g.history("node", "N", "1", cancel=token),
    "blame": lambda g, token, _: g.blame("node", "N", "1", cancel=token),
    "diff": lambda g, token, _: g.diff("main", "main", cancel=token),
    "to_networkx": lambda g, token, _: g.to_networkx(cancel=token),
    "export": lambda g, token, out: g.export(out, cancel=token),
    "poll": lambda g, token, _: g.changes.poll(cancel=token),
    "baseline": lambda g, token, out: g.changes.baseline(out, cancel=token),
    "changes": lambda g, token, _: g.commits.changes(g.snapshot().graph_commit_id, cancel=token),
}


@pytest.mark.parametrize("name", CALLS)
def test_every_call_with_a_token_ends_with_an_error_of_ours(graph, name, tmp_path):
    token = og.Cancel()
    token.cancel()
    with pytest.raises(QueryCancelled) as caught:
        CALLS[name](graph, token, tmp_path / "out")
    error = caught.value
    assert isinstance(error, OmniGraphError)
    assert not isinstance(error, KeyboardInterrupt)
    assert (error.code, error.exit_code) == ("query_cancelled", 130)
    assert "new one" in str(error)
    with pytest.raises(QueryCancelled):
        token.check()


def test_a_diff_is_stopped_while_it_is_read(graph):
    token = og.Cancel()
    diff = graph.diff("main", "main", cancel=token)
    token.cancel()
    with pytest.raises(QueryCancelled):
        list(diff)


def test_ctrl_c_is_still_ctrl_c(graph):
    program = (
        "import sys, omnigraph as og\n"
        "graph = og.open(sys.argv[1], mode='r')\n"
        "try:\n"
        "    print('ready', flush=True)\n"
        "    graph.query(sys.argv[2], cancel=og.Cancel())\n"
        "except KeyboardInterrupt as error:\n"
        "    print(type(error).__name__, flush=True)\n"
    )
    run = [sys.executable, "-c", program, graph.uri, ENDLESS]
    with subprocess.Popen(run, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        pressed = threading.Timer(1.0, os.kill, (process.pid, signal.SIGINT))
        pressed.start()
        assert process.stdout.read() == "KeyboardInterrupt\n"
