"""Mutations that are run as one group, in a given order and without threads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from omnigraph.errors import OmniGraphError
from omnigraph.graph import Graph
from omnigraph.graph.access import Access
from omnigraph.graph.graph import state_of
from omnigraph.graph.writes import mutation_request
from omnigraph.write.group_commit.preparing import Mutation
from omnigraph.write.group_commit.queue import Member
from omnigraph.write.group_commit.together import Groups
from omnigraph.write.mutate import MutationResult

Answer = MutationResult | OmniGraphError


class Asked(NamedTuple):
    """One mutation: its text, and what else a caller gives."""

    source: str
    params: dict[str, Any] | None = None
    actor: str | None = None
    operation_id: str | None = None
    message: str | None = None


def ask(body: str, **options: Any) -> Asked:
    """One mutation of these statements."""
    return Asked(f"query q() {{ {body} }}", **options)


def member(graph: Graph, asked: Asked, branch: str = "main") -> Mutation:
    request = mutation_request(
        Access(state_of(graph), asked.actor),
        asked.source,
        None,
        asked.params,
        branch=branch,
        operation_id=asked.operation_id,
        message=asked.message,
    )
    return Member(request)


def run_together(graph: Graph, *asked: Asked, branch: str = "main") -> list[Answer]:
    """Run mutations in their order, as few groups as it takes; the answer of each."""
    members = [member(graph, one, branch) for one in asked]
    waiting: Sequence[Mutation] = members
    while waiting:
        Groups(state_of(graph).workspace).run(waiting)
        left = [one for one in waiting if not one.is_answered]
        assert len(left) < len(waiting), "the first one was left out"
        assert left == list(waiting[len(waiting) - len(left) :]), (
            "others than the last were left out"
        )
        waiting = left
    return [answer_of(one) for one in members]


def answer_of(one: Mutation) -> Answer:
    if one.error is not None:
        assert isinstance(one.error, OmniGraphError), one.error
        return one.error
    assert one.result is not None
    return one.result


def commits_of(answers: Sequence[Answer]) -> list[str | None]:
    """The commit of each answer; None for those without, and for errors."""
    return [
        None
        if isinstance(one, OmniGraphError) or one.commit is None
        else one.commit.graph_commit_id
        for one in answers
    ]
