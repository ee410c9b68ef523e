"""The process that is killed: it works on a graph, and writes down what it begins and what it was told."""

from __future__ import annotations

import os
import time
import traceback
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random

from omnigraph.errors import (
    BranchExists,
    BranchInUse,
    BranchNotFound,
    CommitNotFound,
    Contention,
    Drift,
    ExpectedVersionMismatch,
    HistoryReclaimed,
    MergeConflicts,
    RecoveryRequired,
    SchemaApplyInProgress,
    SchemaConflict,
    TagExists,
    TagNotFound,
)
from omnigraph.graph import Graph
from omnigraph.graph import open as open_graph
from tests.faults.kills.journal import Journal, actor_of
from tests.faults.kills.work import WORK, choose

REFUSALS = (
    BranchExists,
    BranchInUse,
    BranchNotFound,
    CommitNotFound,
    Contention,
    Drift,
    ExpectedVersionMismatch,
    HistoryReclaimed,
    MergeConflicts,
    SchemaApplyInProgress,
    SchemaConflict,
    TagExists,
    TagNotFound,
)
"""What an operation beside others, and after dead ones, may rightly end with."""


def work_until_killed(
    pipe: Connection, uri: str, journals: str, name: str, season: str, seed: str
) -> None:
    """Do one thing after the other. The pipe gets the kind of each that begins, and when."""
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["OMNIGRAPH_UPKEEP_FRAGMENTS"] = "2"  # so that every few commits bring upkeep
    upkeep = Random(f"{seed} {name}").choice(["inline", "background"])
    with Journal(Path(journals), name) as journal:
        number = 0
        graph = None
        try:
            if season == "spark":
                pipe.send(("java", start_spark(), time.monotonic()))
            graph = open_graph(uri, upkeep=upkeep)
            while True:
                number += 1
                if not work_once(pipe, graph, journal, name, number, season, seed):
                    graph.close()
                    graph = open_graph(uri, upkeep=upkeep)
        except BaseException:
            journal.begin(number + 1, {"kind": "end"})
            journal.end(number + 1, "broken", error=traceback.format_exc())
            pipe.send(("broken", "end", time.monotonic()))
            raise


def work_once(
    pipe: Connection, graph: Graph, journal: Journal, name: str, number: int, season: str, seed: str
) -> bool:
    """Do one thing, and say whether the handle can go on as it is."""
    actor = actor_of(name, number)
    intent = choose(Random(f"{seed} {actor}"), graph, season, actor)
    journal.begin(number, intent)
    pipe.send(("begun", intent["kind"], time.monotonic()))
    try:
        commit = WORK[intent["kind"]].run(graph, intent, actor)
    except RecoveryRequired as error:
        journal.end(number, "unknown", error=str(error))
        return False
    except REFUSALS as error:
        journal.end(number, "refused", error=f"{error.code}: {error}")
        # A dead writer's work that must be undone waits for an open.
        return not isinstance(error, Drift | SchemaConflict)
    journal.end(number, "done", commit=commit)
    return True


def start_spark() -> int:
    """Start a session of this process; the number of its Java process."""
    from omnigraph.runner import session
    from tests.spark.sessions import QUICK_START

    session.spark_session("local[2]", QUICK_START)
    assert session._own.gateway is not None
    return session._own.gateway.process.pid
