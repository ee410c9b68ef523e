"""What Spark shows and stores of the keys to a store: nothing, wherever they were given.

The session notes its events as for a history server: plans, options, settings and failures of all
queries. Keys are looked for there, in every text that a caller sees, and in the files of checkpoints.
"""

from __future__ import annotations

import base64
from pathlib import Path
from uuid import uuid4

import pytest
from pyspark.errors import PySparkException

import omnigraph as og
from omnigraph.errors import OmniGraphError
from omnigraph.spark import register
from tests.s3_server import BUCKET, S3Server
from tests.spark.streaming import run_to_end

SCHEMA = "node Person { name: String @key  age: I32? }"
COLUMNS = "name string, age int"


@pytest.fixture(scope="module")
def server():
    server = S3Server().start()
    yield server
    server.stop()


class Store:
    """Keys that appear nowhere else, and what was shown to whoever used them."""

    def __init__(self, server: S3Server) -> None:
        self.server = server
        self.secret, self.token = (f"canary{uuid4().hex}" for _ in range(2))
        self.options = {
            "endpoint": server.endpoint,
            "region": "us-east-1",
            "access_key_id": "a-key",
            "secret_access_key": self.secret,
            "session_token": self.token,
            "allow_http": "true",
        }
        self.shown: list[str] = []

    def show(self, *things: object) -> None:
        self.shown += [text for thing in things for text in (str(thing), repr(thing))]

    def check(self, *places: Path) -> None:
        """The keys are in no text and in no file, as they are or encoded."""
        files = [path for place in places for path in place.rglob("*") if path.is_file()]
        texts = {f"shown {at}": text.encode() for at, text in enumerate(self.shown)}
        texts |= {str(path): path.read_bytes() for path in files}
        for key in (self.secret, self.token):
            # Base64 has three ways to write a text, by its place among the others.
            forms = [key.encode(), key.encode("utf-16-le"), key.encode().hex().encode()]
            forms += [base64.b64encode(b"x" * at + key.encode())[4:-4] for at in range(3)]
            for place, data in texts.items():
                assert not [form for form in forms if form in data], place


@pytest.fixture(params=["options", "environment"])
def store(server, monkeypatch, request):
    """Keys of options, or of variables that `register` hands over."""
    made = Store(server)
    made.by_options = request.param == "options"
    for name, value in made.options.items():
        variable = "AWS_ENDPOINT_URL_S3" if name == "endpoint" else f"AWS_{name.upper()}"
        if made.by_options:
            monkeypatch.delenv(variable, raising=False)
        else:
            monkeypatch.setenv(variable, value)
    return made


@pytest.mark.sampled(1, every=())
def test_keys_are_in_no_plan_no_event_no_message_and_no_checkpoint(
    spark, store, event_log, tmp_path, capfd
):
    register(spark)
    place = f"s3://{BUCKET}/{uuid4().hex}"
    handle = {"storage_options": store.options} if store.by_options else {}
    options = {f"s3.{name}": value for name, value in store.options.items()}
    options = options if store.by_options else {}
    for name in ("g", "copy"):
        og.init(f"{place}/{name}", SCHEMA, **handle).close()

    # Loads, with what they say of their progress.
    with og.open(f"{place}/g", **handle) as graph:
        for mode, on_bad in (("append", "fail"), ("merge", "fail"), ("merge", "skip")):
            people = spark.createDataFrame([(mode + on_bad, 1)], COLUMNS)
            result = graph.load_nodes(
                "Person", people, mode=mode, on_bad=on_bad, spark=spark, progress=store.show
            )
            store.show(result, result.to_json())
        store.show(graph, graph.snapshot())

    # The data source and a stream of changes.
    of_graph = {"graph": f"{place}/g", "type": "Person", **options}
    rows = spark.createDataFrame([("b", 2)], COLUMNS)
    rows.write.format("omnigraph").options(**of_graph, merge="true").mode("append").save()
    found = spark.read.format("omnigraph").options(**of_graph, filter="age > 1").load()
    for mode in ("extended", "formatted", "cost"):
        found.explain(mode)
    assert found.count() == 1
    store.show(found, found.schema)
    feed = {"graph": f"{place}/g", "feed": "main", "types": "Person", "typed": "true",
            "startingFrom": "beginning", "ops": "insert,update", **options}  # fmt: skip
    changes = spark.readStream.format("omnigraph").options(**feed).load()
    into = {"graph": f"{place}/copy", "type": "Person", "merge": "true", **options}
    writer = changes.drop("op", "graph_commit_id").writeStream.format("omnigraph").options(**into)
    writer = writer.option("checkpointLocation", str(tmp_path / "cp")).trigger(availableNow=True)

    def start():
        query = writer.start()
        query.processAllAvailable()
        query.explain(extended=True)
        store.show(*query.recentProgress, query.status)
        return query

    run_to_end(start)
    with og.open(f"{place}/copy", **handle) as copy:
        assert copy.snapshot().tables["node:Person"].row_count == 4

    # Stores refuse tokens by repeating them.
    store.server.before(_refuse)
    try:
        _fail(store, spark, of_graph, handle, rows)
    finally:
        store.server.disarm()

    said = capfd.readouterr()
    store.show(said.out, said.err)
    assert any(path.stat().st_size for path in event_log.rglob("events*"))
    store.check(event_log, tmp_path)


def _refuse(environ):
    token = environ.get("HTTP_X_AMZ_SECURITY_TOKEN", "")
    text = "The provided token is malformed or otherwise invalid."
    body = f"<Error><Code>InvalidToken</Code><Message>{text}</Message><Token-0>{token}</Token-0></Error>"
    return "400 Bad Request", body.encode()


def _fail(store, spark, options, handle, rows) -> None:
    """Open, read and write where every request is refused, and show what is said."""
    for action in (
        lambda: og.open(options["graph"], **handle),
        lambda: spark.read.format("omnigraph").options(**options).load().collect(),
        lambda: rows.write.format("omnigraph").options(**options).mode("append").save(),
    ):
        with pytest.raises((PySparkException, OmniGraphError)) as refused:
            action()
        assert "token" in str(refused.value), "it says why"
        store.show(refused.value)
