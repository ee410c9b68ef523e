"""The provider of the driver's environment makes the vectors of a load on Spark."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path

import numpy as np

import omnigraph as og
from omnigraph.embeddings.offline import mock_embedding
from tests.embeddings.server import OK, EmbeddingServer, Status

KEY = "sk-stays-in-the-driver-0123456789"
SCHEMA = "node Doc { text: String @key  vec: Vector(4) @embed(text) }"
ALL = "query all() { match { $d: Doc } return { $d.text as text, $d.vec as vec } }"


def test_a_flaky_provider_gets_each_text_once_and_the_key_is_in_no_file(
    tmp_path, spark, monkeypatch
):
    texts = [f"text {n}" for n in range(200)]
    records = [{"type": "Doc", "data": {"text": text}} for text in texts for _ in range(3)]
    with EmbeddingServer(lambda n: Status(503) if n % 5 == 0 else OK) as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        monkeypatch.setenv("OMNIGRAPH_EMBED_BATCH", "16")
        with og.init(tmp_path / "g", SCHEMA) as graph:
            result = graph.load(records, engine="spark", spark=spark)
            rows = graph.query(ALL).rows
    assert (result.engine, result.embeddings_pending) == ("spark", 0)
    assert {call.headers["authorization"] for call in server.calls} == {f"Bearer {KEY}"}
    failures = len(range(0, len(server.calls), 5))
    assert len(server.calls) == math.ceil(200 / 16) + failures
    made = {row["text"]: row["vec"] for row in rows}
    assert made.keys() == set(texts)
    expected = [mock_embedding(text, 4) for text in texts]
    assert np.allclose([made[text] for text in texts], expected, atol=1e-6)
    places = (tmp_path, Path(spark.conf.get("spark.local.dir", tempfile.gettempdir())))
    assert [path for place in places for path in files_with(place, KEY.encode())] == []


def files_with(place: Path, secret: bytes):
    for path in place.rglob("*"):
        try:
            if path.is_file() and secret in path.read_bytes():
                yield path
        except OSError:  # others of this machine come and go
            continue
