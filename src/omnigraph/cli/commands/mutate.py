"""`omnigraph mutate`."""

from __future__ import annotations

from typing import Annotated

import typer

from omnigraph.cli.call import Call
from omnigraph.cli.command import writes_graph
from omnigraph.cli.register import BranchOption, UriOption, add
from omnigraph.cli.source import (
    InlineOption,
    ParamsFileOption,
    ParamsOption,
    QueryNameArgument,
    QueryOption,
    read_params,
    read_query,
)


def register(app: typer.Typer) -> None:
    """Add the command."""
    add(app, writes_graph("mutate"), mutate)


def mutate(
    call: Call,
    name: QueryNameArgument = None,
    query: QueryOption = None,
    inline: InlineOption = None,
    params: ParamsOption = None,
    params_file: ParamsFileOption = None,
    branch: BranchOption = None,
    if_commit: Annotated[
        str | None,
        typer.Option("--if-commit", metavar="ID", help="Only if the branch is at this commit."),
    ] = None,
    uri: UriOption = None,
) -> None:
    """Run a mutation as one commit, or change nothing."""
    source = read_query(query, inline, params_file)
    given = read_params(params, params_file)
    address = call.address(uri)
    with call.open(address) as graph:
        done = graph.mutate(
            source,
            name,
            given,
            "main" if branch is None else branch,
            call.actor,
            if_commit,
        )
    made = "no commit" if done.commit is None else f"commit {done.commit.graph_commit_id}"
    text = f"{done.query_name}: {done.affected_nodes} nodes, {done.affected_edges} edges; {made}"
    call.answer(done.to_json(), text, None if done.commit is None else f"{made} is made")
