"""`graph.load`, `graph.load_nodes`, `graph.load_edges`: from options and an input to a commit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from omnigraph.graph.arguments import check_load_options
from omnigraph.graph.state import GraphState
from omnigraph.lang.schema.catalog import Catalog
from omnigraph.manifest.branch_names import MAIN

# Loads import what they need inside their functions, so that a process that only reads stays light.
if TYPE_CHECKING:
    from omnigraph.pipeline.load_input import LoadInput
    from omnigraph.pipeline.load_options import LoadKeywords, LoadOptions
    from omnigraph.pipeline.request import LoadResult


def load_options(state: GraphState, options: LoadKeywords) -> LoadOptions:
    """Return the checked options of a load; refuse a handle that may not write."""
    state.ensure_writable()
    return check_load_options(options, state.actor)


def load_input(state: GraphState) -> LoadInput:
    """Return an empty input, to be filled and loaded inside its ``with`` block."""
    from omnigraph.pipeline.load_input import LoadInput

    state.ensure_open()
    return LoadInput(state.schemas.of(MAIN).catalog)


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
        schema = state.schemas.of(options.branch)
        return schema.ir_hash, schema.catalog

    return load(state.workspace, accepted, LoadRequest(inputs, options, state.embedder))
