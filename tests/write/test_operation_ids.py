"""Operation ids: a write that is sent again takes effect once, and is answered as it was at first."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

import omnigraph as og
from omnigraph import failpoints
from omnigraph.cancel import Cancel, Cancelled, watching
from omnigraph.clock import new_ulid
from omnigraph.errors import (
    BadRequest,
    Contention,
    KeyConflict,
    PreconditionFailed,
    ProviderError,
    RecoveryRequired,
    StorageError,
)
from omnigraph.manifest.history.operation_records import RecentOperations
from omnigraph.manifest.publisher import ManifestChanges, publish
from tests.commit.synthetic import dying_at
from tests.manifest.publishing import intent
from tests.opened import workspace_of
from tests.pipeline.embedders import Recording
from tests.storage.processes import run_processes
from tests.write import race_workers
from tests.write.writing import nodes, run, state

SCHEMA = """
node Person { name: String  age: I64? }
node Team { code: String @key }
node Note { slug: String @key  body: String?  vec: Vector(4)? @embed(body)  scan: Blob? }
edge Member: Person -> Team
"""
WIDER = SCHEMA.replace("age: I64?", "age: I64?  nick: String?").replace("I64?", "I64? @index")
ADD = 'insert Person { name: "Ann" }'

Call = Callable[[og.Graph, str], Any]


@pytest.fixture
def graph(tmp_path):
    """A note without its vector and a team, on `main`; a person more on `side`."""
    records = [
        {"type": "Note", "data": {"slug": "n", "body": "text"}},
        {"type": "Team", "data": {"code": "t"}},
    ]
    with og.init(tmp_path / "g", SCHEMA) as plain:
        plain.load(records)
        plain.branches.create("side")
        run(plain, 'insert Person { name: "Sid" }', branch="side")
        run(plain, 'insert Team { code: "u" }')
    with og.open(tmp_path / "g", embedder=Recording(), actor="ada") as graph:
        yield graph


def _load(graph: og.Graph, chosen: str) -> Any:
    records = [{"type": "Person", "data": {"name": "Bo"}}, {"type": "Team", "data": {"code": 1}}]
    return graph.load(records, operation_id=chosen, on_bad="skip")


def _apply(graph: og.Graph, chosen: str) -> Any:
    if "side" in graph.branches.list():
        graph.branches.delete("side")
    return graph.schema.apply(WIDER, operation_id=chosen)


WRITES: dict[str, Call] = {
    "mutate": lambda graph, chosen: run(graph, ADD, operation_id=chosen),
    "load": _load,
    "embed": lambda graph, chosen: graph.embed(operation_id=chosen),
    "blob_write": lambda graph, chosen: graph.blobs.write(
        "node", "Note", "n", "scan", b"bytes", operation_id=chosen
    ),
    "merge": lambda graph, chosen: graph.branches.merge(
        "side", delete_branch=True, operation_id=chosen
    ),
    "revert": lambda graph, chosen: graph.commits.revert(
        graph.commits.list(filter="operation=load", limit=1)[0].graph_commit_id,
        resolve="theirs",
        operation_id=chosen,
    ),
    "schema_apply": _apply,
}


NO_VALUE = "a value does not fit its property"


@pytest.mark.parametrize("name", WRITES)
def test_a_write_sent_again_is_answered_as_at_first_and_changes_nothing(graph, name):
    chosen, write = new_ulid(), WRITES[name]
    first = write(graph, chosen)
    assert not first.replayed
    assert "replayed" not in first.to_json()
    assert first.commit.operation_id == chosen
    kept = first.commit.facts["request"]
    assert (kept["operation"], kept["operation_id"]) == (name, chosen)
    before = state(graph)
    again = write(graph, chosen.lower())
    assert again.replayed
    told = first.to_json()
    if name == "load":
        # A commit keeps no values of the records that were left out.
        told["bad_records"] = {
            "total": 1,
            "first": [{**told["bad_records"]["first"][0], "reason": NO_VALUE, "property": None}],
        }
    assert again.to_json() == {**told, "replayed": True}
    assert f"{first.commit.graph_commit_id} (made before, under this operation id)" in str(again)
    with og.open(graph.uri, embedder=Recording()) as other:  # which has looked nothing up yet
        assert write(other, chosen) == again
    assert state(graph) == before
    assert graph.commits.list(filter=f"operation_id={chosen}") == [first.commit]


def test_an_id_belongs_to_one_operation(graph):
    mutated, loaded = new_ulid(), new_ulid()
    WRITES["mutate"](graph, mutated)
    WRITES["load"](graph, loaded)
    before = state(graph)
    for name, write in WRITES.items():
        chosen = loaded if name == "mutate" else mutated
        with pytest.raises(BadRequest, match="another operation") as caught:
            write(graph, chosen)
        assert caught.value.details["operation_id"] == chosen
    assert state(graph) == before


def test_a_repetition_comes_before_the_condition_and_before_the_records(graph):
    chosen, head = new_ulid(), graph.snapshot().graph_commit_id
    asked = {"if_commit": head, "operation_id": chosen}
    first = run(graph, ADD, **asked)
    assert run(graph, ADD, **asked).commit == first.commit
    with pytest.raises(PreconditionFailed):
        run(graph, ADD, if_commit=head, operation_id=new_ulid())
    other = new_ulid()
    loaded = graph.load(TEAM, mode="append", operation_id=other)
    assert graph.load(b"no record", mode="append", operation_id=other).commit == loaded.commit


def test_a_file_whose_name_is_no_text_can_be_answered_for(graph, tmp_path):
    source, chosen = os.fsdecode(os.fsencode(tmp_path) + b"/\xff.jsonl"), new_ulid()
    Path(source).write_bytes(b"{}\n")
    graph.load(source, on_bad="skip", operation_id=chosen)
    again = graph.load(source, on_bad="skip", operation_id=chosen)
    assert [bad["source"] for bad in again.bad_records["first"]] == [f"{tmp_path}/?.jsonl"]


def test_the_commits_a_branch_inherited_count_and_those_it_merged_do_not(graph):
    on_main, on_side = new_ulid(), new_ulid()
    first = run(graph, ADD, operation_id=on_main)
    graph.branches.create("later")
    assert run(graph, ADD, branch="later", operation_id=on_main).commit == first.commit
    assert not run(graph, ADD, branch="side", operation_id=on_main).replayed
    run(graph, 'insert Team { code: "s" }', branch="side", operation_id=on_side)
    graph.branches.merge("side")
    assert not run(graph, 'insert Team { code: "s" }', operation_id=on_side).replayed


def test_a_load_whose_branch_is_missing_looks_where_it_would_come_from(graph):
    chosen = new_ulid()
    first = graph.load([], operation_id=chosen)
    again = graph.load([], branch="new", from_branch="main", operation_id=chosen)
    assert (again.replayed, again.commit, again.branch) == (True, first.commit, "main")
    assert "new" not in graph.branches.list()


def test_what_makes_no_commit_keeps_no_id(graph):
    chosen = new_ulid()
    nothing = run(graph, 'delete Person where name = "nobody"', operation_id=chosen)
    assert (nothing.commit, nothing.replayed) == (None, False)
    plan = graph.branches.merge("side", dry_run=True, operation_id=chosen)
    assert (plan.commit, plan.replayed) == (None, False)
    assert not run(graph, ADD, operation_id=chosen).replayed
    assert graph.branches.merge("side", dry_run=True, operation_id=chosen).outcome == "merged"
    graph.tags.create("t", operation_id=chosen)
    graph.tags.delete("t", operation_id=chosen)
    graph.branches.create("b", operation_id=chosen)
    graph.branches.delete("b", operation_id=chosen)
    with pytest.raises(KeyConflict):
        graph.load(
            [{"type": "Team", "data": {"code": "t"}}], mode="append", operation_id=new_ulid()
        )
    for call in (
        lambda: graph.tags.create("t", operation_id="twelve"),
        lambda: graph.tags.delete("t", operation_id="twelve"),
        lambda: graph.branches.create("b", operation_id="twelve"),
        lambda: graph.branches.delete("side", operation_id="twelve"),
        *(lambda write=write: write(graph, "twelve") for write in WRITES.values()),
    ):
        with pytest.raises(BadRequest, match="give a ULID"):
            call()


def test_a_merge_sent_again_says_what_became_of_the_branch(graph):
    chosen = new_ulid()
    graph.branches.merge("side", operation_id=chosen)
    again = graph.branches.merge("side", delete_branch=True, operation_id=chosen)
    assert (again.replayed, again.branch_deleted) == (True, False)
    assert "delete the branch" in again.branch_delete_error
    assert "side" in graph.branches.list()


def test_an_embed_job_that_was_stopped_goes_on_under_its_id(tmp_path, monkeypatch):
    monkeypatch.setattr("omnigraph.write.embed.ROWS_PER_COMMIT", 3)
    chosen = new_ulid()
    notes = [{"type": "Note", "data": {"slug": f"{at}", "body": f"b{at}"}} for at in range(8)]
    with og.init(tmp_path / "g", SCHEMA) as plain:
        plain.load(notes)
    stopping = Recording()
    with og.open(tmp_path / "g", embedder=stopping) as graph:
        told: list[int] = []

        def stop(filled: int, _failed: int) -> None:
            told.append(filled)
            if len(told) == 1:
                raise ProviderError("stopped")

        with pytest.raises(ProviderError):
            graph.embed(operation_id=chosen, progress=stop)
        assert told == [3]
        rest = graph.embed(operation_id=chosen)
        assert (rest.filled, rest.pending, rest.replayed) == (5, 0, False)
        again = graph.embed(operation_id=chosen)
        assert again.to_json() == {**rest.to_json(), "replayed": True}
        assert len(graph.commits.list(filter=f"operation_id={chosen}")) == 3


def test_an_embed_job_is_stopped_after_any_of_its_commits(tmp_path, monkeypatch):
    monkeypatch.setattr("omnigraph.write.embed.ROWS_PER_COMMIT", 2)
    notes = [{"type": "Note", "data": {"slug": f"{at}", "body": f"b{at}"}} for at in range(6)]
    with og.init(tmp_path / "g", SCHEMA) as plain:
        plain.load(notes)
    token, told = Cancel(), []

    def stop(filled: int, _failed: int) -> None:
        told.append(filled)
        if filled == 4:
            token.cancel()

    with og.open(tmp_path / "g", embedder=Recording()) as graph:
        with watching(token), pytest.raises(Cancelled):
            graph.embed(progress=stop)
        assert told == [2, 4]
        assert graph.embed().filled == 2


@pytest.mark.parametrize("kept", [{}, {"request": 1}, {"request": {"operation": "mutate"}}])
def test_a_commit_that_does_not_say_what_was_answered_is_named(graph, kept):
    made = replace(intent(), operation_id=new_ulid(), facts=kept)
    publish(workspace_of(graph).manifest, "main", ManifestChanges(), (), made, unchecked=True)
    before = state(graph)
    with pytest.raises(StorageError, match=made.graph_commit_id):
        run(graph, ADD, operation_id=made.operation_id)
    assert state(graph) == before


# ------------------------------------------------------------------ crashes


POINTS = {
    "mutation.before_phase_a": "nothing",
    "mutation.after_phase_b_before_phase_c": "forward",
    "mutation.after_phase_c_before_phase_d": "forward",
    "mutation.after_table_commit": "back",
}


@pytest.mark.parametrize(("point", "fate"), POINTS.items())
def test_a_write_whose_process_died_is_answered_or_made_but_never_doubled(graph, point, fate):
    """``actor_id`` of the answer stays that of the writer, although recovery made the commit."""
    chosen, both = new_ulid(), f'{ADD} insert Team {{ code: "x" }}'
    asked = {"operation_id": chosen, "actor": "bob"}
    with dying_at(point):
        run(graph, both, **asked)
    if fate == "back":
        with pytest.raises(RecoveryRequired):
            run(graph, both, **asked)
        og.open(graph.uri).close()
    answer = run(graph, both, **asked)
    assert answer.replayed == (fate == "forward")
    assert (answer.actor_id, answer.affected_nodes) == ("bob", 2)
    assert [row["name"] for row in nodes(graph, "Person").values()] == ["Ann"]
    assert graph.commits.list(filter=f"operation_id={chosen}") == [answer.commit]


# ------------------------------------------------------------------ races


@pytest.mark.parametrize("worker", [race_workers.insert_once, race_workers.load_once])
def test_processes_that_send_one_write_make_one_commit(graph, worker, monkeypatch):
    """Each sends a few writes; the others send the same ones at the same time."""
    monkeypatch.setenv("OMNIGRAPH_LOCK_WAIT_MS", "300000")  # a busy machine is no failure
    ids = [new_ulid() for _ in range(4)]
    told = run_processes(worker, [(graph.uri, ids)] * 3)
    made = {one.operation_id: one.graph_commit_id for one in graph.commits.list()}
    for answers in told:
        assert [commit_id for commit_id, _ in answers] == [made[chosen] for chosen in ids]
    for at in range(len(ids)):
        assert sum(not answers[at][1] for answers in told) == 1, "one of them made it"
    assert len(nodes(graph, "Person")) == len(ids)
    assert len(graph.commits.list(filter="operation_id=")) + len(ids) == len(graph.commits.list())


def test_two_writes_of_one_id_are_kept_apart_although_they_share_no_table(graph, monkeypatch):
    chosen, refused = new_ulid(), []

    def other() -> None:
        try:
            run(graph, 'insert Team { code: "x" }', operation_id=chosen, retries=0)
        except Contention as error:
            refused.append(error)

    def meanwhile(_: str) -> None:
        monkeypatch.setenv("OMNIGRAPH_LOCK_WAIT_MS", "0")
        thread = Thread(target=other)
        thread.start()
        thread.join()
        monkeypatch.delenv("OMNIGRAPH_LOCK_WAIT_MS")

    with failpoints.arm("mutation.before_phase_a", meanwhile):
        first = run(graph, ADD, operation_id=chosen)
    assert len(refused) == 1
    again = run(graph, 'insert Team { code: "x" }', operation_id=chosen)
    assert (again.replayed, again.commit) == (True, first.commit)
    assert set(nodes(graph, "Team")) == {"t", "u"}


TEAM = [{"type": "Team", "data": {"code": "x"}}]
TWINS: dict[str, Call] = {
    "a key is there": lambda graph, chosen: graph.load(TEAM, mode="append", operation_id=chosen),
    "nothing is left to delete": lambda graph, chosen: run(
        graph, 'delete Team where code = "u"', operation_id=chosen
    ),
    "the branch is merged": WRITES["merge"],
    "the schema is there": WRITES["schema_apply"],
}


@pytest.mark.parametrize("met", TWINS)
def test_a_write_that_meets_the_effect_of_its_twin_is_answered(graph, monkeypatch, met):
    """The twin lands when this one has looked its id up and has not begun."""
    chosen, twins = new_ulid(), []
    real = RecentOperations.find

    def find(*arguments: Any) -> Any:
        found = real(*arguments)
        if not twins:
            twins.append(None)
            twins[0] = TWINS[met](graph, chosen)
        return found

    monkeypatch.setattr(RecentOperations, "find", find)
    answer = TWINS[met](graph, chosen)
    assert not twins[0].replayed
    assert (answer.replayed, answer.commit) == (True, twins[0].commit)


def test_a_write_whose_twin_lands_while_it_is_prepared_is_answered(graph):
    """Under its locks the id is looked up again, also if a lost race is not to be run again."""
    chosen, twins = new_ulid(), []

    def twin(_: str) -> None:
        twins.append(run(graph, ADD, operation_id=chosen))

    with failpoints.arm("attempt.pinned", twin, times=1):
        answer = run(graph, ADD, operation_id=chosen, retries=0)
    assert (answer.replayed, answer.commit) == (True, twins[0].commit)
    assert len(nodes(graph, "Person")) == 1
