"""A schema change in an object store: what holds on a disk holds there."""

from __future__ import annotations

import pytest

import omnigraph as og
from omnigraph import failpoints
from tests.commit.synthetic import drifted, dying_at
from tests.opened import workspace_of
from tests.write.evolving import NEXT, SCHEMA, filled, row_ids
from tests.write.writing import ends, nodes


def test_a_schema_is_changed_and_a_hard_drop_leaves_nothing(s3_root):
    with filled(s3_root.canonical) as graph:
        ids = row_ids(graph, "node:Person")
        assert graph.schema.apply(NEXT).applied
        assert row_ids(graph, "node:Human") == ids
        assert ends(graph, "BelongsTo") == [("ada", "t")]
        gone = graph.snapshot().tables["edge:BelongsTo"]
        source = "\n".join(line for line in NEXT.splitlines() if "BelongsTo" not in line)
        with dying_at("schema_apply.before_purge"):
            graph.schema.apply(source, allow_data_loss=True)
        assert workspace_of(graph).store.exists(gone.location)
    with og.open(s3_root.canonical) as graph:
        assert graph.schema.source == source
        assert workspace_of(graph).store.read_text("_schema.pg") == source
        assert not workspace_of(graph).store.exists(gone.location)
        assert graph.status()["purges_owed"] == []
        assert nodes(graph, "Human")["bob"]["years"] == 7


def test_an_apply_whose_publish_failed_is_finished_by_the_next_write(s3_root):
    with filled(s3_root.canonical) as graph:
        wanted = SCHEMA.replace("note: String?", "note: String?  city: String?")
        with (
            failpoints.arm("publish.before_write", times=1),
            pytest.raises(og.errors.RecoveryRequired),
        ):
            graph.schema.apply(wanted)
        graph.mutate('query q() { update Person set { city: "Oslo" } where name = "bob" }')
        assert nodes(graph, "Person")["bob"]["city"] == "Oslo"
        assert drifted(graph) == []
