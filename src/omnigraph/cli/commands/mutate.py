"""`omnigraph mutate`."""

from __future__ import annotations

import typer

from omnigraph.cli.call import Call
from omnigraph.cli.command import writes_graph
from omnigraph.cli.register import BranchOption, IfCommitOption, OperationOption, UriOption, add
from omnigraph.cli.source import QueryOptions


def register(app: typer.Typer) -> None:
    """Add the command."""
    add(app, writes_graph("mutate"), mutate)


def mutate(
    call: Call,
    source: QueryOptions,
    branch: BranchOption = None,
    if_commit: IfCommitOption = None,
    operation_id: OperationOption = None,
    uri: UriOption = None,
) -> None:
    """Run a mutation as one commit, or change nothing."""
    text, params = source.read()
    address = call.address(uri)
    with call.open(address) as graph:
        done = graph.mutate(
            text,
            source.name,
            params,
            "main" if branch is None else branch,
            call.actor,
            if_commit,
            operation_id=operation_id,
        )
    made = "no commit" if done.commit is None else f"commit {done.commit.graph_commit_id}"
    said = f"{done.query_name}: {done.affected_nodes} nodes, {done.affected_edges} edges; {made}"
    call.answer(done.to_json(), said, None if done.commit is None else f"{made} is made")
