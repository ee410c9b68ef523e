"""Two streams at once into one graph, and a stream of changes into a copy whose driver is killed."""

from __future__ import annotations

import io
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException

import omnigraph as og
from omnigraph.spark import register
from tests.sampling import seed
from tests.spark.streaming import (
    arrive,
    frame,
    kill,
    run_to_end,
    sink,
    stored,
    wait_until,
)

SCHEMA = "node Person { name: String @key  age: I32? }"


@pytest.mark.parametrize("names", [("one", "two"), ("one", "one")], ids=["two names", "one name"])
def test_two_queries_write_into_one_graph_at_the_same_time(spark, tmp_path, names):
    register(spark)
    og.init(tmp_path / "g", SCHEMA).close()
    queries = []
    for at, name in enumerate(names):
        place = tmp_path / f"place-{at}"
        (place / "in").mkdir(parents=True)
        for number in range(3):
            arrive(place, number, **{f"{'ab'[at]}{number}": number})
        writer = sink(frame(spark, place), place, app_id=name).option("graph", str(tmp_path / "g"))
        queries.append(writer.start())
    refused = []
    for query in queries:
        try:
            query.awaitTermination()
        except StreamingQueryException as error:
            refused.append(str(error))
        finally:
            query.stop()
    people, batches = stored(tmp_path)
    if len(set(names)) == 2:
        assert refused == []
        assert people == {f"{who}{number}": number for who in "ab" for number in range(3)}
        assert sorted(batches) == [0, 0, 1, 1, 2, 2]
        return
    # One of them is the stream of that name; of the other nothing is there, and it says why.
    (told,) = refused
    assert "choose another app_id" in told
    assert all(query.id in told for query in queries), "it names both"
    assert batches == [0, 1, 2]
    winner = next(iter(people))[0]
    assert people == {f"{winner}{number}": number for number in range(3)}


# ------------------------------------------------------------------ a copy, by a driver that dies

COMMITS = 6
COPY = """
import sys
from omnigraph.runner.session import spark_session
from omnigraph.spark import register
from tests.spark.sessions import QUICK_START
from tests.spark.test_stream_pairs import copy_all

session = spark_session("local[1]", QUICK_START)
register(session)
copy_all(session, sys.argv[1])
"""


def copy_all(session, place: Path | str, checkpoint: str = "cp") -> None:
    """Stream the changes of one graph into the other, a commit at a time."""
    options = {"feed": "main", "types": "Person", "typed": "true", "ops": "insert,update",
               "startingFrom": "beginning", "maxCommitsPerTrigger": "1"}  # fmt: skip
    changes = session.readStream.format("omnigraph").options(graph=f"{place}/from", **options)
    rows = changes.load().drop("op", "graph_commit_id")
    into = {"graph": f"{place}/to", "type": "Person", "merge": "true", "app_id": "copy"}
    writer = rows.writeStream.format("omnigraph").options(**into).trigger(availableNow=True)
    run_to_end(writer.option("checkpointLocation", f"{place}/{checkpoint}").start)


def history(place: Path) -> list[dict[str, int]]:
    """Commit the same people again and again, each time with some changes; what there is after each."""
    rnd, people, states = random.Random(7), {}, []
    with og.init(place / "from", SCHEMA) as graph:
        for number in range(COMMITS):
            some = {f"p{rnd.randrange(8)}": number for _ in range(3)}
            people = people | some
            rows = [{"type": "Person", "data": {"name": n, "age": a}} for n, a in some.items()]
            graph.load(rows, mode="merge", engine="local")
            states.append(people)
    og.init(place / "to", SCHEMA).close()
    return states


def check_copy(place: Path, states: list[dict[str, int]]) -> None:
    """The copy has every commit of the original once, in its order, and nothing else."""
    query = "query q() { match { $p: Person } return { $p.name, $p.age } }"
    with og.open(place / "from") as original, og.open(place / "to") as copy:
        exports = io.BytesIO(), io.BytesIO()
        for graph, out in zip((original, copy), exports, strict=True):
            graph.export(out)
        assert exports[0].getvalue() == exports[1].getvalue()
        made = [one for one in reversed(copy.commits.list()) if "stream" in one.facts]
        seen = [
            {r["p.name"]: r["p.age"] for r in copy.query(query, snapshot=one.graph_commit_id)}
            for one in made
        ]
    assert seen == states
    numbers = [one.facts["stream"]["batch_id"] for one in made]
    assert numbers == sorted(set(numbers))


def start_a_copy(place: Path, **variables: str) -> subprocess.Popen[bytes]:
    """Start a driver that copies."""
    return subprocess.Popen(
        [sys.executable, "-c", COPY, str(place)],
        cwd=Path(__file__).parents[2],
        env={**os.environ, **variables},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def kill_at_some_moment(place: Path, rnd: random.Random) -> str:
    """Kill a driver while it copies; what it had done by then."""
    batch, wait = rnd.randrange(COMMITS - 1), rnd.random()
    driver = start_a_copy(place)
    try:
        wait_until((place / "cp" / "offsets" / str(batch)).exists, driver)
        time.sleep(wait)
    finally:
        kill(driver)
    return f"killed {wait:.2f} s after the offset of batch {batch}"


def kill_at_point(place: Path, point: str) -> str:
    """Kill a driver at a point of its first batch."""
    driver = start_a_copy(place, OMNIGRAPH_FAILPOINTS=f"{point}=pause:{place / 'pause'}")
    try:
        wait_until((place / "pause.reached").exists, driver)
    finally:
        kill(driver)
    return f"killed at {point}"


@pytest.mark.thorough
@pytest.mark.sampled(1, every=())
@pytest.mark.parametrize(
    "when",
    [
        *(f"moment {number}" for number in range(5)),
        "stream.before_write",
        "load.before_table_commit",
        "load.after_phase_b_before_phase_c",
        "publish.after_write",
        "stream.after_commit",
    ],
)
def test_a_copy_whose_driver_is_killed_equals_the_original(spark, tmp_path, when):
    register(spark)
    states = history(tmp_path)
    if "." in when:
        killed = kill_at_point(tmp_path, when)
    else:
        killed = kill_at_some_moment(tmp_path, random.Random(f"copy {seed()} {when}"))
    # The checkpoint may be moved: it knows no place.
    (tmp_path / "cp").rename(tmp_path / "moved")
    copy_all(spark, tmp_path, "moved")
    try:
        check_copy(tmp_path, states)
    except AssertionError as error:
        error.add_note(killed)
        raise
