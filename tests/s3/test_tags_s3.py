"""Tags and branches from the past in an object store, also when its answers get lost."""

from __future__ import annotations

import pytest

import omnigraph as og
from omnigraph import errors
from tests.merge.harbors import new_harbor, put, ship, ships

# Lance sends a request three more times.
ALL_TRIES = 4


def manifest_puts(environ):
    return environ["REQUEST_METHOD"] == "PUT" and "/__manifest/_versions/" in environ["PATH_INFO"]


def test_a_tag_outlives_lost_answers_and_a_branch_begins_at_it(s3, s3_root):
    with new_harbor(s3_root.canonical) as graph:
        lost = s3.lose_replies(manifest_puts, times=ALL_TRIES)
        tag = graph.tags.create("v1", actor="ada")
        assert lost
        assert graph.tags.list() == [tag]
        put(graph, "main", ship("S1", tonnage=50))
        with pytest.raises(errors.TagExists):
            graph.tags.create("v1")
        graph.branches.create("side", from_=og.at(tag="v1"))
        put(graph, "side", ship("S2", tonnage=70))
        assert ships(graph, "side") == {"S1": 1, "S2": 70, "S3": 3, "S4": 4}
        with og.open(graph.uri, mode="r") as other:
            assert other.entity("node", "Ship", "S1", tag="v1")["properties"]["tonnage"] == 1
        assert graph.tags.delete("v1") == tag
        assert graph.tags.list() == []
