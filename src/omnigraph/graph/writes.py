"""`graph.mutate` and `graph.embed`: from what a caller asks for to a commit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omnigraph.graph.access import Access
from omnigraph.graph.arguments import check_limit, check_progress, check_retries, check_types
from omnigraph.graph.turns import TURNS
from omnigraph.lang.query.params import bind, named_or_given
from omnigraph.language import read_source
from omnigraph.manifest.branch_names import MAIN, trim_written_branch
from omnigraph.policy.checker import Action

if TYPE_CHECKING:
    from omnigraph.lang.schema.catalog import Catalog
    from omnigraph.manifest.manifest import BranchState
    from omnigraph.write.embed import EmbedResult
    from omnigraph.write.mutate import MutationResult


@dataclass(frozen=True, slots=True)
class MutateOptions:
    """Where a mutation writes, under which condition, and how often a lost race is run again."""

    branch: str = MAIN
    if_commit: str | None = None
    retries: int | None = None
    operation_id: str | None = None
    message: str | None = None


def mutate(
    access: Access,
    source: str | Path,
    name: str | Mapping[str, Any] | None,
    params: Mapping[str, Any] | None,
    options: MutateOptions,
) -> MutationResult:
    """Run a mutation as one commit, or change nothing."""
    from omnigraph.commit.replays import WriteRequest
    from omnigraph.write.mutate import CheckedMutation, Request, mutate

    state = access.state
    state.ensure_writable()
    target = trim_written_branch(options.branch)
    access.ask(Action.CHANGE, target)
    name, params = named_or_given(name, params)
    text, filename = read_source(source)

    def check(at: BranchState) -> CheckedMutation:
        accepted = state.schemas.at(at)
        plan = state.plans.mutation(accepted.catalog, text, name, filename)
        return CheckedMutation(accepted.catalog, accepted.ir_hash, plan, bind(plan.params, params))

    request = Request(
        check,
        target,
        access.actor,
        options.if_commit,
        check_retries(options.retries),
        state.embedder,
        state.blob_policy,
        WriteRequest.checked("mutate", options.operation_id, options.message),
    )
    with TURNS.writing():
        return mutate(state.workspace, request)


def embed(
    access: Access,
    branch: str,
    types: Iterable[str] | None,
    limit: int | None,
    progress: Callable[[int, int], object] | None,
    operation_id: str | None,
    message: str | None,
) -> EmbedResult:
    """Fill the vectors that are null although their text is there."""
    from omnigraph.commit.replays import WriteRequest
    from omnigraph.write.embed import EmbedRequest, embed

    state = access.state
    state.ensure_writable()
    target = trim_written_branch(branch)
    access.ask(Action.CHANGE, target)
    asked = EmbedRequest(
        target,
        check_types(types),
        check_limit(limit),
        access.actor,
        state.embedder,
        check_progress(progress),
        WriteRequest.checked("embed", operation_id, message),
    )

    def accepted() -> tuple[str, Catalog]:
        schema = state.schemas.of(target)
        return schema.ir_hash, schema.catalog

    return embed(state.workspace, accepted, asked)
