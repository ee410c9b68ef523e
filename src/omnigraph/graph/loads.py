"""`graph.load`, `graph.load_nodes`, `graph.load_edges`: from options and an input to a commit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from omnigraph.graph.arguments import checked_load
from omnigraph.graph.state import GraphState
from omnigraph.lang.schema.catalog import Catalog
from omnigraph.manifest.branch_names import MAIN

# What a load needs is imported by loads alone: a process that asks one question loads none of it.
if TYPE_CHECKING:
    from omnigraph.pipeline.load_input import LoadInput
    from omnigraph.pipeline.load_options import LoadKeywords, LoadOptions
    from omnigraph.pipeline.request import LoadResult


def load_options(state: GraphState, options: LoadKeywords) -> LoadOptions:
    """The checked options of a load, on a handle that may write."""
    state.ensure_writable()
    return checked_load(options, state.actor)


def load_input(state: GraphState) -> LoadInput:
    """An empty input, to be filled and loaded inside its ``with`` block."""
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
