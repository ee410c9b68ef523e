"""Shorthands for loads of several inputs."""

from __future__ import annotations

from omnigraph.graph import loads
from omnigraph.graph.graph import state_of


def load_gathered(graph, gather, **options):
    """Load what ``gather`` adds to the input."""
    state = state_of(graph)
    with loads.load_input(state) as inputs:
        gather(inputs)
        return loads.load_gathered(state, inputs, **options)
