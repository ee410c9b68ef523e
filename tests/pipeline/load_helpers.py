"""Shorthands for loads of several inputs."""

from __future__ import annotations

from omnigraph.graph import writes
from omnigraph.graph.session import access_of


def load_gathered(graph, gather, **options):
    """Load what ``gather`` adds to the input."""
    return writes.load_gathered(access_of(graph), gather, **options)
