"""`graph.load`, `graph.load_nodes`, `graph.load_edges`: from options and an input to a commit."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Unpack, cast

from omnigraph.errors import BranchNotFound
from omnigraph.graph.accepted_schema import AcceptedSchema
from omnigraph.graph.arguments import check_load_options
from omnigraph.graph.state import GraphState
from omnigraph.lang.schema.catalog import Catalog
from omnigraph.manifest.branch_names import MAIN

# Loads import what they need inside their functions, so that a process that only reads stays light.
if TYPE_CHECKING:
    from omnigraph.pipeline.frame_options import FrameKeywords, FrameOptions
    from omnigraph.pipeline.load_input import LoadInput
    from omnigraph.pipeline.load_options import LoadKeywords, LoadOptions
    from omnigraph.pipeline.request import LoadResult


def load_options(state: GraphState, options: LoadKeywords) -> LoadOptions:
    """Return the checked options of a load; a handle that may not write can still check one."""
    asked = check_load_options(options, state.actor)
    if asked.check:
        state.ensure_open()
    else:
        state.ensure_writable()
    return asked


def frame_options(state: GraphState, options: FrameKeywords) -> tuple[LoadOptions, FrameOptions]:
    """Return the checked options of a load of one frame, and how the frame is read."""
    from omnigraph.pipeline.frame_options import split_options

    frame, rest = split_options(options)
    return load_options(state, cast("LoadKeywords", rest)), frame


def load_input(state: GraphState, branch: str = MAIN, from_branch: str | None = None) -> LoadInput:
    """Return an empty input, to be filled and loaded inside its ``with`` block.

    Its records are checked against the schema of the branch they will be loaded into.
    """
    from omnigraph.pipeline.load_input import LoadInput

    state.ensure_open()
    return LoadInput(_schema_for(state, branch, from_branch).catalog)


def _schema_for(state: GraphState, branch: str, from_branch: str | None) -> AcceptedSchema:
    """Return the schema of a branch, or of the one it will be made from.

    If neither exists the load is refused later, with what to do about it.
    """
    for name in (branch, from_branch):
        if name is not None:
            with suppress(BranchNotFound):
                return state.schemas.of(name)
    return state.schemas.of(MAIN)


def load_gathered(
    state: GraphState, inputs: LoadInput, **options: Unpack[LoadKeywords]
) -> LoadResult:
    """Load JSON lines and frames that were added to one input together, as one commit."""
    return run_load(state, inputs, load_options(state, options))


def run_load(state: GraphState, inputs: LoadInput, options: LoadOptions) -> LoadResult:
    """Load an input as one commit, or change nothing."""
    from omnigraph.pipeline.load import load
    from omnigraph.pipeline.request import LoadRequest

    def accepted() -> tuple[str, Catalog]:
        schema = _schema_for(state, options.branch, options.from_branch)
        return schema.ir_hash, schema.catalog

    return load(
        state.workspace, accepted, LoadRequest(inputs, options, state.embedder, state.blob_policy)
    )
