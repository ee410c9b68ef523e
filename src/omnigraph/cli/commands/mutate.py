"""`omnigraph mutate`."""

from __future__ import annotations

import typer

from omnigraph.cli.call import Call
from omnigraph.cli.output import made_commit, replayed
from omnigraph.cli.register import BranchOption, CommitFlags, IfCommitOption, UriOption, add
from omnigraph.cli.source import QueryOptions
from omnigraph.display.text import counted
from omnigraph.service.documents import Document
from omnigraph.service.writes.mutate import MutateRequest
from omnigraph.service.writes.mutate import mutate as run_mutation


def register(app: typer.Typer) -> None:
    """Add the command."""
    add(app, "mutate", mutate)


def mutate(
    call: Call,
    source: QueryOptions,
    made: CommitFlags,
    branch: BranchOption = None,
    if_commit: IfCommitOption = None,
    uri: UriOption = None,
) -> None:
    """Run a mutation as one commit, or change nothing."""
    source.refuse_stored()
    text, params = source.read()
    request = MutateRequest(
        query=text,
        name=source.name,
        params=params,
        branch=branch,
        if_commit=if_commit,
        **made.read(),
    )
    with source.named_in_errors(), call.open(call.address(uri)) as graph:
        document = run_mutation(graph, request)
    call.answer(document, mutation_text(document), made_commit(document))


def mutation_text(document: Document) -> str:
    """Return what a mutation did, from its document."""
    commit = document["commit"]
    made = "no commit" if commit is None else f"commit {commit['graph_commit_id']}"
    counts = f"{counted(document['affected_nodes'], 'node')}, {counted(document['affected_edges'], 'edge')}"
    return f"{document['query_name']}: {counts}; {made}{replayed(document)}"
