"""`graph.load`, `load_nodes`, `load_edges`, `mutate` and `embed`: from what a caller asks for to a commit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack, cast

from omnigraph.errors import BranchNotFound
from omnigraph.graph.access import Access
from omnigraph.graph.arguments import (
    check_flag,
    check_limit,
    check_load_options,
    check_progress,
    check_retries,
    check_types,
)
from omnigraph.graph.caches import AcceptedSchema
from omnigraph.graph.state import GraphState
from omnigraph.graph.turns import TURNS
from omnigraph.graph.unknown_here import advised_to_merge, names_what_main_has
from omnigraph.lang.query.compile import reads_graph
from omnigraph.lang.query.params import bind, named_or_given
from omnigraph.lang.schema.catalog import Catalog
from omnigraph.language import read_source
from omnigraph.manifest import refs
from omnigraph.manifest.branch_names import MAIN, trim_written_branch
from omnigraph.policy.checker import Action

# What these need is imported inside the functions, so that a process that only reads stays light.
if TYPE_CHECKING:
    from omnigraph.lang.schema.catalog import Catalog
    from omnigraph.manifest.manifest import BranchState
    from omnigraph.pipeline.frame_options import FrameKeywords, FrameOptions
    from omnigraph.pipeline.load_input import LoadInput
    from omnigraph.pipeline.load_options import LoadKeywords, LoadOptions
    from omnigraph.pipeline.load_plan import LoadResult
    from omnigraph.write.embed import EmbedResult
    from omnigraph.write.mutate import MutationResult, Request


def load_gathered(
    access: Access, gather: Callable[[LoadInput], object], **options: Unpack[LoadKeywords]
) -> LoadResult:
    """Load what ``gather`` adds to an empty input, JSON lines and frames together, as one commit."""
    state, asked = access.state, check_load_options(options)
    if asked.check:
        state.ensure_open()
    else:
        state.ensure_writable()
    acting = access.acting(asked.actor)
    asked = replace(asked, actor=acting.actor)
    before_fork = ask_load(acting, asked)
    with (
        advised_to_merge(access, asked.branch, names_what_main_has),
        load_input(state, asked.branch, asked.from_branch) as inputs,
    ):
        gather(inputs)
        return _run_load(state, inputs, asked, before_fork)


def ask_load(access: Access, options: LoadOptions) -> Callable[[], None] | None:
    """Ask whether the actor may make the branch, if it is missing, and write to it.

    Returns what must be asked later: a branch that is there now may be deleted before it is written
    to, and then the load makes it.
    """

    def may_fork() -> None:
        access.ask_fork(options.from_branch, options.branch)

    later = None
    if options.from_branch is not None and not access.state.gate.is_open:
        if options.branch in refs.list_refs(access.state.workspace.manifest):
            later = may_fork
        else:
            may_fork()
    access.ask(Action.CHANGE, options.branch)
    return later


def load_frame(
    access: Access,
    add: Callable[[LoadInput, FrameOptions], object],
    **options: Unpack[FrameKeywords],
) -> LoadResult:
    """Load the frame that ``add`` adds to an empty input, read as the options say."""
    from omnigraph.pipeline.frame_options import split_options

    shape, rest = split_options(options)
    return load_gathered(access, lambda inputs: add(inputs, shape), **cast("LoadKeywords", rest))


def load_input(state: GraphState, branch: str = MAIN, from_branch: str | None = None) -> LoadInput:
    """Return an empty input, to be filled and loaded inside its ``with`` block.

    Its records are checked against the schema of the branch they will be loaded into.
    """
    from omnigraph.pipeline.load_input import LoadInput

    state.ensure_open()
    catalog = _schema_for(state, branch, from_branch).catalog
    return LoadInput(catalog, state.workspace.root.options)


def _schema_for(state: GraphState, branch: str, from_branch: str | None) -> AcceptedSchema:
    """Return the schema of a branch, or of the one it will be made from.

    If neither exists the load is refused later, with what to do about it.
    """
    for name in (branch, from_branch):
        if name is not None:
            with suppress(BranchNotFound):
                return state.schemas.of(name)
    return state.schemas.of(MAIN)


def _run_load(
    state: GraphState,
    inputs: LoadInput,
    options: LoadOptions,
    before_fork: Callable[[], None] | None,
) -> LoadResult:
    """Load an input as one commit, or change nothing."""
    from omnigraph.pipeline.load import load
    from omnigraph.pipeline.load_plan import LoadPlan

    def accepted() -> tuple[str, Catalog]:
        schema = _schema_for(state, options.branch, options.from_branch)
        return schema.ir_hash, schema.catalog

    request = LoadPlan(inputs, options, state.embedder, state.blob_policy, before_fork=before_fork)
    with TURNS.writing():
        return load(state.workspace, accepted, request)


def mutate(
    access: Access,
    source: str | Path,
    name: str | Mapping[str, Any] | None,
    params: Mapping[str, Any] | None,
    *,
    branch: str,
    if_commit: str | None,
    retries: int | None,
    operation_id: str | None,
    message: str | None,
    group: bool = True,
) -> MutationResult:
    """Run a mutation as one commit, alone or with others, or change nothing."""
    from omnigraph.write.mutate import mutate

    state = access.state
    check_flag("group", group)
    request = mutation_request(
        access,
        source,
        name,
        params,
        branch=branch,
        if_commit=if_commit,
        retries=retries,
        operation_id=operation_id,
        message=message,
    )
    # Who counts on the head, or on the number of attempts, shares neither with others.
    if state.group_commit and group and if_commit is None and retries is None:
        return state.mutations.run(request.branch, request)
    with TURNS.writing():
        return mutate(state.workspace, request)


def mutation_request(
    access: Access,
    source: str | Path,
    name: str | Mapping[str, Any] | None = None,
    params: Mapping[str, Any] | None = None,
    *,
    branch: str = MAIN,
    if_commit: str | None = None,
    retries: int | None = None,
    operation_id: str | None = None,
    message: str | None = None,
) -> Request:
    """Return a mutation that the actor may run, ready to be run."""
    from omnigraph.commit.replays import WriteRequest
    from omnigraph.write.mutate import CheckedMutation, Request

    state = access.state
    state.ensure_writable()
    target = trim_written_branch(branch)
    access.ask(Action.CHANGE, target)
    name, params = named_or_given(name, params)
    text, filename = read_source(source)
    if not state.gate.is_open and reads_graph(text, name, filename):
        # What is matched or returned could be read no other way without leave to read.
        access.ask(Action.READ, target)

    def fits(_: object, __: object, main: Catalog) -> bool:
        return state.plans.mutation(main, text, name, filename) is not None

    def check(at: BranchState) -> CheckedMutation:
        accepted = state.schemas.at(at)
        with advised_to_merge(access, target, fits):
            plan = state.plans.mutation(accepted.catalog, text, name, filename)
        return CheckedMutation(accepted.catalog, accepted.ir_hash, plan, bind(plan.params, params))

    return Request(
        check,
        state.reader.view,
        target,
        access.actor,
        if_commit,
        check_retries(retries),
        embedder=state.embedder,
        blobs=state.blob_policy,
        asked=WriteRequest.checked("mutate", operation_id, message),
    )


def embed(
    access: Access,
    branch: str,
    types: Iterable[str] | None,
    limit: int | None,
    progress: Callable[[int, int], object] | None,
    *,
    if_commit: str | None,
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
    request = EmbedRequest(
        target,
        check_types(types),
        check_limit(limit),
        access.actor,
        state.embedder,
        check_progress(progress),
        WriteRequest.checked("embed", operation_id, message),
        if_commit=if_commit,
    )

    def accepted() -> tuple[str, Catalog]:
        schema = state.schemas.of(target)
        return schema.ir_hash, schema.catalog

    with advised_to_merge(access, target, names_what_main_has):
        return embed(state.workspace, accepted, request)
