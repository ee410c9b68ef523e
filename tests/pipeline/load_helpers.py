"""Shorthands for loads of several inputs."""

from __future__ import annotations


def load_gathered(graph, gather, **options):
    """Load what ``gather`` adds to the input."""
    with graph.load_input() as inputs:
        gather(inputs)
        return graph.load_inputs(inputs, **options)
