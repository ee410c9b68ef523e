"""Operation ids in an object store, also when the answer of the publish gets lost."""

from __future__ import annotations

import omnigraph as og
from omnigraph.clock import new_ulid
from tests.s3.test_tags_s3 import ALL_TRIES, manifest_puts

SCHEMA = "node Doc { text: String }"
DOCS = [{"type": "Doc", "data": {"text": "one"}}]


def test_a_load_sent_again_is_answered_by_any_handle(s3, s3_root):
    chosen = new_ulid()
    with og.init(s3_root.canonical, SCHEMA) as graph:
        lost = s3.lose_replies(manifest_puts, times=ALL_TRIES)
        first = graph.load(DOCS, operation_id=chosen)
        assert lost
        with og.open(graph.uri) as other:
            again = other.load(DOCS, operation_id=chosen)
        assert again.to_json() == {**first.to_json(), "replayed": True}
        assert graph.load(DOCS, operation_id=chosen) == again
        assert graph.snapshot().tables["node:Doc"].row_count == 1
        assert graph.commits.list(filter=f"operation_id={chosen}") == [first.commit]
