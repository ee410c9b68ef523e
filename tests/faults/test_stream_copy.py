"""A stream of one graph's changes into another graph, killed at every point of a micro-batch.

The program here does with the source and the sink what Spark does, with a checkpoint in files of the same
meaning: the end of a batch is noted before it runs, and that it ran afterwards.
"""

from __future__ import annotations

import io
import json
import os
import signal
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from tests.faults.matrix.children import Child, nursery

SCHEMA = """
node Person { name: String @key  age: I32?  seen: DateTime?  face: Blob? }
edge Knows: Person -> Person { since: Date? }
"""
OF_THE_QUERY = ("offset.noted", "rows.read", "batch.ran")
OF_THE_SINK = (
    "stream.before_write",
    "stream.before_commit",
    "load.before_phase_a",
    "load.before_phase_b",
    "load.after_table_commit",
    "load.after_phase_b_before_phase_c",
    "publish.after_write",
    "stream.after_commit",
)
TYPES = ("Person", "Knows")


@pytest.fixture(scope="module")
def children():
    modules = ("tests.faults.test_stream_copy", "tests.pipeline.stream_helpers")
    with nursery(*modules, "pyarrow", "omnigraph.spark.feed", "pyspark.cloudpickle") as made:
        yield made


def _prepare(_: Connection, folder: str) -> bool:
    import omnigraph as og

    def person(name: str, age: int, **values: str) -> dict[str, Any]:
        return {"type": "Person", "data": {"name": name, "age": age, **values}}

    def knows(a: str, b: str, since: str) -> dict[str, Any]:
        return {"edge": "Knows", "from": a, "to": b, "data": {"since": since}}

    with og.init(f"{folder}/copy", SCHEMA), og.init(f"{folder}/source", SCHEMA) as graph:
        graph.load(
            [person("ann", 1, face="base64:AAEC"), person("bob", 2, seen="2024-02-29T12:00:00Z")]
        )
        graph.load([knows("ann", "bob", "2020-01-01")], mode="append")
        graph.load([person("bob", 20), person("cid", 3)])
        graph.optimize(engine="local")
        edges = [
            person("dan", 4),
            knows("dan", "ann", "2021-01-01"),
            knows("cid", "bob", "2022-01-01"),
        ]
        graph.load(edges, mode="append")
        graph.mutate('query q() { update Person set { age: 30 } where name = "cid" }')
    return True


def _note(place: Path, text: str) -> None:
    written = place.with_suffix(".part")
    written.write_text(text, "utf-8")
    written.replace(place)


def _die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _copy(folder: str, name: str, killed_at: tuple[int, str] | None) -> None:
    """Copy one type, commit by commit, until nothing new comes; or die in one of the batches."""
    import omnigraph as og
    from omnigraph import failpoints
    from omnigraph.spark import OmniGraphSource
    from tests.pipeline.stream_helpers import send

    asked = {
        "graph": f"{folder}/source", "feed": "main", "types": name, "typed": "true",
        "ops": "insert,update", "startingFrom": "beginning", "maxCommitsPerTrigger": "1",
    }  # fmt: skip
    source = OmniGraphSource(asked)
    reader = source.streamReader(source.schema())
    checkpoint = Path(folder, f"checkpoint-{name}")
    checkpoint.mkdir(exist_ok=True)
    place, number = reader.initialOffset(), 0
    while True:
        noted, ran = checkpoint / f"offset-{number}", checkpoint / f"commit-{number}"
        if not noted.exists():
            end = reader.latestOffset(place, reader.getDefaultReadLimit())
            if end == place:
                break
            _note(noted, json.dumps(end))
        end = json.loads(noted.read_text("utf-8"))
        if not ran.exists():
            dies = killed_at[1] if killed_at is not None and killed_at[0] == number else None
            if dies in OF_THE_SINK:
                failpoints.arm(dies, _die)
            if dies == "offset.noted":
                _die()
            groups = reader.partitions(place, end)
            rows = [
                batch.drop_columns(["op", "graph_commit_id"])
                for group in groups for batch in reader.read(group)
            ]  # fmt: skip
            if dies == "rows.read":
                _die()
            if rows:
                with og.open(f"{folder}/copy") as copy:
                    send(copy, number, *rows, type=name, merge="true", app_id=f"copy of {name}")
            if dies == "batch.ran":
                _die()
            _note(ran, "")
        place, number = end, number + 1
    reader.stop()


def _run(_: Connection, folder: str, killed_at: tuple[str, int, str] | None) -> bool:
    for name in TYPES:
        _copy(folder, name, killed_at[1:] if killed_at and killed_at[0] == name else None)
    return True


def _compare(_: Connection, folder: str) -> Any:
    """Both graphs as exports; and those of the copy's commits beside those that they were made of."""
    import omnigraph as og

    def export(graph: og.Graph, **options: Any) -> bytes:
        out = io.BytesIO()
        graph.export(out, **options)
        return out.getvalue()

    with og.open(f"{folder}/copy") as copy, og.open(f"{folder}/source") as graph:
        pairs, seen = [], []
        for commit in reversed(copy.commits.list()):
            stream = commit.facts.get("stream")
            if stream is None:
                continue
            name = stream["app_id"].removeprefix("copy of ")
            seen.append((name, stream["batch_id"]))
            end = json.loads(
                Path(folder, f"checkpoint-{name}", f"offset-{stream['batch_id']}").read_text(
                    "utf-8"
                )
            )
            pairs.append(
                (
                    export(copy, snapshot=commit.graph_commit_id, types=[name]),
                    export(graph, snapshot=end["graph_commit_id"], types=[name]),
                )
            )
        return export(copy), export(graph), pairs, seen


def _case(folder: str, killed_at: tuple[str, int, str]) -> Any:
    Child(_prepare, folder).wait()
    assert Child(_run, folder, killed_at).wait() is None, f"{killed_at} was not reached"
    Child(_run, folder, None).wait()
    return Child(_compare, folder).wait()


# Batches that have rows; those between belong to commits of the other type.
@pytest.mark.sampled(2, every=())
@pytest.mark.parametrize("batch", [("Person", 0), ("Person", 2), ("Knows", 4)])
@pytest.mark.parametrize("point", [*OF_THE_QUERY, *OF_THE_SINK])
def test_a_copy_equals_its_original_commit_by_commit(children, tmp_path, batch, point):
    copy, original, pairs, seen = children.run(_case, str(tmp_path), (*batch, point))
    assert copy == original
    assert all(ours == theirs for ours, theirs in pairs)
    people, knows = [("Person", at) for at in (0, 2, 4, 5)], [("Knows", 1), ("Knows", 4)]
    assert seen == [*people, *knows], "one commit for each"
